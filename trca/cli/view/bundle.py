"""The page: HTML, style and script, as separate files or as a single file.

Text of models and environments reaches the page as JSON, and the script writes this text only into
text nodes. A content security policy forbids other scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any, Final

_SCRIPTS: Final = ("parts.js", "source.js", "group.js", "training.js", "view.js")
"""The scripts, in the order in which `read` joins them."""
_STYLE_LINK: Final = '<link rel="stylesheet" href="view.css">'
_SCRIPT_LINK: Final = '<script src="view.js" defer></script>'
_SAFE: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of the served page."""


def read(name: str) -> str:
    """Returns a file of the page; ``view.js`` consists of all scripts."""
    folder = resources.files("trca.cli.view") / "page"
    names = _SCRIPTS if name == "view.js" else (name,)
    return "\n".join((folder / each).read_text("utf-8") for each in names)


def single_file(data: Any) -> str:
    """The page with its data in one HTML file, which loads nothing.

    Args:
        data: The data that the script otherwise requests from the server, as plain JSON types.
    """
    style, script = read("view.css"), read("view.js")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = read("view.html").replace("<!-- policy -->", head)
    page = page.replace(_STYLE_LINK, f"<style>{style}</style>")
    embedded = f'<script type="application/json" id="data">{safe_json(data)}</script>'
    return page.replace(_SCRIPT_LINK, "").replace(
        "</body>", f"{embedded}\n<script>{script}</script>\n</body>"
    )


def safe_json(data: Any) -> str:
    """JSON that is safe in a script element: no character ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_SAFE)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

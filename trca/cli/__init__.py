"""The ``trca`` command."""

from trca.cli.app import app

__all__ = ["app"]

"""The commands. A command imports slow modules in its function, so that ``--help`` is fast."""

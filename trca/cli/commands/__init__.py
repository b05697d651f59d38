"""The commands. What is heavy to import is imported inside them, so that ``--help`` is quick."""

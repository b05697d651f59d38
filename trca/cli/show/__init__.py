"""Output of the commands: progress, warnings, tables and figures."""

"""What the terminal shows: progress, tables and figures."""

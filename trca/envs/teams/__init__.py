"""Role teams: one environment played by several agents in turns."""

"""Sources of ALFWorld games: generated scenes and official files."""

"""Generation engines, one a file."""

"""Training runs, and their policies by name."""

"""Training runs, their policies by name, and their jobs on clusters."""

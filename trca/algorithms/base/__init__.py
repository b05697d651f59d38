"""The algorithm and its config: what one iteration of training does."""

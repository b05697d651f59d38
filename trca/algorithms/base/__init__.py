"""The algorithm and its config: one iteration of training."""

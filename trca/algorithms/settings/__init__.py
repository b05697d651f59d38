"""Hyperparameters, the names of settings, and what they describe."""

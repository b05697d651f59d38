"""Hyperparameters, the names of settings, and the objects that settings describe."""

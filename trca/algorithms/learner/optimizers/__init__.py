"""Optimizers of the learners, one file each."""

"""Sampling: the rollout loop, its environments, and the env runners."""

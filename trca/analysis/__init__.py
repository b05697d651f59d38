"""Recorded runs: diagnosis, comparison, credit by another rule, the paper's tables."""

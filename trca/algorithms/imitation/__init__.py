"""Imitation: the algorithm, its iteration and its teachers; the rule is `rules/imitation.py`."""

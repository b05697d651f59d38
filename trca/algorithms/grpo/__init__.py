"""Config and algorithm in `grpo.py`, credit rule in `credit.py`."""

"""Config and algorithm in `rloo.py`, credit rule in `credit.py`."""

"""Config and algorithm in `reinforce_plus_plus.py`, credit rule in `credit.py`."""

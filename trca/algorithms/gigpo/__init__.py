"""Config and algorithm in `gigpo.py`, credit rule in `credit.py`."""

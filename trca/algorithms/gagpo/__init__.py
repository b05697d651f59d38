"""Config and algorithm in `gagpo.py`, credit rule in `credit.py`."""

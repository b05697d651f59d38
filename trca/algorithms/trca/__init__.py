"""Config and algorithm in `trca.py`, credit rule in `credit.py`."""

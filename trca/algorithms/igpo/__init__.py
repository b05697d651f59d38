"""Config and algorithm in `igpo.py`, credit rule in `credit.py`."""

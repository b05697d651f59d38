"""Config and algorithm in `graphgpo.py`, credit rule in `credit.py`."""

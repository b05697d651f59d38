"""Config and algorithm in `shaped_return.py`, credit rule in `credit.py`."""

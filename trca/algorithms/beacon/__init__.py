"""Config and algorithm in `beacon.py`, credit rule in `credit.py`."""

"""Config and algorithm in `hiper.py`, credit rule in `credit.py`."""

"""Config and algorithm in `hgpo.py`, credit rule in `credit.py`."""

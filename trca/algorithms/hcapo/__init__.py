"""Config and algorithm in `hcapo.py`, credit rule in `credit.py`."""

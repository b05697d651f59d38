"""Config and algorithm in `g2po.py`, credit rule in `credit.py`."""

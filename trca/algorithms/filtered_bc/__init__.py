"""Config and algorithm in `filtered_bc.py`, credit rule in `credit.py`."""

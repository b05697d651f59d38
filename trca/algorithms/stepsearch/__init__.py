"""Config and algorithm in `stepsearch.py`, credit rule in `credit.py`."""

"""Config and algorithm in `rewardflow.py`, credit rule in `credit.py`."""

"""Config and algorithm in `turn_ppo.py`, credit rule in `credit.py`."""

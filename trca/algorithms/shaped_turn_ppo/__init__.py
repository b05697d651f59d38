"""Config and algorithm in `shaped_turn_ppo.py`, credit rule in `credit.py`."""

"""Config and algorithm in `dr_grpo.py`, credit rule in `credit.py`."""

"""Config and algorithm in `imitation.py`, credit rule in `credit.py`, teachers in `teachers.py`."""

"""The checks and the plan of a run before the run starts."""

"""A run on disk: its folder and the files in it."""

from typing import Final

STOPPED: Final = "stopped.json"
"""The file in a trial that records where the sweep stopped the trial early."""
TRIALS: Final = "trials"
"""The folder of the trials in the folder of a sweep."""

"""A run on disk: its folder and the files in it."""

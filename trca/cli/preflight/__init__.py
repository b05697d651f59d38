"""What is checked and counted before a run starts."""

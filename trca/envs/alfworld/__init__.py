"""ALFWorld: household tasks in text, played by its own rules (Shridhar et al., 2021)."""

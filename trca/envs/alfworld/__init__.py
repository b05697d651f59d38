"""ALFWorld: household tasks in text, with ALFWorld's rules (Shridhar et al., 2021)."""

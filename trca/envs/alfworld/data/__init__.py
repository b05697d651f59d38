"""Where ALFWorld games come from: generated scenes and official files."""

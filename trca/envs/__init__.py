"""Worlds: Gymnasium text environments that judge every transition with rubrics."""

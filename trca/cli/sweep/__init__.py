"""Sweeps: their trials and their table."""

"""TRCA: transition-wise rubric credit assignment for LLM agents, on Ray RLlib."""

__version__ = "0.1.0"

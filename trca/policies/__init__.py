"""Agents: prompts, action spans, the language model as an RLModule, engines, the tiny policy."""

"""Gymnasium text environments whose transitions are judged by rubrics."""

from trca.envs.adapter import Adapter
from trca.envs.registration import make, register, register_packaged
from trca.envs.text_env import Outcome, TextEnv

register_packaged()

__all__ = ["Adapter", "Outcome", "TextEnv", "make", "register"]

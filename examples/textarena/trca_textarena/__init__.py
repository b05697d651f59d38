"""Importing this registers the environment ``textarena/Nim-v0``, with Gymnasium too."""

from trca.envs import register

register("textarena/Nim-v0", "trca_textarena.env:Nim")

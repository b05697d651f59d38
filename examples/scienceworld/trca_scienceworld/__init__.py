"""Importing this registers the environment ``scienceworld/ScienceWorld-v0``, with Gymnasium too."""

from trca.envs import register

register("scienceworld/ScienceWorld-v0", "trca_scienceworld.env:ScienceWorld")

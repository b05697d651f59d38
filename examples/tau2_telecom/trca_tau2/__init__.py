"""Importing this registers the environment ``tau2/Telecom-v0``, with Gymnasium too."""

from trca.envs import register

register("tau2/Telecom-v0", "trca_tau2.env:Tau2Telecom")

"""Importing this registers the environment ``tau2/Telecom-v0``, with Gymnasium too."""

from loguru import logger

from trca.envs import register

logger.disable("tau2")  # it warns at its import, and reports every call
register("tau2/Telecom-v0", "trca_tau2.env:Tau2Telecom")

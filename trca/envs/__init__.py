"""Worlds: Gymnasium text environments that judge every transition with rubrics."""

from trca.envs.registration import register

register()

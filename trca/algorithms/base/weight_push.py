"""Pushes weights from the learners to the engines and proves their arrival."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from operator import methodcaller
from typing import Any

import numpy as np
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.learner.group import TextLearnerGroup
from trca.algorithms.learner.mismatch import cause
from trca.policies.canary import Canary, Sent, check
from trca.policies.dtypes import DTYPES
from trca.policies.models import resolve_dtype
from trca.records import Rollout

logger = logging.getLogger(__name__)


class WeightPush:
    """Pushes weights, and compares the engines' answers to a fixed prompt with the learners'."""

    def __init__(
        self, config: TextAlgorithmConfig, runners: EnvRunnerGroup, learners: TextLearnerGroup
    ) -> None:
        """Takes the parts of an algorithm."""
        self._config, self._runners, self._learners = config, runners, learners
        self._canaries: dict[tuple[int, str], Canary] = {}

    def push(self) -> dict[str, Any]:
        """Pushes the weights, and compares the canary of every engine with the pushed weights.

        Runners that sample ahead are busy and are not asked: each step carries the version of the
        weights that sampled it.

        Raises:
            PushError: If an engine does not have the pushed weights.
        """
        self._runners.sync_weights(from_worker_or_learner_group=self._learners, inference_only=True)
        if self._config.settings.max_staleness:
            return {}
        runners, scored = self._runners, dict[tuple[str, bytes], Sent]()
        answers: list[tuple[int, dict[str, Canary]]] = runners.foreach_env_runner(
            methodcaller("canary"),
            local_env_runner=runners.num_remote_env_runners() == 0,
            timeout_seconds=self._config.settings.generation_timeout_s,
        )
        worst = 0.0
        for number, module, canary in [(k, m, c) for k, each in answers for m, c in each.items()]:
            answer = module, canary.ids.tobytes()
            if answer not in scored:
                asked = {"prompt_ids": canary.prompt_ids, "ids": canary.ids, "module_id": module}
                scores = self._learners.ask("score_canary", **asked)
                # The learner that pushed the weights has their digest.
                scored[answer] = max(scores, key=lambda sent: bool(sent.digest))
            before = self._canaries.get((number, module))
            worst = max(worst, check(canary, scored[answer], before))
            self._canaries[number, module] = canary
        return {"push_difference": worst}


def staleness(rollouts: Sequence[Rollout], version: int) -> dict[str, float]:
    """Mean and largest age of the weights that sampled the steps, in updates since ``version``."""
    versions = [step.version for rollout in rollouts for step in rollout.steps]
    newest = max(version, *versions)
    ages = [newest - each for each in versions]
    return {"staleness": float(np.mean(ages)), "staleness_max": max(ages)}


def warn_of_mismatch(
    config: TextAlgorithmConfig, mismatch: Mapping[str, float], oldest: float
) -> None:
    """Logs a warning with the likely cause if sampler and trainer of a policy disagree.

    ``oldest`` is the largest age of the weights that sampled, in updates.
    """
    dtype = resolve_dtype(config.resolved_model(), config.settings.dtype)
    bound = DTYPES[dtype].mismatch
    if mismatch["mismatch_kl"] > bound:
        logger.warning(
            "sampler and trainer disagree: mismatch_kl %.1e is above %.0e. Likely cause: %s",
            mismatch["mismatch_kl"],
            bound,
            cause(dict(mismatch), int(oldest), dtype),
        )

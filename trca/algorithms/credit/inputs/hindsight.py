"""The read ``hindsight_logprobs``: log-probabilities of actions, given the end of the rollout."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.reads import Read, Sources
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.records import Rollout, StepBatch
from trca.records.step_batch import action_mask_of

_LONGEST: Final = 300
"""Characters of the last observation in the prompt."""


class HindsightRead(Read):
    """One pass of the learners over the steps of successful rollouts."""

    def __call__(self, sources: Sources, batch: StepBatch) -> NDArray[np.float64]:
        """Returns the mean log-probability of each action's tokens, 0 in rollouts without success.

        For a response without an action token, the mean of all tokens.
        """
        config = sources.config
        tokenizer = engine_tokenizer(config.settings.engine, config.resolved_model())
        prompter = make_prompter(config.settings, tokenizer)
        steps = [(rollout, step) for rollout in sources.rollouts for step in rollout.steps]
        rows = [k for k, (r, step) in enumerate(steps) if r.won and len(step.response_ids)]
        scored = [steps[k] for k in rows]
        scores = sources.learners.score(
            [prompter.with_note(step.prompt_ids, note(rollout)) for rollout, step in scored],
            [step.response_ids for _, step in scored],
        )
        means = np.zeros(len(steps))
        for k, score, (_, step) in zip(rows, scores, scored, strict=True):
            action = action_mask_of([step], config.settings.train_malformed)
            means[k] = float(np.mean(score[action] if action.any() else score, dtype=np.float64))
        return means


def note(rollout: Rollout) -> str:
    """The line of the prompt about the end of a successful rollout."""
    last = " ".join(rollout.last_observation.split())[:_LONGEST]
    return f"In hindsight: the task was completed in the end, with this observation: {last}\n"


HINDSIGHT_LOGPROBS: Final = HindsightRead()

"""The read ``hindsight_logprobs``: how likely actions are to a policy that knows how it ended."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.reads import Read, Sources
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.records import Rollout, StepBatch
from trca.records.tokens import action_mask_of

_LONGEST: Final = 300
"""Characters of the last observation that the policy is shown."""


class HindsightRead(Read):
    """One pass of the learners over the steps of successful rollouts."""

    def __call__(self, sources: Sources, batch: StepBatch) -> NDArray[np.float64]:
        """Returns the mean log-probability of each action's tokens, 0 in rollouts without success.

        Where a response has no action token, the mean is over all of it.
        """
        config = sources.config
        tokenizer = engine_tokenizer(config.engine, config.resolved_model())
        prompter = make_prompter(config, tokenizer)
        steps = [(rollout, step) for rollout in sources.rollouts for step in rollout.steps]
        asked = [k for k, (r, step) in enumerate(steps) if r.won and len(step.response_ids)]
        known = [steps[k] for k in asked]
        scores = sources.learners.score(
            [prompter.with_note(step.prompt_ids, note(rollout)) for rollout, step in known],
            [step.response_ids for _, step in known],
        )
        found = np.zeros(len(steps))
        for k, score, (_, step) in zip(asked, scores, known, strict=True):
            action = action_mask_of([step], config.train_malformed)
            found[k] = float(np.mean(score[action] if action.any() else score, dtype=np.float64))
        return found


def note(rollout: Rollout) -> str:
    """What is said of the end of a successful rollout."""
    last = " ".join(rollout.last_observation.split())[:_LONGEST]
    return f"In hindsight: the task was completed in the end, with this observation: {last}\n"


HINDSIGHT_LOGPROBS: Final = HindsightRead()

"""The read ``plans``: switches and subgoals of steps, and the tokens of each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.reads import Read, Sources
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.spans import read_response
from trca.records import Bools, Ints, StepBatch


@dataclass(frozen=True)
class Plans:
    """The plans in the responses of S steps."""

    # bool (S,), whether a step starts a new subgoal; False for an unreadable response
    switch: Bools
    # int64 (S,), code of the subgoal; an unreadable response keeps the subgoal of the step
    # before; -1 before the first subgoal
    subgoal: Ints
    # int8 (sum of R,), the part of each response token: 1 switch, 2 subgoal, 3 action, 0
    # outside of the parts
    parts: NDArray[np.int8]


class PlansRead(Read):
    """Parses the responses again, for switches and subgoals."""

    def __call__(self, sources: Sources, batch: StepBatch) -> Plans:
        """Returns the plans."""
        config = sources.config
        tokenizer = engine_tokenizer(config.settings.engine, config.resolved_model())
        responses = RESPONSE_FORMATS.get(config.settings.response_format)
        thought = make_prompter(config.settings, tokenizer).thought
        switch, subgoals = list[bool](), list[int]()
        parts = [np.empty(0, np.int8)]
        codes: dict[str, int] = {}
        for rollout in sources.rollouts:
            current = -1
            for step in rollout.steps:
                response = read_response(
                    step.response_ids, tokenizer, responses, thought, [step.action]
                )
                if response.plan is not None:
                    current = codes.setdefault(response.plan.subgoal, len(codes))
                switch.append(response.plan is not None and response.plan.switch)
                subgoals.append(current)
                parts.append(response.parts)
        return Plans(
            np.array(switch, dtype=bool), np.array(subgoals, dtype=np.int64), np.concatenate(parts)
        )

    def lack(self, sources: Sources) -> str:
        """Checks that the response format has a plan."""
        return lacks_plan(sources.config.settings.response_format)


def lacks_plan(response_format: str) -> str:
    """The error for a response format without a plan; empty for a format with a plan."""
    if RESPONSE_FORMATS.get(response_format).write_plan is not None:
        return ""
    return (
        f"responses of format {response_format!r} have no switch and no subgoal: set"
        " response_format to plan"
    )


PLANS: Final = PlansRead()

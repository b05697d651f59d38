"""The read ``plans``: which steps switch, what their subgoal is, and which tokens say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.reads import Read, Sources
from trca.algorithms.settings.prompting import engine_tokenizer
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.spans import read_response
from trca.records import StepBatch


@dataclass(frozen=True)
class Plans:
    """What the responses of S steps say of their plans.

    Attributes:
        switch: bool (S,), whether a step takes up a new subgoal; False where its response could not
            be read.
        subgoal: int64 (S,), code of the subgoal that is followed; that of the step before where the
            response could not be read, -1 before the first one.
        parts: int8 (sum of R,), the part that each response token is of: 1 switch, 2 subgoal, 3
            action, 0 none.
    """

    switch: NDArray[np.bool_]
    subgoal: NDArray[np.int64]
    parts: NDArray[np.int8]


class PlansRead(Read):
    """Reads the responses once more, for what they say beside their actions."""

    def __call__(self, sources: Sources, batch: StepBatch) -> Plans:
        """Returns the plans."""
        config = sources.config
        tokenizer = engine_tokenizer(config.engine, config.resolved_model())
        responses = RESPONSE_FORMATS.get(config.response_format)
        switch, subgoals = list[bool](), list[int]()
        parts = [np.empty(0, np.int8)]
        codes: dict[str, int] = {}
        for rollout in sources.rollouts:
            current = -1
            for step in rollout.steps:
                said = read_response(step.response_ids, tokenizer, responses)
                if said.plan is not None:
                    current = codes.setdefault(said.plan.subgoal, len(codes))
                switch.append(said.plan is not None and said.plan.switch)
                subgoals.append(current)
                parts.append(said.parts)
        return Plans(
            np.array(switch, dtype=bool),
            np.array(subgoals, dtype=np.int64),
            np.concatenate(parts),
        )

    def lack(self, sources: Sources) -> str:
        """Whether responses have a plan."""
        return lacks_plan(sources.config.response_format)


def lacks_plan(response_format: str) -> str:
    """Why responses of a format have no plan, and the mend; blank where they have one."""
    if RESPONSE_FORMATS.get(response_format).write_plan is not None:
        return ""
    return (
        f"responses of format {response_format!r} have no switch and no subgoal: set"
        " response_format to plan"
    )


PLANS: Final = PlansRead()

"""Judges recorded rollouts again by another library: conditions read facts, a model is asked.

Operators are pure functions of the recorded facts, so no episode is played. An operator with a
question gets the answer of a model to one prompt per step. A step without a readable answer has no
judgment, and its rollout is left out: a technical failure is no judgment of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.analysis.llm_labels import UNLABELLED, cohens_kappa, transition_prompt
from trca.analysis.reasons import recorded_facts
from trca.records import Rollout
from trca.rubric import Judge, RubricLibrary

_UNKNOWN: Final = 2


class Rejudge:
    """Judges rollouts of one agent again, and counts.

    Attributes:
        library: The library.
        left_out: Number of rollouts with a missing judgment.
    """

    def __init__(
        self,
        library: RubricLibrary,
        env_class: Any,
        ask: Callable[[Sequence[str]], NDArray[np.int64]] | None = None,
    ) -> None:
        """Checks the library against the facts of an environment.

        Args:
            library: The library.
            env_class: The class of the environment of the rollouts.
            ask: Returns 1, 0 or `UNLABELLED` for each prompt of a question: int64 (P,). A library
                without questions needs none.

        Raises:
            ValueError: If the environment has no facts, the conditions do not fit them, or
                questions have no model.
        """
        adapter_class = getattr(env_class, "adapter_class", None)
        if adapter_class is None:
            raise ValueError(f"{env_class.__name__} declares no adapter_class: a rubric needs one")
        names = " and ".join(library.questions)
        if names and not ask:
            raise ValueError(
                f"{library.source} has questions ({names}): name a model by --judge NAME"
                " --base-url URL"
            )
        if ask and not names:
            raise ValueError(f"no operator of {library.source} has a question: leave --judge out")
        self.library, self.left_out = library, 0
        self._adapter_class, self._ask = adapter_class, ask
        types = adapter_class.facts_type, adapter_class.binding_type
        self._judge = Judge(library.deterministic, *types)
        # Steps of each operator by recorded judgment (0, 1, _UNKNOWN) and new judgment.
        self._tables = np.zeros((len(library.ids), 3, 2), dtype=np.int64)
        self._missing = np.zeros(len(library.ids), dtype=np.int64)
        self._has_facts = self._has_fired = False

    def __call__(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Returns the rollouts with the judgments of the library, without incomplete rollouts."""
        places = [(rollout, number) for rollout in rollouts for number in range(len(rollout.steps))]
        self._has_facts |= any(rollout.steps[number].facts for rollout, number in places)
        rows = np.zeros((len(places), len(self.library.ids)), dtype=np.int64)
        recorded = [recorded_facts(rollout, self._adapter_class) for rollout in rollouts]
        rows[:, [not operator.judge for operator in self.library.operators]] = [
            self._judge.judge(binding, each) for binding, facts in recorded for each in facts
        ]
        for number, operator in enumerate(self.library.operators):
            if operator.judge and self._ask:
                prompts = [transition_prompt(*place, operator.judge) for place in places]
                rows[:, number] = self._ask(prompts)
        complete, start, kept = [], 0, np.ones(len(rows), dtype=bool)
        for rollout in rollouts:
            start, part = start + len(rollout.steps), rows[start : start + len(rollout.steps)]
            if (part == UNLABELLED).any():
                self.left_out += 1
                kept[start - len(part) : start] = False
                continue
            fired = np.zeros(len(self.library.ids), dtype=bool)
            for row in part:
                row[:] = self.library.supported(row.astype(np.uint8), fired)
            steps = [
                replace(step, judgments=row)
                for step, row in zip(rollout.steps, part.astype(np.uint8), strict=True)
            ]
            complete.append(replace(rollout, operators=self.library.ids, steps=steps))
        self._missing += (rows == UNLABELLED).sum(axis=0)
        operators = rollouts[0].operators
        former = np.array([rollout.steps[number].judgments for rollout, number in places], int)
        self._has_fired |= bool(former.any())
        for number, name in enumerate(self.library.ids):
            before = former[kept, operators.index(name)] if name in operators else _UNKNOWN
            np.add.at(self._tables[number], (before, rows[kept, number]), 1)
        return complete

    def agreement(self) -> dict[str, dict[str, float]]:
        """Compares the new judgments with the recorded operator of the same name, by operator.

        Returns:
            ``missing``, the number of steps without a judgment, whose rollouts the rest excludes;
            ``before`` and ``now``, the shares of steps on which the operators fire; ``equal``, the
            share of equal judgments; ``kappa``, Cohen's kappa. NaN without such an operator.

        Raises:
            ValueError: If the rollouts were recorded without facts: then no operator has read them.
        """
        if self._has_fired and not self._has_facts:
            raise ValueError(
                "the rollouts were recorded without facts: only a newer run can be judged again"
            )
        return {
            name: {
                "missing": int(missing),
                "before": _share(table[1].sum(), table[:_UNKNOWN].sum()),
                "now": _share(table[:, 1].sum(), table.sum()),
                "equal": _share(table.trace(), table[:_UNKNOWN].sum()),
                "kappa": cohens_kappa(table[:_UNKNOWN]),
            }
            for name, table, missing in zip(
                self.library.ids, self._tables, self._missing, strict=True
            )
        }


def _share(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")

"""Credit for the batches of other trainers: rows with annotated steps in, token advantages out.

`annotate` turns a step of an environment into plain JSON types. A row of a batch has the annotation
of its step, or a list of annotations if the row is a whole trajectory::

    credit = Credit.bind("trca", library="alfworld", lambda_=0.5)
    advantages = credit(groups, rollouts, annotations, response_mask)

The module imports neither Ray nor PyTorch: in a process that binds a rule before it imports
`trca.algorithms`, Ray Tune does not know the names of our algorithms. Time is linear in the rows,
and the advantages equal the advantages of the same rollouts in our own trainer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.common import extras
from trca.common.names import unknown
from trca.records import Rollout, Step, StepBatch
from trca.rubric import RubricLibrary

if TYPE_CHECKING:
    from trca.algorithms.credit import BoundRule

RULES: Final = ("trca", "gigpo", "beacon")
"""Names of the rules in other trainers."""
COLUMN: Final = "trca"
"""Name of the annotations in a batch, in ``info`` and in a dump."""

_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(
        ("observation", "action", "response", "next_observation", "context", "next_context"), str
    ),
    **dict.fromkeys(("parsed", "accepted", "truncated", "won", "milestone"), bool),
}
"""Types of the further keys of an annotation."""
_NO_CATEGORIES: Final = np.empty(0, np.int8)
_NO_IDS: Final = np.empty(0, np.int32)
_NO_MASK: Final = np.empty(0, np.bool_)
_NO_LOGPROBS: Final = np.empty(0, np.float32)


def annotate(
    step: int,
    observation: str,
    action: str,
    transition: tuple[str, Any, bool, bool, Mapping[str, Any]],
) -> dict[str, Any]:
    """The annotation of a step, in plain JSON types.

    Args:
        step: Number of the step in its rollout, from 0.
        observation: The observation before the action.
        action: The action; empty for a response without an action.
        transition: The result of ``step`` of an environment of `trca.envs.make`.
    """
    after, reward, _, truncated, info = transition
    annotation = {
        "step": int(step),
        "observation": observation,
        "action": action,
        "next_observation": after,
        "context": str(info["context"]),
        "next_context": str(info["next_context"]),
        "reward": float(reward),
        "parsed": bool(info.get("parsed", True)),
        "accepted": bool(info.get("accepted", True)),
        "truncated": bool(truncated),
        "won": bool(info.get("won", False)),
    }
    if rubric := info.get("rubric"):
        annotation["judgments"] = [int(judgment) for judgment in rubric["judgments"]]
    if info.get("milestone") is not None:
        annotation["milestone"] = bool(info["milestone"])
    return annotation


@dataclass(frozen=True)
class Credit:
    """A credit rule for rows of other trainers.

    Attributes:
        rule: The rule with its settings.
        categories: int8 (M,), the categories of the operators; empty without a library.
        needs: Keys that every annotation must have.
    """

    rule: BoundRule
    categories: NDArray[np.int8]
    needs: tuple[str, ...]

    @classmethod
    def bind(cls, rule: str, library: str | None = None, **settings: Any) -> Credit:
        """Binds a rule of `RULES` to its settings.

        Args:
            rule: Name of the rule.
            library: Name or path of the rubric library that made the judgments.
            settings: Settings of the rule, such as ``lambda_``; docs/settings.md lists them.

        Raises:
            ValueError: For an unknown rule, setting or library, and for a rule that reads judgments
                without a library.
        """
        if rule not in RULES:
            raise unknown("credit rule", rule, RULES)
        before, extras.postponed = extras.postponed, True  # the imports then load no Ray
        try:
            from trca.algorithms.credit import bind_credit
            from trca.algorithms.rules.beacon import BEACONParameters
            from trca.algorithms.rules.gigpo import GiGPOParameters
            from trca.algorithms.rules.trca import TRCAParameters
            from trca.algorithms.settings.parameters import build
        finally:
            extras.postponed = before
        models: dict[str, type[TRCAParameters | GiGPOParameters | BEACONParameters]] = {
            "trca": TRCAParameters,
            "gigpo": GiGPOParameters,
            "beacon": BEACONParameters,
        }
        parameters = build(models[rule], settings)
        if isinstance(parameters, GiGPOParameters):
            needs = ["context" if parameters.anchor == "context" else "observation"]
        elif isinstance(parameters, TRCAParameters):
            needs = ["judgments"]
            needs += ["context"] if parameters.step_group == "context" else []
            needs += ["won"] if parameters.budget_schedule == "group_success" else []
        else:
            needs = ["milestone" if parameters.milestones == "environment" else "judgments"]
        if "judgments" in needs and library is None:
            raise ValueError(
                f"credit rule {rule!r} reads judgments: name their library, such as alfworld"
            )
        categories = RubricLibrary.load(library).categories if library else _NO_CATEGORIES
        bound = bind_credit(rule, parameters)
        return cls(bound, categories, ("step", "reward", *needs))

    def __call__(
        self,
        groups: Sequence[Hashable],
        rollouts: Sequence[Hashable],
        annotations: Sequence[Any],
        mask: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """The advantage of every response token.

        Rows may have any order. Copies of a step (verl-agent fills batches with copies) count once,
        and get the same advantage.

        Args:
            groups: B ids of the rollout groups.
            rollouts: B ids of the rollouts, unique within their group.
            annotations: B annotations: `annotate`, a list of them, or `None` for a padding row.
            mask: (B, R), true on response tokens of the policy. A row with a list has one run of
                such tokens for each of its steps; a row that is cut off has fewer.

        Returns:
            float64 (B, R), 0 outside the mask and on padding rows.

        Raises:
            ValueError: If lengths differ, an annotation lacks a key or has a wrong value, a rollout
                lacks a step or has two different annotations of a step, or a row has more runs than
                steps.
        """
        mask = np.array(mask, dtype=bool)
        if not len(groups) == len(rollouts) == len(annotations) == len(mask):
            raise ValueError(
                f"the batch has {len(groups)} groups, {len(rollouts)} rollouts,"
                f" {len(annotations)} annotations and {len(mask)} rows: give one for each row"
            )
        categories = self.categories if "judgments" in self.needs else _NO_CATEGORIES
        rows = [
            steps_of(annotation, self.needs, len(categories), f"row {number}")
            for number, annotation in enumerate(annotations)
        ]
        batch, places = rollouts_of(groups, rollouts, rows, judged="judgments" in self.needs)
        advantages = np.zeros(mask.shape)
        if not batch:
            return advantages
        of_steps = self.rule(StepBatch.from_rollouts(batch, categories))
        for row, (steps, of_row) in enumerate(zip(places, mask, strict=True)):
            if not steps or not of_row.any():
                continue
            if isinstance(annotations[row], Mapping):
                advantages[row, of_row] = of_steps[steps[0]]
                continue
            if steps != sorted(steps):
                raise ValueError(
                    f"the annotations of row {row} are not in order: sort them by step"
                )
            runs = np.cumsum(np.diff(of_row, prepend=False) & of_row) - 1
            if runs[-1] >= len(steps):
                raise ValueError(
                    f"row {row} has {len(steps)} annotated steps and {runs[-1] + 1}"
                    " runs of response tokens: give one annotation for each response"
                )
            advantages[row, of_row] = of_steps[steps][runs[of_row]]
        return advantages


def rollouts_of(
    groups: Sequence[Hashable],
    rollouts: Sequence[Hashable],
    rows: Sequence[Sequence[Mapping[str, Any]]],
    judged: bool = True,
) -> tuple[list[Rollout], list[list[int]]]:
    """The rollouts in a batch, without tokens.

    Args:
        groups: B ids of the rollout groups.
        rollouts: B ids of the rollouts, unique within their group.
        rows: B lists of annotations.
        judged: Whether the steps get the judgments of their annotations.

    Returns:
        The rollouts in order of first appearance, and for each row the numbers of its steps in the
        concatenated steps of the rollouts.

    Raises:
        ValueError: If the steps of a rollout are not 0, 1, 2 and so on, or two annotations of a
            step differ.
    """
    by_rollout: dict[tuple[Hashable, Hashable], dict[int, Mapping[str, Any]]] = {}
    for group, rollout_id, of_row in zip(groups, rollouts, rows, strict=True):
        for annotation in of_row:
            step, steps = annotation["step"], by_rollout.setdefault((group, rollout_id), {})
            if steps.setdefault(step, annotation) != annotation:
                raise ValueError(
                    f"rollout {rollout_id!r} of group {group!r} has two different annotations of"
                    f" step {step}: give each rollout an id of its own"
                )
    numbers: dict[Hashable, int] = {}
    sizes = Counter[Hashable]()
    starts, batch, total = {}, list[Rollout](), 0
    for (group, rollout_id), steps in by_rollout.items():
        if sorted(steps) != list(range(len(steps))):
            raise ValueError(
                f"rollout {rollout_id!r} of group {group!r} has the steps"
                f" {', '.join(map(str, sorted(steps)))}: give every step from 0 in one batch"
            )
        ordered = [steps[number] for number in range(len(steps))]
        number = numbers.setdefault(group, len(numbers))
        rollout = Rollout(str(group), "train", "", number, sizes[group], 0)
        sizes[group] += 1
        rollout.steps = [_step(annotation, judged) for annotation in ordered]
        rollout.last_observation = ordered[-1].get("next_observation") or ""
        rollout.won = bool(ordered[-1].get("won", False))
        rollout.truncated = bool(ordered[-1].get("truncated", False))
        rollout.score = sum(step.reward for step in rollout.steps)
        starts[group, rollout_id] = total
        total += len(ordered)
        batch.append(rollout)
    places = [
        [starts[group, rollout_id] + annotation["step"] for annotation in of_row]
        for group, rollout_id, of_row in zip(groups, rollouts, rows, strict=True)
    ]
    return batch, places


def steps_of(
    annotation: Any, needs: Sequence[str], operators: int, where: str
) -> list[dict[str, Any]]:
    """The annotated steps of a row, with checked values of Python's types.

    Args:
        annotation: `annotate`, a list of them, or `None` for a padding row. NumPy numbers and
            arrays count as numbers and lists.
        needs: Keys that an annotation must have.
        operators: Operators of the rubric library; 0 if nothing reads the judgments.
        where: Place of the row, for errors.

    Raises:
        ValueError: If the row has anything else, a key is missing or a value is wrong.
    """
    if annotation is None:
        return []
    steps = [annotation] if isinstance(annotation, Mapping) else annotation
    if not isinstance(steps, list | tuple | np.ndarray) or not all(
        isinstance(step, Mapping) for step in steps
    ):
        raise ValueError(
            f"{where} has {annotation!r:.60} as annotation: write annotations with"
            " trca_interop.credit.annotate"
        )
    checked = [{key: _plain(value) for key, value in step.items()} for step in steps]
    for step in checked:
        _check(step, needs, operators, where)
    return checked


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _check(annotation: Mapping[str, Any], needs: Sequence[str], operators: int, where: str) -> None:
    if missing := [name for name in needs if annotation.get(name) is None]:
        raise ValueError(
            f"{where}: the annotation lacks {', '.join(missing)}: write annotations with"
            " trca_interop.credit.annotate"
        )
    step, reward = annotation["step"], annotation["reward"]
    if type(step) is not int or step < 0:
        raise ValueError(f"{where}: step {step!r:.60} is not a whole number from 0")
    if type(reward) not in (int, float) or not abs(reward) <= sys.float_info.max:
        raise ValueError(f"{where}: reward {reward!r:.60} is not a finite number")
    for name, kind in _TYPES.items():
        value = annotation.get(name)
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{where}: {name} {value!r:.60} is not a {kind.__name__}")
    judgments = annotation.get("judgments") or ()
    if operators and not isinstance(judgments, list | tuple):
        raise ValueError(f"{where}: the judgments {judgments!r:.60} are not a list")
    if operators and len(judgments) != operators:
        raise ValueError(
            f"{where}: {len(judgments)} judgments, and the library has {operators} operators: name"
            " the library that made the judgments"
        )
    if operators and not all(judgment in (0, 1) for judgment in judgments):
        raise ValueError(f"{where}: the judgments {judgments!r:.60} are not all 0 or 1")


def _step(annotation: Mapping[str, Any], judged: bool) -> Step:
    return Step(
        _NO_IDS,
        _NO_IDS,
        _NO_MASK,
        _NO_LOGPROBS,
        observation=annotation.get("observation") or "",
        response=annotation.get("response") or "",
        action=annotation.get("action") or "",
        context=annotation.get("context") or "",
        next_context=annotation.get("next_context") or "",
        reward=float(annotation["reward"]),
        judgments=np.array((judged and annotation.get("judgments")) or (), dtype=np.uint8),
        parsed=annotation.get("parsed") is not False,
        accepted=annotation.get("accepted") is not False,
        milestone=annotation.get("milestone"),
    )

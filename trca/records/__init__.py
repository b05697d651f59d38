"""Rollout records: what one episode left behind, and the columns that credit rules read.

A rollout is written as one line of JSON and read back whole, so that a recorded run can be credited
again, under another rule or lambda, with no new rollout::

    for rollout in rollouts:
        print(to_json(rollout), file=file)
    batch = StepBatch.from_rollouts(list(read_rollouts(path)), library.categories)
    assign_advantages(rollouts, credit(batch))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trca.envs.text_env import DEFAULT_AGENT
from trca.rubric.rewards import Budgets, breakthrough_reward, foundational_reward

DEFAULT_MODULE: Final = "default_policy"
"""Id of the policy where there is one (RLlib's name)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One interaction step. Token in, token out: the ids are the sampled ones.

    Attributes:
        prompt_ids: int32 (P,), what the policy read.
        response_ids: int32 (R,), what it sampled.
        action_mask: bool (R,), True on the tokens that overlap the action, tags included.
        old_logprobs: float32 (R,), the sampler's log-probabilities of the response; NaN where it
            does not say them.
        observation: The observation before the action.
        response: The response as text.
        action: The action for the environment (blank where none could be read).
        context: Structural key of the state before the action.
        next_context: Structural key of the state after it.
        reward: Environment reward r_{i,t}.
        judgments: uint8 (M,), read-only, one 0/1 per rubric operator in library order.
        parsed: Whether an action could be read from the response.
        accepted: Whether the environment carried it out.
        foundational: r^F under the budgets of the algorithm.
        breakthrough: r^B.
        facts: Facts of the transition that differ from their defaults, as plain JSON types.
        version: Version of the weights that sampled the response.
    """

    prompt_ids: NDArray[np.int32]
    response_ids: NDArray[np.int32]
    action_mask: NDArray[np.bool_]
    old_logprobs: NDArray[np.float32]
    observation: str
    response: str
    action: str
    context: str
    next_context: str
    reward: float
    judgments: NDArray[np.uint8]
    parsed: bool
    accepted: bool
    foundational: float = 0.0
    breakthrough: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    version: int = 0


@dataclass(slots=True)
class Rollout:
    """One finished episode of one agent at one task.

    Attributes:
        task_id: The task.
        split: Its split.
        task_type: Its type, such as ``Heat``.
        group: Number of the rollout group G(x) within the iteration.
        index: Number of the rollout within its group, 0 to N - 1.
        policy_version: Version of the weights at its start.
        agent_id: The agent that acted; in a team, the role.
        module_id: The policy that acted for it.
        instruction: The task in words.
        operators: Ids of the rubric operators, in the order of the judgments.
        steps: The steps in order.
        last_observation: The observation after the last action.
        won: Whether the task was completed, R(tau) = 1.
        score: The environment's own score.
        truncated: Whether the step limit ended it.
        measures: Other results of the environment at the end, such as ``f1``.
        turns: In a team, the number of each step among all steps of the episode; else empty.
        final_prompt_ids: int32 (P,), what the policy would have read next; kept where the step
            limit ended the rollout and a critic asks for the value of that state.
        advantages: float64 (T,), the advantage of each step, once a credit rule has given it.
    """

    task_id: str
    split: str
    task_type: str
    group: int
    index: int
    policy_version: int
    agent_id: str = DEFAULT_AGENT
    module_id: str = DEFAULT_MODULE
    instruction: str = ""
    operators: tuple[str, ...] = ()
    steps: list[Step] = field(default_factory=list)
    last_observation: str = ""
    won: bool = False
    score: float = 0.0
    truncated: bool = False
    measures: dict[str, float] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)
    final_prompt_ids: NDArray[np.int32] | None = None
    advantages: NDArray[np.float64] | None = None

    def env_steps(self) -> int:
        """Number of interaction steps T_i (RLlib's name)."""
        return len(self.steps)


class RubricRewards(NamedTuple):
    """The rubric rewards of a batch, one row a step."""

    foundational: NDArray[np.float64]
    """float64 (S,), r^F."""
    breakthrough: NDArray[np.float64]
    """float64 (S,), r^B."""


@dataclass(frozen=True)
class StepBatch:
    """The columns a credit rule reads: one row a step, S rows, M operators.

    Rows of a rollout are contiguous and in time order; rollouts of a group need not be contiguous.

    Attributes:
        group: int64 (S,), the rollout group G(x).
        rollout: int64 (S,), unique over the batch and constant on a rollout's rows.
        agent: int64 (S,), code of the agent that acted.
        reward: float64 (S,), environment reward r_{i,t}.
        observation: int64 (S,), code of the observation's text before the action.
        next_observation: int64 (S,), code of the text after it, same coding.
        context: int64 (S,), code of the structural key before the action.
        next_context: int64 (S,), code of the key after it, same coding.
        judgments: uint8 (S, M), rubric judgments.
        categories: int8 (M,), 0 Evidence, 1 Invalidity, 2 Execution.
        parsed: bool (S,), whether an action could be read.
        accepted: bool (S,), whether the environment carried it out.
        terminated: bool (S,), True on the last row of a rollout that the environment ended.
        truncated: bool (S,), True on the last row of a rollout that the step limit ended.
        won: bool (S,), True on the last row of a rollout that completed its task.
        texts: Texts of the observations by their codes; may be left out.

    Raises:
        ValueError: For a column of another length, or rows of a rollout that are scattered.
    """

    group: NDArray[np.int64]
    rollout: NDArray[np.int64]
    agent: NDArray[np.int64]
    reward: NDArray[np.float64]
    observation: NDArray[np.int64]
    next_observation: NDArray[np.int64]
    context: NDArray[np.int64]
    next_context: NDArray[np.int64]
    judgments: NDArray[np.uint8]
    categories: NDArray[np.int8]
    parsed: NDArray[np.bool_]
    accepted: NDArray[np.bool_]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    won: NDArray[np.bool_]
    texts: tuple[str, ...] = ()
    _rewards: dict[Budgets, RubricRewards] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self) if f.init and f.name != "texts"):
            shape = getattr(self, name).shape
            wanted: tuple[int, ...] = (len(self),)
            if name == "judgments":
                wanted = (len(self), len(self.categories))
            if name != "categories" and shape != wanted:
                raise ValueError(f"column {name!r} has shape {shape}: give {wanted}")
        new = np.flatnonzero(np.diff(self.rollout)) + 1
        if len(np.unique(self.rollout[new])) < len(new) or self.rollout[:1] in self.rollout[new]:
            raise ValueError(
                "the rows of a rollout are scattered: keep them together, in time order"
            )

    def __len__(self) -> int:
        return len(self.rollout)

    @classmethod
    def from_rollouts(cls, rollouts: Sequence[Rollout], categories: NDArray[np.int8]) -> StepBatch:
        """Makes the columns of finished rollouts, in their order; empty rollouts leave no row.

        Args:
            rollouts: The rollouts.
            categories: int8 (M,), the categories of the library that judged them.
        """
        steps = [step for rollout in rollouts for step in rollout.steps]
        lengths = np.array([len(r.steps) for r in rollouts], dtype=np.int64)
        contexts = _codes([s.context for s in steps] + [s.next_context for s in steps])
        texts = [s.observation for s in steps]
        texts += [text for r in rollouts for text in _texts_after(r)]
        observations = _codes(texts)
        last = np.zeros(len(steps), dtype=bool)
        last[np.cumsum(lengths[lengths > 0]) - 1] = True
        truncated = np.repeat(np.array([r.truncated for r in rollouts], dtype=bool), lengths)
        won = np.repeat(np.array([r.won for r in rollouts], dtype=bool), lengths)
        judgments = [s.judgments for s in steps]
        return cls(
            group=np.repeat(np.array([r.group for r in rollouts], dtype=np.int64), lengths),
            rollout=np.repeat(np.arange(len(rollouts)), lengths),
            agent=np.repeat(_codes([r.agent_id for r in rollouts]), lengths),
            reward=np.array([s.reward for s in steps], dtype=np.float64),
            observation=observations[: len(steps)],
            next_observation=observations[len(steps) :],
            context=contexts[: len(steps)],
            next_context=contexts[len(steps) :],
            judgments=np.array(judgments, dtype=np.uint8).reshape(len(steps), len(categories)),
            categories=categories,
            parsed=np.array([s.parsed for s in steps], dtype=bool),
            accepted=np.array([s.accepted for s in steps], dtype=bool),
            terminated=last & ~truncated,
            truncated=last & truncated,
            won=last & won,
            texts=tuple(dict.fromkeys(texts)),
        )

    def rubric_rewards(self, budgets: Budgets) -> RubricRewards:
        """Returns r^F and r^B of every step; computed once for the same budgets.

        Args:
            budgets: Category budgets.
        """
        if budgets not in self._rewards:
            self._rewards[budgets] = RubricRewards(
                foundational_reward(self.judgments, self.categories, budgets),
                breakthrough_reward(self.judgments, self.rollout, self.categories, budgets),
            )
        return self._rewards[budgets]


def assign_advantages(rollouts: Sequence[Rollout], advantages: NDArray[np.float64]) -> None:
    """Puts the advantages of a batch on its rollouts.

    Args:
        rollouts: The rollouts of the batch, in its order.
        advantages: float64 (S,), one a step.

    Raises:
        ValueError: For another number of advantages than steps.
    """
    steps = sum(len(rollout.steps) for rollout in rollouts)
    if advantages.shape != (steps,):
        raise ValueError(f"advantages have shape {advantages.shape}: give one for each of {steps}")
    start = 0
    for rollout in rollouts:
        end = start + len(rollout.steps)
        rollout.advantages = advantages[start:end]
        start = end


def advantages_of(rollouts: Sequence[Rollout]) -> NDArray[np.float64]:
    """Returns the advantages that lie on rollouts, float64 (S,), one a step.

    Raises:
        ValueError: For a rollout that no credit rule has given advantages.
    """
    parts = []
    for rollout in rollouts:
        if rollout.advantages is None:
            raise ValueError(
                f"rollout {rollout.index} of group {rollout.group} has no advantages: call"
                " assign_advantages first"
            )
        parts.append(rollout.advantages)
    return np.concatenate(parts) if parts else np.empty(0)


def changed_facts(facts: Any) -> dict[str, Any]:
    """Returns the fields of a facts dataclass that differ from their defaults, as JSON types.

    Args:
        facts: Facts of a transition; None where the environment has none.
    """
    if facts is None:
        return {}
    changed = {}
    facts_type: Any = type(facts)
    for name, default in _defaults(facts_type):
        value = getattr(facts, name)
        if value != default:
            changed[name] = list(value) if isinstance(value, tuple) else value
    return changed


def to_record(rollout: Rollout) -> dict[str, Any]:
    """Returns the rollout as plain JSON types.

    The keys are the fields of `Rollout`; ``steps`` holds the fields of `Step`, and ``advantage``
    where a rule has given one.
    """
    record = {f.name: getattr(rollout, f.name) for f in fields(Rollout) if f.name not in _OPTIONAL}
    if rollout.module_id != DEFAULT_MODULE:
        record["module_id"] = rollout.module_id
    if rollout.turns:
        record["turns"] = list(rollout.turns)
    if rollout.final_prompt_ids is not None:
        record["final_prompt_ids"] = _plain(rollout.final_prompt_ids)
    record["steps"] = [
        {f.name: _plain(getattr(step, f.name)) for f in fields(Step)} for step in rollout.steps
    ]
    if rollout.advantages is not None:
        for step, advantage in zip(record["steps"], rollout.advantages, strict=True):
            step["advantage"] = float(advantage)
    return record


def to_json(rollout: Rollout) -> str:
    """Returns `to_record` as one line of ASCII JSON, without the line's end."""
    return json.dumps(to_record(rollout), separators=(",", ":"))


def from_json(line: str) -> Rollout:
    """Reads a line of `to_json`; unknown keys are ignored.

    Raises:
        ValueError: For a line that is not a JSON object, or lacks a field.
    """
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"a rollout is a JSON object, not {type(record).__name__}")
    try:
        steps = record["steps"]
        scalars = {
            f.name: record[f.name] for f in fields(Rollout) if f.name not in ("steps", *_OPTIONAL)
        }
        scalars["operators"] = tuple(scalars["operators"])
        rollout = Rollout(**scalars, steps=[Step(**_fields_of_step(step)) for step in steps])
    except KeyError as error:
        raise ValueError(f"the rollout lacks the field {error}") from None
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a field of the rollout has the wrong type: {error}") from None
    rollout.module_id = str(record.get("module_id", DEFAULT_MODULE))
    rollout.turns = [int(turn) for turn in record.get("turns", ())]
    if "final_prompt_ids" in record:
        rollout.final_prompt_ids = np.array(record["final_prompt_ids"], dtype=np.int32)
    if steps and all("advantage" in step for step in steps):
        rollout.advantages = np.array([step["advantage"] for step in steps], dtype=np.float64)
    return rollout


def read_rollouts(path: Path) -> Iterator[Rollout]:
    """Reads a file of `to_json` lines, one at a time, such as a run folder's.

    Skips lines about missing rollouts (their first key is ``missing``).

    Raises:
        ValueError: For a line that cannot be read; it names the file and the line.
    """
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith('{"missing"'):
                continue
            try:
                yield from_json(line.rstrip("\n"))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


def by_episode(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The rollouts of each episode, in their order: several where a team plays.

    The rollouts of a team share task, outcome, score and measures; the steps of the episode are
    those of all its roles.
    """
    found: dict[tuple[int, int, str], list[Rollout]] = {}
    for number, rollout in enumerate(rollouts):
        alone = rollout.agent_id == DEFAULT_AGENT
        key = rollout.group, rollout.index, str(number) if alone else ""
        found.setdefault(key, []).append(rollout)
    return list(found.values())


def episodes(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """One rollout of each episode, in their order: that of the team's first role."""
    return [first for first, *_ in by_episode(rollouts)]


def refuse_teams(rollouts: Sequence[Rollout], what: str) -> None:
    """Refuses rollouts of several agents, whose judgments have different operators.

    Args:
        rollouts: The rollouts.
        what: What cannot read them.

    Raises:
        ValueError: When there is more than one agent; names them.
    """
    agents = by_agent(rollouts)
    if len(agents) > 1:
        raise ValueError(f"{what} reads the rollouts of one agent, not of {' and '.join(agents)}")


def by_agent(rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    """The rollouts of each agent, in their order."""
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        found.setdefault(rollout.agent_id, []).append(rollout)
    return found


ARRAYS: Final = {
    "prompt_ids": np.int32,
    "response_ids": np.int32,
    "action_mask": np.bool_,
    "old_logprobs": np.float32,
    "judgments": np.uint8,
}
"""Fields of a step that are arrays, and their types."""
_OPTIONAL: Final = ("module_id", "turns", "final_prompt_ids", "advantages")
"""Fields of a rollout that a record may lack."""


def _plain(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.bool_:
        return value.astype(np.uint8).tolist()
    if value.dtype == np.float32:  # the shortest digits that read back as the same float32
        if np.isnan(value).any():  # JSON has no NaN; None is read as one
            return [None if np.isnan(number) else float(str(number)) for number in value]
        return [float(str(number)) for number in value]
    return value.tolist()


def _fields_of_step(step: dict[str, Any]) -> dict[str, Any]:
    values = {f.name: step[f.name] for f in fields(Step) if f.name in step or f.name != "version"}
    for name, dtype in ARRAYS.items():
        values[name] = np.array(values[name], dtype=dtype)
    values["judgments"].setflags(write=False)
    return values


@cache
def _defaults(facts_type: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (f.name, f.default if f.default_factory is MISSING else f.default_factory())
        for f in fields(facts_type)
    )


def _texts_after(rollout: Rollout) -> list[str]:
    """The observation after each step."""
    if not rollout.steps:
        return []
    return [*(step.observation for step in rollout.steps[1:]), rollout.last_observation]


def _codes(keys: Iterable[str]) -> NDArray[np.int64]:
    """Numbers in order of first appearance; equal exactly for equal keys."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)

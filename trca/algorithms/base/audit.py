"""Compares the credit of rules with advantages by execution.

The environments replay exactly, so the value of a state can be measured: play the recorded
responses up to the state, then let the policy play to the end, many times. For step t of a rollout
with states s_0 to s_T::

    V(s_t)   mean score of M playouts from s_t; V(s_T) is the score of the rollout
    A(t)     V(s_{t+1}) - V(s_t): how much the action changes the score that the policy will reach

The policy's other actions in s_t are part of V(s_t), because playouts from s_t choose their own
action. A rule is right as far as its advantages agree with A(t) in order and in sign.

The values have noise. Playouts with odd and with even numbers give A(t) twice; the agreement of the
two bounds the agreement that any rule can have (`Audit.ceiling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core import COMPONENT_LEARNER_GROUP

from trca.algorithms.credit import READS, BoundRule, Sources, bind_credit
from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.algorithms.rollouts.recording import Teacher, View
from trca.algorithms.settings.parameters import TextParameters, parameter_models, switch
from trca.records import Bools, Floats, Ints, Rollout, StepBatch, refuse_teams
from trca.records.rollout import Failure
from trca.runs.success_tables import rank_correlation

if TYPE_CHECKING:
    from trca.algorithms.base.text_config import TextAlgorithmConfig
    from trca.algorithms.learner.group import TextLearnerGroup

_State = tuple[object, ...]
STEP_TYPES: Final = ("evidence", "invalidity", "execution", "no operator")
"""Steps by the category of their operators; a step can have several types."""
LIVE: Final = 128
"""Approximate number of simultaneous playouts, which share the engine's batches."""
RESAMPLES: Final = 1000
"""Resamples of groups behind a 95% interval."""
DECIDED: Final = 1.96
"""Standard errors between A(t) and zero for a step whose sign counts as known."""


@dataclass
class Branches(Teacher):
    """Teacher that plays the first responses of a recorded rollout, then leaves the turn.

    ``responses`` has the sampled ids of each branch, by the number of its demonstration. Their text
    may have other ids, with which a conversation would not replay.
    """

    responses: list[list[NDArray[np.int32]]] = field(default_factory=list)

    def response(self, request: GroupRequest, view: View, subgoal: str) -> NDArray[np.int32] | None:
        """See `trca.algorithms.rollouts.recording.Teacher`."""
        assert request.demonstration is not None
        responses, turn = self.responses[request.demonstration], len(view.rollout.steps)
        return responses[turn] if turn < len(responses) else None


class BranchRunner(TextEnvRunner):
    """An env runner that plays out branches of rollouts."""

    @cached_property
    def branches(self) -> Branches:
        """The branches to play."""
        return Branches()

    def _teacher(self) -> Branches:
        return self.branches


@dataclass(frozen=True)
class Audit:
    """Measured and computed advantages of the same S steps."""

    executed: Floats  # float64 (S,), A(t)
    error: Floats  # float64 (S,), standard error of A(t)
    halves: Floats  # float64 (2, S), A(t) from the odd and from the even playouts
    credit: Mapping[str, Floats]  # by rule: float64 (S,), its advantages
    skipped: Mapping[str, str]  # by rule without advantages: the reason
    group: Ints  # int64 (S,), number of the task
    rollout: Ints  # int64 (S,), number of the rollout
    fired: Bools  # bool (S, 4), the types of the step, in the order of STEP_TYPES
    playouts: int
    lost: Sequence[Failure]  # missing playouts; their rollouts are left out

    @property
    def sure(self) -> Bools:
        """Whether the sign of A(t) is known, bool (S,)."""
        return np.abs(self.executed) > DECIDED * self.error

    def ceiling(self) -> float:
        """The rank correlation that advantages without error would have with A(t).

        By Spearman and Brown from the correlation r of the halves: sqrt(2 r / (1 + r)).
        """
        r = max(0.0, rank_correlation(*self.halves))
        return float(np.sqrt(2 * r / (1 + r)))

    def agreement(self, rule: str) -> Agreement:
        """How far the advantages of a rule agree with A(t)."""
        credit, rng = self.credit[rule], np.random.default_rng(0)
        rows = [np.flatnonzero(self.group == number) for number in np.unique(self.group)]
        draws = rng.integers(len(rows), size=(RESAMPLES, len(rows)))
        samples = [np.concatenate([rows[k] for k in draw]) for draw in draws]
        rhos = np.array([rank_correlation(credit[s], self.executed[s]) for s in samples])
        rhos = rhos[~np.isnan(rhos)] if np.isfinite(rhos).any() else np.array([np.nan])
        known = self.sure & (credit != 0)
        right = np.sign(credit[known]) == np.sign(self.executed[known])
        place = np.unique(self.rollout, return_inverse=True)[1]
        inside = [
            # rounded: equal advantages have no order
            (of - (np.bincount(place, of) / np.bincount(place))[place]).round(9)
            for of in (credit, self.executed)
        ]
        return Agreement(
            correlation=rank_correlation(credit, self.executed),
            low=float(np.percentile(rhos, 2.5)),
            high=float(np.percentile(rhos, 97.5)),
            in_rollouts=rank_correlation(inside[0], inside[1]),
            signs=float(right.mean()) if known.any() else float("nan"),
            credited=float((credit != 0).mean()),
            by_type={
                name: rank_correlation(credit[mask], self.executed[mask])
                for name, mask in zip(STEP_TYPES, self.fired.T, strict=True)
            },
        )


@dataclass(frozen=True)
class Agreement:
    """Agreement of a rule's advantages with A(t)."""

    correlation: float  # Spearman's rank correlation over all steps; NaN for equal advantages
    low: float  # lower end of its 95% interval, by resampling tasks
    high: float
    # the rank correlation of the differences from the means of each rollout: whether a rule
    # finds the right steps of a rollout
    in_rollouts: float
    signs: float  # share of right signs, of the steps with credit where A(t) is surely not zero
    credited: float  # share of the steps with a nonzero advantage
    by_type: Mapping[str, float]  # the rank correlation over the steps of each type

    @property
    def defined(self) -> bool:
        """Whether the rule has an order of the steps."""
        return not np.isnan(self.correlation)


def rules_of(
    settings: TextParameters, checkpoint: Path | None = None
) -> tuple[dict[str, BoundRule], dict[str, str]]:
    """The rule of each algorithm with a run's settings, or the reason for leaving it out.

    A critic has learned the targets of its own rule, so that only this rule reads its values.
    """
    rules, skipped = dict[str, BoundRule](), dict[str, str]()
    for name, model in parameter_models().items():
        shared = {**switch(settings.flat(), name), "gold_in_training": True}
        own = {key: value for key, value in shared.items() if key in model.model_fields}
        rule = bind_credit(model.own_rule(), model(**own))
        if "values" in rule.reads and not (checkpoint and name == settings.algorithm):
            skipped[name] = f"reads the values of its critic: audit a run of {name}"
        else:
            rules[name] = rule
    return rules, skipped


def learners_of(
    runner: BranchRunner, config: TextAlgorithmConfig, checkpoint: Path | None = None
) -> TextLearnerGroup:
    """A learner in this process, which scores tokens and gives values, without a reference policy.

    The learner has the weights of the checkpoint, or those of the config's model.
    """
    config = config.copy(copy_frozen=False).learners(num_learners=0, num_gpus_per_learner=0)
    config.training(kl_coeff=0.0, kl_coeff_format=0.0).validate()
    learners = config.build_learner_group(spaces=runner.get_spaces())
    if checkpoint:
        learners.restore_from_path(checkpoint / COMPONENT_LEARNER_GROUP)
    return learners


def sample(runner: BranchRunner, tasks: int, size: int, seed: int) -> list[Rollout]:
    """Samples rollout groups of training tasks, as an iteration of training does.

    Raises:
        ValueError: If no rollout is finished, the rollouts are of a team, or a program plays.
    """
    if runner.config.settings.agent_program:
        raise ValueError("trca audit branches episodes, and agent_program plays them: leave it out")
    refuse_teams(runner.operators(), "trca audit")
    panel = runner.panel(runner.config.settings.train_split)
    groups = [
        GroupRequest(k, task, panel.split, size, ("audit", seed), progress=1.0)
        for k, task in enumerate(panel.batch(0, min(tasks, len(panel.task_ids)), seed=seed))
    ]
    batch = runner.sample(groups=groups)
    if not batch.rollouts:
        raise ValueError(f"every rollout is missing: {batch.failures[0].reason}")
    return batch.rollouts


def audit(
    runner: BranchRunner,
    rollouts: Sequence[Rollout],
    rules: Mapping[str, BoundRule],
    learners: TextLearnerGroup | None = None,
    *,
    branched: int,
    playouts: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Audit:
    """Measures A(t) on some rollouts, and credits all rollouts by each rule.

    Draws ``branched`` rollouts at random, and plays each of their states to the end ``playouts``
    times. A rollout with a missing playout is left out. ``learners`` score tokens for rules that
    need them. ``progress`` receives the number of finished states, and of all states.

    Raises:
        ValueError: If an environment does not replay exactly, or no rollout has all playouts.
    """
    rng = np.random.default_rng(seed)
    chosen = sorted(rng.permutation(len(rollouts))[:branched].tolist())
    chosen = [number for number in chosen if rollouts[number].steps]
    values, lost = dict[_State, Floats](), list[Failure]()
    states = {
        _state(rollouts[number], turn): (rollouts[number], turn)
        for number in chosen
        for turn in range(len(rollouts[number].steps))
    }
    live, waiting = max(1, LIVE // playouts), list(states.items())
    for start in range(0, len(states), live):
        some = dict(waiting[start : start + live])
        found, failures = _playouts(runner, some, playouts, (seed, start))
        values |= found
        lost += failures
        progress(min(start + live, len(states)), len(states))
    chosen = [
        number
        for number in chosen
        if all(_state(rollouts[number], t) in values for t in range(len(rollouts[number].steps)))
    ]
    if lost and not chosen:
        raise ValueError(f"every rollout has a missing playout: {lost[0].reason}")
    parts = [_executed(rollouts[number], values, playouts) for number in chosen]
    executed, error, halves = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    operators = next(iter(runner.operators().values()))
    batch = StepBatch.from_rollouts(rollouts, operators.categories)
    rows = np.flatnonzero(np.isin(batch.rollout, chosen))
    sources = Sources(runner.config, runner, learners, rollouts)
    credit, skipped = dict[str, Floats](), dict[str, str]()
    for name, rule in rules.items():
        if lack := next(filter(None, (READS.get(r).lack(sources) for r in rule.reads)), None):
            skipped[name] = lack
            continue
        credit[name] = rule(batch, **{r: READS.get(r)(sources, batch) for r in rule.reads})[rows]
    of_category = [batch.judgments[rows][:, batch.categories == number] for number in range(3)]
    fired = np.stack([judgments.any(axis=1) for judgments in of_category], axis=1)
    return Audit(
        executed=executed,
        error=error,
        halves=halves,
        credit=credit,
        skipped=skipped,
        group=batch.group[rows],
        rollout=batch.rollout[rows],
        fired=np.column_stack([fired, ~fired.any(axis=1)]),
        playouts=len(values) * playouts,
        lost=lost,
    )


def _state(rollout: Rollout, turn: int) -> _State:
    """The key of a state: equal responses to one task lead to equal states."""
    return (rollout.task_id, *(step.response_ids.tobytes() for step in rollout.steps[:turn]))


def _playouts(
    runner: BranchRunner,
    states: Mapping[_State, tuple[Rollout, int]],
    count: int,
    key: tuple[int, int],
) -> tuple[dict[_State, Floats], list[Failure]]:
    """The scores of playouts from the states before turns of rollouts, and the missing playouts.

    Scores are float64 (count,); a state with a missing playout has none.
    """
    branches, requests = runner.branches.responses, list[GroupRequest]()
    for number, (rollout, turn) in enumerate(states.values()):
        requests.append(
            GroupRequest(
                number,
                rollout.task_id,
                rollout.split,
                count,
                ("playout", *key),
                progress=1.0,
                keep_finished=True,
                demonstration=len(branches),
            )
        )
        branches.append([step.response_ids for step in rollout.steps[:turn]])
    batch = runner.sample(groups=requests)
    lost, scores = {failure.group for failure in batch.failures}, dict[_State, Floats]()
    for number, (state, (rollout, turn)) in enumerate(states.items()):
        if number in lost:
            continue
        observed = rollout.steps[turn]
        played = [each for each in batch.rollouts if each.group == number]
        for step in (each.steps[turn] for each in played):
            if step.observation != observed.observation or not np.array_equal(
                step.prompt_ids, observed.prompt_ids
            ):
                raise ValueError(
                    f"task {rollout.task_id!r} does not replay: turn {turn + 1} has another"
                    " prompt. An audit needs an environment whose observations depend on nothing"
                    " but the task and the actions"
                )
        scores[state] = np.array([each.score for each in played])
    return scores, batch.failures


def _executed(
    rollout: Rollout, values: Mapping[_State, Floats], count: int
) -> tuple[Floats, Floats, Floats]:
    """A(t), its standard error, and A(t) of both halves of the playouts, for each step."""
    steps = range(len(rollout.steps))
    scores = np.stack([*(values[_state(rollout, t)] for t in steps), np.full(count, rollout.score)])
    error = scores.std(axis=1, ddof=1) / np.sqrt(count)
    return (
        np.diff(scores.mean(axis=1)),
        np.hypot(error[1:], error[:-1]),
        np.stack([np.diff(scores[:, half::2].mean(axis=1)) for half in (0, 1)]),
    )

"""Anchors: the equality of two states of a rollout group, and values that flow between states.

``context``
    The environment's structural key (`trca.envs`), as in TRCA.
``observation``
    The exact text, as in the public code of GiGPO's family.
``similar``
    Similar texts: a text joins the first earlier text of the group with a ratio (difflib's
    `SequenceMatcher`) of at least ``similarity``, or founds an anchor (the public code's greedy
    option; its least ratio is .95). GraphGPO joins the states of the graph in this way, and
    compares steps from exactly equal texts. Quadratic in the distinct texts of a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import NonNegative, Normalizer, Share
from trca.records import Floats, Ints, StepBatch

AnchorKind = Literal["context", "observation", "similar"]


class AnchorParameters(TextParameters):
    """Rules that compare steps from the same state."""

    anchor: AnchorKind = "context"
    """Equality of two states: context key, observation text, or similar observation texts."""
    similarity: Share = 0.9
    """Least ratio (difflib) of two texts with one anchor, for anchor similar."""


class PenaltyParameters(AnchorParameters):
    """Rules that also penalise a step without an action."""

    invalid_action_penalty: NonNegative = 0.01
    """Penalty of a step whose response holds no action, for an outcome of 1 (public code: 0.1 for
    an outcome of 10)."""


class StepCreditParameters(PenaltyParameters):
    """Rules of the form A^E + omega A^S."""

    omega: NonNegative = 1.0
    """Weight omega of the step advantage."""
    normalizer: Normalizer = "std"
    """Divisor of advantages: the standard deviation, or one."""


def anchors_before(batch: StepBatch, kind: AnchorKind, similarity: float) -> Ints:
    """The anchor of the state before each step.

    Args:
        batch: S steps.
        kind: The equality of two states.
        similarity: Least ratio of two texts with one anchor, for ``similar``.

    Returns:
        int64 (S,), codes from 0 without gaps; equal codes mean the same state of one group.

    Raises:
        ValueError: For ``similar`` without texts.
    """
    return joint_codes(batch.group, _anchors(batch, kind, similarity))


def anchors_around(batch: StepBatch, kind: AnchorKind, similarity: float) -> tuple[Ints, Ints]:
    """The anchors of the states before and after each step; nodes of a graph.

    Returns:
        int64 (S,) twice; arguments, codes and errors are those of `anchors_before`.
    """
    before = _anchors(batch, kind, similarity)
    after = batch.next_context if kind == "context" else batch.next_observation
    if kind == "similar":
        both = np.stack([batch.observation, after], axis=1).ravel()
        joined = _similar(batch, np.repeat(batch.group, 2), both, similarity)
        before, after = joined[0::2], joined[1::2]
    nodes = joint_codes(np.tile(batch.group, 2), np.concatenate([before, after]))
    return nodes[: len(batch)], nodes[len(batch) :]


def spread_back(
    values: Floats, before: Ints, after: Ints, back: Callable[[Floats], Floats]
) -> Floats:
    """Raises each state to the maximum of its value and back(value) of its next states.

    Each pass follows one transition back from the states whose value rose in the last pass:
    breadth-first search if each state rises once, and then linear in the transitions. The number of
    passes is the length of the longest path.

    Args:
        values: float64 (n,), the values of the states; -inf for a state without a value.
        before: int64 (E,), the state before each transition.
        after: int64 (E,), the state after each transition.
        back: The value of a state one transition earlier, at most the value of the state.

    Returns:
        float64 (n,); -inf for a state without a path to a value.
    """
    best = values.copy()
    order = np.argsort(after, kind="stable")
    sources = before[order]
    count = np.bincount(after, minlength=len(values))
    start = np.cumsum(count) - count
    risen = np.flatnonzero(best > -np.inf)
    while len(risen):
        entering = count[risen]
        offset = np.arange(entering.sum()) - np.repeat(np.cumsum(entering) - entering, entering)
        states = sources[np.repeat(start[risen], entering) + offset]
        offered = np.repeat(back(best[risen]), entering)
        better = offered > best[states]
        states, offered = states[better], offered[better]
        np.maximum.at(best, states, offered)
        risen = np.unique(states)
    return best


def _anchors(batch: StepBatch, kind: AnchorKind, similarity: float) -> Ints:
    """The anchor of the state before each step; distinguishes states of one group only."""
    if kind == "context":
        return batch.context
    if kind == "observation":
        return batch.observation
    return _similar(batch, batch.group, batch.observation, similarity)


def _similar(batch: StepBatch, group: Ints, codes: Ints, similarity: float) -> Ints:
    """The code of the text that each text joins."""
    if len(batch) and not batch.texts:
        raise ValueError("anchor 'similar' compares texts, and the batch has none: set its texts")
    pairs = joint_codes(group, codes)
    _, first = np.unique(pairs, return_index=True)
    joined = np.empty(len(first), dtype=np.int64)
    founders: dict[int, list[tuple[int, SequenceMatcher[str]]]] = defaultdict(list)
    for row in np.sort(first).tolist():
        text, anchors = batch.texts[codes[row]], founders[int(group[row])]
        for code, matcher in anchors:
            matcher.set_seq1(text)
            if (
                matcher.real_quick_ratio() >= similarity
                and matcher.quick_ratio() >= similarity
                and matcher.ratio() >= similarity
            ):
                joined[pairs[row]] = code
                break
        else:
            anchors.append((int(codes[row]), SequenceMatcher(None, "", text)))
            joined[pairs[row]] = codes[row]
    return joined[pairs]

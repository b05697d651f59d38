"""Batches of steps for tests, drawn by Hypothesis or written by hand."""

from dataclasses import fields, replace
from inspect import signature
from typing import get_type_hints

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.algorithms.credit.critic_values import critic_values
from trca.algorithms.credit import CREDIT_RULES, bind_credit
from trca.algorithms.credit.plans import Plans
from trca.records import StepBatch

TEXTS = ("a red mug", "a red mug.", "the red mug!", "a blue cup", "one blue cup")
"""Texts of the observations 0 to 4: the first two are 95% alike."""
PARTS = np.array([1, 2, 3], dtype=np.int8)
"""The parts of three response tokens that are a plan."""
CATEGORIES = np.array([0, 0, 1, 1, 2, 2], dtype=np.int8)


def step_batch(
    lengths,
    groups,
    rewards,
    contexts,
    judgments=None,
    parsed=None,
    observations=None,
    ends=None,
    texts=(),
):
    """A batch from rollouts of these lengths, each in its group; further columns row by row.

    A rollout with a reward has won. ``ends`` are the contexts and observations after the last
    steps; by default those before them.
    """
    rows = sum(lengths)
    last = np.zeros(rows, dtype=bool)
    last[np.cumsum(lengths, dtype=int) - 1] = True
    rollout = np.repeat(np.arange(len(lengths)), lengths)
    rewards = np.array(rewards, dtype=np.float64)
    contexts = np.array(contexts, dtype=np.int64)
    observations = contexts if observations is None else np.array(observations, dtype=np.int64)
    won = np.bincount(rollout, rewards, len(lengths))[rollout] > 0
    if judgments is None:
        judgments = np.zeros((rows, len(CATEGORIES)), dtype=np.uint8)
    ones = np.ones(rows, dtype=bool)

    def after(column):
        following = np.roll(column, -1)
        following[last] = column[last] if ends is None else ends
        return following

    return StepBatch(
        group=np.repeat(np.array(groups, dtype=np.int64), lengths),
        rollout=rollout,
        agent=np.zeros(rows, dtype=np.int64),
        reward=rewards,
        observation=observations,
        next_observation=after(observations),
        context=contexts,
        next_context=after(contexts),
        judgments=np.array(judgments, dtype=np.uint8),
        categories=CATEGORIES,
        parsed=ones if parsed is None else np.array(parsed),
        accepted=ones,
        terminated=last,
        truncated=np.zeros(rows, dtype=bool),
        won=last & won,
        texts=texts,
    )


@st.composite
def batches(draw, outcomes=(0.0, 1.0)):
    """Up to eight rollouts in up to three scattered groups, outcomes on their last steps."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    count, rows = len(lengths), sum(lengths)
    groups = draw(st.lists(st.sampled_from([0, 3, 70_000]), min_size=count, max_size=count))
    rewards = np.zeros(rows)
    ends = np.cumsum(lengths) - 1
    rewards[ends] = draw(st.lists(st.sampled_from(outcomes), min_size=count, max_size=count))
    contexts = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    observations = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    judgments = draw(arrays(np.uint8, (rows, len(CATEGORIES)), elements=st.integers(0, 1)))
    parsed = draw(arrays(np.bool_, rows))
    ends = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    return step_batch(
        lengths, groups, rewards, contexts, judgments, parsed, observations, ends, TEXTS
    )


def rule(name):
    """A registered rule that takes settings, reads and constants by name."""
    function = CREDIT_RULES.get(name)
    if "parameters" not in signature(function).parameters:
        return function
    model = get_type_hints(function)["parameters"]

    def credit(batch, **given):
        settings = {key: value for key, value in given.items() if key in model.model_fields}
        rest = {key: value for key, value in given.items() if key not in settings}
        return function(batch, model(**settings), **rest)

    return credit


def what_it_reads(rule, batch):
    """The reads of a rule, computed from columns of the batch."""
    outcomes = np.array([batch.reward[batch.rollout == rollout].sum() for rollout in batch.rollout])
    made_up = {
        "answer_logprobs": -1.0 - batch.context,
        "final_f1": outcomes,
        "final_word_set_f1": outcomes,
        "gold_passages": [("a blue cup",)] * len(batch),
        "hindsight_logprobs": -0.5 - batch.context,
        "plans": Plans(batch.context == 1, batch.observation, np.tile(PARTS, len(batch))),
        "values": critic_values(
            batch, [[[0.1 * context + 0.3] * 3] * 3 for context in batch.context], heads=3
        ),
    }
    return {name: made_up[name] for name in bind_credit(rule, {}).reads}


def cut_off(batch):
    """The batch with a step limit in place of each end."""
    return replace(batch, terminated=batch.truncated, truncated=batch.terminated)


def take_rollouts(batch, order):
    """The batch with its rollouts in another order, and the rows it took."""
    rows = np.concatenate([np.flatnonzero(batch.rollout == r) for r in order])
    names = (f.name for f in fields(batch) if f.init and f.name not in ("categories", "texts"))
    columns = {name: getattr(batch, name) for name in names}
    return replace(batch, **{k: v[rows] for k, v in columns.items() if v is not None}), rows

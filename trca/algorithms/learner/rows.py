"""Training rows: the steps of an iteration, as flat arrays without padding.

Three steps with prompts of 3, 1 and 2 tokens, and responses of 2, 3 and 1 tokens::

    step    prompt    response    action mask of the response
    0       1 2 3     4 5         . x
    1       6         7 8 9       . x x
    2       10 11     12          .               (no action in the response)

are packed into these columns::

    tokens            1 2 3 4 5 | 6 7 8 9 | 10 11 12     prompt and response of each row
    prompt_lengths    3 1 2
    response_lengths  2 3 1
    action_mask       . x | . x x | .                    of response tokens, as old_logprobs
    weights           1/3 1/3 1/3                        of rows, as advantages

`segments` finds the tokens of a row: row 1 starts at 5 in ``tokens`` and at 2 in ``action_mask``. A
forward pass over rows 0 and 1 pads the rows to one length, a multiple of 8, and reads the hidden
state before each token of the action (`trca.algorithms.learner.passes`)::

    input_ids    1 2 3 4 5 0 0 0        row 0: position 3 predicts the 5
                 6 7 8 9 0 0 0 0        row 1: positions 1 and 2 predict the 8 and the 9

Rows are cut over learners (`Rows.shards`), into mini-batches of one optimizer update
(`Rows.minibatches`), and into micro-batches of one forward pass (`Rows.microbatches`). Weights and
global numbers travel with the rows, so that each cut gives the same gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.learner.losses import row_weights
from trca.algorithms.settings.groups import WeightingSettings
from trca.records import Bools, Floats, Ints, Rollout, advantages_of
from trca.records.step_batch import action_counts, action_mask_of, flat

PAD_MULTIPLE = 8
_OF_ROWS: Final = (
    "number",
    "prompt_lengths",
    "response_lengths",
    "advantages",
    "weights",
    "replayed",
)
_OF_RESPONSES: Final = ("action_mask", "old_logprobs")

OptionalColumns = Mapping[str, NDArray[Any]]
"""Columns of response tokens that a credit rule, a critic and the learner add, by name.

``reference`` (sum of R,): the reference's log-probabilities, if the loss has a KL term.
``token_advantages`` (sum of R,): an advantage for each token in place of the step's.
``old_values`` (sum of R, H): the critic's values of the text before each response token at the time
of credit. ``value_targets`` (sum of R, H): the targets of the values; nan without a target.
"""


@dataclass(frozen=True)
class Rows:
    """S steps as flat columns; the tokens of a row are its prompt followed by its response."""

    number: Ints  # int64 (S,), number of the row among the rows of all learners
    total: int  # number of rows, over all learners
    tokens: NDArray[np.int32]  # int32 (sum of P + R,)
    prompt_lengths: Ints  # int64 (S,), P of each row
    response_lengths: Ints  # int64 (S,), R of each row
    action_mask: Bools  # bool (sum of R,), True where a response token belongs to the action
    old_logprobs: NDArray[np.float32]  # float32 (sum of R,), the old policy's log-probabilities
    advantages: NDArray[np.float32]  # float32 (S,)
    weights: Floats  # float64 (S,), weight in the aggregation, see row_weights
    replayed: Bools  # bool (S,), whether the row is of an earlier iteration
    replayed_total: int = 0  # number of replayed rows, over all learners
    optional: OptionalColumns = field(default_factory=dict)  # the OptionalColumns, float32

    def __len__(self) -> int:
        return len(self.number)

    @property
    def fresh_total(self) -> int:
        """Number of rows of this iteration, over all learners."""
        return self.total - self.replayed_total

    @property
    def lengths(self) -> Ints:
        """int64 (S,), P + R of each row."""
        return self.prompt_lengths + self.response_lengths

    def holding(self, tokens: Bools) -> Bools:
        """Marks the rows that hold one of these response tokens; from (sum of R,) to (S,)."""
        row = np.repeat(np.arange(len(self)), self.response_lengths)
        return np.asarray(np.bincount(row[tokens], minlength=len(self)) > 0)

    def take(self, rows: Ints) -> Rows:
        """The rows at these places, in this order."""
        responses = segments(self.response_lengths, rows)
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _OF_ROWS}
        columns |= {name: getattr(self, name)[responses] for name in _OF_RESPONSES}
        columns["tokens"] = self.tokens[segments(self.lengths, rows)]
        columns["optional"] = {name: each[responses] for name, each in self.optional.items()}
        return replace(self, **columns)

    def shards(self, count: int) -> list[Rows]:
        """Deals the rows to learners by length: the learners get about equal numbers of tokens."""
        order = np.argsort(-self.lengths, kind="stable")
        return [self.take(np.sort(order[k::count])) for k in range(count)]

    def minibatches(self, size: int, key: Sequence[int]) -> Iterator[tuple[Rows, float]]:
        """One epoch of mini-batches of at most ``size`` rows, over all learners.

        Every learner draws the same shuffle and takes its rows of each mini-batch, sometimes no
        row. So all learners take part in the same number of updates. The factor scales the weights
        of a mini-batch to the sum of all weights.
        """
        count = -(-self.total // size)
        place = np.full(self.total, -1, dtype=np.int64)
        place[self.number] = np.arange(len(self))
        for chunk in np.array_split(np.random.default_rng(key).permutation(self.total), count):
            places = place[np.sort(chunk)]
            yield self.take(places[places >= 0]), self.total / len(chunk)

    def microbatches(self, token_budget: int) -> Iterator[tuple[Ints, Rows]]:
        """Rows of similar length, as many as fit the budget of padded tokens (at least one).

        Yields row indices and rows. Rows of one padded length are in the order of their tokens, so
        that rows with equal beginnings share a micro-batch; see `trca.policies.shared_prefixes`. A
        row that another row continues, as in a conversation, follows that row.
        """
        tokens = np.split(self.tokens, np.cumsum(self.lengths)[:-1]) if len(self) else []
        texts = [row.tobytes() for row in tokens]
        longest: dict[int, bytes] = {}
        after = b""
        for k in sorted(range(len(texts)), key=texts.__getitem__, reverse=True):
            after = after if after.startswith(texts[k]) else texts[k]
            longest[k] = after
        keys = [
            (-padded(len(longest[k]) // row.itemsize), longest[k], -len(row))
            for k, row in enumerate(tokens)
        ]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
        widths = [padded(int(length)) for length in self.lengths[order]]
        start = 0
        while start < len(order):
            width, end = widths[start], start + 1
            while end < len(order):
                width = max(width, widths[end])
                if (end + 1 - start) * width > token_budget:
                    break
                end += 1
            places = order[start:end]
            yield places, self.take(places)
            start = end


def padded(length: int) -> int:
    """The length rounded up to a multiple of 8, the length of a row in a forward pass."""
    return -(-length // PAD_MULTIPLE) * PAD_MULTIPLE


def columns_of(
    columns: OptionalColumns, some: Sequence[Rollout], rollouts: Sequence[Rollout]
) -> OptionalColumns:
    """The optional columns of some of the rollouts, from the columns of all rollouts."""
    kept = {id(rollout) for rollout in some}
    lengths = [sum(len(step.response_ids) for step in r.steps) for r in rollouts]
    tokens = np.flatnonzero(np.repeat([id(r) in kept for r in rollouts], lengths))
    return {name: column[tokens] for name, column in columns.items()}


def make_rows(
    rollouts: Sequence[Rollout],
    settings: WeightingSettings,
    optional: OptionalColumns | None = None,
) -> Rows:
    """Makes the rows of an iteration from rollouts with advantages.

    ``optional`` has columns of the response tokens of these rollouts.
    """
    steps = [step for rollout in rollouts for step in rollout.steps]
    lengths = np.array([len(rollout.steps) for rollout in rollouts], dtype=np.int64)
    number = np.repeat(np.arange(len(rollouts)), lengths)
    group = np.repeat(np.array([r.group for r in rollouts], dtype=np.int64), lengths)
    responses = np.array([len(s.response_ids) for s in steps], dtype=np.int64)
    action_mask = action_mask_of(steps, settings.train_malformed)
    counts = action_counts(action_mask, responses)
    return Rows(
        number=np.arange(len(steps)),
        total=len(steps),
        tokens=flat([ids for s in steps for ids in (s.prompt_ids, s.response_ids)], np.int32),
        prompt_lengths=np.array([len(s.prompt_ids) for s in steps], dtype=np.int64),
        response_lengths=responses,
        action_mask=action_mask,
        old_logprobs=flat([s.old_logprobs for s in steps], np.float32),
        advantages=advantages_of(rollouts).astype(np.float32),
        weights=row_weights(group, number, counts, settings.aggregation, settings.constant_steps),
        replayed=np.zeros(len(steps), dtype=bool),
        optional={name: column.astype(np.float32) for name, column in (optional or {}).items()},
    )


def join_rows(one: Rows, other: Rows) -> Rows:
    """Joins the rows of two batches, each of all learners."""
    names = [n for n in ("tokens", *_OF_ROWS, *_OF_RESPONSES) if n != "number"]
    columns = {n: np.concatenate([getattr(one, n), getattr(other, n)]) for n in names}
    optional = {
        name: np.concatenate([_optional(name, one, other), _optional(name, other, one)])
        for name in {**one.optional, **other.optional}
    }
    return Rows(
        number=np.concatenate([one.number, one.total + other.number]),
        total=one.total + other.total,
        replayed_total=one.replayed_total + other.replayed_total,
        optional=optional,
        **columns,
    )


def _optional(name: str, rows: Rows, other: Rows) -> NDArray[np.float32]:
    """An optional column that one of two batches has; rows without values have no targets."""
    if name in rows.optional:
        return rows.optional[name]
    if name == "token_advantages":
        return np.repeat(rows.advantages, rows.response_lengths)
    nothing = np.nan if name == "value_targets" else 0.0
    heads = other.optional[name].shape[1]
    return np.full((len(rows.action_mask), heads), nothing, np.float32)


def join_roles(parts: Sequence[Rows]) -> Rows:
    """Joins the rows of several roles that one policy acts for; the roles have equal weights."""
    first, *others = parts
    if not others:
        return first
    share = 1.0 / len(parts)
    joined = replace(first, weights=share * first.weights)
    for part in others:
        joined = join_rows(joined, replace(part, weights=share * part.weights))
    return joined


def scored_rows(
    prompts: Sequence[NDArray[np.int32]], responses: Sequence[NDArray[np.int32]]
) -> Rows:
    """Rows for scoring int32 (P,) and (R,): all response tokens count, and no row has a weight."""
    count = len(prompts)
    lengths = np.array([len(ids) for ids in responses], dtype=np.int64)
    zeros = np.zeros(int(lengths.sum()), dtype=np.float32)
    return Rows(
        number=np.arange(count),
        total=count,
        tokens=flat([i for pair in zip(prompts, responses, strict=True) for i in pair], np.int32),
        prompt_lengths=np.array([len(ids) for ids in prompts], dtype=np.int64),
        response_lengths=lengths,
        action_mask=np.ones(len(zeros), dtype=bool),
        old_logprobs=zeros,
        advantages=np.zeros(count, dtype=np.float32),
        weights=np.zeros(count),
        replayed=np.zeros(count, dtype=bool),
    )


def segments(lengths: Ints, rows: Ints) -> Ints:
    """The places of rows in a flat column, one row after the other.

    ``lengths`` has the number of places of every row, (S,); ``rows`` has the row indices, (n,).
    """
    starts = np.cumsum(lengths) - lengths
    taken = lengths[rows]
    offsets = np.repeat(starts[rows] - (np.cumsum(taken) - taken), taken)
    return np.asarray(offsets + np.arange(len(offsets)), dtype=np.int64)

from dataclasses import replace

import numpy as np
import pytest

from tests.records.test_records import make_step
from trca.algorithms.learner.passes import token_batch
from trca.algorithms.learner.rows import Rows, columns_of, join_rows, make_rows, padded
from trca.algorithms.settings.groups import WeightingSettings
from trca.algorithms.settings.types import Aggregation
from trca.records import Rollout, Step, assign_advantages


def step(prompt: list[int], response: list[int], action: list[bool], parsed: bool = True) -> Step:
    return make_step(
        prompt_ids=np.array(prompt, dtype=np.int32),
        response_ids=np.array(response, dtype=np.int32),
        action_mask=np.array(action),
        old_logprobs=-np.array(response, dtype=np.float32) / 10,
        action="c" if parsed else "",
        parsed=parsed,
    )


def rows_of(
    steps: list[Step],
    train_malformed: bool = True,
    aggregation: Aggregation = "rollout_mean",
) -> Rows:
    rollout = Rollout("t", "train", "Any", 0, 0, 0, steps=steps)
    assign_advantages([rollout], np.arange(len(steps), dtype=np.float64))
    settings = WeightingSettings(aggregation=aggregation, train_malformed=train_malformed)
    return make_rows([rollout], settings)


THREE = [
    step([1, 2, 3], [4, 5], [False, True]),
    step([6], [7, 8, 9], [False, True, True]),
    step([10, 11], [12], [False], parsed=False),
]


def random_rows(count: int) -> Rows:
    rng = np.random.default_rng(0)
    return rows_of(
        [
            step(list(range(rng.integers(1, 40))), list(range(n)), [True] * n)
            for n in rng.integers(1, 12, count)
        ]
    )


def test_a_response_without_an_action_is_trained_whole_or_not_at_all():
    assert rows_of(THREE).action_mask.tolist() == [False, True, False, True, True, True]
    assert rows_of(THREE, train_malformed=False).action_mask.tolist()[-1] is False


def test_token_mean_counts_the_tokens_of_actions_and_not_of_thoughts():
    steps = [step([1], [2, 3, 4, 5], [False, True, False, False]), step([1], [2, 3], [True, True])]
    np.testing.assert_allclose(rows_of(steps, aggregation="token_mean").weights, [1 / 3, 2 / 3])
    steps = [step([1], [2, 3, 4], [False] * 3, parsed=False), step([1], [2, 3], [True, False])]
    for malformed, weights in ((True, [3 / 4, 1 / 4]), (False, [0, 1])):
        rows = rows_of(steps, malformed, "token_mean")
        np.testing.assert_allclose(rows.weights, weights)


def test_taking_rows_keeps_their_segments_together():
    rows = rows_of(THREE).take(np.array([2, 0]))
    assert rows.tokens.tolist() == [10, 11, 12, 1, 2, 3, 4, 5]
    assert rows.old_logprobs.tolist() == pytest.approx([-1.2, -0.4, -0.5])
    assert rows.number.tolist() == [2, 0]


def test_a_token_batch_points_at_the_place_that_predicts_each_counted_token():
    rows = rows_of(THREE)
    batch = token_batch(rows, rows.action_mask, "cpu")
    assert batch.input_ids.shape == (3, padded(5))
    assert batch.input_ids[0, :6].tolist() == [1, 2, 3, 4, 5, 0]
    assert batch.targets.tolist() == [5, 8, 9, 12]
    assert batch.row.tolist() == [0, 1, 1, 2]
    assert batch.position.tolist() == [3, 1, 2, 1]


@pytest.mark.parametrize("learners", [1, 2, 3])
def test_every_way_of_cutting_visits_every_row_once_with_its_weight(learners):
    rows = random_rows(50)
    seen, weight = [], 0.0
    updates = set()
    for shard in rows.shards(learners):
        for number, (minibatch, factor) in enumerate(shard.minibatches(16, (7, 0))):
            updates.add(number)
            for _, micro in minibatch.microbatches(128):
                assert len(micro) == 1 or len(micro) * padded(int(micro.lengths.max())) <= 128
                seen += micro.number.tolist()
                weight += micro.weights.sum()
            assert factor == pytest.approx(4, abs=0.2)
    assert sorted(seen) == list(range(50))
    assert updates == {0, 1, 2, 3}
    assert weight == pytest.approx(1.0)


def test_the_steps_of_a_conversation_share_a_microbatch():
    """Three conversations of five turns: each prompt continues the last prompt and response."""
    draw = np.random.default_rng(0)
    conversations = []
    for _ in range(3):
        ids = draw.integers(0, 99, 20).tolist()
        conversations.append([])
        for _ in range(5):
            response = draw.integers(0, 99, 9).tolist()
            conversations[-1].append(step(ids, response, [True] * 9))
            ids = [*ids, *response, *draw.integers(0, 99, 7).tolist()]
    rows = rows_of([turn for turns in zip(*conversations, strict=True) for turn in turns])
    micros = [micro for _, micro in rows.microbatches(5 * padded(20 + 5 * 16))]
    assert sorted(len(micro) for micro in micros) == [5, 5, 5]
    for micro in micros:
        batch = token_batch(micro, micro.action_mask, "cpu", share=True)
        assert batch.shared is not None
        assert len(batch.shared.owner) == micro.lengths.max()
        assert len(micro) * padded(int(micro.lengths.max())) <= 5 * padded(20 + 5 * 16)


def test_learners_draw_the_same_minibatches():
    rows = random_rows(40)
    alone = [set(m.number) for m, _ in rows.minibatches(10, (1, 2))]
    parts = [[set(m.number) for m, _ in s.minibatches(10, (1, 2))] for s in rows.shards(2)]
    assert [a | b for a, b in zip(*parts, strict=True)] == alone


def test_another_epoch_has_other_minibatches():
    rows = random_rows(40)
    first, second = ([set(m.number) for m, _ in rows.minibatches(10, (1, e))] for e in (0, 1))
    assert first != second


def test_columns_of_tokens_go_with_their_rollouts_and_rows():
    rollouts = [Rollout("t", "train", "Any", 0, k, 0, steps=[each]) for k, each in enumerate(THREE)]
    assign_advantages(rollouts, np.zeros(3))
    numbers = np.arange(6.0)
    columns = {
        "token_advantages": numbers,
        "old_values": numbers[:, None],
        "value_targets": -numbers[:, None],
    }
    some = columns_of(columns, rollouts[1:], rollouts)
    rows = make_rows(rollouts[1:], WeightingSettings(), some)
    old = make_rows(rollouts[:1], WeightingSettings())
    joined = join_rows(rows, replace(old, advantages=np.full(1, 7.0, np.float32)))
    assert joined.optional["token_advantages"].tolist() == [2, 3, 4, 5, 7, 7]
    assert np.isnan(joined.optional["value_targets"][:, 0]).tolist() == [False] * 4 + [True] * 2
    taken = rows.take(np.array([1, 0])).optional
    assert taken["token_advantages"].tolist() == [5, 2, 3, 4]
    assert taken["old_values"][:, 0].tolist() == [5, 2, 3, 4]
    assert taken["value_targets"][:, 0].tolist() == [-5, -2, -3, -4]

"""Packed and unpacked rollouts equal the originals."""

import pickle
from dataclasses import fields, replace

import numpy as np

from trca.algorithms.rollouts.batch import RolloutBatch
from trca.records import Rollout, Step, to_json
from trca.records.failures import Failure


def step(prompt, response, operators):
    rng = np.random.default_rng(prompt)
    judgments = np.ones(operators, dtype=np.uint8)
    judgments.setflags(write=False)
    return Step(
        prompt_ids=rng.integers(0, 9, prompt, dtype=np.int32),
        response_ids=rng.integers(0, 9, response, dtype=np.int32),
        action_mask=rng.random(response) < 0.5,
        old_logprobs=rng.random(response, dtype=np.float32),
        observation=f"a room {prompt}",
        response="go",
        action="go",
        context="a",
        next_context="b",
        reward=0.5,
        judgments=judgments,
        parsed=True,
        accepted=False,
        facts={"moved": True},
        version=prompt,
    )


def rollout(index, *steps):
    return Rollout("task", "train", "Pick", 3, index, 1, steps=list(steps), won=True)


def sent(batch):
    buffers = []
    pickled = pickle.dumps(batch, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=buffers), len(buffers)


def test_unpacked_rollouts_equal_the_originals_of_any_length():
    first = rollout(0, step(3, 2, 4), step(1, 0, 4), step(5, 3, 4))
    scored = replace(rollout(2, step(2, 1, 0)), advantages=np.array([0.25]))
    batch = RolloutBatch([first, rollout(1), scored], [Failure(1, "task", 2, "late")])
    batch.seconds["generation"] = 2.0
    there, _ = sent(batch)
    assert [to_json(r) for r in there.rollouts] == [to_json(r) for r in batch.rollouts]
    assert (there.failures, there.seconds) == (batch.failures, batch.seconds)
    for mine, yours in zip(first.steps, there.rollouts[0].steps, strict=True):
        for name in (f.name for f in fields(Step)):
            value = getattr(mine, name)
            assert not isinstance(value, np.ndarray) or getattr(yours, name).dtype == value.dtype
        assert not yours.judgments.flags.writeable


def test_an_empty_list_is_packed_too():
    assert sent(RolloutBatch())[0] == RolloutBatch()


def test_the_number_of_buffers_does_not_grow_with_the_steps():
    few = RolloutBatch([rollout(0, step(3, 2, 4))])
    many = RolloutBatch([rollout(k, *[step(3, 2, 4)] * 5) for k in range(6)])
    assert sent(few)[1] == sent(many)[1]

"""The rules for rows of NeMo Gym, as its agent of Gymnasium environments makes them."""

import asyncio

import numpy as np
import pytest

from foreign import LIBRARY, play
from test_credit import OURS, ours
from tests.toy import Rooms
from trca.envs import make
from trca_interop.credit import Credit, annotate
from trca_interop.nemo_gym import step_advantages, token_advantages


@pytest.fixture(scope="module")
def played():
    return play(groups=3)


def rows_of(rows):
    """Results of ``/run``; each step of the model has 1 to 4 generated tokens."""
    rng, by_rollout = np.random.default_rng(0), {}
    for group, rollout, annotation in rows:
        by_rollout.setdefault((group, rollout), []).append(annotation)
    made = []
    for (group, rollout), annotations in by_rollout.items():
        output = []
        for annotation in annotations:
            tokens = [3] * int(rng.integers(1, 5))
            output.append({"type": "message", "role": "assistant", "generation_token_ids": tokens})
            output.append({"role": "user", "content": annotation["next_observation"]})
        made.append(
            {
                "_ng_task_index": int(group.split()[1]),
                "_ng_rollout_index": int(rollout.rpartition(".")[2]),
                "response": {"output": output},
                "reward": sum(annotation["reward"] for annotation in annotations),
                "mask_sample": False,
                "info": {"trca": annotations},
            }
        )
    return made


@pytest.mark.parametrize("rule", OURS)
def test_rows_are_credited_as_by_our_trainer(rule, played):
    rollouts, rows = played
    made = rows_of(rows)
    credit, wanted = Credit.bind(rule, LIBRARY), ours(rule, {}, rollouts)
    of_steps = step_advantages(credit, made)
    np.testing.assert_allclose(np.concatenate(of_steps), wanted, rtol=0, atol=1e-12)
    of_tokens = token_advantages(credit, made)
    for row, values, tokens in zip(made, of_steps, of_tokens, strict=True):
        items = [item for item in row["response"]["output"] if "generation_token_ids" in item]
        assert [len(each) for each in tokens] == [len(i["generation_token_ids"]) for i in items]
        assert [set(each) for each in tokens] == [{value} for value in values]


def test_a_masked_row_has_no_part_in_the_credit(played):
    made, credit = rows_of(played[1]), Credit.bind("trca", LIBRARY)
    wanted = step_advantages(credit, made[1:])
    made[0] |= {"mask_sample": True, "info": {}}
    first, *rest = step_advantages(credit, made)
    assert len(first) == 0
    np.testing.assert_array_equal(np.concatenate(rest), np.concatenate(wanted))
    assert not np.concatenate(token_advantages(credit, made)[0]).any()
    assert step_advantages(credit, made[:1])[0].shape == (0,)


def test_rows_that_lack_something_are_refused(played):
    credit = Credit.bind("trca", LIBRARY)
    row, *_ = rows_of(played[1])
    for change, words in (
        ({"_ng_task_index": None}, "no _ng_task_index: give rows of NeMo Gym"),
        ({"info": {}}, "rollout 0 of task 0 has no 'trca' in info"),
        ({"reward": 7.0}, r"has the reward 7.0, and its annotations have"),
        ({"reward": None}, r"has the reward None, and its annotations have"),
        ({"info": {"trca": "[]"}}, r"rollout 0 of task 0 has '\[\]' as annotation: write"),
        ({"info": {"trca": [{"step": 0}]}}, "rollout 0 of task 0: the annotation lacks reward"),
        ({"response": {"output": []}}, "annotations and 0 items with generation_token_ids"),
    ):
        with pytest.raises(ValueError, match=words):
            token_advantages(credit, [row | change])


class Server:
    """An environment with the methods of ``GymnasiumServer``, as the docs show one."""

    def __init__(self):
        self.sessions = {}

    async def reset(self, metadata, session_id=None):
        env = make(Rooms, max_steps=6)
        observation, _ = env.reset(options={"task": metadata["task"]})
        self.sessions[session_id] = [env, observation, []]
        return observation, {}

    async def step(self, action, metadata, session_id=None):
        env, seen, annotations = self.sessions[session_id]
        transition = env.step(action)
        annotations.append(annotate(len(annotations), seen, action, transition))
        self.sessions[session_id][1] = transition[0]
        return *transition[:4], {"trca": annotations}


def test_the_info_of_the_last_step_has_all_annotations():
    server = Server()

    async def run(rollout):
        _, info = await server.reset({"task": "train-0"}, rollout)
        total, over, steps = 0.0, False, 0
        while not over:
            action = "take key" if rollout and steps else "go"
            _, reward, terminated, truncated, info = await server.step(action, {}, rollout)
            total, over, steps = total + reward, terminated or truncated, steps + 1
        return {"_ng_task_index": 0, "_ng_rollout_index": rollout, "reward": total, "info": info}

    rows = [asyncio.run(run(rollout)) for rollout in range(2)]
    lost, won = step_advantages(Credit.bind("gigpo"), rows)
    assert rows[1]["reward"] == 1 > rows[0]["reward"]
    assert won.min() > 0 > lost.max()

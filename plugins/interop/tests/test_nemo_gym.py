"""The rules for rows of NeMo Gym, as its agent of Gymnasium environments makes them."""

import asyncio
import json
import re
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest
from fastapi import FastAPI, Request

from foreign import LIBRARY, play
from test_credit import OURS, ours
from tests.envs.retrieval.servers import serving
from tests.test_docs import blocks
from trca_interop.credit import Credit
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
    with pytest.raises(ValueError, match="2 rollouts of group 0 have the id 0"):
        step_advantages(credit, [row, row])


def model(rng):
    """A model server: it goes to a place that the last observation names."""
    app = FastAPI()

    @app.post("/v1/responses")
    async def respond(request: Request):
        seen = (await request.json())["input"][-1]["content"]
        text = (
            f"<action>go to {rng.choice(re.findall('[a-z]+ [0-9]+', seen) or ['sofa 1'])}</action>"
        )
        tokens = [3] * int(rng.integers(1, 5))
        return {
            "id": "response",
            "created_at": 0,
            "model": "walker",
            "object": "response",
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {
                    "id": "message",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                    "prompt_token_ids": [1, 2],
                    "generation_token_ids": tokens,
                    "generation_log_probs": [0.0] * len(tokens),
                }
            ],
        }

    return app


async def rollouts(environment, answers):
    """Two rollouts of each of two tasks by NeMo Gym's agent, from its servers over HTTP."""
    from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig as Settings
    from nemo_gym.server_utils import ServerClient, set_global_aiohttp_client
    from omegaconf import OmegaConf
    from responses_api_agents.gymnasium_agent.app import (
        GymnasiumAgent,
        GymnasiumAgentConfig,
        GymnasiumAgentRunRequest,
    )

    place = {"host": "127.0.0.1", "port": 1}
    client = ServerClient(head_server_config=place, global_config_dict=OmegaConf.create())
    of_server = {**place, "entrypoint": "app.py"}
    house = environment(config={"name": "house", **of_server}, server_client=client)
    with ExitStack() as stack:
        for name, app in {"house": house.setup_webserver(), "model": answers}.items():
            url = urlsplit(stack.enter_context(serving(app)))
            served = {"host": url.hostname, "port": url.port}
            client.global_config_dict[name] = {"any": {"any": served}}
        config = GymnasiumAgentConfig(
            name="agent",
            **of_server,
            resources_server={"type": "resources_servers", "name": "house"},
            model_server={"type": "responses_api_models", "name": "model"},
            max_steps=4,
        )
        agent, rows = GymnasiumAgent(config=config, server_client=client), []
        async with set_global_aiohttp_client(Settings()):
            for task, rollout in product(range(2), range(2)):
                body = GymnasiumAgentRunRequest(
                    responses_create_params={"input": "Act."}, seed=task
                )
                done = await agent.run(SimpleNamespace(cookies={}), body)
                indices = {"_ng_task_index": task, "_ng_rollout_index": rollout}
                rows.append(done.model_dump(mode="json") | indices)
    return rows


def test_the_environment_of_the_docs_gives_rows_that_are_credited(tmp_path, monkeypatch):
    pytest.importorskip("nemo_gym", reason="make test-interop runs it, with NeMo Gym")
    code = [block.code for block in blocks("docs/interop_credit.md")]
    (environment,) = (each for each in code if "GymnasiumServer" in each)
    (rule,) = (each for each in code if "trca_interop.nemo_gym" in each)
    names = {}
    exec(environment, names)
    rows = asyncio.run(rollouts(names["Household"], model(np.random.default_rng(0))))
    monkeypatch.chdir(tmp_path)
    Path("rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exec(rule, names)
    assert [len(row["info"]["trca"]) for row in names["rows"]] == [4] * 4
    assert len({step["observation"] for row in rows for step in row["info"]["trca"]}) > 4
    assert np.concatenate(step_advantages(names["credit"], names["rows"])).any()
    for row, advantages in zip(rows, names["advantages"], strict=True):
        items = [item for item in row["response"]["output"] if "generation_token_ids" in item]
        assert [len(each) for each in advantages] == [len(i["generation_token_ids"]) for i in items]

"""This package's environments as a verifiers taskset, and verifiers' environments here."""

import asyncio
import inspect
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

pytest.importorskip("verifiers", reason="make test-interop runs it, in an environment with it")

import verifiers.v1 as vf
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from leaking import Leaking
from played import ALFWORLD, played
from trca.algorithms.settings.parameters import TextParameters
from trca.envs import make
from trca.envs.responses import write_action
from trca_interop.verifiers_env import EpisodeError, VerifiersEnv

TASK = "small/train/heat-0012"


@contextmanager
def model(answers):
    """An OpenAI-compatible server that sends the replies in turn; yields requests and client."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body["messages"])
            turns = sum(message["role"] == "assistant" for message in body["messages"])
            message = {"role": "assistant", "content": answers[turns]}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            about = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
            answer = json.dumps(about | {"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        client = vf.EvalClientConfig(base_url=url, api_key_var="TRCA_NO_KEY")
        yield requests, vf.ModelContext(model="scripted", client=client)
        server.shutdown()


def episode_of(env, task_id, answers, **settings):
    """One episode of verifiers with a scripted model, and the requests to the model."""
    taskset = {"id": "trca-verifiers", "env": env, "arguments": {"split": "train"}}
    loaded = load_environment(resolve_env_config({"taskset": taskset, **settings}))
    task = next(task for task in loaded.taskset if task.data.id == task_id)

    async def play(context):
        async with loaded.serving():
            return await loaded.run_episode(task, context)

    with model(answers) as (requests, context):
        return asyncio.run(play(context)), requests


@pytest.mark.parametrize("policy", ["oracle", "demonstrator"])
def test_verifiers_sees_the_transitions_judgments_and_outcome_of_the_environment(policy):
    (_, first, _, _), *rest = played(TASK, policy, **ALFWORLD)
    answers = [write_action("so", action) for action, *_ in rest]

    episode, requests = episode_of("alfworld", TASK, answers, rubric_weight=0.5)

    assert episode.ok, episode.errors
    (trace,) = episode.traces
    assert [step["observation"] for step in trace.info["transitions"]] == [
        observation for _, observation, _, _ in rest
    ]
    assert requests[0][0]["role"] == "system"
    assert first in requests[0][-1]["content"]
    for request, (_, observation, _, _) in zip(requests[1:], rest, strict=False):
        assert request[-1]["content"].startswith(observation)
    assert len(requests) == len(rest)
    outcome = sum(reward for _, _, reward, _ in rest)
    rubric_return = sum(rubric["reward"] for *_, rubric in rest)
    assert trace.rewards["outcome"].score == outcome
    assert trace.rewards["rubric_return"].score == pytest.approx(rubric_return)
    assert trace.reward == pytest.approx(outcome + 0.5 * rubric_return)
    fired = [step["rubric"]["fired"] for step in trace.info["transitions"]]
    assert fired == [list(rubric["fired"]) for *_, rubric in rest]


def test_the_rubric_counts_nothing_in_the_reward_by_default_and_a_limit_ends_without_success():
    answers = ["I wonder.", *[write_action("so", "look")] * 9]
    episode, requests = episode_of("alfworld", TASK, answers, player={"max_turns": 3})
    (trace,) = episode.traces
    assert episode.ok, episode.errors
    assert len(requests) == 3
    assert [step["action"] for step in trace.info["transitions"]] == ["", "look", "look"]
    assert trace.rewards["rubric_return"].score != 0
    assert trace.reward == 0.0


def test_a_failure_of_the_environment_is_an_error_of_the_episode_and_no_reward():
    answers = [write_action("so", "knock")] * 9
    episode, _ = episode_of("leaking:Leaking", "train-1", answers)
    assert not episode.ok
    assert "the roof is leaking" in str(episode.errors)
    assert not [trace for trace in episode.traces if trace.rewards]
    assert not Leaking.open


def test_the_tasks_are_those_of_the_split_and_an_environment_must_be_named():
    def taskset(**settings):
        config = resolve_env_config({"taskset": {"id": "trca-verifiers", **settings}})
        return load_environment(config).taskset

    arguments = {"split": "valid_seen", "games": "small"}
    ids = [task.data.id for task in taskset(env="alfworld", arguments=arguments)]
    assert ids == list(make("alfworld", **arguments).unwrapped.task_ids)
    with pytest.raises(ValueError, match="env is empty"):
        list(taskset())


@pytest.fixture
def verifiers_env(monkeypatch):
    """Makes environments of the tasksets in this folder and closes them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = []

    def made_of(name, max_steps=25, taskset=None, timeout_s=120.0, won_above=0.0, **config):
        env = make(
            "trca_interop.verifiers_env:VerifiersEnv",
            config={"taskset": {"id": name, **(taskset or {})}, **config},
            max_steps=max_steps,
            timeout_s=timeout_s,
            won_above=won_above,
        )
        made.append(env)
        return env

    yield made_of
    for env in made:
        env.close()


def test_out_and_in_again_an_environment_is_the_same(verifiers_env):
    arguments = {"split": "train", "games": "small"}
    env = verifiers_env("trca-verifiers", 50, taskset={"env": "alfworld", "arguments": arguments})
    direct = make("alfworld", **arguments)
    for task in ("task-1", "task-12"):
        there, remote_info = env.reset(options={"task": task})
        ids = direct.unwrapped.task_ids
        observation, info = direct.reset(options={"task": ids[int(task.removeprefix("task-"))]})
        assert observation in there
        assert info["task"] in remote_info["task"]
        over = False
        while not over:
            action = direct.unwrapped.oracle_action()
            observation, reward, over, _, info = direct.step(action)
            there, paid, ended, _, remote_info = env.step(write_action("so", action))
            assert ended or there.startswith(observation)
            assert (paid, ended) == (reward, over)
        assert remote_info["won"]


def test_a_foreign_question_is_played_and_rewarded(verifiers_env):
    env = verifiers_env("sums")
    assert env.unwrapped.task_ids == tuple(f"task-{n}" for n in range(12) if n % 10)
    observation, info = env.reset(options={"task": "task-4"})
    assert observation == info["task"] == "Be brief.\n\nWhat is 4 + 1?"
    _, reward, terminated, _, info = env.step("5")
    assert (reward, terminated, info["won"]) == (2.0, True, True)
    env.reset(options={"task": "task-4"})
    _, reward, terminated, _, info = env.step("6")
    assert (reward, terminated, info["won"]) == (0.0, True, False)
    env = verifiers_env("sums", won_above=2.0)
    env.reset(options={"task": "task-4"})
    _, reward, _, _, info = env.step("5")
    assert (reward, info["won"]) == (2.0, False)


def test_a_foreign_game_runs_to_its_end_or_to_the_step_limit(verifiers_env):
    env = verifiers_env("higher", 3)
    assert len(env.unwrapped.task_ids) == 900
    assert env.reset(options={"task": "task-5"})[0] == "Guess from 1 to 8."
    assert env.step("4")[:3] == ("higher", 0.0, False)
    assert env.reset(options={"task": "task-5"})[0] == "Guess from 1 to 8."  # left in the middle
    assert env.step("7")[:3] == ("lower", 0.0, False)
    assert env.step("6")[:3] == ("", 1.0, True)
    env.reset(options={"task": "task-5"})
    assert [env.step(guess)[:4] for guess in "123"] == [
        ("higher", 0.0, False, False),
        ("higher", 0.0, False, False),
        ("", 0.0, True, False),
    ]


def test_the_smaller_of_two_step_limits_holds(verifiers_env):
    for env in (verifiers_env("higher", 25, player={"max_turns": 2}), verifiers_env("higher", 2)):
        env.reset(options={"task": "task-5"})
        assert env.step("1")[:3] == ("higher", 0.0, False)
        assert env.step("2")[:3] == ("", 0.0, True)
    env = verifiers_env("higher", 2, player={"max_turns": 25})
    env.reset(options={"task": "task-5"})
    env.step("1")
    assert env.step("2")[:3] == ("", 0.0, True)


def test_a_closed_environment_can_be_started_again(verifiers_env):
    env = verifiers_env("sums")
    for _ in range(2):
        env.reset(options={"task": "task-4"})
        assert env.step("5")[1] == 2.0
        env.close()


def test_an_environment_that_does_not_answer_in_time_raises_and_can_be_closed(verifiers_env):
    env = verifiers_env("higher", silent=True, timeout_s=0.2)
    for _ in range(2):
        with pytest.raises(EpisodeError, match=r"took more than 0\.2 s"):
            env.reset()
    env.close()
    named = inspect.signature(VerifiersEnv).parameters
    limit = TextParameters.model_fields["env_step_timeout_s"].default
    assert named["timeout_s"].default < limit, "the rollout loop takes it for stuck, unclosed"


def test_a_failed_start_leaves_no_port_open(verifiers_env):
    env = verifiers_env("higher", closed=True)
    with pytest.raises(OSError, match="the casino is closed"):
        env.reset()
    with pytest.raises(httpx.ConnectError):
        httpx.get(env.unwrapped._url)


def test_a_failure_of_the_foreign_environment_is_an_error_and_no_zero_reward(verifiers_env):
    env = verifiers_env("sums")
    env.reset()
    with pytest.raises(EpisodeError, match="the abacus broke"):
        env.step("crash")
    assert env.reset(options={"task": "task-4"})[0].endswith("4 + 1?")

    env = verifiers_env("higher")
    env.reset()
    with pytest.raises(EpisodeError, match="invalid literal for int"):
        env.step("four")

    env = verifiers_env("higher", paid=False)
    env.reset(options={"task": "task-5"})
    with pytest.raises(EpisodeError, match="was not scored"):
        env.step("6")


def test_an_environment_of_several_agents_is_refused_by_their_names(verifiers_env):
    with pytest.raises(ValueError, match=r"agents assistant, user: only one agent"):
        verifiers_env("sums", id="user-sim")

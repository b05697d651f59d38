"""This package's environments on a real OpenEnv server, and OpenEnv servers as environments."""

import asyncio
import json
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

pytest.importorskip("openenv", reason="make test-interop runs it, in an environment with OpenEnv")

from openenv.core import GenericEnvClient
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from typer.testing import CliRunner
from websockets.sync.server import serve

from played import ALFWORLD, played
from tests.envs.retrieval.servers import serving
from tests.toy import Rooms
from trca.cli import app
from trca.envs import make
from trca.policies.tiny import tiny_policy
from trca_interop.openenv import make_app
from trca_interop.openenv_env import LONGEST, MOST, PeerError

TASK = "small/train/heat-0012"


@pytest.fixture(scope="module")
def alfworld():
    with serving(make_app("alfworld", **ALFWORLD)) as url:
        yield url


@contextmanager
def client(url):
    with GenericEnvClient(base_url=url).sync() as connected:
        yield connected


@pytest.mark.parametrize("policy", ["oracle", "demonstrator"])
def test_a_client_sees_the_transitions_judgments_and_outcome_of_the_environment(alfworld, policy):
    (_, first, _, _), *rest = played(TASK, policy)
    with client(alfworld) as env:
        result = env.reset(task=TASK)
        assert result.observation["text"] == first
        assert result.observation["task"] in first
        total = 0.0
        for action, observation, reward, rubric in rest:
            assert not result.done
            result = env.step({"action": action})
            assert (result.observation["text"], result.reward) == (observation, reward)
            assert result.metadata["rubric"]["judgments"] == list(rubric["judgments"])
            assert result.metadata["rubric"]["reward"] == rubric["reward"]
            total += result.reward
        assert result.done
        assert result.metadata["won"] == (total == 1.0)
        assert env.state() == {"episode_id": None, "step_count": len(rest), "task_id": TASK}
        with pytest.raises(RuntimeError, match="The episode is over"):
            env.step({"action": "look"})


def test_a_task_is_named_by_seed_or_by_its_place_in_the_split(alfworld):
    direct = make("alfworld", **ALFWORLD)
    with client(alfworld) as env:
        _, info = direct.reset(seed=5)
        assert env.reset(seed=5).metadata["task_id"] == info["task_id"]
        assert env.reset(split="train", index=3).metadata["task_id"] == direct.unwrapped.task_ids[3]
        with pytest.raises(RuntimeError, match="unknown split 'test'"):
            env.reset(split="test", index=3)
        with pytest.raises(RuntimeError, match="unknown split 'test'"):
            env.reset(split="test", seed=5)
        with pytest.raises(RuntimeError, match="unknown argument of reset 'tsak'"):
            env.reset(tsak=TASK)


def test_the_tasks_are_listed_through_openenvs_interface(alfworld):
    ids = make("alfworld", **ALFWORLD).unwrapped.task_ids
    (split,) = httpx.get(f"{alfworld}/ALFWorldEnv/splits", timeout=300).json()
    assert split["name"] == "train"

    def asked(route, **body):
        url = f"{alfworld}/ALFWorldEnv/{route}"
        return httpx.post(url, json={"split": "train", **body}, timeout=300)

    assert asked("num_tasks").json() == {"num_tasks": len(ids)}
    assert asked("task", index=2).json()["task"] == {"id": ids[2], "index": 2}
    listed = asked("task_range", start=1, stop=3).json()["tasks"]
    assert [task["id"] for task in listed] == list(ids[1:3])
    assert asked("task", index=len(ids)).status_code == 400


def test_sessions_play_side_by_side_without_touching_each_other(alfworld):
    _, *rest = played(TASK, "oracle")
    with client(alfworld) as one, client(alfworld) as other:
        one.reset(task=TASK)
        other.reset(task="small/train/pick-0000")
        for action, observation, _, _ in rest:
            assert one.step({"action": action}).observation["text"] == observation
            other.step({"action": "look"})


@pytest.mark.parametrize("seed", [0, 1])
def test_out_and_in_again_an_environment_is_the_same(alfworld, seed):
    direct = make("alfworld", **ALFWORLD)
    remote = make("trca_interop.openenv_env:RemoteEnv", url=alfworld, max_steps=50)
    observation, info = direct.reset(seed=seed)
    there, remote_info = remote.reset(options={"task": f"seed-{seed}"})
    assert (there, remote_info["task"]) == (observation, info["task"])
    over = False
    while not over:
        assert remote_info["admissible_actions"] == info["admissible_actions"]
        action = direct.unwrapped.oracle_action()
        observation, reward, over, _, info = direct.step(action)
        there, paid, ended, _, remote_info = remote.step(action)
        assert (there, paid, ended) == (observation, reward, over)
    assert remote_info["won"]
    assert "rubric" not in remote_info
    remote.close()


def test_steps_of_a_server_wait_on_a_network(alfworld):
    assert make("trca_interop.openenv_env:RemoteEnv", url=alfworld).unwrapped.waits
    assert not make("examples/plain_key_door.py:KeyDoor").unwrapped.waits


class Said(Action):
    message: str


class Heard(Observation):
    echo: str


class Echo(Environment):
    """An environment in OpenEnv's format with custom fields."""

    def reset(self, seed=None, episode_id=None, **_):
        self.left = 2
        return Heard(echo=f"seed {seed}")

    def step(self, action, timeout_s=None, **_):
        self.left -= 1
        if action.message == "break":
            raise OSError("the cable is cut")
        reward = None if action.message == "forget" else len(action.message) / 10
        return Heard(echo=action.message, done=self.left == 0, reward=reward)

    @property
    def state(self):
        return State()


@pytest.fixture
def echo():
    with serving(create_app(Echo, Said, Heard)) as url:
        names = {"action_field": "message", "observation_field": "echo"}
        yield lambda **kwargs: make("trca_interop.openenv_env:RemoteEnv", url=url, **names | kwargs)


def test_a_foreign_environment_is_played_through_its_named_fields(echo):
    env = echo()
    observation, info = env.reset(options={"task": "seed-3"})
    assert observation == info["task"] == "seed 3"
    env.step("abc")
    observation, reward, terminated, _, info = env.step("hallo")
    assert (observation, reward, terminated, info["won"]) == ("hallo", 0.5, True, True)
    assert info["score"] == pytest.approx(0.8)

    env.close()  # the server has room for one
    env = echo(won_above=0.5)
    env.reset()
    env.step("abc")
    _, reward, terminated, _, info = env.step("hallo")
    assert (reward, terminated, info["won"]) == (0.5, True, False)
    env.close()
    with pytest.raises(PeerError, match=r"no field 'text' in an observation of .*echo"):
        echo(observation_field="text").reset()


def test_an_error_of_the_server_is_raised_and_the_next_episode_starts_normally(echo, monkeypatch):
    """The server has room for one, and is late to notice that the failed episode has left."""
    end = HTTPEnvServer._destroy_session

    async def end_late(server, session):
        await asyncio.sleep(0.5)
        await end(server, session)

    monkeypatch.setattr(HTTPEnvServer, "_destroy_session", end_late)
    env = echo()
    env.reset()
    with pytest.raises(PeerError, match="the cable is cut"):
        env.step("break")
    with pytest.raises(PeerError, match="no episode"):
        env.unwrapped.plain.step("abc")
    assert env.reset(options={"task": "seed-1"})[0] == "seed 1"


def test_a_server_that_stays_full_is_an_error(echo):
    echo().reset()
    with pytest.raises(PeerError, match="CAPACITY_REACHED"):
        echo(timeout_s=5.0).reset()


def test_an_end_without_a_reward_is_no_zero(echo):
    env = echo()
    env.reset()
    env.step("forget")
    with pytest.raises(PeerError, match="ended without a reward"):
        env.step("forget")


def test_the_error_for_a_missing_server_names_the_server():
    env = make("trca_interop.openenv_env:RemoteEnv", url="http://127.0.0.1:9")
    with pytest.raises(PeerError, match=r"http://127\.0\.0\.1:9: .*Failed to connect"):
        env.reset()


def test_a_server_that_does_not_answer_is_an_error():
    def listen(socket):
        for _ in socket:
            pass

    with serve(listen, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        with (
            closing(make("trca_interop.openenv_env:RemoteEnv", url=url, timeout_s=0.2)) as env,
            pytest.raises(PeerError, match="Timeout"),
        ):
            env.reset()
        server.shutdown()


GOOD = {"observation": {"text": "a room"}, "reward": None, "done": False}


def text(value, **others):
    return {**GOOD, "observation": {"text": value, **others}}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (text(5), "text: "),
        (text("x" * (LONGEST + 1)), "text: "),
        (text("\ud800"), "text: "),
        (text("x", task=["y"]), "task: "),
        (text("x", admissible_actions="go"), "admissible_actions: "),
        (text("x", admissible_actions=["go", 1]), "admissible_actions.1: "),
        (text("x", admissible_actions=["go"] * (MOST + 1)), "admissible_actions: "),
        ({**GOOD, "reward": "1"}, "reward"),
        ({**GOOD, "reward": float("nan")}, "reward"),
        ({**GOOD, "reward": float("inf")}, "reward"),
        ({**GOOD, "reward": 10**400}, "reward"),
        ({**GOOD, "done": "no"}, "done: "),
        ({**GOOD, "done": True}, "over at its start"),
        ({**GOOD, "observation": [1, 2]}, "Error"),
        ("text", "Error"),
        (None, "Error"),
        (text("x" * 5_000_000), "Error"),
    ],
)
def test_invalid_replies_of_a_server_are_refused(data, complaint):
    def speak(socket):
        for _ in socket:
            socket.send(json.dumps({"type": "observation", "data": data}))

    with serve(speak, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        env = make("trca_interop.openenv_env:RemoteEnv", url=url)
        with pytest.raises(PeerError, match=complaint) as caught:
            env.reset()
        server.shutdown()
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_grpo_can_be_planned_on_a_server(alfworld, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {
        "algorithm": "GRPO",
        "env": "trca_interop.openenv_env:RemoteEnv",
        "env_config": {"url": alfworld, "max_steps": 3},
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "max_prompt_tokens": 2000,
        "num_env_runners": 0,
        "num_learners": 0,
    }
    Path("remote.yaml").write_text(yaml.safe_dump(settings))
    planned = CliRunner().invoke(app, ["train", "remote.yaml", "--dry-run"])
    assert planned.exit_code == 0, planned.output
    judged = CliRunner().invoke(app, ["train", "remote.yaml", "--algorithm", "TRCA", "--dry-run"])
    assert judged.exit_code == 2
    assert "RemoteEnv declares no adapter_class" in judged.output


def test_grpo_trains_on_a_server(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    door = "examples/plain_key_door.py:KeyDoor"
    settings = {
        "algorithm": "GRPO",
        "env": "trca_interop.openenv_env:RemoteEnv",
        "model": str(tiny_policy(door)),
        "template": "compact",
        "history_length": 0,
        "max_prompt_tokens": 256,
        "max_new_tokens": 24,
        "iterations": 3,
        "tasks_per_iteration": 4,
        "group_size": 8,
        "lr": 4e-4,
        "num_env_runners": 1,
        "num_learners": 0,
    }
    with serving(make_app(door)) as url:
        settings["env_config"] = {"url": url, "max_steps": 12}
        (tmp_path / "remote.yaml").write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "trca", "train", str(tmp_path / "remote.yaml")]
        command += ["--storage-path", str(tmp_path), "--name", "remote"]
        trained = subprocess.run(command, capture_output=True, text=True)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    rows = list(map(json.loads, (tmp_path / "remote" / "metrics.jsonl").read_text().splitlines()))
    assert [row["trajectories"] for row in rows] == [32, 64, 96]
    assert all(0 < row["success_rate"] < 1 for row in rows)
    assert all(row["grad_norm"] > 0 for row in rows)


def test_a_failure_of_our_environment_is_an_error_of_the_server():
    with serving(make_app(Rooms, leaking=("train-1",))) as url, client(url) as env:
        env.reset(task="train-1")
        env.step({"action": "knock"})
        with pytest.raises(RuntimeError, match="the roof is leaking"):
            env.step({"action": "knock"})

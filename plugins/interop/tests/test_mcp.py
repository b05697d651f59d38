"""Servers of the Model Context Protocol as environments."""

import json
import shutil
import sys
import sysconfig
from pathlib import Path

import psutil
import pytest

pytest.importorskip("mcp")
from trca.envs import make
from trca.envs.check import HOSTILE_ACTIONS
from trca.envs.tool_calls import write_calls
from trca_interop.mcp_env import MCPEnv

SERVER = Path(__file__).with_name("counting_server.py")


class Counting(MCPEnv):
    """Count to a number."""

    command = f"{sys.executable} {SERVER}"
    variables = {"START": "2"}  # noqa: RUF012
    timeout_s = 300.0  # the machine may be busy
    task_ids = ("5", "7")
    instruction = property(lambda self: f"count to {self.task}.")

    def prepare(self):
        return self.ask("add", number=0)

    def solved(self):
        return self.ask("add", number=0) == f"The count is {self.task}."

    def demonstrator_action(self):
        return write_calls([("add", {"number": 1})])


@pytest.fixture
def env():
    made = make(Counting, max_steps=5)
    yield made
    made.close()


def test_an_older_client_is_named(env, monkeypatch):
    monkeypatch.delattr("mcp.Client")
    with pytest.raises(
        ImportError, match=r"needs mcp 2\.3 .* pip install './plugins/interop\[mcp\]'"
    ):
        env.reset()


def test_an_episode_calls_the_tools_of_its_own_server(env):
    for _ in range(2):
        observation, info = env.reset(options={"task": "5"})
        assert observation == "The count is 2."
        names = [each["function"]["name"] for each in info["tools"]]
        assert names == ["add", "wait", "crash"]
        assert info["tools"][0]["function"]["parameters"]["required"] == ["number"]
        info = env.step(write_calls([("add", {"number": 1}), ("wait", {"seconds": 0})]))[4]
        assert info["tool_results"] == ("The count is 3.", "Waited.")
        _, reward, terminated, _, info = env.step(write_calls([("add", {"number": 2})]))
        assert (reward, terminated, info["won"]) == (1.0, True, True)
        folder = env.unwrapped.folder
    env.close()
    assert not folder.exists()


def test_a_refusal_of_the_server_is_an_error_for_the_agent(env):
    env.reset(options={"task": "5"})
    for arguments, text in (
        ({"number": -9}, "below 0"),
        ({"number": "x"}, "give a value of type integer"),
        ({}, "lacks the argument 'number'"),
    ):
        observation, _, _, _, info = env.step(write_calls([("add", arguments)]))
        assert observation.startswith("Error: ")
        assert text in observation
        assert not info["accepted"]


def test_any_string_is_a_legal_action(env):
    for action in HOSTILE_ACTIONS[:3]:
        env.reset(options={"task": "5"})
        assert not env.step(action)[4]["accepted"]


def test_a_server_that_hangs_or_ends_is_an_error_of_the_environment(env, monkeypatch):
    env.reset(options={"task": "5"})
    monkeypatch.setattr(env.unwrapped._connection, "_timeout_s", 1.0)
    with pytest.raises(RuntimeError, match=r"has not answered in 1 s \(wait\): raise timeout_s"):
        env.step(write_calls([("wait", {"seconds": 60})]))
    env.reset(options={"task": "5"})
    with pytest.raises(RuntimeError, match=r"failed \(crash\): Connection closed; out of memory"):
        env.step(write_calls([("crash", {})]))
    assert env.reset(options={"task": "5"})[0] == "The count is 2."


def test_a_server_that_does_not_start_is_named(env, monkeypatch):
    monkeypatch.setattr(Counting, "command", f"{sys.executable} -c 'import no_such_module'")
    wanted = r"failed \(to start\): Connection closed; ModuleNotFoundError"
    with pytest.raises(RuntimeError, match=wanted):
        env.reset()
    folder = env.unwrapped.folder
    env.close()
    assert not folder.exists()
    silent = f"{sys.executable} -c 'import time; time.sleep(60)'"
    monkeypatch.setattr(Counting, "command", silent)
    monkeypatch.setattr(Counting, "timeout_s", 1.0)
    with pytest.raises(RuntimeError, match=r"has not answered in 1 s \(to start\)"):
        env.reset()
    assert not psutil.Process().children()
    monkeypatch.setattr(Counting, "command", "no-such-server")
    with pytest.raises(RuntimeError, match="no-such-server"):
        env.reset()
    monkeypatch.setattr(Counting, "command", " ")
    with pytest.raises(ValueError, match=r"Counting\.command is empty"):
        env.reset()


@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
def test_a_result_of_another_form_names_the_server(env, monkeypatch, method):
    lying = SERVER.with_name("lying_server.py")
    monkeypatch.setattr(Counting, "command", f"{sys.executable} {lying} {method}")
    monkeypatch.setattr(Counting, "prepare", lambda self: "Begin.")
    with pytest.raises(RuntimeError, match=rf"lying_server\.py {method}' failed .*: .*Result"):
        _ = env.reset(), env.step('{"name": "lie"}')


# `make test-interop` installs the servers of npm next to Python, where there is npm.
NODE = sysconfig.get_path("scripts")
needs_npm = pytest.mark.skipif(
    not shutil.which("mcp-server-memory", path=NODE), reason="needs the npm packages"
)


def test_an_error_while_the_end_is_checked_is_no_fault_of_the_agent():
    class Impatient(Counting):
        def solved(self):
            return self.ask("subtract", number=0) == ""

    env = make(Impatient)
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match=r"Impatient.solved\(\) failed: .*: catch ToolError"):
        env.step(write_calls([("add", {"number": 1})]))
    env.close()


@needs_npm
def test_a_server_of_npm_that_takes_notes():
    class Notes(MCPEnv):
        command = f"{NODE}/mcp-server-memory"
        variables = {"MEMORY_FILE_PATH": "{folder}/notes.json"}  # noqa: RUF012
        timeout_s = 300.0
        task_ids = ("Ann",)
        instruction = property(lambda self: f"note that {self.task} is a person.")

        def solved(self):
            return self.task in self.ask("read_graph")

    env = make(Notes)
    for _ in range(2):
        env.reset(options={"task": "Ann"})
        entity = {"name": "Ann", "entityType": "person", "observations": []}
        _, _, terminated, _, info = env.step(
            write_calls([("read_graph", {}), ("create_entities", {"entities": [entity]})])
        )
        assert "Ann" not in info["tool_results"][0]
        assert json.loads(info["tool_results"][1])[0]["name"] == "Ann"
        assert terminated
    env.close()


@needs_npm
def test_all_kinds_of_results_of_a_server_of_npm_are_text():
    class Everything(MCPEnv):
        command = f"{NODE}/mcp-server-everything"
        timeout_s = 300.0
        task_ids = ("tour",)
        instruction = "try each tool."

        def solved(self):
            return False  # the server has no state to ask for

    env = make(Everything)
    env.reset()
    for name, arguments, wanted in (
        ("echo", {"message": "a\nb"}, "Echo: a\nb"),
        ("get-tiny-image", {}, "Here's the image you requested:\n[image]\nThe image above"),
        ("get-structured-content", {"location": "Chicago"}, '{"temperature":'),
        ("get-resource-links", {"count": 1}, "\ndemo://resource/dynamic/blob/1"),
        ("get-resource-reference", {"resourceType": "Text"}, "\nResource 1: This is a plaintext"),
        ("get-resource-reference", {"resourceType": "Blob"}, "\ndemo://resource/dynamic/blob/1\n"),
        ("get-sum", {"a": 2}, "Error: get-sum lacks the argument 'b'"),
        ("get-sum", {"a": 2.5, "b": 2.5}, "The sum of 2.5 and 2.5 is 5."),
    ):
        info = env.step(write_calls([(name, arguments)]))[4]
        assert wanted in info["tool_results"][0]
        assert info["accepted"] != wanted.startswith("Error")
    env.close()

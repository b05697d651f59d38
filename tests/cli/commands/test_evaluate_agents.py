"""``trca evaluate --agent`` against real servers: episodes, reports, and no API key in any file."""

import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.calls import done, refused
from tests.common.test_chat_endpoint import KEY, limited, reply
from tests.envs.retrieval.servers import http, replying
from tests.served import served, taught
from tests.toy import ACTIONS
from trca.common.chat_endpoint import KEY_VARIABLE
from trca.policies.agents.react import react_prompt, reflection_prompt, without_end
from trca.policies.bpe import END, train_tokenizer
from trca.records import read_rollouts
from trca.records.store import read_table

TOY = Path(__file__).parents[2] / "toy.py"
COUNTED = {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}


@pytest.fixture(autouse=True)
def folder(here, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return here


ROOMS = ("--set", f"env={TOY}:Rooms", "--set", "env_config={tasks: 4}")


def evaluate(*arguments, env=ROOMS, call=done):
    common = ["--split=valid", "--transcripts", "--temperature=1", *env]
    return call("evaluate", *arguments, *common)


def at(url, *more, call=done):
    return evaluate(f"--base-url={url}", "--set=engine_config.attempts=2", *more, call=call)


def report(folder):
    [path] = folder.glob("outputs/*.json")
    return json.loads(path.read_text())


def rollouts(folder):
    [path] = folder.glob("outputs/*.parquet")
    return list(read_rollouts(path)), done("inspect", path, "--json")


def assert_no_key(folder, output):
    assert KEY not in output
    for path in folder.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
        assert path.suffix != ".parquet" or KEY not in str(read_table(path).to_pylist()), path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Folder of a model that has learnt to write a thought and an action, by chance."""
    rows = []
    for number in range(480):
        room, step = number % 2, number % 3
        seen = f"You are in room {room}." + (" A key is here." if room else "")
        action = ACTIONS[number % len(ACTIONS)]
        said = f"Thought: ok\nAction: {action}"
        past = [(seen, said)] * step
        prompt = react_prompt("take the key.", step, 4, past, "", seen, ACTIONS)
        rows.append((prompt, f"{said}{END}"))
        if number % 4 == 0:
            prompt = reflection_prompt("take the key.", 2, 2, past, "", seen, ())
            rows.append((prompt, f"take the key{END}"))
    tokenizer = train_tokenizer([f"{a}{b}" for a, b in rows], [], 400, 100)
    return taught(tmp_path_factory.mktemp("react"), tokenizer, rows)


@pytest.mark.slow
def test_react_and_reflexion_play_whole_episodes_at_a_real_server(folder, model, free_port):
    # An even task takes two steps: with one, whatever the model samples, Reflexion tries again.
    plays = {"react": 4, "reflexion": 1}
    with served(model, free_port) as url:
        for agent, max_steps in plays.items():
            env = f"--set=env={TOY}:Rooms", f"--set=env_config={{tasks: 4, max_steps: {max_steps}}}"
            named = f"--agent={agent}", f"--model={model}", f"--output={agent}"
            output = evaluate(f"--base-url={url}", *named, env=env)
            assert "Endpoint: " in output
            [path] = Path(agent).glob("*.json")
            told = json.loads(path.read_text())
            assert told["agent"] == agent
            assert told["endpoint"]["completion_tokens"] > 0
            assert not told["failures"]
            [path] = Path(agent).glob("*.parquet")
            played = list(read_rollouts(path))
            assert [r.task_id for r in played] == [f"valid-{k}" for k in range(4)]
            assert all(r.won or len(r.steps) == max_steps for r in played)
            assert any(step.action in ACTIONS for r in played for step in r.steps)
            for before, step in [pair for r in played for pair in pairwise(r.steps)]:
                prompt = bytes(step.prompt_ids.tolist()).decode()
                assert f"{without_end(before.response)}\nObservation " in prompt
    assert told["trials"] == 3
    assert [r.measures["attempts"] for r in played[::2]] == [3, 3]
    assert_no_key(folder, output)


@pytest.mark.slow
def test_a_model_of_this_machine_plays_as_an_agent_too(folder, model):
    evaluate(str(model), "--agent=react", "--set=max_prompt_tokens=900", "--tasks=2")
    played, _ = rollouts(folder)
    assert any(step.action in ACTIONS for rollout in played for step in rollout.steps)
    assert "endpoint" not in report(folder)


def test_tokens_and_their_cost_are_counted(folder):
    with replying(reply("<action>take key</action>", **COUNTED)) as (url, requests):
        output = at(url, "--model=m", "--tasks=2", "--prices", "2", "30")
    count = len(requests)
    tokens = f"{100 * count} prompt and {10 * count} completion tokens"
    assert f"{count} answers, {tokens}, cost {count * 0.0005:.4f}\n" in output
    told = report(folder)["endpoint"]
    assert told["cost"] == pytest.approx(count * 5e-4)
    assert told["prices"] == [2.0, 30.0]
    assert report(folder)["agent"] == "zero-shot"


def test_the_number_of_tasks_is_an_option_or_a_setting(folder):
    with replying(reply("<action>take key</action>")) as (url, _):
        for number in ("--tasks=2", "--set=evaluation_tasks=2"):
            assert "on valid: tasks 2, seeds 1" in at(url, "--model=m", number)


@pytest.mark.parametrize(
    "bad",
    [http('{"choices": []}'), http(f"who is {KEY}?", "401 Unauthorized")],
    ids=["no choices", "401"],
)
def test_an_endpoint_that_fails_throughout_is_an_error_and_never_a_zero(folder, bad):
    with replying(bad) as (url, _):
        said = at(url, "--model=m", "--tasks=2", call=partial(refused, code=1))
    assert "2 missing: EndpointError: " in said
    assert "Endpoint: 0 answers" in said
    assert "no episode was finished, nothing is written" in said
    assert not [*folder.rglob("evaluation_*")]
    assert_no_key(folder, said)


def test_what_the_endpoint_fails_is_missing_beside_what_it_answered(folder):
    answers = [reply("<action>take key</action>")] * 8  # enough for one of the tasks at least
    with replying(*answers, http("oops", "500 Internal Server Error")) as (url, _):
        once = "--set=engine_config.attempts=1", "--set=engine_config.concurrency=1"
        output = evaluate(f"--base-url={url}", "--model=m", "--tasks=4", "--seeds=4", *once)
    row = report(folder)["rows"][-1]
    assert row["missing"] > 0
    assert row["n"] + row["missing"] == 16
    assert f"{row['missing']} missing: EndpointError: " in output
    assert rollouts(folder)[1].count('"missing": 1') == row["missing"]
    assert_no_key(folder, output)


def test_reports_of_two_endpoints_and_of_two_configs_stand_beside_each_other(folder):
    env = f"--set=env={TOY}:Rooms", "--set=env_config={tasks: 2}", "--split=valid"
    with replying(reply("<action>take key</action>")) as (url, _):
        for more in ([], ["--set=history_length=1"]):
            for base in (url, url.replace("127.0.0.1", "localhost")):
                common = [f"--base-url={base}", "--model=m", *env, *more]
                done("evaluate", *common)
    told = [json.loads(path.read_text()) for path in folder.glob("outputs/*.json")]
    assert len(told) == 4
    assert len({each["settings"]["engine_config"]["base_url"] for each in told}) == 2
    assert all(each["versions"]["packages"]["ray"] for each in told)


def test_rollouts_go_on_after_what_fails_in_passing(folder):
    replies = [
        limited("0.01"),
        http("oops", "503 Unavailable"),
        reply(f"{KEY} <action>sing</action>"),
    ]
    with replying(*replies) as (url, _):
        output = at(url, "--model=m", "--tasks=1", "--set=engine_config.attempts=3")
    assert report(folder)["rows"][-1]["missing"] == 0
    [rollout], text = rollouts(folder)
    assert rollout.steps[0].response == "*** <action>sing</action>"
    assert "NaN" not in text
    assert_no_key(folder, output)


def test_a_canonical_panel_is_played_whole_and_named(folder):
    with replying(reply("<action>look</action>")) as (url, _):
        steps = ("--set", "env_config.max_steps=1", "--panel=embedded-alfworld-64")
        words = evaluate(f"--base-url={url}", "--model=m", env=steps, call=refused)
        assert "--panel names split and tasks" in words
        common = [f"--base-url={url}", "--model=m", *steps]
        done("evaluate", *common)
    told = report(folder)
    assert (told["panel_name"], told["tasks"]) == ("embedded-alfworld-64", 64)
    assert told["panel"]["hash"] == "723d77b4dcb7b851"
    for name, words in (("webshop-500", "is of trca/WebShop-v0"), ("x-1", "no panel 'x-1'")):
        assert words in refused("evaluate", *common[:-1], f"--panel={name}")


def test_what_cannot_be_is_said_in_one_line(folder):
    for arguments, words in [
        ([], "name the policy to evaluate"),
        (["--model=m"], "name the policy to evaluate"),
        (["x", "--base-url=http://a.b"], "name the policy to evaluate"),
        (["--model=m", "--base-url=http://a:b@c.d/v1"], "has more than a path"),
        (["--model=m", "--base-url=http://c.d", "--agent=reakt"], "did you mean 'react'?"),
        (["--model=m", "--base-url=http://c.d", "--set=lr=-1"], "lr is -1"),
        (["--model=m", "--base-url=http://c.d", "--prices", "-1", "2"], "--prices is -1 2"),
        (["--model=m", "--base-url=http://c.d", "--prices", "1", "nan"], "--prices is 1 nan"),
        (["--model=m", "--base-url=http://c.d", "--trials=5"], "--agent reflexion"),
        (["x", "--set=evaluation_rollouts=5"], "give --seeds"),
        (["x", "--panel=p", "--set=evaluation_tasks=5"], "--panel names split and tasks"),
    ]:
        assert words in evaluate(*arguments, call=refused)
    assert "weights cannot be trained" in refused("train", "quickstart", "--set=engine=openai")

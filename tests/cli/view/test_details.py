"""The page of a group: credit, reasons, tokens, and where contexts meet."""

import numpy as np
import pytest

from tests.records.test_records import make_rollout, make_step
from trca.algorithms.settings.parameters import TextParameters
from trca.analysis.reasons import Reasons
from trca.cli.view.details import Details, align, texts_of
from trca.policies.bpe import train_tokenizer
from trca.policies.tiny import tiny_folder
from trca.records import read_rollouts
from trca.runs.folder import RunFolder
from trca.tune_configs.files import assign


def rollouts_of(folder):
    """The rollouts of the first group."""
    return list(read_rollouts(folder / "rollouts/iteration_000001/train.parquet"))[:3]


def test_steps_stand_in_one_row_where_contexts_meet():
    rows, meets = align(["abcd", "axcd", "bcz", ""])
    assert rows == [
        [0, 0, None, None],  # a
        [1, None, 0, None],  # b
        [None, 1, None, None],  # x
        [2, 2, 1, None],  # c
        [3, 3, None, None],  # d
        [None, None, 2, None],  # z
    ] or rows == [
        [0, 0, None, None],
        [None, 1, None, None],
        [1, None, 0, None],
        [2, 2, 1, None],
        [None, None, 2, None],
        [3, 3, None, None],
    ]
    assert meets == [[2, 2, 3, 2], [2, 1, 3, 2], [2, 3, 1], []]


def test_every_step_stands_once_and_in_time_order():
    rng = np.random.default_rng(0)
    for _ in range(50):
        paths = ["".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(4)]
        rows, _ = align(paths)
        for n, path in enumerate(paths):
            assert [row[n] for row in rows if row[n] is not None] == list(range(len(path)))
        for row in rows:
            assert len({paths[n][k] for n, k in enumerate(row) if k is not None}) == 1


def test_the_parts_of_an_advantage_add_up_to_what_was_learned_from(run):
    group = run.group("train", 1, 0)
    assert group["notes"] == []
    steps = [step for rollout in group["rollouts"] for step in rollout["steps"]]
    for step in steps:
        assert step["episode"] + step["step"] == pytest.approx(step["advantage"])
    assert any(step["step"] for step in steps)
    assert group["rollouts"][0]["steps"][-1]["return"] > 1.0  # the outcome, and what fired


def test_parts_that_do_not_add_up_are_not_shown(recorded_run):
    config = RunFolder(recorded_run).read_config() | {"lambda_": 0.1}
    details = Details(TextParameters.resolve(config, need_data=False))
    group = details.of(rollouts_of(recorded_run))
    assert "their parts are not shown" in group["notes"][0]
    assert "episode" not in group["rollouts"][0]["steps"][0]
    assert group["rollouts"][0]["steps"][0]["advantage"] is not None


def test_operators_that_fired_come_with_the_values_they_read(run, recorded_run):
    group = run.group("train", 1, 0)
    settings = TextParameters.resolve(RunFolder(recorded_run).read_config(), need_data=False)
    told = Reasons(settings).of(rollouts_of(recorded_run)[0])
    assert [[f["id"] for f in s["fired"]] for s in group["rollouts"][0]["steps"]] == [
        list(each) for each in told
    ]
    clauses = [w for s in group["rollouts"][0]["steps"] for f in s["fired"] for w in f["why"]]
    assert any(values for _, values in clauses)
    assert all(f["why"] for s in group["rollouts"][0]["steps"] for f in s["fired"])


def test_another_library_gives_no_reasons_and_says_so(run, recorded_run):
    rollout = rollouts_of(recorded_run)[0]
    rollout.operators = ("renamed", *rollout.operators[1:])
    group = run.details.of([rollout])
    assert "Another rubric library" in group["notes"][0]
    fired = [f for step in group["rollouts"][0]["steps"] for f in step["fired"]]
    assert fired
    assert not any(f["why"] for f in fired)


def test_tokens_are_those_of_the_policy_that_sampled_them(recorded_run, tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path))
    changes = {
        "response_format": "plan",
        "env_config.games": "small-9",
    }  # games of no shipped policy
    config = assign(RunFolder(recorded_run).read_config(), changes)
    settings = TextParameters.resolve(config, need_data=False)
    response, run = "<think>ok</think><action>look</action>", settings
    for name, text in (("action", "some other words"), ("plan", response)):
        tokenizer = train_tokenizer([text] * 9, [], 400, 100)
        tokenizer.save_pretrained(tiny_folder(run.env, run.env_config, name))
    ids = np.array(tokenizer.encode(response), np.int32)
    columns = {"action_mask": ids > 0, "old_logprobs": 0.0 * ids}
    step = make_step(response=response, response_ids=ids, **columns)
    group = Details(settings).of([make_rollout([step])])
    shown = group["rollouts"][0]["steps"][0]
    assert "".join(token[0] for token in shown["tokens"]) == shown["response"]


def test_a_character_of_two_tokens_stands_once():
    assert texts_of(["é".encode()[:1], "é".encode()[1:], b"!", b"\xff"]) == ["", "é", "!", "\ufffd"]


COIN = """
from trca.envs import TextEnv


class Coin(TextEnv):
    task_ids = ("heads", "tails")

    {decorator}
    def draw_turns(cls, instruction, turns):
        {body}
"""


@pytest.mark.parametrize(
    ("decorator", "body", "note"),
    [
        (
            "@classmethod",
            "return [[dict(name=action, items=[side])] for action, side in turns]",
            "",
        ),
        ("@classmethod", "raise RuntimeError('no\\ncoin')", "draw_turns raised"),
        ("@classmethod", "return [[]]", "1 drawings for 2 turns: return one for each"),
        ("", "return []", "missing 1 required positional argument"),
    ],
)
def test_an_environment_draws_its_turns_and_its_errors_are_notes(tmp_path, decorator, body, note):
    (tmp_path / "coin.py").write_text(COIN.format(decorator=decorator, body=body))
    config = {"algorithm": "GRPO", "env": f"{tmp_path}/coin.py:Coin"}
    settings = TextParameters.resolve(config, need_data=False)
    rollout = make_rollout([make_step(observation="heads", action="turn")])
    rollout.last_observation = "tails"
    group = Details(settings).of([rollout])
    assert note in "".join(group["notes"])
    drawn = [[{"name": "", "items": ["heads"]}], [{"name": "turn", "items": ["tails"]}]]
    assert group["rollouts"][0]["drawings"] == ([] if note else drawn)
    assert group["rollouts"][0]["steps"][0]["observation"] == "heads"

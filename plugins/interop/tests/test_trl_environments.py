"""TRL's environment classes as text environments, without TRL installed."""

import json
from pathlib import Path

import pytest

from trca.envs import make

HERE = Path(__file__).parent


def guess_env(folder, rows, name="Guess", **kwargs):
    """The environment of ``guess.py`` with several rows, all in split ``train``."""
    lines = [{}, *rows]  # the first row is in split ``test``
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    environment = f"{HERE / 'guess.py'}:{name}"
    return make("trca_interop.trl_env:TRLEnv", environment=environment, rows=path, **kwargs)


def guess(number):
    return json.dumps({"name": "guess", "arguments": {"number": number}})


@pytest.fixture
def env(tmp_path):
    return guess_env(tmp_path, [{"goal": 6, "prompt": "Guess well."}])


def test_the_instruction_has_the_prompt_and_the_tools(env):
    _, info = env.reset()
    assert info["task"].startswith("Guess well.")
    assert "guess(number: int) -> str: Guesses the number." in info["task"]
    assert "get_reward" not in info["task"]


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        (guess(9), "9 is not from 1 to 8"),
        ('{"name": "gess", "arguments": {}}', "unknown tool 'gess'"),
        ('{"name": "get_reward"}', "unknown tool 'get_reward'"),
        ('{"name": "guess", "arguments": {"n": 1}}', "guess: missing a required argument"),
        ("", "There is no action."),
    ],
)
def test_a_call_that_cannot_be_made_is_answered_and_not_accepted(env, action, answer):
    env.reset()
    observation, reward, over, _, info = env.step(action)
    assert answer in observation
    assert not over
    assert not info["accepted"]
    assert reward == 0.0


def test_asynchronous_tools_share_an_event_loop(env):
    env.reset()
    hint = json.dumps({"name": "hint"})
    assert [env.step(hint)[0] for _ in range(2)] == ["let me think", "even"]
    env.close()


@pytest.mark.parametrize("answer", ["6", '["guess"]', '{"name": 6}', "[" * 100_000])
def test_text_without_a_call_ends_the_episode(env, answer):
    env.reset()
    _, reward, terminated, truncated, info = env.step(answer)
    assert (reward, terminated, truncated, info["won"]) == (0.0, True, False, False)


def test_the_step_limit_pays_the_reward_reached_so_far(tmp_path):
    env = guess_env(tmp_path, [{"goal": 6}], max_steps=2)
    env.reset()
    env.step(guess(4))
    _, reward, terminated, truncated, info = env.step(guess(6))
    assert (reward, terminated, truncated, info["won"]) == (0.5, False, True, True)


def test_a_reward_above_the_users_bound_is_success(tmp_path):
    env = guess_env(tmp_path, [{"goal": 6}], won_above=0.5)
    for guesses, won in ([6], True), ([4, 6], False):
        env.reset()
        for number in guesses:
            env.step(guess(number))
        _, reward, *_, info = env.step("It is 6.")
        assert (reward, info["won"]) == (1 / len(guesses), won)


def test_a_failing_environment_gives_an_error_and_no_reward(env, tmp_path):
    env.reset()
    with pytest.raises(OSError, match="dice"):
        env.step(guess(7))
    broken = guess_env(tmp_path, [{"goal": 6}], "Broken")
    broken.reset()
    with pytest.raises(RuntimeError, match=r"get_reward\(\) of Broken gave nan"):
        broken.step("six")


def test_a_class_that_lacks_a_method_is_refused(tmp_path):
    file = tmp_path / "half.py"
    file.write_text("class Half:\n    def reset(self): ...\n")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    with pytest.raises(ValueError, match="no method get_reward"):
        make("trca_interop.trl_env:TRLEnv", environment=f"{file}:Half", rows=rows)

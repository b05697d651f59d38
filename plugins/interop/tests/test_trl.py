"""This package's environments under TRL's trainer: pools, tool calls, rewards and losses."""

import itertools
import json
import os

import pytest

pytest.importorskip("trl", reason="make test-interop runs it, in an environment with TRL")

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import qwen2_5_chat_template

from guess import Guess
from test_trl_environments import guess_env
from tests.toy import Rooms
from trca.envs import make
from trca.policies.shrunk import shrunk_model
from trca_interop.trl import environment_factory, rows, rubric_return

GAMES = {"games": "small"}
USER = [{"role": "user", "content": "Act."}]


class Player(trl.GRPOTrainer):
    """TRL's trainer with scripted replies in place of the model.

    Attributes:
        players: Functions from the environment of each rollout to its next reply; a reply without a
            call ends the rollout.
    """

    players = ()

    def _generate_single_turn(self, prompt_ids, *_, **__):
        if len(prompt_ids) == len(self.environments):
            self._playing = list(range(len(prompt_ids)))
        replies = [self.players[i](self.environments[i]) for i in self._playing]
        self._playing = [
            i for i, text in zip(self._playing, replies, strict=True) if "_call" in text
        ]
        tokenizer = self.processing_class
        return [tokenizer(text + "<|im_end|>")["input_ids"] for text in replies], None


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def oracle(environment):
    episode = environment.episode
    if episode.over:
        return "Done."
    return call("act", action=episode.text_env.oracle_action())


def silent(environment):
    return "I do not know."


def tiny_qwen():
    """A small random model, and its tokenizer with a template for tool calls."""
    folder = shrunk_model("Qwen/Qwen2.5-1.5B-Instruct")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = qwen2_5_chat_template
    return AutoModelForCausalLM.from_pretrained(folder), tokenizer


@pytest.fixture(scope="module")
def model():
    return tiny_qwen()


@pytest.fixture
def train(model, tmp_path):
    def run(players, factory, data, steps=1, trainer=Player, **settings):
        network, tokenizer = model
        made = trainer(
            model=network,
            processing_class=tokenizer,
            environment_factory=factory,
            train_dataset=Dataset.from_list(data),
            args=trl.GRPOConfig(
                output_dir=str(tmp_path),
                per_device_train_batch_size=len(players),
                num_generations=len(players),
                max_steps=steps,
                learning_rate=1e-3,
                logging_steps=1,
                report_to="none",
                save_strategy="no",
                use_cpu=True,
                **{"max_completion_length": 4000} | settings,
            ),
            reward_funcs=[rubric_return],
        )
        made.players = players
        made.train()
        return made

    return run


def test_a_trainer_plays_our_environment_and_learns_from_its_outcome(train):
    factory = environment_factory("alfworld", **GAMES)
    data = rows("alfworld", **GAMES)[:1]

    made = train([oracle, silent], factory, data)

    won, lost = (environment.episode for environment in made.environments)
    assert (won.won, won.reward, lost.won, lost.reward) == (True, 1.0, False, 0.0)
    logged = made.state.log_history[0]
    assert logged["rewards/ALFWorldEnv/mean"] == 0.5
    assert logged["rewards/rubric_return/mean"] == pytest.approx(won.rubric_return / 2)
    assert logged["tools/failure_frequency"] == 0


def test_a_rollout_whose_environment_fails_is_left_out_and_no_zero(train):
    factory = environment_factory(Rooms, leaking=("train-1",))

    def knocks(environment):
        return "Done." if environment.episode.failure else call("act", action="knock")

    made = train([knocks, silent], factory, [{"task": "train-1", "prompt": USER}])

    assert [e.episode.reward for e in made.environments] == [None, 0.0]
    logged = made.state.log_history[0]
    assert logged["rewards/Rooms/mean"] == 0.0
    assert made._logs["rewards"]["Rooms"][0] != 0.0  # NaN, TRL's mark of a missing reward
    assert made._logs["advantages"][0] == 0.0


class StuckAtFirst(Rooms):
    """The toy environment whose first start raises."""

    starts = itertools.count()

    def start_task(self, task_id, options):
        if next(self.starts) == 0:
            raise OSError("the door is stuck")
        return super().start_task(task_id, options)


def test_a_rollout_with_a_failing_start_is_left_out_and_the_run_continues(train):
    replies = iter([call("act", action="go"), "Done."])
    row = {"task": "train-1", "prompt": USER}

    made = train([lambda _: next(replies), silent], environment_factory(StuckAtFirst), [row])

    assert [e.episode.reward for e in made.environments] == [None, 0.0]
    assert "the door is stuck" in str(made._logs["prompt"][0])
    assert "the door is stuck" in str(made._logs["completion"][0])
    assert made._logs["rewards"]["StuckAtFirst"][0] != 0.0  # NaN
    assert made._logs["advantages"][0] == 0.0


def test_a_malformed_call_takes_no_step_and_the_model_gets_an_error(train):
    factory = environment_factory(Rooms)
    replies = iter(
        [
            call("act", action=5),
            call("act", deed="go"),
            call("fly", action="go"),
            call("act", action="go"),
            "Done.",
        ]
    )

    made = train([lambda _: next(replies), silent], factory, [{"task": "train-0", "prompt": USER}])

    assert [step["action"] for step in made.environments[0].episode.steps] == ["go"]
    assert made.state.log_history[0]["tools/failure_frequency"] == 0.75
    completion = str(made._logs["completion"][0])
    assert "the action is 5: give text" in completion


def test_a_model_speaks_for_itself(train):
    made = train(
        [silent, silent],
        environment_factory(Rooms),
        [{"task": "train-0", "prompt": USER}],
        trainer=trl.GRPOTrainer,
        steps=2,
        max_completion_length=24,
    )
    assert [row["rewards/Rooms/mean"] for row in made.state.log_history[:2]] == [0.0, 0.0]


def test_rows_play_every_task_of_a_split_and_a_row_without_task_is_refused():
    data = rows("alfworld", **GAMES, system="Be brief.")
    assert tuple(row["task"] for row in data) == make("alfworld", **GAMES).unwrapped.task_ids
    assert [message["role"] for message in data[0]["prompt"]] == ["system", "user"]
    environment = environment_factory("alfworld", **GAMES)()
    with pytest.raises(ValueError, match="columns prompt, but neither task nor seed"):
        environment.reset(prompt=data[0]["prompt"])
    with pytest.raises(ValueError, match="no task 'small/train/pick-9999' in split 'train'"):
        environment.reset(**rows("alfworld", tasks=["small/train/pick-9999"])[0])
    environment.reset(**rows("alfworld", tasks=["small/train/pick-0000"])[0])
    assert environment.episode.task_id == "small/train/pick-0000"


HINTS = [("hint", {}), ("hint", {})]
GUESSES = [("guess", {"number": 9}), ("guess", {"number": 4}), *HINTS, ("guess", {"number": 6})]


def test_an_environment_of_trl_answers_and_pays_here_as_under_trl(train, tmp_path):
    row = {"prompt": [{"role": "user", "content": "Guess. "}], "goal": 6}
    replies = iter([*(call(name, **arguments) for name, arguments in GUESSES), "It is 6."])
    made = train([lambda _: next(replies), silent], Guess, [row])
    there = [m["content"] for m in made._logs["completion"][0] if m["role"] == "tool"]

    env = guess_env(tmp_path, [{**row, "goal": 1}, row])
    observation, info = env.reset(options={"task": "task-2"})
    here = []
    for name, arguments in GUESSES:
        answer, reward, over, _, info = env.step(json.dumps({"name": name, "arguments": arguments}))
        here.append(answer)
        assert not over
        assert reward == 0.0
    _, reward, over, _, info = env.step("It is 6.")

    assert observation == "I think of a number from 1 to 8."
    assert here == ["9 is not from 1 to 8", "greater", "let me think", "even", "right"]
    assert there == [str({"error": here[0]}), *here[1:]]
    assert over
    assert info["won"]
    assert reward == 0.5
    assert made._logs["rewards"]["Guess"][0] == reward

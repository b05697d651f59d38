import threading

import pytest

from tests.cli.calls import done, refused, trca
from tests.toy import Rooms
from trca.cli.show.slow_steps import SlowStepNotice
from trca.envs import make


def test_the_oracle_plays_a_task_and_every_step_shows_its_judgments():
    output = done("play", "--policy", "oracle", "--task", "3")
    assert "success after" in output
    for part in ("target_taken", "goal_operation", "r^F", "r^B", "Your task is to"):
        assert part in output


def test_a_person_plays_by_name_or_number_and_leaves_at_the_end_of_input():
    output = done("play", "--task", "0", input="look\n0\nfly to the moon\n\n")
    assert "Nothing happens." in output
    assert "malformed" in output
    assert "unparsed" in output
    assert "left the game" in output


def test_quit_quits_and_costs_no_step():
    output = done("play", "--task", "0", input="look\nquit\n")
    assert "left the game" in output
    assert "Nothing happens." not in output
    assert "malformed" not in output


def test_why_says_what_an_operator_means_and_which_clauses_were_true():
    lines = trca("play", "--policy", "oracle", "--task", "3", "--why").output
    output = " ".join(lines.split())
    taken = output.partition("target_taken: ")[2].partition("> ")[0]
    assert taken.startswith("A target is picked up")
    assert "facts.verb == 'take' facts.object_type == task.target (object_type = '" in taken
    assert "target_taken: " not in trca("play", "--policy", "oracle", "--task", "3").output


def test_an_episode_is_folded_to_the_width_of_a_pipe():
    for columns in (60, 80):
        arguments = ["play", "--policy", "oracle", "--task", "3", "--why"]
        result = trca(*arguments, env={"COLUMNS": str(columns)})
        assert max(map(len, result.output.splitlines())) <= columns
        assert "Your task is to" in result.output


def test_the_random_player_repeats_with_its_seed():
    once = trca("play", "--policy", "random", "--task", "1", "--seed", "5").output
    assert once == trca("play", "--policy", "random", "--task", "1", "--seed", "5").output
    assert once != trca("play", "--policy", "random", "--task", "1", "--seed", "6").output


@pytest.mark.parametrize("environment", ["alfworld", "webshop", "searchqa"])
def test_an_environment_checks_itself(environment):
    output = done("play", environment, "--check", "--task", "1")
    assert "1 tasks: the oracle solves 1" in output
    assert "fires on" in output


@pytest.mark.parametrize(
    ("environment", "typed", "parts"),
    [
        (
            "webshop",
            "0\nwool hat\n2\nclick[buy now]\n",
            ("your query:", "> search[wool hat]", "click[back to search]", "Buy Now"),
        ),
        (
            "searchqa",
            "0\nAda\n1\nanswer[Oslo]\n",
            ("your query:", "> search[Ada]", "> open[1]", "Answer submitted."),
        ),
    ],
)
def test_a_person_plays_by_number_and_is_asked_for_the_query(environment, typed, parts):
    output = done("play", environment, "--task", "0", input=typed)
    assert all(part in output for part in (*parts, "not done after 3 steps"))


def test_a_person_sends_a_text_in_angle_brackets_as_it_is_offered():
    labels = "tests.envs.test_choice:Labels"
    output = trca("play", labels, input="0\n3\nhello\n").output
    assert "> pick <basic>" in output
    assert "your word: > say hello" in output


def test_an_environment_takes_arguments():
    options = ("--policy", "oracle", "--set", "observation_mode=text_rich", "--seed", "1")
    rich = trca("play", "webshop", *options).output
    assert all(part in rich for part in ("[button] Buy Now [button_]", "qualified_purchase"))
    assert "success after" in rich


def test_the_roles_of_a_team_play_in_turns_and_each_act_has_its_judgments():
    team = ("play", "--set", "team=alfworld_planner", "--task", "3")
    output = done(*team, "--policy", "oracle", "--why")
    assert "success after" in output
    parts = ("planner's turn", "executor's turn", "heeded")
    for part in (*parts, "target_taken: A target is picked up"):
        assert part in output
    told = trca(*team, input="go to desk 1\nlook\nquit\n").output
    assert told.index("planner's turn") < told.index("planner: go to desk 1")
    assert "left the game" in told
    checked = done(*team, "--check")
    assert "heeded" in checked
    assert "target_taken" in checked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["alfwurld"], "did you mean 'alfworld'"),
        (["webshop", "--games", "small"], "webshop has no argument 'games'"),
        (["webshop", "--set", "catalog=small"], "did you mean 'catalogue'"),
        (["--set", "team=alfworld_planer"], "did you mean 'alfworld_planner'"),
        (["webshop", "--split", "valid"], "unknown split"),
        (["--split", "valid"], "unknown split"),
        (["--games", "smal"], "did you mean 'small'"),
        (["--games", "/no/such/folder"], "no folder or archive of games"),
        (["--task", "99999"], "numbered from 0"),
        (["--task", "small/valid_seen/heat-9999"], "no task 'small/valid_seen/heat-9999' in split"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(arguments, message):
    assert message in refused("play", *arguments)


RAISING = """\
from trca.envs import Outcome, TextEnv


class Trap(TextEnv):
    task_ids = ("trap-0", "trap-1")
    instruction = "cross the room."
    admissible_actions = ["walk", "jump"]

    def start_task(self, task_id, options):
        self.floor = {"stone": 1}
        return "You are in a room."

    def take_action(self, action):
        if action == "jump":
            return Outcome("You jump.", self.floor["wood"])
        return Outcome("You walk.", float(len(action) > 1000), len(action) > 1000)
"""


@pytest.fixture
def trap(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.py").write_text(RAISING)
    return "trap.py:Trap"


def test_an_environment_that_raises_ends_play_in_one_line_with_place_and_log(trap, tmp_path):
    result = trca("play", trap, "--task", "0", input="jump\n")
    assert result.exit_code == 1
    [line] = [line for line in result.output.splitlines() if "error" in line.lower()]
    assert line.removeprefix("> ") == (
        "error: task 'trap-0': KeyError: 'wood' (in Trap, at trap.py:15 in take_action)."
        " Log: outputs/logs/play.log"
    )
    assert "Traceback" not in result.output
    assert 'self.floor["wood"]' in (tmp_path / "outputs/logs/play.log").read_text()


def test_an_environment_that_cannot_be_made_is_one_line(trap, tmp_path):
    (tmp_path / "unmade.py").write_text(
        "from tests.toy import Rooms\n\nclass Unmade(Rooms):\n"
        "    def __init__(self, split='train'):\n        self.rooms = {}['hall']\n"
    )
    words = refused("play", "unmade.py:Unmade", code=1)
    assert "KeyError: 'hall', at unmade.py:5 in __init__. Log: outputs/logs/play.log" in words


def test_the_check_names_what_raises_and_needs_no_oracle(trap):
    result = trca("play", trap, "--check")
    assert result.exit_code == 1
    assert "2 tasks: no oracle_action() shows that the tasks can be solved" in result.output
    assert "a random agent solves 0; 0 repeat exactly" in result.output
    [line] = [line for line in result.output.splitlines() if "problem" in line]
    assert "task 'trap-0' raises: KeyError: 'wood' (in Trap, at trap.py:15" in line
    assert "Traceback" not in result.output


def test_a_slow_step_is_named_while_it_runs():
    named = threading.Event()

    class Slow(Rooms):
        def take_action(self, action):
            named.wait(600.0)
            return super().take_action(action)

    lines = []
    env = SlowStepNotice(make(Slow), lambda text: (lines.append(text), named.set()), limit_s=0.2)
    env.reset(options={"task": "train-0"})
    lines.clear()  # a busy machine may be slow
    named.clear()
    env.step("go")
    env.close()
    [line] = lines
    assert line.startswith("Slow: step('go') is still running after 0.2 s, at threading.py:")

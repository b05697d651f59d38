"""`Episode` shows an environment unchanged, and a failure gives no reward."""

import pytest

from played import ALFWORLD, played
from tests.toy import Rooms
from trca_interop.episode import OVER, Episode
from trca_interop.splits import part_of_split, read_rows

PLAIN = "examples/plain_key_door.py:KeyDoor"


def play(episode, policy):
    shown = []
    while not episode.over:
        shown.append(episode.act(getattr(episode.text_env, f"{policy}_action")()))
    return shown


@pytest.mark.parametrize("policy", ["oracle", "demonstrator"])
def test_an_episode_has_the_transitions_judgments_and_outcome_of_the_environment(policy):
    episode = Episode("alfworld", **ALFWORLD)
    for task in ("small/train/heat-0012", "small/train/pick-0000"):
        first, *rest = played(task, policy)
        opening = episode.start(task)
        shown = play(episode, policy)

        assert first[1] in opening
        assert "- go to" in opening
        assert episode.task_id == task
        assert [(s["action"], s["observation"], s["reward"]) for s in episode.steps] == [
            transition[:3] for transition in rest
        ]
        for step, text, (_, observation, _, rubric) in zip(episode.steps, shown, rest, strict=True):
            assert text.startswith(observation)
            assert step["rubric"]["fired"] == list(rubric["fired"])
            assert step["rubric"]["reward"] == rubric["reward"]
            assert step["rubric"]["judgments"] == list(rubric["judgments"])
        assert shown[-1].endswith(OVER)
        assert episode.reward == sum(reward for _, _, reward, _ in rest)
        assert episode.rubric_return == sum(rubric["reward"] for *_, rubric in rest)
        assert episode.won == (episode.reward == 1.0)


def test_a_seed_draws_the_same_task_as_in_the_environment():
    episode = Episode("alfworld", **ALFWORLD)
    for seed in range(4):
        episode.start(seed=seed)
        _, info = episode.env.reset(seed=seed)
        assert episode.task_id == info["task_id"]


def test_a_failure_of_the_environment_leaves_no_reward_until_the_next_start():
    episode = Episode(Rooms, leaking=("train-1",))
    episode.start("train-1")
    episode.act("knock")
    with pytest.raises(RuntimeError, match="the environment failed"):
        episode.act("knock")
    assert episode.reward is None
    assert episode.rubric_return is None
    assert not episode.won
    with pytest.raises(RuntimeError, match="the environment failed"):
        episode.act("knock")
    episode.start("train-0")
    assert episode.reward == 0.0


def test_a_task_that_cannot_be_started_leaves_no_reward():
    episode = Episode(Rooms, broken=("train-1",))
    episode.start("train-0")
    with pytest.raises(Exception, match="train-1"):
        episode.start("train-1")
    assert episode.reward is None
    with pytest.raises(RuntimeError, match="failed"):
        episode.act("go")


def test_an_action_after_the_end_or_of_the_wrong_type_takes_no_step():
    episode = Episode("alfworld", **ALFWORLD)
    episode.start("small/train/pick-0000")
    with pytest.raises(TypeError, match="give text"):
        episode.act(5)
    assert episode.steps == []
    play(episode, "oracle")
    steps = list(episode.steps)
    with pytest.raises(ValueError, match="over"):
        episode.act("look")
    assert episode.steps == steps
    assert episode.reward == 1.0


def test_an_environment_without_rubric_has_no_rubric_return():
    episode = Episode(PLAIN)
    episode.start(seed=0)
    assert episode.rubric_return is None
    episode.act("go to kitchen")
    assert episode.rubric_return is None
    assert episode.reward == 0.0


def test_a_team_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'planner'.*one agent"):
        Episode("alfworld", team="planner")


def test_rows_are_split_without_overlap(tmp_path):
    train, test = (part_of_split(range(25), split, "it") for split in ("train", "test"))
    assert list(test.values()) == [0, 10, 20]
    assert sorted([*train.values(), *test.values()]) == list(range(25))
    with pytest.raises(ValueError, match="no tasks in split 'train'"):
        part_of_split([1], "train", "it")
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        part_of_split([1], "dev", "it")
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": "\u2028"}\n\n{"a": 2}\n')
    assert read_rows(path) == [{"a": "\u2028"}, {"a": 2}]
    path.write_text('{"a": 1}\n[1]\n')
    with pytest.raises(ValueError, match="line 2"):
        read_rows(path)

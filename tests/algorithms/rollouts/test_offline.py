"""Rollouts as episodes of RLlib's offline API, written by the env runners and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from tests.records.test_records import make_rollout, make_step
from trca.algorithms.rollouts.offline import RolloutPreLearner, to_episode
from trca.envs import ActionChoice, make
from trca.records import Rollout, read_rollouts, to_json, write_rollouts


def without_advantages(rollouts: list[Rollout]) -> list[str]:
    for rollout in rollouts:
        rollout.advantages = None
    return sorted(to_json(rollout) for rollout in rollouts)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_training_records_what_it_samples_and_nothing_of_its_evaluations(
    make_config: Callable[..., Any], tmp_path: Path
) -> None:
    config = make_config(num_env_runners=2, evaluation_interval=1)
    config.offline_data(output=str(tmp_path / "episodes"))
    algorithm = config.build_algo()
    try:
        sampled = []
        for _ in range(2):
            algorithm.train()
            sampled += algorithm.rollouts
    finally:
        algorithm.stop()
    assert len(sampled) == 32
    assert without_advantages(list(read_rollouts(tmp_path))) == without_advantages(sampled)
    assert len(list((tmp_path / "episodes").iterdir())) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_rllib_reads_the_files_of_recordings_and_of_runs(tmp_path: Path) -> None:
    steps = [
        make_step(observation="a room", action="look", reward=0.0),
        make_step(observation="a key", action="take key", reward=1.0, next_context="end"),
    ]
    rollout = make_rollout(steps, last_observation="you have it", won=True)
    write_rollouts(tmp_path / "deep" / "a.parquet", [rollout, make_rollout()])
    cut = make_rollout([make_step(milestone=True)], truncated=True, advantages=np.ones(1))
    write_rollouts(tmp_path / "train.parquet", [cut, make_rollout()])
    batch = ray.data.read_parquet(str(tmp_path)).take_batch(9)
    mapped = RolloutPreLearner._map_sample_batch_to_episode
    first, second = mapped(cast(Any, None), batch)["episodes"]
    episode, other = (first, second) if first.is_terminated else (second, first)
    assert (other.is_terminated, other.is_truncated) == (False, True)
    assert episode.is_terminated
    assert not episode.is_truncated
    assert list(episode.get_observations()) == ["a room", "a key", "you have it"]
    assert list(episode.get_actions()) == ["look", "take key"]
    assert list(episode.get_rewards()) == [0.0, 1.0]
    assert episode.get_infos(0) == {"context": "room", "task_id": "heat-egg-3"}
    assert episode.get_infos(1)["judgments"].tolist() == [0, 0, 1]
    assert episode.get_infos(2)["context"] == "end"
    (first, _) = episode.get_extra_model_outputs("action_logp")
    assert first == pytest.approx(-0.1 - 1 / 3)
    assert episode.agent_id == "default_agent"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is nothing at"):
        next(read_rollouts(tmp_path / "none"))
    with pytest.raises(ValueError, match="has no step"):
        to_episode(make_rollout())
    pq.write_table(pa.table({"item": [b"an episode"]}), tmp_path / "foreign.parquet")
    with pytest.raises(
        ValueError, match=r"foreign\.parquet is not a file of rollouts: there is no"
    ):
        next(read_rollouts(tmp_path))


def test_episodes_go_to_a_uri_and_come_back_from_a_run(tmp_path: Path) -> None:
    rollouts = [make_rollout([make_step()]), make_rollout([make_step(reward=0.5)])]
    write_rollouts(f"file://{tmp_path}/lr=0.1/a.parquet", rollouts[:1])
    (tmp_path / "config.yaml").write_text("not Parquet")
    write_rollouts(tmp_path / "lr=0.1" / "b.parquet", rollouts[1:], ["a prompt"])
    (tmp_path / ".draft.parquet").write_text("half of a file")
    for place in (tmp_path, f"file://{tmp_path}"):
        read = [to_json(rollout) for rollout in read_rollouts(place)]
        assert read == [to_json(rollout) for rollout in rollouts]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_stock_rllib_records_numbered_actions_and_clones_them(tmp_path: Path) -> None:
    from ray.rllib.algorithms.bc import BCConfig
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.tune.registry import register_env

    def key_door(_: Any) -> ActionChoice:
        return ActionChoice(make("examples/plain_key_door.py:KeyDoor"), choices=6, size=32)

    register_env("key-door-choice", key_door)
    recorder = (
        PPOConfig()
        .environment("key-door-choice")
        .env_runners(num_env_runners=1, batch_mode="complete_episodes", explore=False)
        .training(train_batch_size_per_learner=200, minibatch_size=50, num_epochs=1)
        .offline_data(output=str(tmp_path), output_write_episodes=True)
        .build_algo()
    )
    recorder.train()
    recorder.stop()
    env = key_door(None)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    cloner = (
        BCConfig()
        .environment(**spaces)
        .offline_data(
            input_=[str(next(tmp_path.iterdir()))],
            input_read_episodes=True,
            dataset_num_iters_per_learner=1,
            map_batches_kwargs={"concurrency": 1},
        )
        .training(train_batch_size_per_learner=64, lr=5e-3)
        .build_algo()
    )
    try:
        losses = [cloner.train()["learners"]["default_policy"]["policy_loss"] for _ in range(12)]
    finally:
        cloner.stop()
    assert losses[-1] < losses[0] / 2  # a greedy policy can be cloned exactly

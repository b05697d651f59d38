"""RLlib's callbacks of env runners, and the environment of evaluations."""

from collections import Counter
from typing import ClassVar

import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from trca.algorithms import local_runner
from trca.algorithms.rollouts.batch import GroupRequest


def groups(runner, count=2, size=2):
    tasks = runner.panel("train").task_ids[:count]
    return [GroupRequest(k, task, "train", size, ("test", 1)) for k, task in enumerate(tasks)]


class Noting(RLlibCallback):
    """Notes its calls."""

    calls: ClassVar[list] = []

    def on_environment_created(self, *, env_runner, metrics_logger, env, env_context, **kwargs):
        self.calls.append(("environment", env_context["split"]))

    def on_episode_created(self, *, episode, env, env_index, **kwargs):
        episode.custom_data["lengths"] = []
        self.calls.append(("created", env_index, len(episode.get_infos()) if episode.t else 0))

    def on_episode_start(self, *, episode, **kwargs):
        (info,) = episode.get_infos()
        self.calls.append(("start", info["task_id"] == episode.custom_data["task_id"]))

    def on_episode_step(self, *, episode, **kwargs):
        episode.custom_data["lengths"].append(len(episode))

    def on_episode_end(self, *, episode, metrics_logger, prev_episode_chunks, **kwargs):
        metrics_logger.log_value("longest", len(episode), reduce="max")
        self.calls.append(("end", episode.id_))

    def on_sample_end(self, *, samples, **kwargs):
        self.calls.append(("sample", samples))


def test_callbacks_follow_every_episode(make_config):
    Noting.calls.clear()
    functions: Counter = Counter()
    config = make_config().callbacks(
        Noting, on_episode_step=lambda episode, **kwargs: functions.update([episode.id_])
    )
    runner = local_runner(config)
    batch = runner.sample(groups=groups(runner))
    kinds = Counter(call[0] for call in Noting.calls)
    assert kinds == {"environment": 4, "created": 4, "start": 4, "end": 4, "sample": 1}
    assert [call[1] for call in Noting.calls if call[0] == "created"] == [0, 1, 2, 3]
    assert all(call[1] for call in Noting.calls if call[0] == "start")
    ((_, samples),) = [call for call in Noting.calls if call[0] == "sample"]
    for rollout, episode in zip(batch.rollouts, samples, strict=True):
        assert episode.custom_data["task_id"] == rollout.task_id
        assert episode.custom_data["group"] == rollout.group
        assert episode.custom_data["lengths"] == list(range(1, len(rollout.steps) + 1))
        assert functions[episode.id_] == len(rollout.steps)
        assert list(episode.actions) == [step.action for step in rollout.steps]
        assert episode.get_observations(-1) == rollout.last_observation
        assert episode.get_return() == sum(step.reward for step in rollout.steps)
        assert episode.is_truncated == rollout.truncated
        outputs = episode.extra_model_outputs
        for ids, step in zip(outputs["response_ids"], rollout.steps, strict=True):
            assert ids.tolist() == step.response_ids.tolist()
    assert runner.get_metrics()["longest"].peek() == max(len(r.steps) for r in batch.rollouts)
    runner.stop()


def test_without_a_callback_no_episode_of_rllib_is_built(make_config, monkeypatch):
    def built(self, *args, **kwargs):
        raise AssertionError("an episode was built")

    monkeypatch.setattr(SingleAgentEpisode, "__init__", built)
    runner = local_runner(make_config())
    assert len(runner.sample(groups=groups(runner)).rollouts) == 4
    runner.stop()


def test_the_error_of_a_callback_ends_the_sample(make_config):
    def fail(**kwargs):
        raise ZeroDivisionError("my callback")

    runner = local_runner(make_config().callbacks(on_episode_step=fail))
    with pytest.raises(ZeroDivisionError, match="my callback"):
        runner.sample(groups=groups(runner))
    runner.stop()


@pytest.mark.parametrize("runners", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_metrics_of_callbacks_reach_training_and_evaluation(build, make_config, cluster, runners):
    config = make_config(evaluation_interval=1)
    config.callbacks(Noting).environment(env_config={"max_steps": 4})
    config.evaluation(evaluation_config={"env_config": {"max_steps": 2, "split": "train"}})
    algorithm = build(config.evaluation(evaluation_num_env_runners=runners))
    result = algorithm.train()
    assert algorithm.evaluation.panel.split == "train"
    assert max(len(r.steps) for r in algorithm.evaluation.rollouts) == 2
    assert result["evaluation"]["env_runners"]["longest"] == 2
    assert result["env_runners"]["longest"] > 2


def test_the_roles_of_a_team_share_an_episode(make_config):
    played: list = []
    config = make_config(env_config={"team": "alfworld_planner", "games": "small", "max_steps": 3})
    config.environment("trca/ALFWorld-v0")
    config.callbacks(on_sample_end=lambda samples, **kwargs: played.extend(samples))
    runner = local_runner(config)
    batch = runner.sample(groups=groups(runner, count=1, size=1))
    (episode,) = played
    assert isinstance(episode, MultiAgentEpisode)
    assert episode.is_done
    for rollout in batch.rollouts:
        of_role = episode.agent_episodes[rollout.agent_id]
        assert list(of_role.actions) == [step.action for step in rollout.steps]
        assert of_role.get_return() == sum(step.reward for step in rollout.steps)
    runner.stop()

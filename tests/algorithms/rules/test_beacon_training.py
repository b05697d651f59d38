"""BEACON trains on walkthroughs, and on the milestones of an environment without a rubric."""

import numpy as np
import pytest
from ray.tune.registry import register_env

from tests import toy
from tests.algorithms.rules import public_beacon as public
from trca.algorithms import BEACONConfig
from trca.envs import make
from trca.records import StepBatch

pytestmark = pytest.mark.usefixtures("cluster")
SETTINGS = {"tasks_per_iteration": 2, "group_size": 4}


class Bare(toy.Rooms):
    """The toy environment without a rubric."""

    adapter_class = None
    library = None


def trained(config):
    """The batch of an iteration, its rollouts and the advantages of its steps."""
    algorithm = config.build_algo()
    result = algorithm.train()
    rollouts = algorithm.rollouts
    algorithm.stop()
    batch = StepBatch.from_rollouts(rollouts, np.zeros(len(rollouts[0].operators), np.int8))
    return result, batch, rollouts, np.concatenate([r.advantages for r in rollouts])


def test_the_milestones_of_an_environment_need_no_rubric(make_config):
    register_env("Bare", lambda config: make(Bare, **config))
    settings = {"env": "Bare", **SETTINGS}
    with pytest.raises(ValueError, match="BEACON learns from rubric judgments, and nothing judges"):
        make_config(BEACONConfig, {"milestones": True}, **settings).build_algo()
    config = make_config(BEACONConfig, {"milestones": True}, milestones="environment", **settings)
    result, batch, rollouts, advantages = trained(config)
    assert result["gold_in_training"] == 0
    flags = [step.milestone for rollout in rollouts for step in rollout.steps]
    entered = [
        (step.observation, after) == ("You are in room 0.", "You are in room 1. A key is here.")
        for rollout in rollouts
        for step, after in zip(
            rollout.steps,
            [*(s.observation for s in rollout.steps[1:]), rollout.last_observation],
            strict=True,
        )
    ]
    assert flags == entered
    assert any(flags)
    rewards, segments = public.of_flags(batch, flags, 0.95)
    expected = public.advantages(
        batch, rewards, segments, weight=1.0, penalty=0.01, over="rollouts"
    )
    np.testing.assert_allclose(advantages, expected, rtol=0, atol=1e-12)


def test_walkthroughs_come_from_the_environment(make_config):
    config = make_config(
        BEACONConfig, credit="beacon_walkthrough", gold_in_training=True, **SETTINGS
    )
    result, batch, rollouts, advantages = trained(config)
    assert result["gold_in_training"] == 1
    actions = [step.action for rollout in rollouts for step in rollout.steps]
    even = [rollout.task_type == "Even" for rollout in rollouts for _ in rollout.steps]
    walks = [("go", "take key") if starts_outside else ("take key",) for starts_outside in even]
    rewards, segments = public.of_actions(batch, actions, walks, 0.95, 0.95)
    expected = public.advantages(
        batch, rewards, segments, weight=1.0, penalty=0.01, over="rollouts"
    )
    np.testing.assert_allclose(advantages, expected, rtol=0, atol=1e-12)
    assert (rewards > 0).any()

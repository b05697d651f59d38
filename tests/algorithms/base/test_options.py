"""Options around the credit rule, in real training on the toy environment."""

import numpy as np
import pytest

from tests.algorithms.base.test_training import assert_same, tokens_of, weights_of
from tests.algorithms.credit.step_batches import rule
from trca.algorithms import TRCA, GRPOConfig, TRCAConfig, TurnPPOConfig
from trca.algorithms.base.crediting import teaching_groups
from trca.algorithms.rules.trca import failed_share
from trca.envs.text_env import DEFAULT_AGENT
from trca.records import StepBatch, advantages_of
from trca.rubric import Budgets

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.slow
def test_groups_without_advantages_are_replaced_whatever_the_number_of_runners(make_config):
    seen, weights = [], []
    for runners in (0, 2):
        algorithm = make_config(
            GRPOConfig,
            num_env_runners=runners,
            group_size=2,
            on_zero_advantage="drop_groups",
            refill_groups=3,
        ).build_algo()
        result = algorithm.train()
        seen.append(tokens_of(algorithm.rollouts))
        weights.append(weights_of(algorithm))
        algorithm.stop()
    assert seen[0] == seen[1]
    assert_same(*weights)
    refilled = int(result["refilled_groups"])
    assert 0 < refilled <= 3
    assert [r.group for r in algorithm.rollouts] == [k // 2 for k in range(8 + 2 * refilled)]
    assert result["num_env_steps_sampled_lifetime"] == sum(len(r.steps) for r in algorithm.rollouts)
    taught = teaching_groups(algorithm.rollouts)
    assert 0 < len(taught) <= 4
    assert result["left_out_rollouts"] == 2 * (4 + refilled - len(taught))
    assert refilled == 3 or len(taught) == 4
    tasks = [r.task_id for r in algorithm.rollouts[::2]]
    assert len(set(tasks)) == len(tasks)


def test_refilling_credits_rollouts_once_where_none_are_added(build, make_config, tmp_path):
    rule = tmp_path / "own.py"
    rule.write_text(
        "import numpy as np\n"
        "CALLS = []\n"
        "def noted(batch):\n"
        "    CALLS.append(len(batch))\n"
        "    return np.ones(len(batch))\n"
    )
    settings = {"tasks_per_iteration": 2, "group_size": 2, "on_zero_advantage": "drop_groups"}
    algorithm = build(make_config(GRPOConfig, credit=f"{rule}:noted", refill_groups=2, **settings))
    result = algorithm.train()
    assert result["refilled_groups"] == 0
    calls = algorithm._credit._rule.__globals__["CALLS"]
    assert calls == [sum(len(r.steps) for r in algorithm.rollouts)]


def test_the_groups_of_a_second_refill_have_new_numbers_and_tasks(build, make_config, tmp_path):
    rule = tmp_path / "own.py"
    rule.write_text("def nothing(batch):\n    return 0 * batch.reward\n")
    settings = {"tasks_per_iteration": 1, "group_size": 2, "on_zero_advantage": "drop_groups"}
    algorithm = build(
        make_config(GRPOConfig, credit=f"{rule}:nothing", refill_groups=2, **settings)
    )
    result = algorithm.train()
    assert result["refilled_groups"] == 2
    assert [(r.group, r.index) for r in algorithm.rollouts] == [
        (group, index) for group in range(3) for index in range(2)
    ]
    assert len({r.task_id for r in algorithm.rollouts}) == 3


def test_without_success_rubric_credit_is_kept_where_outcomes_have_none(build, make_config):
    """The toy's step limit of 1 lets nobody win who starts a room away."""
    settings = {"env_config": {"max_steps": 1, "tasks": 1}, "on_zero_advantage": "drop_groups"}
    settings |= {"tasks_per_iteration": 1, "group_size": 6}
    algorithm = make_config(GRPOConfig, **settings).build_algo()
    before, result = weights_of(algorithm), algorithm.train()
    assert (result["success_rate"], result["left_out_rollouts"]) == (0.0, 6)
    assert_same(before, weights_of(algorithm))
    algorithm.stop()
    algorithm = build(make_config(TRCAConfig, **settings))
    result = algorithm.train()
    assert (result["success_rate"], result["left_out_rollouts"]) == (0.0, 0)
    assert any(not np.array_equal(before[n], w) for n, w in weights_of(algorithm).items())


def test_a_shrinking_rubric_shows_its_whole_budgets_and_credits_by_its_share(build, make_config):
    settings = {"outcome_scale": 10.0, "budget_schedule": "group_success", "lambda_": 0.5}
    algorithm = build(make_config(TRCAConfig, **settings))
    result = algorithm.train()
    rollouts, categories = algorithm.rollouts, algorithm._operators[DEFAULT_AGENT].categories
    batch = StepBatch.from_rollouts(rollouts, categories)
    shares = np.unique(failed_share(batch))
    assert ((shares > 0) & (shares < 1)).any()
    advantages = rule("trca")(batch, **settings)
    np.testing.assert_array_equal(advantages_of(rollouts), advantages)
    assert not np.allclose(advantages_of(rollouts), rule("trca")(batch, lambda_=0.5))
    recorded = [step.foundational for rollout in rollouts for step in rollout.steps]
    np.testing.assert_allclose(recorded, batch.rubric_rewards(Budgets()).foundational, atol=1e-9)
    assert result["foundational_reward"] == pytest.approx(np.mean(recorded))


def test_replayed_rollouts_and_a_curriculum_come_back_from_a_checkpoint(
    build, make_config, tmp_path
):
    """Replayed rollouts are learned from: without weight they leave other weights."""
    settings = {"replay_size": 2, "task_curriculum": 1.0}
    straight = build(make_config(**settings, replay_weight=0.5))
    first = straight.train()
    path = straight.save_to_path(tmp_path / "checkpoint")
    counts = straight.curriculum.get_state()
    assert len(counts["counts"]) == 4
    second = straight.train()
    assert [first["replayed_rollouts"], second["replayed_rollouts"]] == [0, 2]
    assert second["mismatch_kl"] < 1e-6
    assert len(straight.rollouts) == 16
    resumed = TRCA.from_checkpoint(path)
    assert resumed.curriculum.get_state() == counts
    resumed.train()
    assert tokens_of(resumed.rollouts) == tokens_of(straight.rollouts)
    assert_same(weights_of(straight), weights_of(resumed))
    resumed.stop()
    forgetful = build(make_config(**settings, replay_weight=0.0))
    forgetful.restore_from_path(path)
    forgetful.train()
    before, after = weights_of(straight), weights_of(forgetful)
    assert any(not np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config_class", "settings"),
    [
        (TRCAConfig, {"num_epochs": 2, "kl_coeff_format": 0.1}),
        (TurnPPOConfig, {"gae": "bi_level", "ratio_level": "token", "critic_lr": 1e-3}),
    ],
)
def test_two_learners_train_and_replay_as_one_does(make_config, config_class, settings):
    """Under TurnPPO, replayed rows have step advantages and fresh rows have token advantages."""
    tokens, weights = [], []
    for learners in (0, 2):
        config = make_config(config_class, num_learners=learners, replay_size=2, **settings)
        algorithm = config.build_algo()
        results = [algorithm.train() for _ in range(2)]
        assert [result["replayed_rollouts"] for result in results] == [0, 2]
        assert results[1]["mismatch_kl"] < 1e-6
        tokens.append(tokens_of(algorithm.rollouts))
        weights.append(weights_of(algorithm))
        algorithm.stop()
    assert tokens[0] == tokens[1]
    assert_same(*weights, exact=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refill_groups": 2}, "refill_groups is 2, and no group is left out"),
        ({"replay_size": 2, "recompute_logprobs": True}, "recompute_logprobs replaces"),
        ({"task_curriculum": 0.5, "max_staleness": 1}, "task_curriculum goes by .*max_staleness"),
        (
            {"refill_groups": 1, "on_zero_advantage": "drop_groups", "max_staleness": 1},
            "refill_groups goes by .*max_staleness",
        ),
    ],
)
def test_combinations_that_cannot_work_are_refused(make_config, settings, message):
    with pytest.raises(ValueError, match=message):
        make_config(num_env_runners=1, **settings).validate()


def test_a_driver_that_samples_on_its_cpu_next_to_its_gpu_is_refused(make_config):
    config = make_config().learners(num_gpus_per_learner=1)
    with pytest.raises(ValueError, match="set num_gpus_per_env_runner to 1, which is the same GPU"):
        config.validate()
    config.env_runners(num_gpus_per_env_runner=1).validate()

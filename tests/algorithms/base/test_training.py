import math
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from ray import tune
from ray.rllib.core import DEFAULT_MODULE_ID
from transformers import AutoModelForCausalLM, AutoTokenizer

from trca.algorithms import TRCA, evaluate_panel, export, local_runner
from trca.algorithms.rollouts.sampling import sample_groups
from trca.policies.engines.engine import SamplingParams

METRICS = {
    "success_rate",
    "score",
    "parsed_ratio",
    "valid_action_ratio",
    "response_length",
    "frac_success_free_groups",
    "frac_zero_advantage",
    "foundational_reward",
    "breakthrough_reward",
    "context_group_size",
    "entropy",
    "kl",
    "clip_ratio",
    "ratio_mean",
    "grad_norm",
    "mismatch_kl",
    "tokens_per_second",
}
OWN_RULE = f"{Path(__file__).parents[3]}/examples/own_rule/first_visits.py:first_visits"
pytestmark = pytest.mark.usefixtures("cluster")


def weights_of(algorithm):
    return algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]


def assert_same(one, other, exact=True):
    assert one.keys() == other.keys()
    for name in one:
        if exact:
            assert np.array_equal(one[name], other[name]), name
        else:
            np.testing.assert_allclose(one[name], other[name], rtol=2e-4, atol=2e-6, err_msg=name)


def tokens_of(rollouts):
    return [(r.task_id, r.index, [s.response_ids.tolist() for s in r.steps]) for r in rollouts]


def wait_until_alive(actor):
    while True:
        try:
            return ray.get(actor.ping.remote())
        except ray.exceptions.RayActorError:
            continue


def test_an_iteration_changes_the_weights_and_reports_its_metrics(build, make_config):
    algorithm = build(make_config(evaluation_interval=1))
    before = weights_of(algorithm)
    result = algorithm.train()
    after = weights_of(algorithm)
    assert any(not np.array_equal(before[n], after[n]) for n in before)
    assert all(np.isfinite(w).all() for w in after.values())
    assert {name for name in METRICS if not math.isfinite(result[name])} == set()
    assert {"key_seen", "no_action", "key_taken"} < set(result["operators"])
    assert len(result["operators"]) == 15
    assert set(result["timing"]) == {
        "generation", "environment", "judging", "credit", "learning", "sync",
    }  # fmt: skip
    assert result["missing_rollouts"] == 0
    assert set(result["memory_mb"]) == {"driver", "runners"}
    assert result["mismatch_kl"] < 1e-6
    assert result["ratio_mean"] == pytest.approx(1.0, abs=0.2)
    assert result["panel_hash"] == algorithm.panel("train").hash
    evaluation = result["evaluation"]
    assert evaluation["n"] == 5
    assert set(evaluation["task_types"]) == {"Even", "Odd"}
    assert evaluation["panel_hash"] == algorithm.panel("valid").head(5).hash


@pytest.mark.slow
def test_rollouts_do_not_depend_on_the_number_of_runners_and_a_killed_one_costs_nothing(
    make_config, tmp_path
):
    seen = []
    for runners in (0, 3):
        algorithm = make_config(
            env_config={"wind": 0.2, "poison": str(tmp_path)},
            num_env_runners=runners,
            evaluation_num_env_runners=runners // 3,
        ).build_algo()
        algorithm.train()
        algorithm.evaluate()
        seen.append(tokens_of(algorithm.rollouts + algorithm.evaluation.rollouts))
        if not runners:
            algorithm.train()
            seen.append(tokens_of(algorithm.rollouts))
            algorithm.stop()
    alone, next_alone, together = seen
    assert alone == together
    assert len(alone) == 16 + 5

    runners = algorithm.env_runner_group
    manager = runners._worker_manager
    for count in (1, 2):
        for runner in (1, 2, 3):
            manager.set_actor_state(runner, healthy=runner <= count)
        sampled, _ = sample_groups(
            runners, algorithm.sampler.groups(1), SamplingParams(1.0, 8), None
        )
        assert tokens_of(sampled.rollouts) == next_alone

    (tmp_path / "dose").touch()
    assert algorithm.train()["missing_rollouts"] == 0
    assert not list(tmp_path.iterdir())
    assert tokens_of(algorithm.rollouts) == next_alone
    (lost,) = algorithm.incidents
    assert (lost.kind, lost.action) == ("env runner", "retried")
    wait_until_alive(manager.actors()[int(lost.which)])
    result = algorithm.train()
    assert result["missing_rollouts"] == 0
    assert result["fault_tolerance"]["num_healthy_workers"] == 3
    assert {r.policy_version for r in algorithm.rollouts} == {2}
    algorithm.stop()


def test_environments_are_told_the_progress_of_training_and_their_measures_are_reported(
    build,
    make_config,
):
    algorithm = build(make_config(iterations=4, evaluation_interval=1))
    told = [algorithm.train() for _ in range(2)]
    assert [result["measures"]["progress"] for result in told] == [0.0, 0.25]
    assert told[-1]["evaluation"]["measures"]["progress"] == -1.0
    assert algorithm.rollouts[0].measures["progress"] == 0.25


def test_iterations_without_any_rollout_are_skipped_and_then_stop_training(build, make_config):
    broken = tuple(f"train-{k}" for k in range(12))
    algorithm = build(make_config(env_config={"broken": broken}, max_failed_iterations=2))
    before = weights_of(algorithm)
    assert algorithm.train()["skipped_iterations"] == 1
    assert_same(before, weights_of(algorithm))
    with pytest.raises(
        RuntimeError, match=r"RuntimeError: the door of train-\d+ is stuck .*2 iterations"
    ):
        algorithm.train()


def test_a_step_that_is_not_finite_is_skipped_and_counted(build, make_config, tmp_path):
    rule = tmp_path / "rule.py"
    rule.write_text("import numpy as np\ndef huge(batch):\n    return np.full(len(batch), 1e38)\n")
    algorithm = build(make_config(credit=f"{rule}:huge", lr=1.0))
    before = weights_of(algorithm)
    result = algorithm.train()
    assert result["skipped_updates"] > 0
    assert_same(before, weights_of(algorithm))


def test_training_resumed_from_a_checkpoint_gives_the_weights_of_one_that_went_on(
    build, make_config, tmp_path
):
    config = make_config(lr_warmup_updates=20, evaluation_interval=2)
    straight = build(config)
    for _ in range(2):
        straight.train()
    path = straight.save_to_path(tmp_path / "checkpoint")
    middle = weights_of(straight)
    for _ in range(2):
        straight.train()
    resumed = TRCA.from_checkpoint(path)
    assert_same(middle, weights_of(resumed))
    assert resumed.training_iteration == 2
    for _ in range(2):
        resumed.train()
    assert tokens_of(resumed.rollouts) == tokens_of(straight.rollouts)
    assert_same(weights_of(straight), weights_of(resumed))
    straight.restore_from_path(path)
    assert_same(middle, weights_of(straight))
    for _ in range(2):
        straight.train()
    assert_same(weights_of(straight), weights_of(resumed))
    resumed.stop()


def test_an_exported_folder_opens_and_says_the_same(make_config, tmp_path):
    algorithm = make_config().build_algo()
    algorithm.train()
    checkpoint = algorithm.save_to_path(tmp_path / "checkpoint")
    ids = torch.arange(20).view(2, 10)
    logits = []
    for name, source in (("a", algorithm), ("b", checkpoint)):
        folder = export(source, tmp_path / name)
        opened = AutoModelForCausalLM.from_pretrained(folder)
        logits.append(opened(ids).logits)
        assert AutoTokenizer.from_pretrained(folder).encode("<action>go</action>")
    assert torch.equal(*logits)
    tokens = tokens_of(
        evaluate_panel(algorithm.env_runner_group, algorithm.panel("valid")).rollouts
    )
    algorithm.stop()
    runner = local_runner(make_config(model=str(tmp_path / "a")))
    assert tokens_of(evaluate_panel(runner, runner.panel("valid")).rollouts) == tokens


@pytest.mark.slow
def test_tune_runs_a_grid_of_trials_from_a_plain_dictionary(make_config, model, tmp_path, capsys):
    space = {
        "env": "Rooms",
        "model": str(model),
        "template": "compact",
        "tasks_per_iteration": 2,
        "group_size": 2,
        "max_new_tokens": 8,
        "lambda_": tune.grid_search([0.0, 0.8]),
        "credit": OWN_RULE,
        "credit_config": {"bonus": tune.uniform(0.1, 0.5)},
    }
    make_config()
    results = tune.Tuner(
        "TRCA",
        param_space=space,
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=2
        ),
    ).fit()
    console = capsys.readouterr().out
    heads = [line for line in console.splitlines() if "Trial name" in line and "iter" in line]
    assert "success_rate" in heads[-1], "the table of trials has no column of success"
    assert "foundational_reward" in console, "a result has this package's metrics"
    assert not results.errors
    assert sorted(r.config["lambda_"] for r in results) == [0.0, 0.8]
    assert all(0.1 <= r.config["credit_config"]["bonus"] <= 0.5 for r in results)
    assert all(math.isfinite(r.metrics["success_rate"]) for r in results)

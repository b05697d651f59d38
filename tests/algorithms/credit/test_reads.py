"""Reads of a rule: by name, gold only on request, refused by name."""

import numpy as np
import pytest

from tests.algorithms.credit.step_batches import step_batch
from trca.algorithms import GRPOConfig
from trca.algorithms.credit import bind_credit

RULES = """
import numpy as np
from trca.algorithms.credit import READS, Read

class Lengths(Read):
    def __call__(self, sources, batch):
        return np.array([len(s.response_ids) for r in sources.rollouts for s in r.steps])

class Never(Read):
    def __call__(self, sources, batch):
        raise AssertionError
    def lack(self, sources):
        return "there is no moon: train at night"

READS.register("lengths_of_own", Lengths())
READS.register("moonlight", Never())
CALLS = []

def by_length(batch, *, lengths_of_own, gamma):
    return gamma * lengths_of_own

def by_answers(batch, *, gold_answers):
    CALLS.append(gold_answers)
    return np.arange(len(batch)) % 3 - 1.0

def by_passages(batch, *, gold_passages):
    return np.zeros(len(batch))

def at_night(batch, *, moonlight):
    return np.zeros(len(batch))

def given(batch, *, gold_answers=("none",)):
    return np.zeros(len(batch))
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(RULES)
    return path


def test_a_rule_reads_what_its_parameters_name(own):
    assert bind_credit("grpo", {}).reads == ()
    rule = bind_credit(f"{own}:by_length", {"gamma": 0.5})
    assert (rule.reads, rule.gold) == (("lengths_of_own",), ())
    batch = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 0, 0])
    lengths = np.array([4.0, 2.0, 6.0])
    np.testing.assert_array_equal(rule(batch, lengths_of_own=lengths), [2, 1, 3])


def test_gold_is_read_only_where_the_config_says_so(own):
    for name in ("by_answers", "given"):
        with pytest.raises(ValueError, match=r"reads gold_answers, .*set gold_in_training: true"):
            bind_credit(f"{own}:{name}", {"gold_in_training": False})
        assert bind_credit(f"{own}:{name}", {"gold_in_training": True}).gold == ("gold_answers",)
    config = GRPOConfig().environment("trca/SearchQA-v0").training(credit=f"{own}:by_answers")
    with pytest.raises(ValueError, match="gold_in_training"):
        config.validate()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("learners", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_algorithm_makes_what_a_rule_reads_and_says_whether_it_is_gold(
    build, make_config, own, learners
):
    settings = {"tasks_per_iteration": 2, "group_size": 2, "num_learners": learners}
    algorithm = build(make_config(GRPOConfig, credit=f"{own}:by_length", **settings))
    assert algorithm.train()["gold_in_training"] == 0
    for rollout in algorithm.rollouts:
        lengths = [len(step.response_ids) for step in rollout.steps]
        np.testing.assert_allclose(rollout.advantages, 0.95 * np.array(lengths))
    steps = [step for rollout in algorithm.rollouts for step in rollout.steps]
    scores = algorithm.learner_group.score(
        [s.prompt_ids for s in steps], [s.response_ids for s in steps], reference=True
    )
    for step, scored in zip(steps, scores, strict=True):  # the reference is what sampled them
        np.testing.assert_allclose(scored, step.old_logprobs, atol=1e-5)
    assert algorithm.learner_group.score([], []) == []


@pytest.mark.usefixtures("cluster")
def test_gold_comes_from_the_environment_for_every_step_of_its_task(build, make_config, own):
    settings = {"tasks_per_iteration": 2, "group_size": 2, "gold_in_training": True}
    algorithm = build(make_config(GRPOConfig, credit=f"{own}:by_answers", **settings))
    assert algorithm.train()["gold_in_training"] == 1
    (read,) = algorithm._credit._rule.__globals__["CALLS"]
    tasks = [rollout.task_id for rollout in algorithm.rollouts for _ in rollout.steps]
    assert read == [(f"the key of {task}", "a key") for task in tasks]


@pytest.mark.usefixtures("cluster")
def test_a_run_that_cannot_have_what_its_rule_reads_is_refused_when_it_is_built(make_config, own):
    for rule, message in (
        ("by_passages", r"reads gold_passages: .* has no gold passages of task 'train-0'"),
        ("at_night", "reads moonlight: there is no moon: train at night"),
    ):
        config = make_config(GRPOConfig, credit=f"{own}:{rule}", gold_in_training=True)
        with pytest.raises(ValueError, match=message):
            config.build_algo()

"""HiPER trains; its subgoals stand in the next prompts, and each part has its own advantage."""

import numpy as np
import pytest
from ray.rllib.core import DEFAULT_MODULE_ID

from tests.chats import THINKING, qwen3_tokenizer, save_chat_model
from trca.algorithms import GRPOConfig, HiPERConfig
from trca.algorithms.credit import READS, bind_credit
from trca.algorithms.credit.reads import Sources
from trca.envs.responses import read_plan, write_plan
from trca.policies.models import load_tokenizer
from trca.records import Rollout, Step, StepBatch

SPEAKING = {"max_new_tokens": 40, "tasks_per_iteration": 2, "group_size": 4}
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def trained(make_config, planner):
    """After three iterations on the toy environment, with the weights before them."""
    config = make_config(HiPERConfig, model=str(planner), critic_lr=1e-2, **SPEAKING)
    algorithm = config.build_algo()
    before = algorithm.learner_group.get_state()["learner"]["rl_module"][DEFAULT_MODULE_ID]
    results = [algorithm.train() for _ in range(3)]
    yield algorithm, before, results
    algorithm.stop()


def test_it_learns_a_policy_and_three_values(trained):
    algorithm, before, results = trained
    after = algorithm.learner_group.get_state()["learner"]["rl_module"][DEFAULT_MODULE_ID]
    for result in results:
        assert result["missing_rollouts"] == result["skipped_updates"] == 0
        assert np.isfinite(result["value_loss"])
    head = after["critic/head.weight"]
    assert head.shape[0] == 3
    assert np.abs(np.asarray(head)).max(axis=1).min() > 0
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def test_the_last_subgoal_that_could_be_read_stands_in_the_prompt(trained):
    algorithm, *_ = trained
    tokenizer = load_tokenizer(algorithm.config.resolved_model())
    seen, lost = 0, 0
    for rollout in algorithm.rollouts:
        subgoal = None
        for step in rollout.steps:
            prompt = tokenizer.decode(step.prompt_ids)
            assert ("Your subgoal:" in prompt) == (subgoal is not None)
            assert subgoal is None or f"\nYour subgoal: {subgoal}\n" in prompt
            seen += subgoal is not None
            plan = read_plan(step.response).plan
            lost += plan is None
            subgoal = subgoal if plan is None else plan.subgoal
    assert seen > 5


def test_the_rule_reads_plans_and_credits_each_part(trained):
    algorithm, *_ = trained
    config, rollouts = algorithm.config, algorithm.rollouts
    batch = StepBatch.from_rollouts(rollouts, algorithm._operators["default_agent"].categories)
    sources = algorithm._sources(rollouts)
    read = {name: READS.get(name)(sources, batch) for name in ("plans", "values")}
    steps = [step for rollout in rollouts for step in rollout.steps]
    plans = [read_plan(step.response).plan for step in steps]
    said = read["plans"]
    assert said.switch.tolist() == [plan is not None and plan.switch for plan in plans]
    assert 0 < said.switch.sum() < len(steps)
    assert len(said.parts) == sum(len(step.response_ids) for step in steps)
    mask = np.concatenate([step.action_mask for step in steps])
    assert ((said.parts > 0) == mask).all()
    credit = bind_credit("hiper", config.settings).credit(batch, **read)
    step = np.repeat(np.arange(len(steps)), [len(s.response_ids) for s in steps])
    for part in (1, 2, 3):
        of_part = credit.token_advantages[said.parts == part]
        assert of_part.any()
        turns = step[said.parts == part]
        for turn in np.unique(turns):
            assert len(np.unique(of_part[turns == turn])) == 1


def test_any_algorithm_trains_with_plans(build, make_config, planner):
    """In these formats the action is the full plan."""
    config = make_config(GRPOConfig, model=str(planner), response_format="plan", **SPEAKING)
    algorithm = build(config)
    result = algorithm.train()
    assert result["missing_rollouts"] == result["skipped_updates"] == 0
    assert result["parsed_ratio"] > 0.2
    steps = [step for rollout in algorithm.rollouts for step in rollout.steps]
    tokenizer = load_tokenizer(config.resolved_model())
    for step in steps:
        if step.parsed:
            said = tokenizer.decode(step.response_ids[step.action_mask])
            assert said.startswith("<switch>")
            assert said.endswith("</action>")


def test_a_plan_after_a_native_thought_that_quotes_a_tag_is_read(make_config, tmp_path):
    tokenizer = qwen3_tokenizer(THINKING)
    folder = str(save_chat_model(tmp_path / "model", tokenizer))
    said = "<think>\nI could <action>x</action>\n</think>\n\n" + write_plan(True, "find mug", "go")
    ids = np.array(tokenizer(said, add_special_tokens=False)["input_ids"], dtype=np.int32)
    blank = np.zeros(len(ids))
    step = Step(ids, ids, blank > 0, blank, "", said, "go", "", "", 0.0, blank, True, True)
    rollout = Rollout("task", "train", "Pick", 0, 0, 0, steps=[step])
    sources = Sources(make_config(HiPERConfig, model=folder), None, None, [rollout])
    plans = READS.get("plans")(sources, None)
    assert plans.switch.tolist() == [True]
    assert set(plans.parts) == {0, 1, 2, 3}


@pytest.mark.slow
def test_success_rises_with_plans_that_nobody_taught(build, make_config, planner):
    algorithm = build(
        make_config(
            HiPERConfig,
            model=str(planner),
            max_new_tokens=40,
            tasks_per_iteration=16,
            group_size=4,
            minibatch_size=48,
            micro_batch_tokens=4096,
            lr=2e-3,
            critic_lr=5e-3,
            lr_warmup_updates=8,
            entropy_coeff=0.0,  # a bonus of 0.01 makes the end of the curve depend on rounding
            change_penalty=0.01,  # with the default of 0.03 success ends lower
        )
    )
    success = [algorithm.train()["success_rate"] for _ in range(16)]
    assert np.mean(success[-8:]) > np.mean(success[:3]) + 0.15, np.round(success, 2)

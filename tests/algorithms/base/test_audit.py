"""Advantages by execution are the advantages of a policy whose values are known."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests import toy
from tests.chats import save_chat_model, smollm2_tokenizer
from trca.algorithms import TurnPPOConfig, local_runner
from trca.algorithms.base.audit import BranchRunner, audit, learners_of, rules_of, sample
from trca.algorithms.rollouts.batch import GroupRequest
from trca.policies.engines.engine import BatchEngine, Completion
from trca.policies.models import load_tokenizer

LIMIT = 4


class Uniform(BatchEngine):
    """Takes each action of the toy environment with the same probability."""

    takes_weights = False

    def __init__(self, spec):
        super().__init__()
        tokenizer = load_tokenizer(spec.model)
        said = [tokenizer.encode(f"<action>{action}</action>") for action in toy.ACTIONS]
        self._said = [np.array(ids, np.int32) for ids in said]

    def generate(self, requests, sampling):
        drawn = [self._said[np.random.default_rng(r.seed).integers(4)] for r in requests]
        return [Completion(ids, np.zeros(len(ids), np.float32), "stop") for ids in drawn]


@cache
def value(room, left):
    """The share of successes of the policy from a room with some steps left."""
    if left == 0:
        return 0.0
    if room == 0:
        return 0.25 * value(1, left - 1) + 0.75 * value(0, left - 1)
    return 0.25 + 0.25 * value(0, left - 1) + 0.5 * value(1, left - 1)


def advantage(rollout, turn):
    """The advantage of a step by the values."""
    rooms = ["room 1" in step.observation for step in rollout.steps]
    before = value(int(rooms[turn]), LIMIT - turn)
    if turn + 1 == len(rollout.steps):
        return rollout.score - before
    return value(int(rooms[turn + 1]), LIMIT - turn - 1) - before


@pytest.fixture
def make_runner(make_config):
    engine = f"{__name__}:Uniform"

    def make(**env_config):
        config = make_config(env_config={"max_steps": LIMIT, **env_config}, engine=engine)
        return local_runner(config, BranchRunner)

    return make


@pytest.fixture
def runner(make_runner):
    runner = make_runner()
    yield runner
    runner.stop()


def test_values_of_states_are_the_known_values(runner):
    rollouts = sample(runner, tasks=4, size=4, seed=0)
    rules, skipped = rules_of(runner.config.settings)
    told = []
    found = audit(
        runner,
        rollouts,
        rules,
        learners_of(runner, runner.config),
        branched=8,
        playouts=100,
        seed=0,
        progress=lambda done, of: told.append((done, of)),
    )
    known = [
        advantage(rollouts[number], turn)
        for number in dict.fromkeys(found.rollout.tolist())
        for turn in range(len(rollouts[number].steps))
    ]
    assert len(found.executed) == len(known) > 20
    np.testing.assert_array_less(np.abs(found.executed - known), 5 * found.error + 1e-9)
    assert told[-1][0] == told[-1][1] == found.playouts / 100
    assert {"TRCA", "GRPO", "GiGPO", "BEACON", "HCAPO"} <= found.credit.keys()
    assert skipped["TurnPPO"] == "reads the values of its critic: audit a run of TurnPPO"
    assert all(len(credit) == len(known) for credit in found.credit.values())

    planted = {"right": np.array(known), "wrong": -np.array(known), "none": np.zeros(len(known))}
    planted = replace(found, credit=planted)
    right, wrong, none = map(planted.agreement, planted.credit)
    assert min(right.low, right.in_rollouts) > 0.5
    assert right.signs == 1.0
    assert right.correlation == pytest.approx(found.ceiling(), abs=0.1)
    assert wrong.high < -0.5
    assert wrong.signs == 0.0
    assert not none.defined
    assert none.credited == 0.0
    assert sum(found.fired.any(axis=0)) > 1


def test_the_steps_of_a_rollout_add_up_to_its_score(runner):
    rollouts = sample(runner, tasks=1, size=8, seed=1)
    found = audit(runner, rollouts, {}, branched=8, playouts=4, seed=1)
    sums = np.bincount(found.rollout, found.executed)
    starts = [rollout.score for rollout in rollouts] - sums
    np.testing.assert_allclose(starts, starts[0])  # all begin in the same state


def test_playouts_repeat_with_the_same_seed(runner):
    rollouts = sample(runner, tasks=2, size=4, seed=2)
    again = sample(runner, tasks=2, size=4, seed=2)
    assert [r.score for r in rollouts] == [r.score for r in again]
    settings = {"branched": 2, "playouts": 4}
    first, second, other = (
        audit(runner, rollouts, {}, seed=seed, **settings).executed for seed in (0, 0, 1)
    )
    assert first.tolist() == second.tolist() != other.tolist()


def test_an_environment_with_chance_is_refused(make_runner):
    runner = make_runner(wind=0.5)
    rollouts = sample(runner, tasks=2, size=4, seed=0)
    with pytest.raises(ValueError, match=r"does not replay: turn \d has another prompt"):
        audit(runner, rollouts, {}, branched=8, playouts=2, seed=0)
    runner.stop()


def test_a_rollout_with_a_missing_playout_is_left_out(make_runner):
    runner = make_runner()
    rollouts = sample(runner, tasks=2, size=2, seed=0)
    whole = audit(runner, rollouts, {}, branched=4, playouts=4, seed=0)
    runner.stop()
    tasks = list(dict.fromkeys(rollout.task_id for rollout in rollouts))
    runner = make_runner(broken=tasks[:1])
    found = audit(runner, rollouts, {}, branched=4, playouts=4, seed=0)
    kept = np.isin(whole.rollout, [2, 3])
    assert set(found.rollout) == {2, 3}
    assert found.executed.tolist() == whole.executed[kept].tolist()
    assert {failure.task_id for failure in found.lost} == {tasks[0]}
    assert "the door of" in found.lost[0].reason
    assert sum(failure.rollouts for failure in found.lost) == whole.playouts - found.playouts
    runner.stop()
    runner = make_runner(broken=tasks)
    with pytest.raises(ValueError, match=r"every rollout has a missing playout: .*the door of"):
        audit(runner, rollouts, {}, branched=4, playouts=4, seed=0)
    runner.stop()


def test_a_teacher_leaves_later_turns_to_the_policy(runner):
    (rollout, *_) = sample(runner, tasks=1, size=4, seed=3)
    runner.branches.responses.append([rollout.steps[0].response_ids])
    request = GroupRequest(0, rollout.task_id, rollout.split, 6, ("x",), demonstration=0)
    played = runner.sample(groups=[request]).rollouts
    assert {each.steps[0].response for each in played} == {rollout.steps[0].response}
    assert len({each.steps[1].response for each in played if len(each.steps) > 1}) > 1


class Speller(Uniform):
    """Spells the actions: its ids are not the ids of the tokenizer for the same text."""

    def __init__(self, spec):
        super().__init__(spec)
        tokenizer = load_tokenizer(spec.model)
        said = [tokenizer.decode(ids) for ids in self._said]
        spelled = [[i for sign in text for i in tokenizer.encode(sign)] for text in said]
        assert all(len(a) > len(b) for a, b in zip(spelled, self._said, strict=True))
        self._said = [np.array(ids, np.int32) for ids in spelled]


def test_a_conversation_replays_the_sampled_ids(make_config, tmp_path):
    model = str(save_chat_model(tmp_path / "model", smollm2_tokenizer()))
    chat = {"model": model, "template": "chat", "max_prompt_tokens": 2000, "max_new_tokens": 64}
    config = make_config(
        env_config={"max_steps": LIMIT}, engine=f"{__name__}:Speller", history_length=9, **chat
    )
    runner = local_runner(config, BranchRunner)
    rollouts = sample(runner, tasks=2, size=4, seed=0)
    found = audit(runner, rollouts, {}, branched=4, playouts=8, seed=0)
    runner.stop()
    assert np.abs(found.executed).max() > 0.0


@pytest.mark.usefixtures("cluster")
def test_a_critic_of_a_checkpoint_credits_its_own_rule(make_config, build, tmp_path):
    config = make_config(TurnPPOConfig, env_config={"max_steps": LIMIT}, critic_lr=0.01)
    algorithm = build(config)
    algorithm.train()
    algorithm.save_to_path(str(tmp_path))
    rules, skipped = rules_of(config.settings, tmp_path)
    assert "TurnPPO" in rules
    assert skipped["ShapedTurnPPO"] == (
        "reads the values of its critic: audit a run of ShapedTurnPPO"
    )
    runner = local_runner(config, BranchRunner)
    rollouts = sample(runner, tasks=2, size=4, seed=0)
    learners = learners_of(runner, config, tmp_path)
    steps = [step for rollout in rollouts for step in rollout.steps]
    texts = [step.prompt_ids for step in steps], [step.response_ids for step in steps]
    for method in ("score", "values"):
        trained, loaded = (
            np.concatenate(getattr(group, method)(*texts))
            for group in (algorithm.learner_group, learners)
        )
        np.testing.assert_allclose(loaded, trained, atol=1e-6)
        assert np.std(loaded) > 0.0
    own = {"TurnPPO": rules["TurnPPO"]}
    found = audit(runner, rollouts, own, learners, branched=8, playouts=2, seed=0)
    runner.stop()
    assert np.std(found.credit["TurnPPO"]) > 0.0

"""The rollout loop: records, ends of responses, and failures of groups."""

import asyncio
import re
import signal
import threading
import time
from dataclasses import replace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.toy import Rooms
from trca.algorithms import TRCAConfig, local_runner
from trca.algorithms.credit import bind_credit
from trca.algorithms.rollouts.batch import GroupRequest, derive_seed
from trca.algorithms.rollouts.play import RolloutLoop
from trca.algorithms.settings.groups import FailureSettings
from trca.common.threads import run_to_end
from trca.envs import make
from trca.envs.responses import ACTION_FORMAT
from trca.envs.searchqa.search_r1 import SEARCH_R1_FORMAT
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.engines.engine import SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.models import load_model, load_tokenizer
from trca.policies.prompts import Prompter
from trca.records import StepBatch
from trca.records.rollout import Failure
from trca.rubric import RubricLibrary

SAMPLING = SamplingParams(1.0, 96)
RAISE = "if it was slow, raise rollout_timeout_s"
GROUPS = [GroupRequest(k, f"train-{k}", "train", 4, ("training", 7, 0), 0.5) for k in range(3)]


class RemoteRooms(Rooms):
    waits = True


def make_loop(model, env_class=Rooms, wrapper=lambda env: env, env_config=None, **arguments):
    tokenizer = load_tokenizer(str(model))
    defaults = {
        "make_env": lambda split: wrapper(make(env_class, split=split, **env_config or {})),
        "engine": TransformersEngine(load_model(str(model)), tokenizer),
        "prompter": Prompter(tokenizer, "compact"),
        "tokenizer": tokenizer,
    }
    return RolloutLoop(**defaults | arguments)


def plain(rollouts):
    return [
        (
            r.task_id,
            r.group,
            r.index,
            r.won,
            [(s.observation, s.response, s.reward) for s in r.steps],
        )
        for r in rollouts
    ]


@pytest.fixture(scope="module")
def batch(model):
    loop = make_loop(model)
    batch = loop.run(GROUPS, SAMPLING)
    loop.close()
    return batch


def test_rollouts_name_their_task_and_agent(batch):
    assert [(r.group, r.index) for r in batch.rollouts] == [
        (g, k) for g in range(3) for k in range(4)
    ]
    for rollout in batch.rollouts:
        assert rollout.task_id == f"train-{rollout.group}"
        assert rollout.agent_id == "default_agent"
        assert rollout.instruction == "take the key."
        assert rollout.operators == RubricLibrary.load(Rooms.library).ids
        assert rollout.measures["progress"] == 0.5
        assert rollout.won or len(rollout.steps) == 4
        assert rollout.truncated != rollout.won


def test_a_step_is_one_reading_of_its_response(batch, model):
    tokenizer = load_tokenizer(str(model))
    steps = [step for rollout in batch.rollouts for step in rollout.steps]
    for step in steps:
        reading = ACTION_FORMAT.read(step.response)
        assert step.action == reading.action
        assert step.parsed == (step.action != "")
        assert step.action_mask.any() == (reading.span is not None)
        marked = tokenizer.decode(step.response_ids[step.action_mask])
        assert ACTION_FORMAT.read(marked).action == step.action
    assert any(step.action_mask.any() for step in steps)


def test_judgments_are_the_array_of_the_environment(model):
    given = []

    class Kept(gymnasium.Wrapper):
        def step(self, action):
            *transition, info = super().step(action)
            given.append(info["rubric"]["judgments"])
            return *transition, info

    loop = make_loop(model, wrapper=Kept)
    rollouts = loop.run(GROUPS[:1], SAMPLING).rollouts
    judgments = [step.judgments for rollout in rollouts for step in rollout.steps]
    assert {id(array) for array in judgments} == {id(array) for array in given}
    assert not any(array.flags.writeable for array in judgments)


def test_environments_that_step_side_by_side_leave_the_same_rollouts(batch, model):
    loop = make_loop(model, RemoteRooms)
    assert plain(loop.run(GROUPS, SAMPLING).rollouts) == plain(batch.rollouts)
    loop.close()


def test_environments_that_wait_start_side_by_side(batch, model):
    class Opening(RemoteRooms):
        everyone = threading.Barrier(sum(group.size for group in GROUPS))

        def reset(self, **kwargs):
            self.everyone.wait(timeout=300)
            return super().reset(**kwargs)

    loop = make_loop(model, Opening)
    left = loop.run(GROUPS, SAMPLING)
    assert left.incidents == []
    assert plain(left.rollouts) == plain(batch.rollouts)
    loop.close()


def test_the_time_of_a_rollout_starts_when_all_environments_have(batch, model, monkeypatch):
    """By the clock of event loops twelve resets together take twice the time of a rollout."""
    late = []

    class Slow(Rooms):
        def reset(self, **kwargs):
            late.append(100.0)
            return super().reset(**kwargs)

    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: time.monotonic() + sum(late))
    loop = make_loop(model, Slow, limits=FailureSettings(rollout_timeout_s=600.0))
    left = loop.run(GROUPS, SAMPLING)
    assert left.incidents == []
    assert plain(left.rollouts) == plain(batch.rollouts)
    loop.close()


def test_a_rollout_goes_on_while_the_environment_of_another_waits(batch, model):
    """The first environment of a group waits, in its first step, for the end of the last one."""

    class Waiting(Rooms):
        waits = True
        made: ClassVar[list] = []
        over = threading.Event()

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.made.append(self)

        def step(self, action):
            if self is self.made[0] and not self.over.wait(timeout=300):
                raise TimeoutError("the other rollout does not go on")
            *transition, info = super().step(action)
            if self is self.made[-1] and any(transition[2:4]):
                self.over.set()
            return *transition, info

    loop = make_loop(model, Waiting)
    left = loop.run(GROUPS[:1], SAMPLING)
    assert left.failures == []
    assert plain(left.rollouts) == plain(batch.rollouts[:4])
    loop.close()


def test_a_group_of_a_broken_environment_is_missing_with_its_reason_on_one_line(batch, model):
    class Leaking(Rooms):
        def take_action(self, action):
            if self.task_type == "Odd":
                raise OSError("the roof\nis leaking")
            return super().take_action(action)

    loop = make_loop(model, Leaking, env_config={"broken": ("train-2",)})
    left = loop.run(GROUPS, SAMPLING)
    assert plain(left.rollouts) == plain(batch.rollouts[:4])
    reasons = {f.group: f.reason for f in left.failures}
    assert {f.group: f.rollouts for f in left.failures} == {1: 4, 2: 4}
    assert re.fullmatch(
        r"OSError: the roof is leaking \(in Leaking, at test_loop\.py:\d+ in take_action\)",
        reasons[1],
    )
    assert re.fullmatch(
        r"RuntimeError: the door of train-2 is stuck \(in Leaking, at toy\.py:\d+ in start_task\)",
        reasons[2],
    )
    assert {(i.which, i.task_id, i.action) for i in left.incidents if i.task_id == "train-2"} == {
        ("0 of group 2", "train-2", "retried"),
        ("0 of group 2", "train-2", "dropped"),
    }


def rows(incidents):
    return [(i.kind, i.which, i.task_id, i.reason, i.action) for i in incidents]


def reset_seed(group, index):
    """The seed of an environment's reset."""
    return derive_seed("training", 7, 0, group, index, "reset") % 2**31


STEP_LIMIT, ROLLOUT_LIMIT = (
    FailureSettings(env_step_timeout_s=2.0),
    FailureSettings(rollout_timeout_s=20.0),
)


@pytest.mark.parametrize(
    ("waiting", "limits"), [(False, STEP_LIMIT), (True, STEP_LIMIT), (True, ROLLOUT_LIMIT)]
)
def test_a_rollout_that_fails_once_is_played_again_from_the_same_seeds(
    batch, model, waiting, limits
):
    class Shaky(Rooms):
        waits = waiting
        made = 0
        faults: ClassVar[dict] = {reset_seed(1, 1): "raises", reset_seed(0, 2): "hangs"}

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            Shaky.made += 1

        def reset(self, *, seed=None, options=None):
            self.fault = self.faults.pop(seed, "")
            return super().reset(seed=seed, options=options)

        def take_action(self, action):
            if self.fault == "raises":
                raise OSError("the roof is leaking")
            if self.fault == "hangs":
                threading.Event().wait()
            return super().take_action(action)

    loop = make_loop(model, Shaky, limits=limits)
    left = loop.run(GROUPS, SAMPLING)
    assert plain(left.rollouts) == plain(batch.rollouts)
    assert left.failures == []
    assert Shaky.made == 14
    (_, _, _, stuck, _), leaking = sorted(rows(left.incidents), key=lambda i: i[1])[::-1]
    kind, which, task_id, reason, action = leaking
    assert (kind, which, task_id, action) == ("rollout", "1 of group 1", "train-1", "retried")
    assert reason.startswith("OSError: the roof is leaking (in Shaky, at test_loop.py:")
    if limits is STEP_LIMIT:
        assert "environment Shaky: step(" in stuck
        assert "has not returned for 2 s, at threading.py" in stuck
    else:
        assert stuck == f"StuckError: the rollout has not ended in 20 s, after 0 steps: {RAISE}"
    loop.close()


def stuck_rooms():
    """Rooms whose steps never return; the first of all steps interrupts the main thread."""
    interrupts = iter([signal.SIGINT])

    class Stuck(Rooms):
        closed = 0

        def take_action(self, action):
            for interrupt in interrupts:
                signal.pthread_kill(threading.main_thread().ident, interrupt)
            threading.Event().wait()

        def close(self):
            Stuck.closed += 1

    return Stuck


def test_an_interrupt_ends_the_rollouts_although_a_step_never_returns(model):
    rooms = stuck_rooms()
    loop = make_loop(model, rooms)
    with pytest.raises(KeyboardInterrupt):
        loop.run(GROUPS[:1], SAMPLING)
    loop.close()
    assert rooms.closed == 3


def test_a_second_interrupt_leaves_the_steps_that_never_return(model, monkeypatch):
    def interrupted(loop):
        raise KeyboardInterrupt

    loop = make_loop(model, stuck_rooms())
    with monkeypatch.context() as patch:
        patch.setattr("asyncio.runners._cancel_all_tasks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run(GROUPS[:1], SAMPLING)
    closing = threading.Thread(target=loop.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


@pytest.mark.parametrize("policy", ["drop_group", "go_on"])
def test_a_rollout_that_fails_twice_is_missing_and_its_group_with_it_or_not(batch, model, policy):
    class Leaking(Rooms):
        def reset(self, *, seed=None, options=None):
            self.seed = seed
            return super().reset(seed=seed, options=options)

        def take_action(self, action):
            if self.seed == reset_seed(1, 3):
                raise OSError("the roof is leaking")
            return super().take_action(action)

    loop = make_loop(model, Leaking, limits=FailureSettings(on_missing_rollout=policy))
    left = loop.run(GROUPS, SAMPLING)
    others = [r for r in batch.rollouts if (r.group, r.index) != (1, 3)]
    whole = [r for r in batch.rollouts if r.group != 1]
    lost = {"drop_group": 4, "go_on": 1}[policy]
    assert plain(left.rollouts) == plain(whole if policy == "drop_group" else others)
    [failure] = left.failures
    assert failure == Failure(1, "train-1", lost, failure.reason)
    assert failure.reason.startswith("OSError: the roof is leaking (in Leaking, at test_loop.py:")
    assert [i.action for i in left.incidents] == ["retried", "dropped"]


def grows_at_the_end(instruction, step, *rest):
    return f"{instruction} {'x ' * 400 * step}"


@pytest.mark.parametrize("policy", ["drop_group", "go_on"])
@pytest.mark.parametrize("team", [None, "planner: {speaks: true}\n  executor: {acts: [all]}"])
def test_a_training_rollout_whose_final_prompt_does_not_fit_is_missing_and_not_done(
    model, tmp_path, policy, team
):
    """A critic needs the value of the state at the step limit; an evaluation does not."""
    env_config = {"max_steps": 1}
    if team:
        (tmp_path / "team.yaml").write_text(f"names: [numbered]\nroles:\n  {team}\n")
        env_config["team"] = str(tmp_path / "team.yaml")
    loop = make_loop(
        model,
        env_config=env_config,
        prompter=Prompter(load_tokenizer(str(model)), grows_at_the_end, max_prompt_tokens=300),
        limits=FailureSettings(on_missing_rollout=policy),
        keep_final_prompts=True,
    )
    left = loop.run(GROUPS[:1], SAMPLING)
    [failure] = left.failures
    assert left.rollouts == []
    assert failure == Failure(0, "train-0", 4, failure.reason)
    assert "take over 300 tokens: raise max_prompt_tokens" in failure.reason
    assert {i.action for i in left.incidents} == {"retried", "dropped"}
    evaluated = loop.run([replace(GROUPS[0], progress=None, keep_finished=True)], SAMPLING)
    assert evaluated.failures == []
    assert [r.index for r in evaluated.rollouts] == sorted([0, 1, 2, 3] * (2 if team else 1))
    assert all(r.truncated and r.final_prompt_ids is None for r in evaluated.rollouts)
    loop.close()


def test_a_group_that_lacks_a_rollout_is_credited_as_a_smaller_group(batch, model):
    categories = RubricLibrary.load(Rooms.library).categories
    credit = bind_credit("trca", TRCAConfig().settings)

    def advantages(rollouts):
        values = credit(StepBatch.from_rollouts(rollouts, categories))
        lengths = np.cumsum([len(r.steps) for r in rollouts])[:-1]
        return {
            (r.group, r.index): a for r, a in zip(rollouts, np.split(values, lengths), strict=True)
        }

    incomplete = [r for r in batch.rollouts if (r.group, r.index) != (1, 3)]
    together = advantages(incomplete)
    for group in range(3):
        of_group = advantages([r for r in incomplete if r.group == group])
        for key, values in of_group.items():
            np.testing.assert_array_equal(together[key], values)
    assert not np.array_equal(together[1, 0], advantages(batch.rollouts)[1, 0])


class Faulty(TransformersEngine):
    """An engine that breaks at its third batch and for good, in the way that is asked for."""

    how = "raises"
    batches = 0

    def generate(self, requests, sampling):
        self.batches += 1
        if self.batches < 3:
            return super().generate(requests, sampling)
        if self.how == "hangs":
            threading.Event().wait()
        raise RuntimeError("the GPU fell off the bus")


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_an_engine_that_dies_or_hangs_is_opened_again_and_loses_nothing(batch, model, how):
    tokenizer = load_tokenizer(str(model))
    opened = []

    def open_engine():
        opened.append(TransformersEngine(load_model(str(model)), tokenizer))
        return opened[-1]

    engine = Faulty(load_model(str(model)), tokenizer)
    engine.how = how
    limits = FailureSettings(generation_timeout_s={"raises": 60.0, "hangs": 15.0}[how])
    loop = make_loop(model, engine=engine, limits=limits, open_engine=open_engine)
    left = loop.run(GROUPS, SAMPLING)
    assert plain(left.rollouts) == plain(batch.rollouts)
    assert loop.engine is opened[0]
    last = rows(left.incidents)[-1]
    assert last == ("engine", "Faulty", "", "generation failed", "opened again")
    reasons = {i.reason for i in left.incidents if i.kind == "rollout"}
    if how == "raises":
        assert reasons == {"RuntimeError: the GPU fell off the bus"}
    else:
        # How many requests share a batch depends on the speed of the environments.
        stuck = re.compile(r"engine Faulty with [1-9]\d* requests has not returned for 15 s")
        assert reasons
        assert all(stuck.search(reason) for reason in reasons)
    loop.close()


def test_a_rollout_that_takes_too_long_is_given_up(model):
    left = make_loop(model, limits=FailureSettings(rollout_timeout_s=1e-9)).run(
        GROUPS[:1], SAMPLING
    )
    reason = f"StuckError: the rollout has not ended in 1e-09 s, after 0 steps: {RAISE}"
    assert left.failures == [Failure(0, "train-0", 4, reason)]


@pytest.fixture(scope="module")
def searcher(model):
    """A random model that sometimes writes the tags of Search-R1, with its tokenizer."""
    tokenizer = load_tokenizer(str(model))
    tokenizer.add_tokens(["<search>", "</search>", "<answer>", "</answer>"])
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    return Qwen3ForCausalLM(config).eval(), tokenizer


@pytest.mark.parametrize("response_format", [ACTION_FORMAT, SEARCH_R1_FORMAT])
def test_a_model_stops_at_the_tags_of_its_response_format_and_at_no_other(
    searcher, response_format
):
    model, tokenizer = searcher
    loop = RolloutLoop(
        lambda split: make(Rooms, split=split),
        TransformersEngine(model, tokenizer),
        Prompter(tokenizer, "compact"),
        tokenizer,
        response_format,
    )
    rollouts = loop.run(GROUPS, SAMPLING).rollouts
    responses = [step.response for rollout in rollouts for step in rollout.steps]
    ends = set()
    for response in responses:
        for tag in response_format.stop:
            if tag in response:
                assert response.index(tag) + len(tag) == len(response)
                ends.add(tag)
    assert ends == set(response_format.stop)
    others = {"</action>", "</search>", "</answer>"} - ends
    assert any(tag in response for tag in others for response in responses)


def test_a_runner_judges_by_the_budgets_and_lambda_of_the_run(model):
    config = TRCAConfig().environment("trca/ALFWorld-v0", env_config={"games": "small"})
    settings = {"budgets": {"invalidity": 2.0}, "lambda_": 0.25}
    runner = local_runner(config.training(model=str(model), template="compact", **settings))
    env = run_to_end(runner.loop.pool.take("train")).env
    env.reset(seed=0)
    rubric = env.step("dance")[-1]["rubric"]
    ids, categories = (getattr(runner.operators()[DEFAULT_AGENT], k) for k in ("ids", "categories"))
    fired = np.isin(ids, rubric["fired"])
    assert fired.any()
    assert set(categories[fired]) == {1}
    expected = -2.0 * fired.sum() / (categories == 1).sum()
    assert rubric["foundational"] == pytest.approx(expected)
    assert rubric["reward"] == pytest.approx(0.75 * expected)
    runner.stop()

"""The critic: its values, its loss, and the places of its weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData

from tests.algorithms.learner.test_text_learner import random_rollouts
from trca.algorithms import GRPOConfig, TurnPPO, TurnPPOConfig, export
from trca.algorithms.base.replay import add_replayed
from trca.algorithms.credit.values import VALUES, explained_variance
from trca.algorithms.learner.critic import value_loss
from trca.algorithms.learner.rows import make_rows
from trca.algorithms.settings.groups import WeightingSettings
from trca.envs.text_env import DEFAULT_AGENT
from trca.envs.text_space import AnyText
from trca.policies.models import load_model
from trca.records import StepBatch, assign_advantages, from_json, to_json

KINDS = ["trunk", "own"]
FAST = {"lr": 1e-2, "critic_lr": 1e-2, "value_clip": None, "minibatch_size": 6, "kl_coeff": 0.0}
STILL = {"lr": 1e-30, "critic_lr": 1e-30, "grad_clip": None, "minibatch_size": 99, "kl_coeff": 0.0}


@pytest.fixture
def build(make_config):
    def learner(**settings):
        config = make_config(TurnPPOConfig, **{"recompute_logprobs": True, **settings})
        made = config.build_learner(spaces={DEFAULT_MODULE_ID: (AnyText(), AnyText())})
        head = module_of(made).value_head
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            head.weight.copy_(0.1 * torch.randn(head.weight.shape, generator=generator))
        return made

    return learner


def module_of(learner):
    return learner.module[DEFAULT_MODULE_ID]


def rows_with(targets, old=None):
    """Rows of random rollouts; ``targets`` gives the target of each response token."""
    rollouts = random_rollouts(load_toy(), 250)
    steps = [step for rollout in rollouts for step in rollout.steps]
    count = sum(len(step.response_ids) for step in steps)
    assign_advantages(rollouts, np.zeros(len(steps)))
    wanted = targets(steps, count)[:, None]
    values = np.zeros_like(wanted) if old is None else old
    columns = {"old_values": values, "value_targets": wanted}
    return steps, make_rows(rollouts, WeightingSettings(), columns)


def load_toy():
    return rows_with.model


@pytest.fixture(autouse=True)
def toy_model(model):
    rows_with.model = load_model(str(model), "float32")


def at_first_tokens(numbers):
    def targets(steps, count):
        column = np.full(count, np.nan)
        column[np.cumsum([0] + [len(s.response_ids) for s in steps[:-1]])] = numbers(len(steps))
        return column

    return targets


def slow_values(module, step):
    """Values of the text before each response token, one prefix at a time."""
    network = module.critic if hasattr(module, "critic") else module.model.base_model
    ids = [*step.prompt_ids.tolist(), *step.response_ids.tolist()]
    values = []
    for place in range(len(step.response_ids)):
        prefix = torch.tensor([ids[: len(step.prompt_ids) + place]])
        hidden = network(input_ids=prefix).last_hidden_state[0, -1]
        values.append(module.value_head(hidden))
    return torch.stack(values)


def gradients_of(learner, rows):
    """The gradients of an update, by parameter."""
    module, noted = module_of(learner), {}
    hook = learner.get_optimizer(DEFAULT_MODULE_ID).register_step_pre_hook(
        lambda *_: noted.update(
            {k: p.grad.clone() for k, p in module.named_parameters() if p.grad is not None}
        )
    )
    learner.update(training_data=TrainingData(batch=rows), shuffle_key=(1,))
    hook.remove()
    return noted


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_that_of_the_text_before_its_token(build, kind):
    learner = build(critic=kind, micro_batch_tokens=64)
    steps, rows = rows_with(at_first_tokens(np.zeros))
    values = learner.value_rows(rows)
    with torch.no_grad():
        expected = torch.cat([slow_values(module_of(learner), step) for step in steps])
    np.testing.assert_allclose(values, expected.numpy(), atol=1e-5)
    assert np.ptp(values) > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_a_plain_loop_whatever_the_cut(build, kind):
    """Mean over steps of the mean over their targets; the third step has two."""

    def targets(steps, count):
        column = at_first_tokens(lambda n: np.linspace(-1, 1, n))(steps, count)
        column[sum(len(s.response_ids) for s in steps[:2]) + 1] = 0.5
        return column

    gradients = []
    for budget in (64, 4096):
        learner = build(critic=kind, micro_batch_tokens=budget, **STILL)
        steps, rows = rows_with(targets)
        gradients.append(gradients_of(learner, rows))
    module = module_of(learner)
    module.zero_grad()
    start, losses = 0, []
    for step in steps:
        wanted = torch.from_numpy(
            rows.optional["value_targets"][start : start + len(step.response_ids)]
        )
        targeted = ~wanted[:, 0].isnan()
        values, wanted = slow_values(module, step)[targeted], wanted[targeted]
        free, clipped = values - wanted, values.clamp(-0.5, 0.5) - wanted
        losses.append(0.5 * torch.maximum(free.square(), clipped.square()).mean())
        start += len(step.response_ids)
    torch.stack(losses).mean().backward()
    for noted in gradients:
        for name, parameter in module.named_parameters():
            if name.startswith(("critic.", "value_head.")):
                expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                torch.testing.assert_close(noted[name], expected, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 99])
def test_replayed_rows_leave_the_weight_of_a_step_in_the_critics_loss(build, kind, size):
    """A head of zeros and targets of 1: d loss / d bias is the mean of V - 1, which is -1.

    11 fresh rows and 11 replayed rows, in one update or one row an update. The update of a replayed
    row teaches the critic nothing, and that of a fresh row -2: the mean of 22 updates is -1.
    """
    learner = build(critic=kind, value_clip=None, **STILL | {"minibatch_size": size})
    head = module_of(learner).value_head
    with torch.no_grad():
        head.weight.zero_()
    biases, optimizer = [], learner.get_optimizer(DEFAULT_MODULE_ID)
    optimizer.register_step_pre_hook(
        lambda *_: biases.append(0.0 if head.bias.grad is None else float(head.bias.grad))
    )
    _, rows = rows_with(at_first_tokens(np.ones))
    again = random_rollouts(load_toy(), 250)
    joined = add_replayed(rows, again, 0.5, learner.config.settings)
    assert (len(rows), len(joined)) == (11, 22)
    (alone,) = joined.shards(1)
    learner.update(training_data=TrainingData(batch=alone), shuffle_key=(1,))
    expected = [-2.0] * 11 + [0.0] * 11 if size == 1 else [-1.0]
    assert sorted(biases) == pytest.approx(expected)


def test_checkpointed_layers_compute_again_with_the_adapter_of_the_critic(build):
    pytest.importorskip("peft")
    gradients = []
    for checkpointed in (False, True):
        learner = build(critic="own", lora_rank=4, gradient_checkpointing=checkpointed, **STILL)
        generator = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for name, parameter in module_of(learner).named_parameters():
                if ".lora_B.default." in name:  # the policy has moved; the critic has not
                    parameter.copy_(torch.randn(parameter.shape, generator=generator))
        _, rows = rows_with(at_first_tokens(np.ones))
        gradients.append(gradients_of(learner, rows))
    of_critic = [name for name in gradients[0] if ".critic." in name]
    assert any(gradients[0][name].abs().max() > 1e-3 for name in of_critic)
    for name in of_critic:
        torch.testing.assert_close(gradients[1][name], gradients[0][name], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"critic": "trunk"}, 0.9),
        ({"critic": "own", "lora_rank": 8, "critic_lr": 3e-3}, 0.8),
    ],
)
def test_a_critic_learns_a_fixed_batch(build, settings, least):
    if "lora_rank" in settings:
        pytest.importorskip("peft")
    learner = build(**{**FAST, **settings})
    targets = at_first_tokens(lambda n: np.random.default_rng(0).choice([0.0, 1.0], n))
    explained = []
    for number in range(25):
        _, rows = rows_with(targets)
        values = learner.value_rows(rows).astype(np.float64)
        explained.append(
            explained_variance(values, rows.optional["value_targets"].astype(np.float64))
        )
        learner.update(training_data=TrainingData(batch=rows), shuffle_key=(number,))
    assert explained[0] < 0.2
    assert explained[-1] > least


def test_a_critic_of_its_own_leaves_the_policy_alone_and_the_trunk_does_not(build):
    for kind, moves in (("own", False), ("trunk", True)):
        learner = build(critic=kind, entropy_coeff=0.0, **FAST)
        before = {k: v.clone() for k, v in module_of(learner).model.state_dict().items()}
        _, rows = rows_with(at_first_tokens(np.ones))  # all advantages are 0
        learner.update(training_data=TrainingData(batch=rows), shuffle_key=(1,))
        after = module_of(learner).model.state_dict()
        assert any(not torch.equal(before[k], after[k]) for k in before) == moves


def test_updates_of_the_critic_alone_count_and_those_of_nothing_do_not(build):
    learner = build(**FAST | {"minibatch_size": 99})
    for target, updates, skipped in ((1.0, 1, 0), (np.nan, 1, 0), (1e30, 1, 1)):
        _, rows = rows_with(at_first_tokens(lambda n, target=target: np.full(n, target)))
        idle = replace(rows, action_mask=np.zeros_like(rows.action_mask))
        metrics = learner.update(training_data=TrainingData(batch=idle), shuffle_key=(1,))
        assert learner.updaters[DEFAULT_MODULE_ID].updates == updates
        assert float(metrics[DEFAULT_MODULE_ID]["skipped_updates"]) == skipped


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradients_of_policy_and_critic_are_clipped_apart(build, kind):
    """Both are above the limit, so that each has the limit as its norm afterwards."""
    learner = build(critic=kind, **STILL | {"grad_clip": 0.01})
    _, rows = rows_with(at_first_tokens(lambda n: np.full(n, 100.0)))
    advantages = np.linspace(-1, 1, len(rows)).astype(np.float32)
    noted = gradients_of(learner, replace(rows, advantages=advantages))
    of_critic = {name for name in noted if name.startswith(("critic.", "value_head."))}

    def norm(names):
        return float(torch.stack([noted[name].norm() for name in names]).norm())

    assert norm(of_critic) == pytest.approx(0.01, rel=1e-3)
    assert norm(noted.keys() - of_critic) == pytest.approx(0.01, rel=1e-3)


def test_policy_and_critic_have_learning_rates_of_their_own(build):
    learner = build(**FAST | {"policy_lr": {DEFAULT_MODULE_ID: 3e-3}, "critic_lr": 5e-3})
    _, rows = rows_with(at_first_tokens(np.ones))
    learner.update(training_data=TrainingData(batch=rows), shuffle_key=(1,))
    groups = learner.get_optimizer(DEFAULT_MODULE_ID).param_groups
    assert [group["lr"] for group in groups] == [3e-3, 5e-3]


def test_advantages_of_tokens_that_are_alike_are_those_of_their_steps(build):
    weights = []
    for of_tokens in (False, True):
        learner = build(ratio_level="token", **FAST)
        _, rows = rows_with(at_first_tokens(np.ones))
        advantages = np.linspace(-1, 1, len(rows)).astype(np.float32)
        column = np.repeat(advantages, rows.response_lengths)
        given = {"advantages": advantages}
        if of_tokens:
            given = {"optional": {**rows.optional, "token_advantages": column}}
        learner.update(training_data=TrainingData(batch=replace(rows, **given)), shuffle_key=(1,))
        weights.append(module_of(learner).get_state())
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_loss_by_hand():
    """Errors 1, 1/2 | clipped at 1/2 of the old value: 1/2 instead of 1 does not count, 1 does."""
    values = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
    old, targets = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([0.0, 1.5, -1.0])
    weight = torch.tensor([0.5, 0.25, 0.25])
    loss, clipped = value_loss(values, old, targets, weight, clip=0.5)
    assert float(loss.detach()) == pytest.approx(0.5 * (0.5 * 1.0 + 0.25 * 1.0 + 0.25 * 9.0))
    assert float(clipped) == pytest.approx(0.25)
    loss.backward()
    torch.testing.assert_close(values.grad, torch.tensor([0.5, 0.0, 0.75]))
    free, none = value_loss(values.detach(), old, targets, weight, clip=None)
    assert float(free) == pytest.approx(0.5 * (0.5 * 1.0 + 0.25 * 0.25 + 0.25 * 9.0))
    assert float(none) == 0.0


def test_explained_variance_by_hand():
    targets = np.array([0.0, 1.0, np.nan, 2.0])
    assert explained_variance(np.array([0.0, 1.0, 5.0, 2.0]), targets) == 1.0
    assert explained_variance(np.full(4, 7.0), targets) == 0.0
    assert explained_variance(np.array([0.0, 0.5, 5.0, 1.0]), targets) == pytest.approx(0.75)
    assert np.isnan(explained_variance(np.zeros(2), np.ones(2)))


pytestmark = pytest.mark.usefixtures("cluster")


def check_values(algorithm):
    """The critic is asked of each state; a rollout that was cut off has one more."""
    rollouts = [r for r in algorithm.rollouts if r.steps]
    batch = StepBatch.from_rollouts(rollouts, algorithm._operators[DEFAULT_AGENT].categories)
    values = VALUES(algorithm._sources(rollouts), batch)
    start = 0
    for rollout in rollouts:
        prompts = [step.prompt_ids for step in rollout.steps]
        if rollout.truncated:
            prompts.append(rollout.final_prompt_ids)
        alone = algorithm.learner_group.values(prompts, [np.zeros(1, np.int32)] * len(prompts))
        states = [float(value[0, 0]) for value in alone] + [0.0] * (not rollout.truncated)
        end = start + len(rollout.steps)
        np.testing.assert_allclose(values.state[start:end, 0], states[:-1], atol=1e-5)
        np.testing.assert_allclose(values.after[start:end, 0], states[1:], atol=1e-5)
        start = end
    assert np.abs(values.after[batch.truncated]).min() > 0
    starts = np.cumsum(values.lengths) - values.lengths
    np.testing.assert_array_equal(values.tokens[starts], values.state)


def test_two_iterations_with_a_critic_and_a_checkpoint_between(make_config, tmp_path):
    config = make_config(TurnPPOConfig, critic_lr=1e-2, num_epochs=2)
    straight = config.build_algo()
    first = straight.train()
    assert first["explained_variance"] == pytest.approx(0.0)  # the head starts at zero
    for name in ("value_loss", "value_clip_ratio", "critic_grad_norm"):
        assert np.isfinite(first[name])
    cut = [r for r in straight.rollouts if r.truncated]
    assert cut
    assert all((r.final_prompt_ids is not None) == r.truncated for r in straight.rollouts)
    for rollout in cut:
        assert len(rollout.final_prompt_ids) > 0
        again = from_json(to_json(rollout))
        np.testing.assert_array_equal(again.final_prompt_ids, rollout.final_prompt_ids)
    path = straight.save_to_path(tmp_path / "checkpoint")
    second = straight.train()
    check_values(straight)
    assert second["explained_variance"] != 0.0
    whole = straight.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert {name.partition("/")[0] for name in whole if "/" in name} == {"critic"}
    pushed = straight.env_runner_group.local_env_runner._weights[DEFAULT_MODULE_ID]
    assert pushed.keys() == {name for name in whole if not name.startswith("critic/")}
    straight.stop()
    resumed = TurnPPO.from_checkpoint(path)
    resumed.train()
    after = resumed.learner_group.get_weights()[DEFAULT_MODULE_ID]
    resumed.stop()
    assert whole.keys() == after.keys()
    assert all(np.array_equal(whole[name], after[name]) for name in whole)
    folder = export(path, tmp_path / "policy")
    assert (folder / "model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_learners_gives_the_same_weights(make_config, kind):
    results = []
    for learners in (0, 2):
        settings = {"critic": kind, "critic_lr": 1e-3, "num_epochs": 2, "num_learners": learners}
        algorithm = make_config(TurnPPOConfig, **settings).build_algo()
        algorithm.train()
        results.append(algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID])
        algorithm.stop()
    one, two = results
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=2e-4, atol=2e-6, err_msg=name)


def test_two_levels_train_with_advantages_of_tokens(make_config):
    config = make_config(TurnPPOConfig, gae="bi_level", ratio_level="token")
    algorithm = config.build_algo()
    result = algorithm.train()
    assert result["skipped_updates"] == 0
    assert np.isfinite(result["value_loss"])
    algorithm.stop()


def test_what_cannot_have_a_critic_is_refused(make_config, tmp_path):
    with pytest.raises(ValueError, match="set sharding to none"):
        make_config(TurnPPOConfig, sharding="fsdp", num_learners=2).validate()
    rule = tmp_path / "own.py"
    rule.write_text(
        "def mine(batch, *, values):\n    return values.state[:, 0]\n"
        "def blind(batch):\n    return batch.reward\n"
    )
    with pytest.raises(ValueError, match=r"reads values: GRPO has no critic: set algorithm to Tur"):
        make_config(GRPOConfig, credit=f"{rule}:mine").build_algo()
    with pytest.raises(ValueError, match="does not read values, and TurnPPO has a critic"):
        make_config(TurnPPOConfig, credit=f"{rule}:blind").validate()
    algorithm = make_config(TurnPPOConfig, credit=f"{rule}:mine").build_algo()
    with pytest.raises(ValueError, match="mine' returned no value_targets for the critic"):
        algorithm.train()
    algorithm.stop()

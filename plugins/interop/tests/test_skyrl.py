"""The rules as advantage estimators of SkyRL, with rows of steps and rows of trajectories."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from foreign import LIBRARY, play, trajectories
from test_credit import OURS, ours
from trca_interop.credit import Credit
from trca_interop.skyrl import estimator, register, with_credit

RULES = {rule: Credit.bind(rule, LIBRARY) for rule in OURS}


class Plain:
    """A trainer with SkyRL's methods, for environments without SkyRL."""

    def convert_to_training_input(self, generator_output, uids):
        rows = len(generator_output["response_ids"]) + 1  # one row fills the batch
        mask = torch.tensor([*generator_output["loss_masks"], [0, 0, 0]])
        data = Batch(response_mask=torch.ones_like(mask), loss_mask=mask)
        data.metadata = {"uids": [*uids, "pad0"][:rows]}
        if generator_output["is_last_step"]:
            data.metadata["is_last_step"] = [*generator_output["is_last_step"], True]
        return data

    def compute_advantages_and_returns(self, data):
        rewards = torch.zeros(data["response_mask"].shape, dtype=torch.float64)
        data["advantages"], data["returns"] = estimator(
            token_level_rewards=rewards, response_mask=data["response_mask"], config=None
        )
        data.metadata["metrics"] = {}
        return data

    def dump_data(self, data, file_name):
        folder = self.cfg.trainer.export_path / "dumped_data"
        folder.mkdir(parents=True, exist_ok=True)


class Batch(dict):
    metadata = None


@pytest.fixture(scope="module")
def played():
    return play(groups=3)


def config(rule, stepwise, folder=None):
    algorithm = SimpleNamespace(
        advantage_estimator=rule, dynamic_sampling=SimpleNamespace(type=None)
    )
    return SimpleNamespace(
        trainer=SimpleNamespace(algorithm=algorithm, export_path=folder),
        generator=SimpleNamespace(step_wise_trajectories=stepwise, merge_stepwise_output=False),
    )


def trained(base, settings):
    trainer = object.__new__(with_credit(base, RULES))
    trainer.cfg, trainer.all_metrics = settings, {}
    return trainer


def steps_output(rows):
    """SkyRL's output with a row per step; the annotations arrive at the end of each rollout."""
    ids = [row[1] for row in rows]
    lasts = [k + 1 == len(ids) or ids[k] != ids[k + 1] for k in range(len(ids))]
    whole = {}
    for _, rollout, annotation in rows:
        whole.setdefault(rollout, []).append(annotation)
    return {
        "prompt_token_ids": [[1, 2]] * len(rows),
        "response_ids": [[3, 4, 5]] * len(rows),
        "loss_masks": [[1, 1, 0]] * len(rows),
        "rewards": [[0.0, 0.0, a["reward"]] for _, _, a in rows],
        "is_last_step": lasts,
        "env_metrics": [
            {"trca": whole[i]} if last else {} for i, last in zip(ids, lasts, strict=True)
        ],
    }, [row[0] for row in rows]


@pytest.mark.parametrize("rule", OURS)
def test_rows_of_steps(rule, played, tmp_path):
    rollouts, rows = played
    trainer = trained(Plain, config(rule, True, tmp_path))
    data = trainer.convert_to_training_input(*steps_output(rows))
    data = trainer.compute_advantages_and_returns(data)
    wanted = ours(rule, {}, rollouts)
    got = data["advantages"].numpy()
    np.testing.assert_allclose(got[:-1, 1], wanted, rtol=0, atol=1e-12)
    assert not got[-1].any()
    assert not got[:, 2:].any()
    assert "trca" not in data.metadata
    assert data.metadata["metrics"]["avg_advantages"] == pytest.approx(wanted.mean())
    assert trainer.all_metrics["loss/avg_raw_advantages_abs"] == pytest.approx(abs(wanted).mean())
    trainer.dump_data(data, "step_1")
    lines = (tmp_path / "dumped_data/step_1.jsonl").read_text().splitlines()
    assert [json.loads(line)["trca"] for line in lines] == [row[2] for row in rows]


def test_rows_of_trajectories(played):
    rollouts, rows = played
    groups, _, annotations, mask, step = trajectories(rows, np.random.default_rng(4))
    trainer = trained(Plain, config("trca", False))
    data = Batch(response_mask=torch.ones(mask.shape), loss_mask=torch.tensor(mask))
    data.metadata = {"uids": list(groups), "trca": annotations}
    got = trainer.compute_advantages_and_returns(data)["advantages"].numpy()
    wanted = np.where(mask, ours("trca", {}, rollouts)[step], 0.0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_a_rollout_that_skyrl_stopped_has_no_advantage(played):
    output, uids = steps_output(played[1])
    end = output["is_last_step"].index(True)
    metrics = [{}] * (end + 1) + output["env_metrics"][end + 1 :]
    trainer = trained(Plain, config("trca", True))
    data = trainer.convert_to_training_input(output | {"env_metrics": metrics}, uids)
    got = trainer.compute_advantages_and_returns(data)["advantages"].numpy()
    left = played[1][end + 1 :]
    wanted = RULES["trca"](*zip(*left, strict=True), np.ones((len(left), 1)))
    np.testing.assert_array_equal(got[end + 1 : -1, :1], wanted)
    assert not got[: end + 1].any()
    assert trainer.all_metrics["trca/unannotated_rollouts"] == 1
    without = output | {"env_metrics": [{}] * len(uids)}
    data = trainer.convert_to_training_input(without, uids)
    assert not trainer.compute_advantages_and_returns(data)["advantages"].any()
    assert trainer.all_metrics["trca/unannotated_rollouts"] == sum(output["is_last_step"])


def test_other_estimators_stay(played, tmp_path):
    trainer = trained(Plain, config("grpo", True))
    data = trainer.convert_to_training_input(*steps_output(played[1]))
    assert "trca" not in data.metadata
    with pytest.raises(ValueError, match=r"with_credit\(RayPPOTrainer, register\(...\)\)"):
        trainer.compute_advantages_and_returns(data)
    trainer.cfg.trainer.export_path = tmp_path
    trainer.dump_data(data, "step_1")
    assert not list(tmp_path.glob("dumped_data/*.jsonl"))


def test_missing_annotations_and_settings_that_move_rows_are_refused(played):
    output, uids = steps_output(played[1])
    trainer = trained(Plain, config("trca", True))
    with pytest.raises(ValueError, match="env_metrics of the rollouts have no 'trca'"):
        trainer.convert_to_training_input(output | {"env_metrics": [{}] * len(uids)}, uids)
    end = output["is_last_step"].index(True)
    metrics = list(output["env_metrics"])
    metrics[end] = {"trca": metrics[end]["trca"][1:]}
    with pytest.raises(ValueError, match=rf"rows 0 to {end} has {end} annotations"):
        trainer.convert_to_training_input(output | {"env_metrics": metrics}, uids)
    trainer.cfg.trainer.algorithm.dynamic_sampling.type = "replace"
    with pytest.raises(ValueError, match=r"dynamic_sampling.type='replace' moves rows"):
        trainer.convert_to_training_input(output, uids)
    trainer.cfg.trainer.algorithm.dynamic_sampling.type = None
    trainer.cfg.generator.merge_stepwise_output = True
    with pytest.raises(ValueError, match="merge_stepwise_output merges"):
        trainer.convert_to_training_input(output, uids)


def test_the_trainer_of_skyrl_credits_transitions(played, tmp_path, monkeypatch):
    import typing

    import typing_extensions

    pytest.importorskip("skyrl", reason="make test-interop runs it, with SkyRL")
    if sys.version_info < (3, 12):  # pydantic refuses typing's class in SkyRL's models
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.trainer import RayPPOTrainer

    known = dict(AdvantageEstimatorRegistry._functions)
    monkeypatch.setattr(AdvantageEstimatorRegistry, "_functions", known)
    rules = register(LIBRARY)
    assert set(rules) <= set(AdvantageEstimatorRegistry.list_available())
    rollouts, rows = played
    for rule in rules:
        settings = SkyRLTrainConfig()
        settings.trainer.algorithm.advantage_estimator = rule
        settings.trainer.train_batch_size = settings.trainer.policy_mini_batch_size = 3
        settings.generator.n_samples_per_prompt = 4
        settings.generator.step_wise_trajectories = True
        trainer = trained(RayPPOTrainer, settings)
        trainer.tokenizer = SimpleNamespace(pad_token_id=0)
        trainer.dispatch = SimpleNamespace(get_lcm_dp_size=lambda: 7)
        output, uids = steps_output(rows)
        data = trainer.convert_to_training_input(output, uids)
        assert len(data["response_mask"]) % 7 == 0
        data["values"] = None
        got = trainer.compute_advantages_and_returns(data)["advantages"].numpy()
        wanted = ours(rule, {}, rollouts)[:, None] * np.array(output["loss_masks"])
        np.testing.assert_allclose(got[: len(rows)], wanted, rtol=0, atol=1e-6)
        assert not got[len(rows) :].any()

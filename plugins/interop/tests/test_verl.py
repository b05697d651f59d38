"""The rules as advantage estimators of verl, and of verl-agent, which has no registry."""

import sys
import types

import numpy as np
import pytest
import torch

from foreign import LIBRARY, masks, play, trajectories
from test_credit import OURS, columns, ours
from trca.rubric import RubricLibrary
from trca_interop.credit import Credit
from trca_interop.dumps import dump_files, read_dump
from trca_interop.verl import bind_all, estimator, register, replace_compute_advantage
from trca_interop.verl_v1 import columns as columns_of_queue


@pytest.fixture(scope="module")
def played():
    return play(groups=3)


def batch_of(rows, mask):
    """The tensors and the columns of a batch, in float64."""
    groups, rollouts, annotations = (np.empty(len(rows), object) for _ in range(3))
    groups[:], rollouts[:], annotations[:] = columns(rows)
    tensors = {
        "token_level_rewards": torch.zeros(mask.shape, dtype=torch.float64),
        "response_mask": torch.tensor(mask),
    }
    return tensors, {"uid": groups, "traj_uid": rollouts, "trca": annotations}


@pytest.mark.parametrize("rule", OURS)
def test_the_estimator_returns_tensors_like_the_rewards(rule, played):
    rollouts, rows = played
    mask = masks(len(rows), np.random.default_rng(3))
    tensors, non_tensors = batch_of(rows, mask)
    run = estimator(Credit.bind(rule, LIBRARY))
    advantages, returns = run(
        **tensors, config={}, index=non_tensors["uid"], non_tensor_batch=non_tensors
    )
    wanted = ours(rule, {}, rollouts)[:, None] * mask
    np.testing.assert_allclose(advantages.numpy(), wanted, rtol=0, atol=1e-12)
    assert torch.equal(advantages, returns)
    single = run(tensors["token_level_rewards"].float(), tensors["response_mask"], non_tensors)[0]
    assert single.dtype == torch.float32


def test_a_row_without_a_rollout_id_is_a_rollout(played):
    rollouts, rows = played
    groups, _, annotations, mask, step = trajectories(rows, np.random.default_rng(4))
    tensors, _ = batch_of(rows, mask)
    columns = {"uid": groups, "trca": annotations}
    advantages, _ = estimator(Credit.bind("trca", LIBRARY))(**tensors, non_tensor_batch=columns)
    wanted = np.where(mask, ours("trca", {}, rollouts)[step], 0.0)
    np.testing.assert_allclose(advantages.numpy(), wanted, rtol=0, atol=1e-12)


def test_missing_columns_are_named():
    run = estimator(Credit.bind("gigpo"))
    mask = torch.ones(1, 1)
    with pytest.raises(ValueError, match="column 'uid' and 'trca': write annotations"):
        run(mask, mask, index=["a"], config=None)
    with pytest.raises(ValueError, match="column 'trca': write"):
        run(mask, mask, non_tensor_batch={"uid": ["a"]})


def test_rules_that_read_judgments_need_a_library():
    assert list(bind_all(None, {})) == ["gigpo"]
    assert list(bind_all(LIBRARY, {"trca": {"lambda_": 0.5}})) == ["trca", "gigpo", "beacon"]
    with pytest.raises(ValueError, match="'beacon' reads judgments"):
        bind_all(None, {"beacon": {}})
    with pytest.raises(ValueError, match="unknown credit rule 'grpo'"):
        bind_all(LIBRARY, {"grpo": {}})


def test_a_name_of_verl_agent_stands_for_a_rule(played, monkeypatch, tmp_path):
    rollouts, rows = played
    trainer, borrower = types.ModuleType("ray_trainer"), types.ModuleType("verl.borrower")
    trainer.compute_advantage = lambda data, adv_estimator, gamma=1.0: (adv_estimator, gamma)
    borrower.compute_advantage = trainer.compute_advantage
    monkeypatch.setitem(sys.modules, "verl.borrower", borrower)
    trainer.compute_response_mask = lambda data: torch.ones(len(rows), 2)
    rules = {"gigpo": Credit.bind("trca", LIBRARY)}
    for name in ("trca_3", "3", "03", "trca_old"):  # verl writes numbers, too
        (tmp_path / f"{name}.jsonl").write_text("{}")
    replace_compute_advantage(trainer, rules, dump=tmp_path)
    assert borrower.compute_advantage is trainer.compute_advantage
    assert trainer.compute_advantage(None, "grpo", gamma=0.5) == ("grpo", 0.5)
    tensors, non_tensors = batch_of(rows, np.ones((len(rows), 2), bool))
    del tensors["response_mask"]
    data = types.SimpleNamespace(batch=tensors, non_tensor_batch=non_tensors)
    credited = trainer.compute_advantage(data, adv_estimator="gigpo", step_advantage_w=1.0)
    got = credited.batch["advantages"].numpy()
    wanted = ours("trca", {}, rollouts)
    np.testing.assert_allclose(got[:, 1], wanted, rtol=0, atol=1e-12)
    read, _ = read_dump(tmp_path / "trca_4.jsonl", RubricLibrary.load(LIBRARY).ids)
    assert [len(rollout.steps) for rollout in read] == [len(rollout.steps) for rollout in rollouts]
    del non_tensors["traj_uid"]
    data.non_tensor_batch["trca"] = np.array([[{**row[2], "step": 0}] for row in rows])[:, 0]
    trainer.compute_advantage(data, adv_estimator="gigpo")
    assert len(read_dump(tmp_path / "trca_5.jsonl", read[0].operators)[0]) == len(rows)


def test_the_trainer_of_verl_credits_transitions(played, monkeypatch, tmp_path):
    verl = pytest.importorskip("verl", reason="make test-interop runs it, with verl")
    from verl.trainer.ppo import core_algos, ray_trainer

    monkeypatch.setattr(core_algos, "ADV_ESTIMATOR_REGISTRY", {})
    beacon = {"milestones": "environment"}
    register(LIBRARY, dump=tmp_path / "dump", trca={"lambda_": 0.3}, beacon=beacon)
    rollouts, rows = played
    mask = masks(len(rows), np.random.default_rng(5))
    settings = {"trca": {"lambda_": 0.3}, "beacon": {"milestones": "environment"}}
    for rule in OURS:
        tensors, non_tensors = batch_of(rows, mask)
        data = verl.DataProto.from_dict(tensors, non_tensors)
        data = ray_trainer.compute_advantage(data, adv_estimator=rule, config=None)
        wanted = ours(rule, settings.get(rule, {}), rollouts)[:, None] * mask
        got = data.batch["advantages"].numpy()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)
        with pytest.raises(ValueError, match="non_tensor_batch column 'uid' and 'trca'"):
            core_algos.get_adv_estimator_fn(rule)(**tensors, config=None, index=non_tensors["uid"])
    dump = dump_files(tmp_path / "dump")
    assert list(dump) == [1, 2, 3]
    assert len(read_dump(dump[3], RubricLibrary.load(LIBRARY).ids)[0]) == len(rollouts)
    data = verl.DataProto.from_dict(*batch_of(rows, mask))
    data.batch["token_level_rewards"][:, 0] = torch.arange(len(rows))
    assert ray_trainer.compute_advantage(data, "grpo").batch["advantages"].any()


@pytest.fixture(scope="module")
def queue():
    """The TransferQueue of verl's v1 trainer."""
    pytest.importorskip("verl", reason="make test-interop runs it, with verl")
    queue = pytest.importorskip("transfer_queue", reason="make test-interop runs it, with verl")
    import ray

    from trca.cli.run.training import start_ray

    # The queue has three actors.
    start_ray(lambda: ray.init("local", num_cpus=4, include_dashboard=False), print)
    queue.init()
    yield queue
    queue.close()
    ray.shutdown()


def put(queue, partition, rows, mask, filling=2):
    """Puts rows of steps into the queue as verl's agent loop does; some rows fill the batch."""
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopOutput
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    keys, fields, tags = [], [], []
    for (group, rollout, annotation), of_row in zip(rows, mask, strict=True):
        length = int(of_row.sum())
        output = AgentLoopOutput(
            prompt_ids=[1, 2],
            response_ids=[3] * length,
            response_mask=[1] * length,
            reward_score=0.0,
            metrics={},
            extra_fields={"trca": annotation},
        )
        group, session = group.replace(" ", "-"), rollout.partition(".")[2]
        keys.append(f"{group}_{session}_{annotation['step']}")
        fields.append(output.as_dict() | {"uid": group})
        fields[-1]["rm_scores"] = fields[-1]["rm_scores"].double()
        tags.append({"status": "success"})
    for number in range(filling):
        keys.append(f"pad_{number}_0")
        empty = {name: torch.zeros_like(fields[0][name]) for name in ("response_mask", "rm_scores")}
        fields.append(fields[0] | empty | {"uid": "pad"})
        tags.append({"status": "success", "is_padding": True})
    fields = list_of_dict_to_tensordict(fields)
    queue.kv_batch_put(keys=keys, partition_id=partition, fields=fields, tags=tags)
    return queue.KVBatchMeta(keys=keys, tags=tags, partition_id=partition)


def test_the_v1_trainer_of_verl_credits_transitions(played, queue, monkeypatch, tmp_path):
    from omegaconf import OmegaConf
    from verl.trainer.ppo import core_algos, ray_trainer
    from verl.trainer.ppo.v1 import trainer_base, utils

    monkeypatch.setattr(
        core_algos, "ADV_ESTIMATOR_REGISTRY", dict(core_algos.ADV_ESTIMATOR_REGISTRY)
    )
    for name in OURS:
        core_algos.ADV_ESTIMATOR_REGISTRY.pop(name, None)
    for module in (ray_trainer, utils):
        monkeypatch.setattr(module, "compute_advantage", module.compute_advantage)
    base = trainer_base.PPOTrainer
    monkeypatch.setattr(base, "_compute_advantage", base._compute_advantage)
    register(LIBRARY, dump=tmp_path / "dump", trca={"lambda_": 0.3})
    rollouts, rows = played
    order = np.random.default_rng(6).permutation(len(rows))
    mask = masks(len(rows), np.random.default_rng(5))
    for rule, settings in (("trca", {"lambda_": 0.3}), ("gigpo", {}), ("beacon", {})):
        batch = put(queue, rule, [rows[k] for k in order], mask[order])
        algorithm = {"adv_estimator": rule, "use_kl_in_reward": False, "gamma": 1.0, "lam": 1.0}
        config = {"algorithm": algorithm, "actor_rollout_ref": {"rollout": {"n": 4}}}
        trainer = types.SimpleNamespace(config=OmegaConf.create(config))
        base._compute_advantage(trainer, batch, {})
        place = {"keys": batch.keys, "partition_id": rule}
        got = queue.kv_batch_get(**place, select_fields=["advantages"])["advantages"]
        wanted = ours(rule, settings, rollouts)[order]
        for row, number in enumerate(order):
            assert len(got[row]) == mask[number].sum()
            np.testing.assert_allclose(got[row].numpy(), wanted[row], rtol=0, atol=1e-12)
        assert not any(got[row].any() for row in range(len(rows), len(batch.keys)))
    read, _ = read_dump(tmp_path / "dump" / "trca_1.jsonl", RubricLibrary.load(LIBRARY).ids)
    assert len(read) == len(rollouts)
    bare = put(queue, "bare", [(*row[:2], {"step": 0}) for row in rows[:1]], mask[:1], filling=0)
    fields = queue.kv_batch_get(keys=bare.keys, partition_id="bare", select_fields=["extra_fields"])
    assert fields.pop("extra_fields").tolist() == [{"trca": {"step": 0}}]
    trainer.config.algorithm.adv_estimator = "grpo"
    base._compute_advantage(trainer, bare, {})


def test_a_row_without_annotations_is_named():
    keys = ["a_0_0", "pad_0_0"]
    tags = [{}, {"is_padding": True}]
    found = columns_of_queue(keys, tags, [{"trca": {"step": 0}}, {"trca": {"step": 0}}])
    assert list(found["traj_uid"]) == ["a_0", "pad_0"]
    assert list(found["trca"]) == [{"step": 0}, None]
    with pytest.raises(ValueError, match="row 'a_0_0' of the batch has no 'trca' in extra_fields"):
        columns_of_queue(keys, tags, [{}, {}])

"""A pretrained language model answers, chats, imitates, trains on vLLM, and is exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tests.algorithms.rollouts.test_chat_rollouts import continues
from tests.conftest import cluster
from trca.algorithms import ImitationConfig, TRCAConfig, export
from trca.algorithms.base.evaluation import evaluate_panel, local_runner
from trca.policies.dtypes import DTYPES
from trca.policies.models import load_model, load_tokenizer
from trca.policies.smollm2 import smollm2_folder

pytest.importorskip("vllm", reason="vLLM is not installed here: make test-smollm2")
if not smollm2_folder().is_dir():
    pytest.skip("SmolLM2 is not in the cache: make test-smollm2", allow_module_level=True)

__all__ = ["cluster"]

EPISODES = 13
"""Demonstrated episodes; about a hundred steps."""
SHORT = {
    "num_env_runners": 0,
    "num_learners": 0,
    "evaluation_interval": 0,
    "torch_threads": 1,
}


class Imitated(NamedTuple):
    result: dict[str, Any]
    evaluation: dict[str, Any]
    checkpoint: Path
    start: Path


@pytest.fixture(scope="module")
def imitated(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Imitated:
    """An imitation, its evaluation, a checkpoint and the exported model."""
    config = ImitationConfig.from_preset("imitate").update_from_dict(
        {**SHORT, "env_config": {"games": "small", "max_steps": 16}, "evaluation_tasks": 4}
        | {"iterations": 1, "tasks_per_iteration": EPISODES}
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    algorithm.evaluate()
    folder = tmp_path_factory.mktemp("imitated")
    checkpoint = algorithm.save_to_path(folder / "checkpoint")
    export(algorithm, folder / "start")
    algorithm.stop()
    return Imitated(result, algorithm.evaluation.summary(), Path(checkpoint), folder / "start")


def test_the_converted_model_answers() -> None:
    tokenizer, model = load_tokenizer(str(smollm2_folder())), load_model(str(smollm2_folder()))
    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    answer = model.generate(**ids, max_new_tokens=12, do_sample=False)[
        0, ids["input_ids"].shape[1] :
    ]
    assert "Paris" in tokenizer.decode(answer)


def test_a_hundred_imitated_steps_teach_the_format(imitated: Imitated) -> None:
    assert 80 <= imitated.result["env_runners"]["num_env_steps_sampled_lifetime"] <= 160
    assert imitated.evaluation["parsed_ratio"] >= 0.95


def test_an_exported_model_has_the_trained_weights(imitated: Imitated, tmp_path: Path) -> None:
    ids = torch.arange(20)[None]
    folders = (imitated.start, export(imitated.checkpoint, tmp_path / "again"), smollm2_folder())
    exported, again, before = (load_model(str(folder))(ids).logits for folder in folders)
    assert torch.equal(exported, again)
    assert (exported - before).abs().max() > 0.1


def test_a_conversation_continues_the_sampled_ids() -> None:
    config = TRCAConfig.from_preset("embedded/smollm2").update_from_dict(
        {**SHORT, "model": str(smollm2_folder()), "engine": "transformers", "template": "chat"}
        | {"history_length": 9, "max_prompt_tokens": 1000, "max_new_tokens": 12}
        | {"env_config": {"games": "small", "max_steps": 3}}
    )
    runner = local_runner(config)
    (rollout,) = evaluate_panel(runner, runner.panel("train").head(1), temperature=1.0).rollouts
    runner.stop()
    assert len(rollout.steps) == 3
    assert continues(rollout, load_tokenizer(str(smollm2_folder())))


@pytest.mark.parametrize(
    ("dtype", "iterations", "group_size", "steps"),
    [("float32", 2, 4, 6), ("bfloat16", 1, 2, 2)],  # a processor may multiply slowly in bfloat16
)
def test_trca_trains_an_adapter_with_vllm(
    imitated: Imitated, dtype: str, iterations: int, group_size: int, steps: int
) -> None:
    config = TRCAConfig.from_preset("embedded/smollm2").update_from_dict(
        {**SHORT, "model": str(imitated.start), "dtype": dtype, "engine": "vllm", "lora_rank": 16}
        | {"env_config": {"games": "small", "max_steps": steps}}
        | {"iterations": iterations, "tasks_per_iteration": 1, "group_size": group_size}
    )
    algorithm = config.build_algo()
    results = [algorithm.train() for _ in range(iterations)]
    algorithm.stop()
    for result in results:
        assert result["missing_rollouts"] == 0
        assert result["mismatch_kl"] < DTYPES[dtype].mismatch
        assert result["push_difference"] < DTYPES[dtype].push
        assert result["parsed_ratio"] > 0.5

"""An engine of a user: a class in a file, or registered under a name."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ray.rllib.core import DEFAULT_MODULE_ID
from transformers import AutoConfig

from tests.algorithms.rollouts.plain_engine import PlainEngine
from trca.algorithms import evaluate_panel, local_runner
from trca.algorithms.settings.parameters import TextParameters
from trca.cli.preflight.size import Shape, row_cache_bytes
from trca.cli.preflight.size import engine as engine_memory
from trca.policies.engines import ENGINES, engine_class
from trca.policies.engines.engine import BatchEngine, Completion, EngineSpec
from trca.policies.models import load_tokenizer

FILE = Path(__file__).with_name("plain_engine.py")
PLAIN = f"{FILE}:PlainEngine"
TABLE = {"A key is here": "take key"}


class TableEngine(BatchEngine):
    """Plays from a table of observations; has no weights."""

    takes_weights = False

    def __init__(self, spec):
        super().__init__()
        self._tokenizer = load_tokenizer(spec.model)

    def generate(self, requests, sampling):
        return [self._complete(self._tokenizer.decode(r.prompt_ids)) for r in requests]

    def _complete(self, prompt):
        action = next((a for seen, a in TABLE.items() if seen in prompt), "go")
        ids = np.array(self._tokenizer.encode(f"<action>{action}</action>"), np.int32)
        return Completion(ids, np.zeros(len(ids), np.float32), "stop")


@pytest.fixture(scope="module", autouse=True)
def registered():
    ENGINES.register("table", TableEngine)


def test_the_example_has_at_most_60_lines():
    assert len(FILE.read_text().splitlines()) <= 60


@pytest.mark.usefixtures("cluster")
def test_an_engine_in_a_file_trains(build, make_config):
    algorithm = build(make_config(engine=PLAIN, num_env_runners=0))
    engine = algorithm.env_runner.loop.engine
    assert type(engine).__name__ == PlainEngine.__name__
    for version in (1, 2):
        before = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
        result = algorithm.train()
        after = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
        assert any(not np.array_equal(before[name], after[name]) for name in before)
        assert engine.version >= version
        assert result["push_difference"] < 1e-4
        assert result["mismatch_kl"] < 1e-6


def test_a_registered_engine_without_weights_plays_a_panel(make_config):
    runner = local_runner(make_config(engine="table"))
    evaluation = evaluate_panel(runner, runner.panel("valid"))
    assert evaluation.summary()["success_rate"] == 1.0
    runner.stop()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "table"}, "engine 'table' does not take the policy's weights"),
        ({"engine": PLAIN, "lora_rank": 4}, r"lora_rank is 4, and engine .* takes no adapters"),
        ({"engine": "json:loads"}, "'json:loads' is not a subclass"),
    ],
)
def test_an_engine_that_cannot_train_is_refused(make_config, settings, message):
    with pytest.raises(ValueError, match=message):
        make_config(**settings).validate()


def test_an_engine_without_logprobs_is_refused_for_training(make_config, monkeypatch):
    monkeypatch.setattr(TableEngine, "takes_weights", True)
    monkeypatch.setattr(TableEngine, "gives_logprobs", False)
    with pytest.raises(ValueError, match="engine 'table' gives no log-probabilities"):
        make_config(engine="table").validate()


def test_a_model_that_the_engine_does_not_support_is_refused(
    make_config, model, monkeypatch, tmp_path
):
    vllm = engine_class("vllm")
    with pytest.raises(ValueError, match="attention heads of width 16: vLLM on a CPU needs 32"):
        vllm.check(EngineSpec(str(model)))
    vllm.check(EngineSpec(str(model), device="cuda"))
    AutoConfig.for_model("qwen3_5_text", head_dim=64).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"linear_attention layers.* set engine to transformers"):
        vllm.check(EngineSpec(str(tmp_path)))
    monkeypatch.setattr(vllm, "missing", classmethod(lambda cls: ""))
    with pytest.raises(ValueError, match="attention heads of width 16"):
        make_config(engine="vllm").validate()


def test_an_adapter_that_the_engine_does_not_support_is_refused(make_config, monkeypatch, model):
    vllm = engine_class("vllm")
    adapter = EngineSpec(str(model), "float32", "cuda", lora_rank=4)
    with pytest.raises(ValueError, match="no adapters in float32: set dtype to bfloat16"):
        vllm.check(adapter)
    vllm.check(replace(adapter, dtype="bfloat16"))
    monkeypatch.setattr(vllm, "missing", classmethod(lambda cls: ""))
    config = make_config(engine="vllm", lora_rank=4, num_gpus_per_env_runner=1)
    with pytest.raises(ValueError, match="no adapters in float32"):
        config.validate()
    with pytest.raises(ValueError, match="lora_rank is 600, and vLLM takes at most 512"):
        config.copy(copy_frozen=False).update_from_dict({"lora_rank": 600}).validate()


def test_the_page_shows_what_each_engine_states():
    page = Path(__file__).parents[3].joinpath("docs/engines.md").read_text()
    row = r"^\| `(\w+)` \| (\w+) \| (\w+) \| (\w+) \| (\w+) \| (\S+) \|$"
    rows = re.findall(row, page, re.MULTILINE)
    yes = {True: "yes", False: "no"}
    assert {name: tuple(states) for name, *states in rows} == {
        name: (
            yes[not engine.untrainable()],
            yes[engine.gives_logprobs],
            yes[engine.takes_adapters],
            yes[engine.frees_memory],
            f"`{engine.split_option}`" if engine.split_option else "-",
        )
        for name, engine in ((name, engine_class(name)) for name in ENGINES.names())
        if name != "table"
    }


def test_the_plan_asks_an_own_engine_for_its_memory(model):
    settings = TextParameters.resolve({"algorithm": "GRPO", "model": str(model), "engine": PLAIN})
    shape = Shape.of(settings)
    memory = engine_memory(settings, shape)
    rows = settings.tasks_per_iteration * settings.group_size
    assert memory.weights == shape.parameters * shape.size
    assert memory.cache == rows * row_cache_bytes(settings, shape)

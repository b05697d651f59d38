from dataclasses import replace

import pytest
from transformers import AutoConfig
from typer.testing import CliRunner

from tests.architectures import SIZES
from trca.cli import app
from trca.cli.plan import Shape, memory
from trca.tune_configs.settings import RunSettings

SHAPE = Shape(
    parameters=10**9,
    layers=24,
    hidden=2048,
    feed_forward=8192,
    key_values=256,
    vocabulary=150_000,
    dtype="bfloat16",
)


def settings_of(**settings):
    return RunSettings.resolve({"env_config": {"games": "small"}, "model": "tiny", **settings})


def needs(shape=SHAPE, **settings):
    return memory(settings_of(**settings), shape)


def test_weights_on_their_way_are_a_copy_in_the_engines_precision_and_one_in_the_object_store():
    assert needs()["weights, on their way"] == 2 * 10**9
    assert needs(replace(SHAPE, dtype="float32"))["weights, on their way"] == 4 * 10**9
    assert needs(num_env_runners=2)["weights, on their way"] == 4 * 10**9


def test_several_learners_need_a_bucket_and_no_second_copy_of_the_gradients():
    assert needs(num_learners=1)["gradient buckets"] == 0
    assert needs(num_learners=2)["gradient buckets"] == 32 * 2**20


SPECIALS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}


def shape_of(folder, kind, **config):
    AutoConfig.for_model(kind, **SIZES[kind], **config).save_pretrained(folder)
    return Shape.of(settings_of(model=str(folder), dtype="auto"))


@pytest.mark.parametrize(
    ("saved", "dtype"),
    [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float32")],
)
def test_auto_is_counted_as_the_precision_that_the_run_resolves_it_to(tmp_path, saved, dtype):
    assert shape_of(tmp_path, "qwen3", dtype=saved).dtype == dtype


@pytest.mark.parametrize("kind", SIZES)
def test_the_sizes_of_every_tested_architecture_are_found(tmp_path, kind):
    shape = shape_of(tmp_path, kind, vocab_size=512, **SPECIALS)
    assert (shape.layers, shape.hidden, shape.vocabulary) == (2, 32, 512)
    assert shape.feed_forward == (4 * 32 if kind in ("gpt2", "falcon") else 48)
    assert 0 < shape.key_values <= shape.hidden


def test_a_dry_run_notes_a_prompt_that_the_tiny_policy_cannot_follow_and_no_other_models(recwarn):
    for arguments, noted in (
        (["quickstart", "--set", "template=paper", "--set", "max_prompt_tokens=2048"], True),
        (["paper/alfworld_qwen2.5_1.5b"], False),
    ):
        result = CliRunner().invoke(app, ["train", *arguments, "--dry-run"])
        assert result.exit_code == 0, result.output
        assert ("note: the tiny policy cannot follow the paper's prompt" in result.output) == noted
    assert not [each for each in recwarn if "tiny policy" in str(each.message)]

"""What hyperparameters describe is made once."""

import json
import shutil

from trca.algorithms.settings.prompting import engine_tokenizer


def test_a_tokenizer_is_read_once(model):
    assert engine_tokenizer("transformers", str(model)) is engine_tokenizer(
        "transformers", str(model)
    )


def test_a_changed_tokenizer_is_read_again(model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    before = engine_tokenizer("transformers", str(folder))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 77}))
    assert before.model_max_length != 77
    assert engine_tokenizer("transformers", str(folder)).model_max_length == 77

"""What hyperparameters describe is made once."""

from trca.algorithms.settings.prompting import engine_tokenizer


def test_a_tokenizer_is_read_once(model):
    assert engine_tokenizer("transformers", str(model)) is engine_tokenizer(
        "transformers", str(model)
    )

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from trca.policies.bpe import TAGS, leading_phrases, train_tokenizer


def pieces(tokenizer, text):
    return [tokenizer.decode([i]) for i in tokenizer(text)["input_ids"]]


def test_words_numbers_tags_and_phrases_are_one_token_each(tokenizer):
    assert pieces(tokenizer, "<think>ok</think><action>go to desk 1</action>") == [
        "<think>",
        "ok",
        "</think>",
        "<action>",
        "go to",
        " desk",
        " 1",
        "</action>",
    ]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_and_written_back(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_phrase_never_stands_before_a_number():
    commands = ["go to bed 1", "go to desk 1", "take mug 1 from bed 1", "take mug 2 from bed 1"]
    assert leading_phrases(commands) == ("go to",)


def test_rare_words_are_merged_from_smaller_pieces():
    texts = ["lamp lamp lamp lamps"] + ["unhappy unhealthy unhinged undone"] * 3
    tokenizer = train_tokenizer(texts, [], words=1, merges=8)
    assert pieces(tokenizer, "lamp lamp")[-1] != "p"
    assert len(pieces(tokenizer, " unhappy")) < len(" unhappy")


def test_a_saved_tokenizer_opens_as_any_other(tokenizer, tmp_path, tiny):
    tiny.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = f"go to desk 1 {''.join(TAGS)} été"
    opened = AutoTokenizer.from_pretrained(tmp_path)
    assert opened(text)["input_ids"] == tokenizer(text)["input_ids"]

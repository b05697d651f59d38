"""The tokens of a right answer in the response that gives it, in real tokens of every format."""

import pytest

from trca.algorithms.credit.logprobs import answer_tokens
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.models import load_tokenizer
from trca.policies.spans import token_bytes

FORMATS = ("action", "action_only", "plan", "search_r1", "search_r1_growing", "r1_answer")
IN_TAGS = ("action", "on", "answer", "think", "a", "t", "enough information")
"""Answers that occur in the tags or in the thought, too."""


@pytest.fixture(scope="module")
def tokenizer(model):
    return load_tokenizer(str(model))


def scored(tokenizer, name, action, answer):
    """The text of the response, and the bytes of the tokens that are taken for the answer."""
    ids, part = answer_tokens(RESPONSE_FORMATS.get(name).write, action, answer, tokenizer)
    pieces = [token_bytes(tokenizer)[i] for i in ids]
    chosen = b"".join(piece for piece, of in zip(pieces, part, strict=True) if of)
    before = b"".join(pieces[: part.argmax()])
    return b"".join(pieces).decode(), before.decode(), chosen.decode()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("answer", IN_TAGS)
def test_an_answer_that_is_a_word_of_the_tags_is_scored_where_it_is_given(tokenizer, name, answer):
    """A token that overlaps the answer counts, so that a neighbour may come with it."""
    text, before, chosen = scored(tokenizer, name, f"answer[{answer}]", answer)
    assert answer in chosen
    assert len(chosen) <= len(answer) + 2
    place = len(before) + chosen.index(answer)
    opening = "<answer>" if name in FORMATS[3:] else "answer["
    assert text[:place].endswith(opening)


def test_spaces_that_a_format_joins_are_no_part_of_the_answer(tokenizer):
    def write(thought, action):
        return f"<action>{' '.join(action.split())}</action>"

    ids, part = answer_tokens(write, "say Ada   Lovelace now", "Ada   Lovelace", tokenizer)
    assert tokenizer.decode(ids[part]).strip() == "Ada Lovelace"


def test_letters_of_more_than_a_byte_move_no_border(tokenizer):
    _, before, chosen = scored(tokenizer, "action", "sagt[Łódź \u2192 on]", "Łódź \u2192 on")
    assert "Łódź \u2192 on" in chosen
    assert "on" not in before[before.rindex("<action>") + len("<action>") :]


def test_an_action_without_its_answer_is_named(tokenizer):
    with pytest.raises(ValueError, match=r"action 'say it' does not hold the answer 'Ada'"):
        scored(tokenizer, "action", "say it", "Ada")

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from trca.envs.responses import parse_response
from trca.policies.spans import action_mask, response_text, token_bytes

PIECES = ("<action>", "</action>", "<", ">", "/", "act", "ion", "go to bed 1", "é", "漢", "x", " ")


def marked_bytes(ids: list[int], tokenizer: Any) -> bytes:
    table = token_bytes(tokenizer)
    mask = action_mask(ids, tokenizer)
    return b"".join(table[i] for i, inside in zip(ids, mask, strict=True) if inside)


def adversarial(tokenizer: Any) -> st.SearchStrategy[list[int]]:
    """Ids of texts full of tags, whole and in parts, and any ids between them."""
    parts = [tokenizer(piece, add_special_tokens=False)["input_ids"] for piece in PIECES]
    letters = [[i for c in piece for i in tokenizer(c)["input_ids"]] for piece in PIECES[:2]]
    any_id = st.integers(0, len(tokenizer) - 1).map(lambda i: [i])
    return st.lists(st.sampled_from([*parts, *letters]) | any_id, max_size=14).map(
        lambda lists: [i for ids in lists for i in ids]
    )


@pytest.mark.parametrize("name", ["tokenizer", "qwen_tokenizer"])
def test_the_mask_covers_what_the_parser_reads_and_no_token_more(
    name: str, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)

    @settings(max_examples=500, deadline=None)
    @given(adversarial(tokenizer))
    def check(ids: list[int]) -> None:
        mask = action_mask(ids, tokenizer)
        said = response_text(ids, tokenizer)
        end = said.rfind("</action>")
        if "<action>" not in said[: max(end, 0)]:
            assert not mask.any()
            return
        marked = marked_bytes(ids, tokenizer)
        assert parse_response(marked.decode(errors="replace")) == parse_response(said)
        table = token_bytes(tokenizer)
        places = np.flatnonzero(mask)
        assert (np.diff([p for p in places if table[ids[p]]]) >= 1).all()
        inner = b"".join(table[ids[p]] for p in places[1:-1])
        assert inner in marked
        for edge in (places[:1], places[-1:]):
            without = [i for p, i in enumerate(ids) if mask[p] and p not in edge]
            text = b"".join(table[i] for i in without)
            assert b"<action>" not in text or b"</action>" not in text[text.find(b"<action>") :]

    check()


def test_the_last_pair_is_the_action(tokenizer: Any) -> None:
    ids = tokenizer("<action>bed</action><action>desk 1</action></action> x")["input_ids"]
    assert marked_bytes(ids, tokenizer) == b"<action>desk 1</action>"


def test_a_token_that_only_overlaps_a_tag_is_marked(qwen_tokenizer: Any) -> None:
    ids = qwen_tokenizer("<think>a</think><action>b</action>.")["input_ids"]
    marked = marked_bytes(ids, qwen_tokenizer)
    assert b"<action>b</action>" in marked


def test_ids_outside_the_vocabulary_count_as_empty(tokenizer: Any) -> None:
    ids = tokenizer("<action>bed</action>")["input_ids"]
    mask = action_mask([ids[0], 10**6, *ids[1:]], tokenizer)
    assert mask.tolist() == [True, False] + [True] * (len(ids) - 1)


def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(tokenizer: Any) -> None:
    said = "put some mug é漢\U0001f600 on\n\tshelf <think>ok</think>"
    table = token_bytes(tokenizer)
    assert b"".join(table[i] for i in tokenizer(said)["input_ids"]) == said.encode()


def test_byte_fallback_tokens_are_read() -> None:
    vocabulary = {"<unk>": 0, "▁go": 1, **{f"<0x{b:02X}>": b + 2 for b in range(256)}}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    table = token_bytes(PreTrainedTokenizerFast(tokenizer_object=backend))
    assert table[1] == b" go"
    assert table[2 + 0xE9] == b"\xe9"


def test_other_tokenizers_are_refused() -> None:
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ValueError, match="byte-level or byte-fallback"):
        token_bytes(PreTrainedTokenizerFast(tokenizer_object=backend))

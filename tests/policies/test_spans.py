import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from trca.envs.responses import PLAN_FORMAT, RESPONSE_FORMATS, bare, read_action, write_plan
from trca.envs.text_env import as_action
from trca.policies.spans import byte_alphabet, read_response, token_bytes

PIECES = ("<action>", "</action>", "<", ">", "/", "act", "ion", "go to bed 1", "é", "漢", "x", " ")


def marked_bytes(ids, tokenizer):
    table = token_bytes(tokenizer)
    mask = read_response(ids, tokenizer).action_mask
    return b"".join(table[i] for i, inside in zip(ids, mask, strict=True) if inside)


def adversarial(tokenizer):
    """Ids of texts with many complete and incomplete tags, mixed with random ids."""
    parts = [tokenizer(piece, add_special_tokens=False)["input_ids"] for piece in PIECES]
    letters = [[i for c in piece for i in tokenizer(c)["input_ids"]] for piece in PIECES[:2]]
    any_id = st.integers(0, len(tokenizer) - 1).map(lambda i: [i])
    return st.lists(st.sampled_from([*parts, *letters]) | any_id, max_size=14).map(
        lambda lists: [i for ids in lists for i in ids]
    )


@pytest.mark.parametrize("name", ["tokenizer", "qwen_tokenizer"])
def test_the_mask_covers_the_action_that_is_read_and_no_token_more(name, request):
    tokenizer = request.getfixturevalue(name)

    @settings(max_examples=500, deadline=None)
    @given(adversarial(tokenizer))
    def check(ids):
        response = read_response(ids, tokenizer)
        mask, text = response.action_mask, response.text
        action = bare(read_action(text).action)
        assert response.action == as_action(action)
        if as_action(action) != action:
            assert not mask.any()
            return
        end = text.rfind("</action>")
        if "<action>" not in text[: max(end, 0)]:
            assert not mask.any()
            return
        marked = marked_bytes(ids, tokenizer)
        assert bare(read_action(marked.decode(errors="replace")).action) == response.action
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


def test_the_last_pair_is_the_action(tokenizer):
    ids = tokenizer("<action>bed</action><action>desk 1</action></action> x")["input_ids"]
    assert marked_bytes(ids, tokenizer) == b"<action>desk 1</action>"


def test_a_token_that_only_overlaps_a_tag_is_marked(qwen_tokenizer):
    ids = qwen_tokenizer("<think>a</think><action>b</action>.")["input_ids"]
    marked = marked_bytes(ids, qwen_tokenizer)
    assert b"<action>b</action>" in marked


def test_ids_outside_the_vocabulary_count_as_empty(tokenizer):
    ids = tokenizer("<action>bed</action>")["input_ids"]
    mask = read_response([ids[0], 10**6, *ids[1:]], tokenizer).action_mask
    assert mask.tolist() == [True, False] + [True] * (len(ids) - 1)


@pytest.mark.parametrize("edge", ["à", "\u3000", "\x85", "\xa0"])
def test_an_action_loses_blanks_at_its_ends_but_no_part_of_a_character(edge, tokenizer):
    ids = tokenizer(f"<action> go {edge}</action>")["input_ids"]
    assert read_response(ids, tokenizer).action == f"go {edge}".strip()


def test_a_character_that_is_cut_becomes_a_replacement_and_moves_no_mask(tokenizer):
    cut = tokenizer("漢")["input_ids"][:-1]
    ids = [*cut, *tokenizer("<action>bed")["input_ids"], *cut, *tokenizer("</action>")["input_ids"]]
    response = read_response(ids, tokenizer)
    assert response.text == "\ufffd<action>bed\ufffd</action>"
    assert response.action == "bed\ufffd"
    assert response.action_mask.tolist() == [False] * len(cut) + [True] * (len(ids) - len(cut))


def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(tokenizer):
    text = "put some mug é漢\U0001f600 on\n\tshelf <think>ok</think>"
    table = token_bytes(tokenizer)
    assert b"".join(table[i] for i in tokenizer(text)["input_ids"]) == text.encode()


def test_byte_fallback_tokens_are_read():
    vocabulary = {"<unk>": 0, "▁go": 1, **{f"<0x{b:02X}>": b + 2 for b in range(256)}}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    table = token_bytes(PreTrainedTokenizerFast(tokenizer_object=backend))
    assert table[1] == b" go"
    assert table[2 + 0xE9] == b"\xe9"


def test_other_tokenizers_are_refused():
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ValueError, match="byte-level or byte-fallback"):
        token_bytes(PreTrainedTokenizerFast(tokenizer_object=backend))


@pytest.mark.parametrize("name", ["tokenizer", "qwen_tokenizer"])
def test_the_parts_of_a_plan_are_its_tokens_and_the_mask_holds_them(name, request):
    tokenizer = request.getfixturevalue(name)
    table = token_bytes(tokenizer)
    text = "Hm é.\n<switch>KEEP</switch>\n<subgoal>find é mug</subgoal>\n<action>go</action> x"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    response = read_response(ids, tokenizer, PLAN_FORMAT)
    assert response.plan is not None
    assert (response.plan.switch, response.plan.subgoal) == (False, "find é mug")
    assert response.action == "go"
    marked = response.action_mask
    whole = b"".join(table[i] for i, m in zip(ids, marked, strict=True) if m).decode()
    assert whole.strip().startswith("<switch>")
    assert whole.strip("\n x").endswith("</action>")
    for part, text in enumerate(("KEEP</switch", "find é mug", "<action>go"), start=1):
        part_text = b"".join(
            table[i] for i, p in zip(ids, response.parts, strict=True) if p == part
        )
        assert text in part_text.decode(errors="replace")
    assert (np.diff(response.parts[response.parts > 0]) >= 0).all()
    assert not response.parts[~marked].any()


def test_a_token_of_two_parts_belongs_to_the_later_part():
    vocabulary = {character: k for k, character in enumerate(sorted(byte_alphabet()))}
    vocabulary["><"] = len(vocabulary)
    backend = Tokenizer(models.BPE(vocabulary, [(">", "<")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    glued = PreTrainedTokenizerFast(tokenizer_object=backend)
    ids = glued(write_plan(True, "a", "b"))["input_ids"]
    parts = read_response(ids, glued, PLAN_FORMAT).parts
    assert parts[[k for k, i in enumerate(ids) if i == vocabulary["><"]]].tolist() == [2, 3]
    assert (parts > 0).all()


def test_a_response_without_a_plan_has_no_parts(tokenizer):
    ids = tokenizer("<switch>KEEP</switch><action>go</action>")["input_ids"]
    response = read_response(ids, tokenizer, PLAN_FORMAT)
    assert response.plan is None
    assert not response.action_mask.any()
    assert not response.parts.any()
    assert read_response(tokenizer("<action>go</action>")["input_ids"], tokenizer).plan is None


def test_a_subgoal_of_broken_bytes_is_printable(tokenizer):
    cut = tokenizer("漢")["input_ids"][:-1]
    opening, closing = ("<switch>KEEP</switch><subgoal>a", "</subgoal><action>go</action>")
    ids = [*tokenizer(opening)["input_ids"], *cut, *tokenizer(closing)["input_ids"]]
    plan = read_response(ids, tokenizer, PLAN_FORMAT).plan
    assert plan is not None
    assert plan.subgoal == "a\ufffd"


@pytest.mark.parametrize("name", ["tokenizer", "qwen_tokenizer"])
def test_an_action_with_a_control_character_is_unreadable(name, request):
    tokenizer = request.getfixturevalue(name)
    for character in ("\0", "\x1b", "\x7f", "\x94"):
        text = f"<action>open{character} cabinet</action>"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        response = read_response(ids, tokenizer)
        assert response.text == text
        assert response.action == ""
        assert not response.action_mask.any()
        action = f"open{character} cabinet"
        response = read_response(ids, tokenizer, admissible=["look", action])
        assert response.action == action
        assert response.action_mask.all()


MARKED = ["`{}`", "**{}**", '"{}"', "\u201c{}\u201d", "```{}```", "*`{}`*", " _{}_ "]


@pytest.mark.parametrize("marked", MARKED)
@pytest.mark.parametrize("name", ["action", "action_only", "plan"])
def test_marks_around_an_action_are_not_part_of_the_action(name, marked, tokenizer):
    written = marked.format("go to 'bed' 1")
    response_format = RESPONSE_FORMATS.get(name)
    assert response_format.write is not None
    ids = tokenizer(response_format.write("ok", written), add_special_tokens=False)["input_ids"]
    assert read_response(ids, tokenizer, response_format).action == "go to 'bed' 1"
    offered = read_response(ids, tokenizer, response_format, admissible=[written.strip()])
    assert offered.action == written.strip()


@pytest.mark.parametrize("action", ["'a' and 'b'", 'say "hello"', "*", "a*b*", "click[`x`]"])
def test_marks_inside_an_action_are_part_of_the_action(action):
    assert bare(action) == action


@pytest.mark.parametrize("language", ["", "json", "text"])
def test_a_fence_may_name_a_language(language):
    assert bare(f"```{language}\ngo to\ndesk 1\n```") == "go to\ndesk 1"
    assert bare("```go to desk 1```") == "go to desk 1"

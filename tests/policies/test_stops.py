"""Stop strings: the first one outside of a native thought ends a completion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.common.thoughts import answer_start, leaves_open
from trca.policies.engines.engine import SamplingParams
from trca.policies.engines.stops import StopStrings

STOP = "</action>"
PIECES = ("<think>", "</think>", STOP, "<", "/", "think>", "action>", "a", "</")


def end(pieces, thought, stop=(STOP,)):
    """Index of the piece that ends the completion."""
    stops = StopStrings(SamplingParams(stop=stop, thought=thought))
    return next((k for k, p in enumerate(pieces) if stops.ended_by(p.encode())), None)


@pytest.mark.parametrize(
    ("text", "thought", "place"),
    [
        (f"<think>x{STOP}</think>y{STOP}z", "closed", "y"),
        (f"x{STOP}</think>y{STOP}z", "open", "y"),
        (f"x{STOP}</think>y{STOP}z", "closed", "x"),
        (f"<think>x{STOP}</think>y{STOP}z", "none", "x"),
        (f"<think>x{STOP}", "closed", None),
        (f"x{STOP}<think>y", "closed", "x"),
        (f"</think><think>x</think>y{STOP}", "open", "y"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_stop_strings_within_a_native_thought_do_not_count(text, thought, place, size):
    pieces = [text[k : k + size] for k in range(0, len(text), size)]
    expected = None if place is None else text.index(place) + len(STOP)
    found = end(pieces, thought)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found * size <= expected < (found + 1) * size


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["none", "closed", "open"]))
def test_pieces_and_characters_end_alike(pieces, thought):
    """The slow twin cuts at the first end of a stop string that starts outside of a thought."""
    text = "".join(pieces)
    first = next(
        (
            k
            for k in range(len(text) + 1)
            if text[:k].endswith(STOP) and not leaves_open(text[: k - len(STOP)], thought)
        ),
        None,
    )
    found = end(pieces, thought)
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert len("".join(pieces[:found])) < first <= len("".join(pieces[: found + 1]))
        assert answer_start(text[:first], thought) < first


def test_without_stop_strings_nothing_ends():
    assert end(["<think>", "a", STOP], "closed", ()) is None
    assert end(["a", STOP], "none", ()) is None

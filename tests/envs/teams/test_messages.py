"""Messages: cleaning of malformed messages, and the judgments of the library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.teams.messages import Message, MessageFacts, clean, message_judge, names_in

JUDGE = message_judge()


def fired(message: Message) -> set[str]:
    judgments = JUDGE.judge(None, message.facts())
    return {name for name, judgment in zip(JUDGE.library.ids, judgments, strict=True) if judgment}


def message(text: str, **given: object) -> Message:
    defaults: dict[str, object] = {
        "malformed": False,
        "kinds": ("numbered",),
        "instruction": "put a clean mug in shelf.",
        "shown": {"mug 1", "desk 1"},
        "fresh": {"mug 1"},
        "known": {"executor": {"desk 1"}},
        "admissible": ["go to desk 1", "take mug 1 from desk 1"],
    }
    return Message(text, **{**defaults, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "left", "bad"),
    [
        ("go to desk 1", "go to desk 1", False),
        ("  go\n\n to\tdesk 1 ", "go to desk 1", False),
        ("go\x00 to\x1b[31m desk", "go to[31m desk", True),
        ("a\u202eb\u200bc", "abc", True),
        ("surrogate \ud800 here", "surrogate here", True),
        ("x" * 31, "x" * 30, True),
        ("x" * 10**6, "x" * 30, True),
        (" \n ", "", False),
    ],
)
def test_a_message_is_cleaned(text: str, left: str, bad: bool) -> None:
    assert clean(text, 30) == (left, bad)


@given(st.text(), st.integers(1, 50))
def test_any_text_becomes_one_short_line_that_stays_as_it_is(text: str, limit: int) -> None:
    line, _ = clean(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert line.isprintable()
    assert clean(line, limit) == (line, False)


def test_a_newline_cannot_fake_another_speaker() -> None:
    assert clean("go on\nexecutor: done", 100)[0] == "go on executor: done"


def test_names_are_found_by_their_kind() -> None:
    text = "The mug 1 is in desk 12. Ada Balan met Ben in 1912. Then click[red] after search[a b]."
    assert names_in(text, ["numbered"]) >= {"mug 1", "desk 12"}
    assert names_in(text, ["bracketed"]) == {"red"}
    assert names_in(text, ["capitalised"]) == {"ada balan", "ben", "1912"}
    assert names_in(text, []) == set()


def test_an_empty_message() -> None:
    assert fired(message("")) == {"message_empty"}


def test_a_message_that_nobody_reads() -> None:
    sent = message("find it")
    assert fired(sent) == {"message_unread"}
    sent.read = True
    assert fired(sent) == set()


def test_a_malformed_message() -> None:
    assert "message_malformed" in fired(message("find it", malformed=True))


def test_a_message_that_repeats_the_task() -> None:
    assert "repeats_task" in fired(message("Put a clean mug in the shelf".replace("the ", "")))
    assert "repeats_task" not in fired(message("clean the mug first"))
    assert "repeats_task" not in fired(message("mug"))  # too little to be a repetition


def test_a_message_that_names_what_is_not_there() -> None:
    assert "names_absent_thing" in fired(message("go to fridge 1"))
    assert "names_absent_thing" not in fired(message("go to desk 1"))


def test_what_a_sender_made_up_hides_nothing_that_it_tells() -> None:
    names = {"executor": {"desk 1", "fridge 1"}}  # the fridge from an earlier message
    sent = message("fridge 1 has mug 1", known=names)
    assert {"names_absent_thing", "tells_unknown_thing"} <= fired(sent)
    assert "tells_unknown_thing" not in fired(message("fridge 2 is by desk 1", known=names))


def test_a_message_that_is_heeded() -> None:
    sent = message("take mug 1 from desk 1, please")
    sent.read = True
    fields = {
        "names_seen_thing",
        "names_new_thing",
        "tells_unknown_thing",
        "names_task_thing",
        "proposes_action",
    }
    assert fired(sent) == fields
    sent.acts.append(("open drawer 1", True, True))  # accepted, revealing
    assert fired(sent) == fields
    sent.acts.append(("go to desk 1", False, False))
    assert fired(sent) == fields | {"heeded"}
    sent.acts.append(("take mug 1 from desk 1", True, True))
    assert fired(sent) == fields | {
        "heeded",
        "carried_out",
        "led_to_new_thing",
        "followed_to_the_letter",
    }


def test_a_message_that_is_always_heeded() -> None:
    sent = message("go to desk 1")
    sent.acts.append(("go to desk 1", True, False))
    assert "always_heeded" in fired(sent)


def test_facts_of_no_message_fire_nothing_but_that_it_is_unread() -> None:
    judgments = JUDGE.judge(None, MessageFacts())
    assert [JUDGE.library.ids[k] for k in judgments.nonzero()[0]] == ["message_unread"]

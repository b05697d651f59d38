"""Exact match equals the reference definition, which is written here in a second way."""

import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.retrieval.passages import Passage
from trca.envs.searchqa.answer_scores import exact_match, f1, gold_recall, normalized, word_set_f1
from trca.envs.searchqa.data.datasets import read_datasets
from trca.envs.searchqa.data.questions import Question

SHARED = Path(__file__).parents[4] / "shared" / "data" / "searchqa"


def reference_words(text):
    """The words of the normal form, character by character and without patterns."""
    kept = [character for character in text.lower() if character not in string.punctuation]
    runs, run, in_word = [], "", False
    for character in kept:
        is_word = character.isalnum() or character == "_"
        if run and is_word != in_word:
            runs.append(run)
            run = ""
        run, in_word = run + character, is_word
    runs.append(run)
    spaced = "".join(" " if run in ("a", "an", "the") else run for run in runs)
    words, word = [], ""
    for character in spaced + " ":
        if character.isspace():
            words += [word] if word else []
            word = ""
        else:
            word += character
    return words


PIECES = (
    *("the", "The", "a", "An", "Theatre", "cat", "Cat", "U.S.", "1,000", "O'Neill", "-", "–", "’s"),
    *("İ", "ß", "é", "e\u0301", "日本", " ", "  ", "\t", "\u00a0", "\u200b", ".", "!", "_", "ǅ"),
)
CHANGES = (str.upper, str.title, "the {}".format, "{} !".format, "an {}".format, str.strip)
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.text(max_size=12))


@settings(max_examples=500)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(CHANGES), st.booleans())
def test_exact_match_is_the_reference_whatever_the_text(answer, aliases, change, changed):
    answer = change(aliases[0]) if changed else answer
    words = reference_words(answer)
    assert exact_match(answer, aliases) == any(words == reference_words(each) for each in aliases)
    assert normalized(answer) == " ".join(words)


@pytest.mark.parametrize(
    ("answer", "aliases", "right"),
    [
        ("The Beatles", ["Beatles"], True),
        ("beatles, the", ["The Beatles!"], True),
        ("the the", ["The The"], True),
        ("theatre", ["re"], False),
        ("U.S.", ["us"], True),
        ("1,000", ["1000"], True),
        ("O'Neill", ["oneill"], True),
        ("twenty-one", ["twenty one"], False),
        ("Café", ["Cafe"], False),
        ("Paris, France", ["Paris"], False),
        ("", ["The"], True),
        ("x", [], False),
    ],
)
def test_exact_match_of_cases_worked_out_by_hand(answer, aliases, right):
    assert exact_match(answer, aliases) == float(right)


@pytest.mark.parametrize(
    ("answer", "aliases", "expected"),
    [
        ("the cat sat", ["cat sat"], 1.0),
        ("cat", ["cat sat"], 2 / 3),
        ("a cat cat", ["cat sat"], 0.5),
        ("dog", ["cat", "big dog"], 2 / 3),
        ("yes", ["yes sir"], 0.0),
        ("no way", ["no"], 0.0),
        ("Yes!", ["yes"], 1.0),
        ("", ["cat"], 0.0),
        ("the", ["a"], 0.0),
    ],
)
def test_f1_of_cases_worked_out_by_hand(answer, aliases, expected):
    assert f1(answer, aliases) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "aliases", "expected"),
    [
        ("the cat sat", ["cat sat"], 4 / 5),
        ("The Cat", ["the cat!"], 1.0),
        ("a cat cat", ["cat sat"], 1 / 2),
        ("cat cat", ["cat"], 1.0),
        ("O'Neill", ["o neill"], 1.0),
        ("U.S.", ["us"], 0.0),
        ("dog", ["cat", "big dog"], 2 / 3),
        ("yes", ["yes sir"], 2 / 3),
        ("?", ["cat"], 0.0),
        ("cat", ["?"], 0.0),
        ("cat", [], 0.0),
    ],
)
def test_f1_of_word_sets_of_cases_worked_out_by_hand(answer, aliases, expected):
    """Articles count, a word counts once, and punctuation separates words."""
    assert word_set_f1(answer, aliases) == pytest.approx(expected)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_f1_is_a_share_and_full_for_exact_matches_of_words(answer, aliases):
    assert 0.0 <= f1(answer, aliases) <= 1.0
    if exact_match(answer, aliases) and normalized(answer):
        assert f1(answer, aliases) == 1.0


def test_every_real_alias_matches_itself_and_has_a_normal_form():
    if not SHARED.exists():
        pytest.skip(f"no questions at {SHARED}")
    questions = read_datasets(SHARED)
    assert len(questions) == 1529
    for question in questions:
        assert all(exact_match(alias, question.answers) == 1.0 for alias in question.answers)
        assert any(normalized(alias) for alias in question.answers)


def asked(**gold):
    return Question("1", "nq", "test", "Who?", ("I",), "nq", **gold)


def test_gold_recall_goes_by_ids_else_by_titles_else_is_unknown():
    passages = [Passage("7", '"Emma"\nA novel.'), Passage("9", '"Ran"\nA film.')]
    assert gold_recall(asked(gold_ids=("7", "8")), passages) == 0.5
    assert gold_recall(asked(gold_ids=("8",), gold_titles=("Emma",)), passages) == 0.0
    assert gold_recall(asked(gold_titles=("Emma", "Ran")), passages) == 1.0
    assert gold_recall(asked(gold_titles=("Emma",)), []) == 0.0
    without_ids = [Passage("", passage.contents) for passage in passages]
    assert gold_recall(asked(gold_ids=("8",), gold_titles=("Emma",)), without_ids) == 1.0
    assert gold_recall(asked(gold_ids=("8",)), without_ids) is None
    assert gold_recall(asked(gold_ids=("8",)), []) == 0.0
    assert gold_recall(asked(), passages) is None

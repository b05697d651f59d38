"""Words and stems equal those of Lucene's English analyser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.retrieval.analysis import LONGEST, STOPWORDS, lucene_tokens, words
from trca.envs.retrieval.porter import stem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slip-on shoes", ["slip", "on", "shoes"]),
        ("U.S. 2,500 3.5 x_y it's a:b", ["U.S", "2,500", "3.5", "x_y", "it's", "a:b"]),
        ("1.a a.1 a,b 3'5 a''b", ["1", "a", "a", "1", "a", "b", "3'5", "a", "b"]),
        ("_ __ _a_", ["_a_"]),
        ("5'' 12\" #1 50% a&b", ["5", "12", "1", "50", "a", "b"]),
        ("naïve cafe\u0301 Straße", ["naïve", "cafe\u0301", "Straße"]),
        ("日本語 カタカナ ひら", ["日", "本", "語", "カタカナ", "ひ", "ら"]),
        ("Brand™ ★ 👍🏽 🇫🇷 #\u20e3", ["Brand", "™", "★", "👍🏽", "🇫🇷", "#\u20e3"]),
        ("5\u202f000", ["5\u202f000"]),
        ("צה\"ל ปลา", ["צה\"ל", "ปลา"]),
    ],
)  # fmt: skip
def test_words_end_where_unicode_says(text, expected):
    assert words(text) == expected


def test_a_very_long_word_is_cut():
    assert [len(word) for word in words("a" * 600)] == [LONGEST, LONGEST, 90]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("cats", "cat"), ("is", "is"),
        ("feed", "feed"), ("agreed", "agre"), ("plastered", "plaster"), ("bled", "bled"),
        ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat"), ("hopping", "hop"),
        ("falling", "fall"), ("filing", "file"), ("happy", "happi"), ("sky", "sky"),
        ("relational", "relat"), ("rational", "ration"), ("digitizer", "digit"),
        ("possibly", "possibl"), ("archaeology", "archaeolog"), ("apologi", "apolog"),
        ("electrical", "electr"), ("hopefulness", "hope"), ("adoption", "adopt"),
        ("replacement", "replac"), ("controll", "control"), ("roll", "roll"), ("cease", "ceas"),
        ("probate", "probat"), ("yes", "ye"), ("sayings", "sai"), ("größe", "größe"),
    ],
)  # fmt: skip
def test_stems_are_porters(word, expected):
    assert stem(word) == expected


def test_possessives_case_and_stopwords_go():
    assert lucene_tokens("The DOG’s and the dogs' owner's It is") == ["dog", "dog", "owner"]
    assert lucene_tokens(" ".join(STOPWORDS)) == []


def test_letters_become_lower_one_by_one():
    assert lucene_tokens("İZMİR ΟΔΟΣ") == ["izmir", "οδοσ"]


@given(st.text(max_size=200))
def test_any_text_has_terms_that_words_begin_with(text):
    for term in lucene_tokens(text):
        assert term
        assert not any(letter.isspace() and letter != "\u202f" for letter in term)

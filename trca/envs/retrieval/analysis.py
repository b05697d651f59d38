r"""Lucene's English analyser: Unicode words, no possessives, lower case, no stopwords, stems.

    >>> lucene_tokens("The cats' 2,500 Greek-style U.S. Mo's")
    ['cat', '2,500', 'greek', 'style', 'u.', 'mo']
    >>> words("Mo’s 2,500 x_y – ★ 日本")
    ['Mo’s', '2,500', 'x_y', '★', '日', '本']

These are Anserini's default filters: `StandardTokenizer`, `EnglishPossessiveFilter`,
`LowerCaseFilter`, `StopFilter` and `PorterStemFilter`. The tokenizer follows Unicode's annex 29: a
word consists of letters and digits. An apostrophe, a point or a colon may join letters; a comma or
a point may join digits. Every ideograph and every pictograph is a separate word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from trca.envs.retrieval.porter import stem

if TYPE_CHECKING:
    import regex

_STOPWORDS: Final = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
STOPWORDS: Final = frozenset(_STOPWORDS.split())
_LONGEST_KEPT: Final = 32
"""Characters of the longest cached chunk. The limit bounds the cache, since agents may write any
length."""
_NARROW_SPACE: Final = "\u202f"
"""The only space that Unicode permits inside a word."""
_POSSESSIVE: Final = re.compile(r"['’\uff07][sS]\Z")
LONGEST: Final = 255
"""Length of the longest word in characters; longer words are cut into pieces of this length."""
_ASCII: Final = re.compile(r"_*[a-z0-9](?:\w|(?<=[a-z])['.:](?=[a-z])|(?<=\d)[.,;'](?=\d))*", re.I)

_PICTOGRAPHS: Final = (
    r"\u00A9\u00AE\u203C\u2049\u2122\u2139\u2194-\u2199\u21A9\u21AA\u231A\u231B\u2328\u2388\u23CF"
    r"\u23E9-\u23F3\u23F8-\u23FA\u24C2\u25AA\u25AB\u25B6\u25C0\u25FB-\u25FE\u2600-\u2605"
    r"\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271D\u2721\u2728\u2733\u2734"
    r"\u2744\u2747\u274C\u274E\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27A1\u27B0\u27BF\u2934"
    r"\u2935\u2B05-\u2B07\u2B1B\u2B1C\u2B50\u2B55\u3030\u303D\u3297\u3299\U0001F000-\U0001F0FF"
    r"\U0001F10D-\U0001F10F\U0001F12F\U0001F16C-\U0001F171\U0001F17E\U0001F17F\U0001F18E"
    r"\U0001F191-\U0001F19A\U0001F1AD-\U0001F1E5\U0001F201-\U0001F20F\U0001F21A\U0001F22F"
    r"\U0001F232-\U0001F23A\U0001F23C-\U0001F23F\U0001F249-\U0001F53D\U0001F546-\U0001F64F"
    r"\U0001F680-\U0001F6FF\U0001F774-\U0001F77F\U0001F7D5-\U0001F7FF\U0001F80C-\U0001F80F"
    r"\U0001F848-\U0001F84F\U0001F85A-\U0001F85F\U0001F888-\U0001F88F\U0001F8AE-\U0001F8FF"
    r"\U0001F90C-\U0001F93A\U0001F93C-\U0001F945\U0001F947-\U0001FFFD"
)
"""Extended pictographs of Unicode 12.1, the version of Lucene 9. Later versions have fewer."""

_LATER_LETTERS: Final = r"\u00B8\u02E5-\u02EB\u055A\u055F\u058A"
"""Characters that are letters in later versions of Unicode, and separate words in Lucene."""


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    matches = _ASCII.findall(text) if text.isascii() else _unicode().findall(text)
    if len(text) <= LONGEST or max(map(len, matches), default=0) <= LONGEST:
        return matches
    return [word[i : i + LONGEST] for word in matches for i in range(0, len(word), LONGEST)]


@cache
def _unicode() -> regex.Pattern[str]:
    """The rules for all scripts, as in ``StandardTokenizerImpl.jflex``."""
    import regex

    marks = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"

    def with_marks(characters: str) -> str:
        return f"(?:[{characters}]{marks})"

    letters = rf"[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]--[{_LATER_LETTERS}]"
    letter, hebrew = with_marks(letters), with_marks(r"\p{WB=Hebrew_Letter}")
    digit, katakana = with_marks(r"\p{WB=Numeric}\uFF10-\uFF19"), with_marks(r"\p{WB=Katakana}")
    joint = with_marks(r"\p{WB=ExtendNumLet}")
    after_hebrew = r"(?<=\p{WB=Hebrew_Letter})"
    quote, quotes = with_marks(r"\p{WB=Single_Quote}"), with_marks(r"\p{WB=Double_Quote}")
    in_word = with_marks(r"\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}")
    in_number = with_marks(r"\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}")
    part = (
        rf"(?:{katakana}(?:{joint}*{katakana})*"
        rf"|(?:{digit}(?:(?:{joint}*|{in_number}){digit})*"
        rf"|{letter}(?:(?:{joint}*|{in_word}){letter}|{after_hebrew}{quotes}{hebrew})*"
        rf"(?:{after_hebrew}{quote})?)+)"
    )
    picture = rf"(?:[{_PICTOGRAPHS}]\uFE0F?\p{{Emoji_Modifier}}?)"
    pictures = rf"\u200D*{picture}(?:\u200D{picture})*(?:[\U000E0020-\U000E007E]+\U000E007F)?"
    flag = with_marks(r"\p{WB=Regional_Indicator}") + "{2}"
    keycap = r"[#*]\uFE0F?\u20E3"
    south_east_asian = with_marks(r"\p{LB=Complex_Context}") + "+"
    ideograph, hiragana = with_marks(r"\p{Script=Han}"), with_marks(r"\p{Script=Hiragana}")
    return regex.compile(
        rf"(?V1){joint}*{part}(?:{joint}+{part})*{joint}*"
        rf"|{pictures}{marks}|{flag}|{keycap}|{south_east_asian}|{ideograph}|{hiragana}"
    )


def lucene_tokenizer(entries: int) -> Callable[[str], list[str]]:
    """A function from a text to its terms, in order, with repeats, and a cache of some words."""
    kept_terms = lru_cache(maxsize=entries)(_terms)

    def tokens(text: str) -> list[str]:
        chunks = text.split() if _NARROW_SPACE not in text else text.split(" ")
        return [
            term
            for chunk in chunks
            for term in (kept_terms if len(chunk) <= _LONGEST_KEPT else _terms)(chunk)
        ]

    return tokens


def _terms(chunk: str) -> tuple[str, ...]:
    """The terms of the characters between two spaces."""
    lowered = (_lower(_POSSESSIVE.sub("", word)) for word in words(chunk))
    return tuple(stem(word) for word in lowered if word not in STOPWORDS)


lucene_tokens: Final = lucene_tokenizer(1 << 14)
"""The terms of a query. The cache is small, since agents may write any word."""


def _lower(word: str) -> str:
    """Lower case letter by letter, as in Java: no final sigma, one letter for one letter."""
    if word.isascii():
        return word.lower()
    return "".join(low if len(low := letter.lower()) == 1 else "i" for letter in word)

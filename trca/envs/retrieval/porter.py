"""Porter's stemmer, as in Lucene.

This module follows Martin Porter's Java code: the published algorithm with two later changes
(``-bli`` in place of ``-abli``, and ``-logi``). Words of one or two letters stay unchanged, and
every character that is not a vowel counts as a consonant.
"""

from __future__ import annotations

import re
from typing import Final

from trca.common.cache import remembered

_STEP_2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize",
    "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3: Final = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip


def _ending(*suffixes: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(suffixes)})\Z")


_ENDING_2: Final = _ending(*_STEP_2)
_ENDING_3: Final = _ending(*_STEP_3)
_ENDING_4: Final = _ending(
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent",
    "(?<=[st])ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


@remembered(entries=1 << 14, longest=32)
def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if len(word) <= 2:
        return word
    word = _step_1(word)
    if len(word) > 1:
        word = _replaced(word, _ENDING_2, _STEP_2)
    word = _replaced(word, _ENDING_3, _STEP_3)
    match = _ENDING_4.search(word)
    if match and _measure(word[: match.start()]) > 1:
        word = word[: match.start()]
    return _step_5(word)


def _step_1(word: str) -> str:
    """Removes plurals, ``-ed`` and ``-ing``, and replaces a final ``y``."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix):
                if _has_vowel(word[: -len(suffix)]):
                    word = _tidied(word[: -len(suffix)])
                break
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _tidied(word: str) -> str:
    """Repairs a word after the removal of ``-ed`` or ``-ing``."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c":
        return word if word[-1] in "lsz" else word[:-1]
    if _measure(word) == 1 and _ends_short(word):
        return word + "e"
    return word


def _step_5(word: str) -> str:
    """Removes a final ``e`` and shortens ``-ll``."""
    long = _measure(word)
    if word.endswith("e") and (long > 1 or (long == 1 and not _ends_short(word[:-1]))):
        word = word[:-1]
    if word.endswith("ll") and long > 1:
        word = word[:-1]
    return word


def _replaced(word: str, ending: re.Pattern[str], by: dict[str, str]) -> str:
    match = ending.search(word)
    if match is None:
        return word
    head = word[: match.start()]
    return head + by[match[0]] if _measure(head) > 0 else word


def _shape(word: str) -> str:
    """The word with ``v`` for each vowel and ``c`` for each consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: number of vowels followed by a consonant."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_short(word: str) -> bool:
    """Whether a word ends in consonant, vowel, consonant, and the last letter is not w, x or y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"

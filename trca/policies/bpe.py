"""A tokenizer for a tiny policy: frequent words are tokens, rare words use byte-level BPE."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer
from transformers import PreTrainedTokenizerFast

from trca.envs.responses import ACTION_FORMAT

TAGS: Final = ACTION_FORMAT.tags
END: Final = "<|end|>"
_RARE: Final = 3
_BYTES: Final = ByteLevel(add_prefix_space=False, use_regex=False)


def train_tokenizer(
    texts: Sequence[str],
    actions: Iterable[str],
    words: int,
    merges: int,
    tags: Sequence[str] = TAGS,
) -> PreTrainedTokenizerFast:
    """Trains a tokenizer with one token for each frequent word, number, tag and code of the texts.

    BPE of at most ``merges`` merges splits any other text, down to bytes. A code mixes letters and
    digits, such as ``kan42rul17``; the policy copies a code of one token in one step. A word and
    the space before it are one token. The two leading words of an action are also one token if no
    number ever follows them (``go to``).
    """
    fixed = "".join(rf"{re.escape(phrase)}(?= )|" for phrase in leading_phrases(actions))
    code = " ?[A-Za-z]+[0-9]+[A-Za-z][A-Za-z0-9]*"
    split = rf"{fixed}{code}| ?[A-Za-z]+| ?[0-9]+|\n| ?[^\sA-Za-z0-9]|\s"
    token, tag = re.compile(split), re.compile("|".join(tags))
    counts = Counter(
        word
        for text, times in Counter(texts).items()
        for part in tag.split(text)
        for word in token.findall(part) * times
    )
    frequent = [w for w, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])) if n >= _RARE]
    frequent = [w for w in frequent if len(w.encode()) > 1][:words]
    rest = {w: n for w, n in counts.items() if w not in set(frequent)}
    vocabulary, learned = _learn_merges(rest, merges)
    for word in frequent:
        pieces = _BYTES.pre_tokenize_str(word)
        vocabulary.setdefault("".join(piece for piece, _ in pieces), len(vocabulary))
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=learned, ignore_merges=True))
    backend.pre_tokenizer = words_then_bytes(split)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=END, clean_up_tokenization_spaces=False
    )
    tokenizer.add_tokens(list(tags))
    return tokenizer


def words_then_bytes(pattern: str) -> PreTokenizer:
    """Returns the splitting of text before BPE: words by a pattern, then bytes."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), _BYTES])


def leading_phrases(actions: Iterable[str]) -> tuple[str, ...]:
    """Returns two-word prefixes of actions that several different words, but no number, follow."""
    followers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for action in actions:
        words = action.split(" ")
        if len(words) > 2 and words[0].isalpha() and words[1].isalpha():
            followers[words[0], words[1]].add(words[2])
    return tuple(
        sorted(
            " ".join(pair)
            for pair, after in followers.items()
            if len(after) > 1 and not any(word[:1].isdigit() for word in after)
        )
    )


def _learn_merges(
    counts: dict[str, int], merges: int
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns vocabulary (all bytes first) and merges of a BPE over words with counts."""
    alphabet = sorted(ByteLevel.alphabet())
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = _BYTES
    learner.train_from_iterator(
        (word for word, count in sorted(counts.items()) for _ in range(count)),
        trainers.BpeTrainer(
            vocab_size=len(alphabet) + merges,
            min_frequency=_RARE,
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    model = json.loads(learner.to_str())["model"]
    return dict(model["vocab"]), [(a, b) for a, b in model["merges"]]

"""`ActionChoice`: vector observations and numbered actions, for learners without language model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, SupportsFloat
from zlib import crc32

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from trca.envs.text_env import UNPARSED, filled

_WORDS: Final = re.compile(r"[^\W_]+")

Vector = NDArray[np.float32]


@lru_cache(maxsize=8192)
def hashed_words(text: str, size: int) -> Vector:
    """A text as float32 (size,) of norm 1: signed counts of hashed words, ignoring case.

    The hashing trick of Weinberger et al. (2009). Zeros for a text without words.
    """
    vector = np.zeros(size, dtype=np.float32)
    for word in _WORDS.findall(text.lower()):
        code = crc32(word.encode())
        vector[(code >> 1) % size] += 1 - 2 * (code & 1)
    norm = float(np.linalg.norm(vector))
    vector /= norm or 1.0
    vector.setflags(write=False)
    return vector


class ActionChoice(gymnasium.Wrapper[Vector, np.int64, str, str], RecordConstructorArgs):
    """A text environment with vectors for observations and numbers for actions.

    The observation is float32 ((3 + ``choices``) * ``size`` + ``choices``,). It joins
    `hashed_words` of the instruction, the memory line, the observation text and each admissible
    action in order. The last ``choices`` entries are a mask: 1 for the number of each admissible
    action.

    ``Discrete(choices)`` chooses one of the admissible actions. A number without admissible action
    counts as an unreadable action: the environment answers it, and ``accepted`` in ``info`` is
    False. The instruction fills in the gap of an open action, such as ``search[<your query>]``.
    ``info`` is the ``info`` of the text environment with the observation as ``text``. ``facts`` are
    left out, since RLlib's episode recorder cannot write dataclasses.
    """

    def __init__(self, env: gymnasium.Env[str, str], *, choices: int = 48, size: int = 64) -> None:
        """Wraps an environment of `trca.envs.make`.

        ``choices`` is the largest number of admissible actions in a step, ``size`` the length of
        the vector of one text.

        Raises:
            ValueError: For ``choices`` or ``size`` below 1.
        """
        RecordConstructorArgs.__init__(self, choices=choices, size=size)
        super().__init__(env)
        if min(choices, size) < 1:
            raise ValueError(f"choices is {choices} and size is {size}: give 1 or more")
        self._choices, self._size = choices, size
        length = (3 + choices) * size + choices
        self.observation_space = Box(-1.0, 1.0, (length,), np.float32)
        self.action_space = Discrete(choices)
        self._open_actions: frozenset[str] = env.get_wrapper_attr("open_actions")
        self._instruction = ""
        self._admissible: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Starts a task, like ``reset`` of the text environment."""
        text, info = self.env.reset(seed=seed, options=options)
        self._instruction = info["task"]
        return self._observed(text, info)

    def step(self, action: np.int64) -> tuple[Vector, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes the admissible action with this number.

        Raises:
            gymnasium.error.InvalidAction: If the number is not in the action space.
        """
        if action not in self.action_space:
            raise InvalidAction(
                f"the action is {action!r}: give a whole number from 0 to {self._choices - 1}"
            )
        chosen = UNPARSED
        if action < len(self._admissible):
            chosen = self._admissible[int(action)]
            if chosen in self._open_actions:
                chosen = filled(chosen, self._instruction)
        text, reward, terminated, truncated, info = self.env.step(chosen)
        vector, info = self._observed(text, info)
        return vector, reward, terminated, truncated, info

    def _observed(self, text: str, info: Mapping[str, Any]) -> tuple[Vector, dict[str, Any]]:
        """The observation as a vector, and ``info`` for RLlib."""
        self._admissible = list(info["admissible_actions"])
        number = len(self._admissible)
        if number > self._choices:
            raise ValueError(
                f"task {info['task_id']} has {number} admissible actions, but choices is"
                f" {self._choices}: set choices={number} or more"
            )
        texts = (self._instruction, info.get("memory", ""), text, *self._admissible)
        vector = np.zeros((3 + self._choices) * self._size + self._choices, dtype=np.float32)
        words = vector[: len(texts) * self._size].reshape(len(texts), self._size)
        np.stack([hashed_words(each, self._size) for each in texts], out=words)
        vector[vector.size - self._choices :][:number] = 1.0
        return vector, {**{k: v for k, v in info.items() if k != "facts"}, "text": text}

"""Reads of answers: the log-probability of the right answer, and the F1 of the given answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.inputs.gold import GoldRead
from trca.algorithms.credit.reads import Read, Sources
from trca.algorithms.settings.prompting import engine_tokenizer
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.prompts.control_tokens import response_ids
from trca.policies.spans import part_of
from trca.records import StepBatch

_THOUGHT: Final = "Now there is enough information to answer."
_MARK: Final = "\ue000"
"""A character for private use, absent from tags, thoughts and actions."""


class AnswerLogprobs(Read):
    """Mean log-probability of the right answer's tokens after the prompt of each step.

    The current weights of the policy score a response that states the task's first answer.
    """

    gold = True

    def __call__(self, sources: Sources, batch: StepBatch) -> NDArray[np.float64]:
        """Returns float64 (S,).

        Raises:
            ValueError: For a task without a known answer.
        """
        config = sources.config
        tokenizer = engine_tokenizer(config.settings.engine, config.resolved_model())
        write = RESPONSE_FORMATS.get(config.settings.response_format).write
        assert write is not None
        answers = _ANSWERS(sources, batch)
        actions = _ACTIONS(sources, batch)
        responses, parts = [], []
        known: dict[tuple[str, str], tuple[NDArray[np.int32], NDArray[np.bool_]]] = {}
        for (answer, *_), (action, *_) in zip(answers, actions, strict=True):
            if (answer, action) not in known:
                known[answer, action] = answer_tokens(write, action, answer, tokenizer)
            ids, part = known[answer, action]
            responses.append(ids)
            parts.append(part)
        prompts = [step.prompt_ids for rollout in sources.rollouts for step in rollout.steps]
        scores = sources.learners.score(prompts, responses)
        return np.array(
            [score[part].mean(dtype=np.float64) for score, part in zip(scores, parts, strict=True)]
        )

    def lack(self, sources: Sources) -> str:
        """Requests the gold of the first training task, and the writer of responses."""
        if lack := _ANSWERS.lack(sources) or _ACTIONS.lack(sources):
            return lack
        name = sources.config.settings.response_format
        if RESPONSE_FORMATS.get(name).write is None:
            return f"response format {name!r} does not say how a response is written: give it write"
        return ""


class FinalMeasure(Read):
    """A measure of the environment at the end of each rollout, repeated for each step."""

    def __init__(self, name: str) -> None:
        """Chooses the measure.

        Args:
            name: Name in the environment's ``measures``.
        """
        self._name = name

    def __call__(self, sources: Sources, batch: StepBatch) -> NDArray[np.float64]:
        """Returns float64 (S,).

        Raises:
            ValueError: For a rollout without the measure.
        """
        values = []
        for rollout in sources.rollouts:
            if self._name not in rollout.measures:
                measured = ", ".join(rollout.measures) or "nothing"
                raise ValueError(
                    f"{sources.config.env} does not measure {self._name!r}, but {measured}"
                )
            values += [rollout.measures[self._name]] * len(rollout.steps)
        return np.array(values, dtype=np.float64)


def answer_tokens(
    write: Callable[[str, str], str], action: str, answer: str, tokenizer: Any
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The ids of the response that gives an answer, and the mask of the answer's ids.

    The words of the answer may also occur in tags and thought. The position of the answer in the
    action is the position of a mark in a second response, with the mark in place of the answer.

    Args:
        write: Writes a response with a thought and an action.
        action: The action that gives the answer; the last occurrence of the answer counts.
        answer: The answer.
        tokenizer: The tokenizer of the policy.

    Returns:
        int32 (R,) and bool (R,).

    Raises:
        ValueError: For an action without the answer.
    """
    if answer not in action:
        raise ValueError(
            f"action {action!r} does not hold the answer {answer!r}: correct the answer_actions of"
            " the environment's gold"
        )
    before, _, after = action.rpartition(answer)
    response, marked = write(_THOUGHT, action), write(_THOUGHT, f"{before}{_MARK}{after}")
    first = marked.index(_MARK)
    last = len(response) - (len(marked) - first - len(_MARK))
    start, end = len(response[:first].encode()), len(response[:last].encode())
    ids = np.array(response_ids(tokenizer, response), dtype=np.int32)
    return ids, part_of(ids, tokenizer, start, end)


_ANSWERS: Final = GoldRead("answers")
_ACTIONS: Final = GoldRead("answer_actions")
ANSWER_LOGPROBS: Final = AnswerLogprobs()
FINAL_F1: Final = FinalMeasure("f1")
FINAL_WORD_SET_F1: Final = FinalMeasure("word_set_f1")

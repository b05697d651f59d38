"""Reads that the learners score: the right answer, and actions given the end of the rollout."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.reads import GoldRead, Read, Sources
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.prompts.control_tokens import response_ids
from trca.policies.spans import part_of
from trca.records import Bools, Floats, Rollout, StepBatch
from trca.records.step_batch import action_mask_of

_THOUGHT: Final = "Now there is enough information to answer."
_MARK: Final = "\ue000"
"""A character for private use, absent from tags, thoughts and actions."""
_LONGEST: Final = 300
"""Characters of the last observation in the prompt of hindsight."""


class AnswerLogprobs(Read):
    """Mean log-probability of the right answer's tokens after the prompt of each step.

    The current weights of the policy score a response that states the task's first answer.
    """

    gold = True

    def __call__(self, sources: Sources, batch: StepBatch) -> Floats:
        """float64 (S,); a `ValueError` for a task without a known answer."""
        config = sources.config
        tokenizer = engine_tokenizer(config.settings.engine, config.resolved_model())
        write = RESPONSE_FORMATS.get(config.settings.response_format).write
        assert write is not None
        tokens = cache(partial(answer_tokens, write, tokenizer=tokenizer))
        pairs = zip(_ACTIONS(sources, batch), _ANSWERS(sources, batch), strict=True)
        responses = [tokens(action, answer) for (action, *_), (answer, *_) in pairs]
        prompts = [step.prompt_ids for rollout in sources.rollouts for step in rollout.steps]
        scores = sources.learners.score(prompts, [ids for ids, _ in responses])
        scored = zip(scores, responses, strict=True)
        return np.array([score[part].mean(dtype=np.float64) for score, (_, part) in scored])

    def lack(self, sources: Sources) -> str:
        """Requests the gold of the first training task, and the writer of responses."""
        if lack := _ANSWERS.lack(sources) or _ACTIONS.lack(sources):
            return lack
        name = sources.config.settings.response_format
        if RESPONSE_FORMATS.get(name).write is None:
            return f"response format {name!r} does not say how a response is written: give it write"
        return ""


def answer_tokens(
    write: Callable[[str, str], str], action: str, answer: str, tokenizer: Any
) -> tuple[NDArray[np.int32], Bools]:
    """The ids of a response that gives an answer, int32 (R,), and the mask of the answer's ids.

    The words of the answer may also occur in tags and thought. The position of its last occurrence
    in the action is the position of a mark in a second response, with the mark in place of the
    answer.

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


class HindsightRead(Read):
    """One pass of the learners over the steps of successful rollouts, float64 (S,)."""

    def __call__(self, sources: Sources, batch: StepBatch) -> Floats:
        """Mean log-probability of each action's tokens, of all tokens without an action; else 0."""
        config = sources.config
        tokenizer = engine_tokenizer(config.settings.engine, config.resolved_model())
        prompter = make_prompter(config.settings, tokenizer)
        steps = [(rollout, step) for rollout in sources.rollouts for step in rollout.steps]
        rows = [k for k, (r, step) in enumerate(steps) if r.won and len(step.response_ids)]
        scored = [steps[k] for k in rows]
        scores = sources.learners.score(
            [prompter.with_note(step.prompt_ids, note(rollout)) for rollout, step in scored],
            [step.response_ids for _, step in scored],
        )
        means = np.zeros(len(steps))
        for k, score, (_, step) in zip(rows, scores, scored, strict=True):
            action = action_mask_of([step], config.settings.train_malformed)
            means[k] = float(np.mean(score[action] if action.any() else score, dtype=np.float64))
        return means


def note(rollout: Rollout) -> str:
    """The line of the prompt about the end of a successful rollout."""
    last = " ".join(rollout.last_observation.split())[:_LONGEST]
    return f"In hindsight: the task was completed in the end, with this observation: {last}\n"


_ANSWERS: Final = GoldRead("answers")
_ACTIONS: Final = GoldRead("answer_actions")
ANSWER_LOGPROBS: Final = AnswerLogprobs()
HINDSIGHT_LOGPROBS: Final = HindsightRead()

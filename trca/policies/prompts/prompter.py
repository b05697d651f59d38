"""`Prompter`: writes the prompts of a template within a budget of tokens."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trca.common.thoughts import Thought
from trca.envs.responses import ACTION_FORMAT, PromptWriter, ResponseFormat
from trca.policies.prompts.chat import ChatTemplate, Conversation, Messages, Tools
from trca.policies.prompts.control_tokens import SEPARATOR, control_tokens
from trca.policies.prompts.texts import (
    HOW_TO_ANSWER,
    History,
    chat_system,
    chat_turn,
    compact_prompt,
    compact_system,
    listed_actions,
    paper_prompt,
    with_subgoal,
    with_tools,
)
from trca.policies.spans import thoughts_of

Template = Literal["paper", "compact", "chat"]

NO_TOOLS: Final = (
    "this response_format calls tools, and the environment has none: set response_format to action"
)
_CUT: Final = "..."
_PIECE: Final = re.compile(r" ?[^ ]{1,16}| ")
"""A piece of an observation that is shortened: a word, or a part of a text without spaces."""


class Prompter:
    """Writes prompts of one template and keeps them within a budget of tokens.

    ``paper`` is the prompt of the paper and of verl-agent, worded for any text environment:
    instruction, step count, the last observations and actions, the current observation, the
    admissible actions and the response format. ``compact`` is a short text for a small policy:
    instruction, last actions, memory (or the observation without memory), admissible actions. It
    omits idle actions, and actions such as ``click[red]`` whose argument in brackets is on the
    page. Neighbouring actions share their first words: ``go to bed 1 desk 1``, ``click [back] [buy
    now]``. Both are one message in the tokenizer's chat template, if there is one; with ``compact``
    a system prompt names the tags of a response.

    ``chat`` is a conversation over the episode: see `trca.policies.prompts.chat`.

    The chat template shows tools if the response format calls tools. Else the instruction of
    ``paper`` and ``chat`` lists them, and actions are JSON. ``compact`` shows no tools. No prompt
    with tools lists admissible actions.

    A prompt over the budget is shortened in a fixed order: the oldest pairs of the history, then
    the memory, then the end of the observation, then the end of the list of actions, and finally
    the subgoal. The instruction and the response format are never shortened.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: Template | PromptWriter = "paper",
        history_length: int = 2,
        max_prompt_tokens: int = 2048,
        memory: bool = False,
        response_format: ResponseFormat = ACTION_FORMAT,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Chooses template and budget.

        ``template`` may be a function that writes a prompt for the chat template.
        ``history_length`` counts observations with actions in ``paper``, only actions in
        ``compact``, turns in ``chat``. The memory line sums up the observations so far. An adapter
        outside the model writes it, so it adds to the observation of the paper.

        Raises:
            ValueError: For an unknown template, for options that the chat template does not read,
                for a chat without a chat template, and for tools that no chat template shows.
        """
        paper: PromptWriter = paper_prompt
        if response_format.instructions is not None:
            paper = partial(paper_prompt, instructions=response_format.instructions)
        writers = {"paper": paper, "compact": compact_prompt, "chat": paper}
        if not callable(template) and template not in writers:
            raise ValueError(f"unknown prompt template {template!r}: choose paper, compact or chat")
        if history_length < 0:
            raise ValueError(f"history_length is {history_length}: give 0 or more")
        options = dict(chat_template_kwargs or {})
        chats = bool(getattr(tokenizer, "chat_template", None))
        if not chats and (template == "chat" or options):
            raise ValueError(
                f"{'template is chat' if template == 'chat' else 'chat_template_kwargs is set'},"
                " and the tokenizer of the model has no chat template: set template to paper or"
                " compact and leave chat_template_kwargs out, or choose an instruct model"
            )
        self.template = template
        self.history_length = history_length
        self.max_prompt_tokens = max_prompt_tokens
        self.memory = memory
        self._format = response_format
        self._write = template if callable(template) else writers[template]
        self._control = control_tokens(tokenizer)
        self._chat = ChatTemplate(tokenizer, options) if chats else None
        self._system = compact_system(response_format.tags) if template == "compact" else ""
        if response_format.calls_tools and template != "chat":
            raise ValueError(
                "this response_format shows tools by the chat template: set template to chat, or"
                " response_format to action for a model without a chat template, such as tiny"
            )
        if response_format.calls_tools and self._chat and not self._chat.takes_tools:
            raise ValueError(
                "the chat template of the tokenizer shows no tools: set response_format to action,"
                " or choose a model whose chat template reads tools"
            )
        self.thought: Thought = self._chat.thought if self._chat else thoughts_of(tokenizer)

    def encode(
        self,
        *,
        instruction: str,
        step: int,
        max_steps: int,
        history: History,
        observation: str,
        admissible: Sequence[str],
        idle: Collection[str] = (),
        memory: str | None = None,
        subgoal: str = "",
        conversation: Conversation | None = None,
        tools: Tools = (),
        results: Sequence[str] = (),
    ) -> NDArray[np.int32]:
        """Returns the token ids of the prompt of one step, int32 (P,).

        Args:
            instruction: The instruction.
            step: Number of earlier actions.
            max_steps: The step limit.
            history: Pairs of an observation and its action, oldest first.
            observation: The current observation.
            admissible: The admissible actions; empty if the environment does not list them.
            idle: Admissible actions that are always present and change nothing.
            memory: The memory line; shown only by a prompter with ``memory``.
            subgoal: The agent's subgoal; empty for an agent without a plan.
            conversation: The earlier turns for template ``chat``, in place of ``history``; the
                prompt becomes its last prompt. None for a first turn.
            tools: The tools of the task; empty for an environment without tools.
            results: The results of the calls of the last action; ``observation`` joins them.

        Raises:
            ValueError: If instruction and response format exceed the budget, or a response format
                that calls tools gets none.
        """
        if self._format.calls_tools and not tools:
            raise ValueError(NO_TOOLS)
        guard, whole = self._control.guard, self._format.whole_history
        idle = idle if self.template == "compact" else ()
        admissible = list(map(guard, listed_actions(admissible, tools, idle)))
        shown = guard(memory or "") if self.memory else ""
        past = [
            (guard(seen), guard(written, special=whole))
            for seen, written in (history[-self.history_length :] if self.history_length else ())
        ]
        if tools and not self._format.calls_tools and self.template != "compact":
            instruction = with_tools(instruction, tools)
        instruction, observation, subgoal = map(guard, (instruction, observation, subgoal))
        talk = (conversation or Conversation()) if self.template == "chat" else None
        count = 0
        if talk is not None:
            past = []
            if self._format.calls_tools and self._chat is not None:
                count = len(results) if self._chat.takes_results else 0
                observation = SEPARATOR.join(map(guard, results)) if count else observation
            if not talk.turns:
                talk.tools = self._control.guard_all(tools) if self._format.calls_tools else ()
                how = self._format.instructions or HOW_TO_ANSWER
                talk.system = chat_system(instruction, max_steps, admissible, how)

        def write(
            subgoal: str, past: History, memory: str, observation: str, admissible: Sequence[str]
        ) -> list[int] | None:
            """The prompt; None if the prompt is over the budget."""
            if talk is not None and self._chat is not None:
                messages = _messages(step, memory, observation, admissible, subgoal, count)
                most = self.history_length, self.max_prompt_tokens
                fits = talk.prompt(self._chat, messages, *most)
                return talk.prompt_ids if fits else None
            asked = with_subgoal(instruction, subgoal)
            ids = self._ids(
                self._write(asked, step, max_steps, past, memory, observation, admissible)
            )
            return ids if len(ids) <= self.max_prompt_tokens else None

        tokens = _shortened(write, past, shown, observation, admissible, subgoal)
        if tokens is None:
            raise ValueError(
                f"the instruction and the response format take over {self.max_prompt_tokens}"
                " tokens: raise max_prompt_tokens"
            )
        return np.array(tokens, dtype=np.int32)

    def continued(self, messages: Messages, past: Sequence[int] = ()) -> list[int]:
        """Returns the ids of a conversation whose messages a client writes, of any length.

        Without a chat template the texts follow each other without a separator.

        Args:
            messages: The messages after ``past``, each with ``role`` and ``content``.
            past: Ids of the conversation up to a sampled response; empty without one.

        Raises:
            ValueError: If the chat template does not show all turns of a conversation in order.
        """
        guard = self._control.guard
        shown = [{**m, "content": guard(m["content"], special=True)} for m in messages]
        if self._chat is not None:
            chat = self._chat
            return [*past, *chat.continued(shown, past)] if past else chat.whole(shown)
        text = "".join(message["content"] for message in shown)
        return [*past, *self._control.encode(text, add_special_tokens=not past)]

    def with_note(self, prompt_ids: NDArray[np.int32], note: str) -> NDArray[np.int32]:
        """Adds a line to a prompt (P,), before the tokens that the chat template appends."""
        one, other = self._ids("a"), self._ids("b")
        after = 0
        while self._chat and after < len(one) and one[-1 - after] == other[-1 - after]:
            after += 1
        end = len(prompt_ids) - after
        note_ids = np.array(self._control.encode(self._control.guard(note)), dtype=np.int32)
        return np.concatenate([prompt_ids[:end], note_ids, prompt_ids[end:]])

    def _ids(self, text: str) -> list[int]:
        if self._chat:
            return self._chat.opening(self._system, text)
        return self._control.encode(text, add_special_tokens=True)


def _messages(
    step: int, memory: str, observation: str, admissible: Sequence[str], subgoal: str, results: int
) -> Messages:
    """A user turn, or ``results`` messages of tools from an observation that joins them.

    The end of the observation may be cut off.
    """
    if not results:
        text = chat_turn(step, memory, observation, admissible, subgoal)
        return [{"role": "user", "content": text}]
    texts = observation.split(SEPARATOR)
    texts += [_CUT] * (results - len(texts))
    texts[-1] = chat_turn(None, memory, texts[-1], admissible, subgoal)
    return [{"role": "tool", "content": text} for text in texts]


def _shortened(
    write: Callable[..., list[int] | None],
    past: History,
    memory: str,
    observation: str,
    admissible: Sequence[str],
    subgoal: str,
) -> list[int] | None:
    """The longest prompt within the budget, in the order of `Prompter`; None if none fits."""
    attempts = ((past[dropped:], memory) for dropped in range(len(past) + 1))
    for kept_past, line in chain(attempts, [((), "")] if memory else ()):
        tokens = write(subgoal, kept_past, line, observation, admissible)
        if tokens is not None:
            return tokens
    pieces, actions = _PIECE.findall(observation), list(admissible)

    def cut(kept: int) -> str:
        return f"{''.join(pieces[:kept])} {_CUT}" if kept else _CUT

    cuts: tuple[tuple[Sequence[str], Callable[[int], list[int] | None]], ...] = (
        (pieces, lambda kept: write(subgoal, (), "", cut(kept), actions)),
        (actions, lambda kept: write(subgoal, (), "", _CUT, [*actions[:kept], _CUT])),
    )
    for parts, shortened in cuts:
        kept = bisect_right(range(len(parts)), 0, key=lambda k: int(shortened(k) is None))
        if kept:
            return shortened(kept - 1)
    return _shortened(write, (), "", observation, admissible, "") if subgoal else None

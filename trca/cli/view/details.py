"""The data of one rollout group for the page, as plain JSON types.

The advantages are the recorded advantages of training. Their parts are computed again from the
group, and are left out if their sum differs from the record. Reasons need the rubric library, and
the text of single tokens needs the tokenizer; without one of them the page shows the rest. Nothing
is downloaded.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.show.steps import shown_values
from trca.common.errors import words
from trca.envs.drawing import drawings_of
from trca.envs.tool_calls import shown_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trca.algorithms.settings.parameters import TextParameters
    from trca.analysis.reasons import Reasons
    from trca.envs.drawing import Cell
    from trca.records import Rollout, Step, StepBatch
    from trca.rubric import Clause

_THOUGHT: Final = re.compile(r"<think>(.*?)</think>", re.S)
_ACTION: Final = re.compile(r"<action>|<tool_call>|<\|python_tag\|>|^\s*\{")
"""The start of an action in a response."""
_EXACT: Final = 1e-6
"""Largest accepted difference between the parts of an advantage and the record."""

_FiredClauses = list[dict[str, "tuple[Clause, ...]"]]
"""The operators that fired on each step, with the clauses that made them true."""
_Parts = dict[str, list[float]]
"""Columns of a rollout by name: ``return``, ``episode``, ``step``."""


class Details:
    """Describes groups; loads rubric library and tokenizer on first use.

    Attributes:
        settings: The settings of the run.
    """

    def __init__(self, settings: TextParameters) -> None:
        self.settings = settings

    def load(self) -> None:
        """Loads the parts that the first call of `of` needs."""
        from trca.algorithms.rules import trca  # noqa: F401

        _ = self._reasons, self._vocabulary

    def of(self, rollouts: Sequence[Rollout]) -> dict[str, Any]:
        """Returns all data of a group of at least one rollout."""
        rows, meets = align([[step.context for step in r.steps] for r in rollouts])
        parts, note = self._parts(rollouts)
        clauses = [self._clauses(rollout) for rollout in rollouts]
        drawings = [self._drawings(rollout) for rollout in rollouts]
        notes = [note, *(note for _, note in clauses + drawings)]
        return {
            "group": rollouts[0].group,
            "task": rollouts[0].task_id,
            "type": rollouts[0].task_type,
            "instruction": rollouts[0].instruction,
            "rows": rows,
            "notes": [note for note in dict.fromkeys(notes) if note],
            "rollouts": [
                self._rollout(rollout, reasons, columns, counts) | {"drawings": drawn}
                for rollout, (reasons, _), columns, counts, (drawn, _) in zip(
                    rollouts, clauses, parts, meets, drawings, strict=True
                )
            ],
        }

    def _rollout(
        self, rollout: Rollout, clauses: _FiredClauses, parts: _Parts, meets: Sequence[int]
    ) -> dict[str, Any]:
        steps = []
        for k, step in enumerate(rollout.steps):
            fired = [rollout.operators[place] for place in step.judgments.nonzero()[0]]
            advantage = None if rollout.advantages is None else float(rollout.advantages[k])
            steps.append(
                {
                    "observation": step.observation,
                    "thought": _thought(step),
                    "action": shown_calls(step.action),
                    "response": step.response,
                    "tokens": self._tokens(step),
                    "parsed": step.parsed,
                    "accepted": step.accepted,
                    "context": step.context,
                    "meets": meets[k],
                    "reward": step.reward,
                    "foundational": step.foundational,
                    "breakthrough": step.breakthrough,
                    "advantage": advantage,
                    **{name: column[k] for name, column in parts.items()},
                    "fired": [
                        {"id": n, "why": [[c.text, shown_values(c)] for c in clauses[k].get(n, ())]}
                        for n in fired
                    ],
                }
            )
        return {
            "index": rollout.index,
            "agent": rollout.agent_id,
            "won": rollout.won,
            "score": rollout.score,
            "truncated": rollout.truncated,
            "last_observation": rollout.last_observation,
            "steps": steps,
        }

    def _parts(self, rollouts: Sequence[Rollout]) -> tuple[list[_Parts], str]:
        """Return, A^E and A^S of each rollout if the rule is TRCA, and a note for the reader."""
        from trca.algorithms.rules.trca import TRCAParameters, trca_parts
        from trca.records import StepBatch, advantages_of

        none: list[_Parts] = [{} for _ in rollouts]
        reasons = self._reasons
        credited = all(rollout.advantages is not None for rollout in rollouts)
        explained = reasons is not None and all(map(reasons.knows, rollouts))
        if self.settings.credit != "trca" or not explained or not credited:
            return none, ""
        assert reasons is not None
        assert isinstance(self.settings, TRCAParameters)  # `trca` is the rule of TRCA alone
        batch: StepBatch = StepBatch.from_rollouts(rollouts, reasons.library.categories)
        parts = trca_parts(batch, self.settings, **self.settings.credit_config)
        gap = np.abs(parts.episode + parts.step - advantages_of(rollouts)).max(initial=0.0)
        if gap > _EXACT:
            return none, (
                "The recorded advantages differ from the advantages of these settings on this group"
                f" (by {gap:.2g}), so their parts are not shown."
            )
        ends = np.cumsum([len(rollout.steps) for rollout in rollouts])[:-1]
        named = {"return": parts.returns, "episode": parts.episode, "step": parts.step}
        split = {name: np.split(column, ends) for name, column in named.items()}
        return [
            {name: columns[k].tolist() for name, columns in split.items()}
            for k in range(len(rollouts))
        ], ""

    def _clauses(self, rollout: Rollout) -> tuple[_FiredClauses, str]:
        """The reasons why operators fired on each step, and a note if the reasons are unknown."""
        nothing: _FiredClauses = [{} for _ in rollout.steps]
        if not rollout.operators:
            return nothing, ""
        if self._reasons is None:
            return nothing, "The rubric library cannot be loaded: no reasons are given."
        if not self._reasons.knows(rollout):
            return nothing, "Another rubric library judged some rollouts: they have no reasons."
        try:
            return self._reasons.of(rollout), ""
        except (ValueError, TypeError) as error:
            return nothing, f"No reasons are given: {error}"

    def _drawings(self, rollout: Rollout) -> tuple[list[list[Cell]], str]:
        """The environment's drawing of each observation, and a note if it raises an error."""
        from trca.envs.registration import env_class

        if rollout.turns:
            return [], ""  # a role of a team acts in some turns only
        actions = ["", *(step.action for step in rollout.steps)]
        seen = [*(step.observation for step in rollout.steps), rollout.last_observation]
        turns = list(zip(actions, seen, strict=True))
        try:
            return drawings_of(env_class(self.settings.env), rollout.instruction, turns), ""
        except Exception as error:  # code of the user
            return [], f"Turns are not drawn: draw_turns raised {words(error)}"

    def _tokens(self, step: Step) -> list[list[Any]]:
        """Text, probability (None if unrecorded) and membership in the action, by token."""
        logprobs: NDArray[np.float32] = step.old_logprobs
        chances = [None if p != p else round(float(p), 4) for p in np.exp(logprobs)]
        ids, table = step.response_ids.tolist(), self._vocabulary
        if table is None:
            texts = [f"[{number}]" for number in ids]
        else:
            texts = texts_of([table[i] if 0 <= i < len(table) else b"" for i in ids])
        return [list(t) for t in zip(texts, chances, step.action_mask.tolist(), strict=True)]

    @cached_property
    def _reasons(self) -> Reasons | None:
        from trca.analysis.reasons import Reasons

        try:
            return Reasons(self.settings)
        except (ValueError, OSError):
            return None

    @cached_property
    def _vocabulary(self) -> tuple[bytes, ...] | None:
        """The bytes of every token; None if the tokenizer is not on this machine."""
        try:
            from huggingface_hub import snapshot_download

            from trca.cli.preflight.preflight import model_folder
            from trca.policies.models import load_tokenizer
            from trca.policies.spans import token_bytes

            name = self.settings.model
            folder = model_folder(self.settings) or snapshot_download(name, local_files_only=True)
            return token_bytes(load_tokenizer(folder))
        except (ImportError, ValueError, OSError):
            return None


def align(contexts: Sequence[Sequence[str]]) -> tuple[list[list[int | None]], list[list[int]]]:
    """Puts the steps of the rollouts of a group into rows; steps with equal contexts share a row.

    Each rollout is matched to the earlier rows by the longest blocks of equal contexts. Steps
    without a match get new rows. Within a rollout, later steps are in lower rows.

    Args:
        contexts: The context keys of each rollout, in time order.

    Returns:
        The rows, each with a step number or None for every rollout; and for every step, how many
        rollouts have been in its context at any time.
    """
    keys: list[str] = []
    rows: list[list[int | None]] = []
    for number, path in enumerate(contexts):
        blocks = SequenceMatcher(None, keys, path, autojunk=False).get_matching_blocks()
        new_keys: list[str] = []
        new_rows: list[list[int | None]] = []
        row = step = 0
        for block in blocks:
            new_keys += keys[row : block.a]
            new_rows += rows[row : block.a]
            for k in range(step, block.b):
                new_keys.append(path[k])
                new_rows.append([None] * number + [k])
            for k in range(block.size):
                new_keys.append(keys[block.a + k])
                new_rows.append([*rows[block.a + k], block.b + k])
            row, step = block.a + block.size, block.b + block.size
        keys = new_keys
        rows = [each if len(each) > number else [*each, None] for each in new_rows]
    count = Counter(key for path in contexts for key in set(path))
    return rows, [[count[key] for key in path] for path in contexts]


def texts_of(pieces: Iterable[bytes]) -> list[str]:
    """The text of each token. A character of several tokens belongs to the last of them."""
    decoder = getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(piece) for piece in pieces]


def _thought(step: Step) -> str:
    if match := _THOUGHT.search(step.response):
        return match[1].strip()
    return _ACTION.split(step.response)[0].strip() if step.parsed else ""

"""All that the page says of one rollout group, as plain JSON types.

The advantages are those that the steps were learned from. Their parts are computed again from the
group alone, and are left out where they do not add up to what is recorded. Reasons need the
rubric library, and the text of single tokens needs the tokenizer: where one cannot be loaded the
page shows the rest. Nothing is downloaded.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.show.steps import shown_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trca.analysis.reasons import Reasons
    from trca.records import Rollout, Step, StepBatch
    from trca.rubric import Clause
    from trca.tune_configs.settings import RunSettings

_THOUGHT: Final = re.compile(r"<think>(.*?)</think>", re.S)
_EXACT: Final = 1e-6
"""How far the parts of an advantage may be from what is recorded."""

Told = list[dict[str, "tuple[Clause, ...]"]]
"""The operators that fired on each step, with the clauses that made them true."""
Parts = dict[str, list[float]]
"""Columns of a rollout by name: ``return``, ``episode``, ``step``."""


class Details:
    """Says all of a group; loads what it needs when it is first asked.

    Attributes:
        settings: The settings of the run.
    """

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings

    def load(self) -> None:
        """Loads what `of` loads when it is first asked."""
        from trca.algorithms.trca import credit  # noqa: F401

        _ = self._reasons, self._vocabulary

    def of(self, rollouts: Sequence[Rollout]) -> dict[str, Any]:
        """All of a group.

        Args:
            rollouts: The rollouts of the group, at least one.
        """
        rows, meets = align([[step.context for step in r.steps] for r in rollouts])
        parts, note = self._parts(rollouts)
        told = [self._told(rollout) for rollout in rollouts]
        return {
            "group": rollouts[0].group,
            "task": rollouts[0].task_id,
            "type": rollouts[0].task_type,
            "instruction": rollouts[0].instruction,
            "rows": rows,
            "notes": list(dict.fromkeys(n for n in (note, *(n for _, n in told)) if n)),
            "rollouts": [
                self._rollout(rollout, reasons, columns, counts)
                for rollout, (reasons, _), columns, counts in zip(
                    rollouts, told, parts, meets, strict=True
                )
            ],
        }

    def _rollout(
        self, rollout: Rollout, told: Told, parts: Parts, meets: Sequence[int]
    ) -> dict[str, Any]:
        steps = []
        for k, step in enumerate(rollout.steps):
            fired = [rollout.operators[place] for place in step.judgments.nonzero()[0]]
            steps.append(
                {
                    "observation": step.observation,
                    "thought": _thought(step),
                    "action": step.action,
                    "response": step.response,
                    "tokens": self._tokens(step),
                    "parsed": step.parsed,
                    "accepted": step.accepted,
                    "context": step.context,
                    "meets": meets[k],
                    "reward": step.reward,
                    "foundational": step.foundational,
                    "breakthrough": step.breakthrough,
                    "advantage": (
                        None if rollout.advantages is None else float(rollout.advantages[k])
                    ),
                    **{name: column[k] for name, column in parts.items()},
                    "fired": [
                        {
                            "id": name,
                            "why": [[c.text, shown_values(c)] for c in told[k].get(name, ())],
                        }
                        for name in fired
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

    def _parts(self, rollouts: Sequence[Rollout]) -> tuple[list[Parts], str]:
        """Return, A^E and A^S of each rollout where the rule is TRCA, and what is to be said."""
        from trca.algorithms.trca.credit import trca_parts
        from trca.records import StepBatch, advantages_of

        none: list[Parts] = [{} for _ in rollouts]
        parameters = self.settings.parameters.model_dump()
        reasons = self._reasons
        known = reasons is not None and all(map(reasons.knows, rollouts))
        if self.settings.parameters.credit != "trca" or not known or not _all_credited(rollouts):
            return none, ""
        assert reasons is not None
        batch: StepBatch = StepBatch.from_rollouts(rollouts, reasons.library.categories)
        given = {k: v for k, v in parameters.items() if k in signature(trca_parts).parameters}
        parts = trca_parts(batch, **given)
        gap = np.abs(parts.episode + parts.step - advantages_of(rollouts)).max(initial=0.0)
        if gap > _EXACT:
            return none, (
                "The recorded advantages are not those that the settings give on this group"
                f" (they differ by {gap:.2g}), so their parts are not shown."
            )
        ends = np.cumsum([len(rollout.steps) for rollout in rollouts])[:-1]
        named = {"return": parts.returns, "episode": parts.episode, "step": parts.step}
        split = {name: np.split(column, ends) for name, column in named.items()}
        return [
            {name: columns[k].tolist() for name, columns in split.items()}
            for k in range(len(rollouts))
        ], ""

    def _told(self, rollout: Rollout) -> tuple[Told, str]:
        """Why operators fired on each step, and what is to be said where that is not known."""
        nothing: Told = [{} for _ in rollout.steps]
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

    def _tokens(self, step: Step) -> list[list[Any]]:
        """Text, probability (None: not recorded) and whether it is the action, by token."""
        logprobs: NDArray[np.float32] = step.old_logprobs
        chances = [None if p != p else round(float(p), 4) for p in np.exp(logprobs)]
        texts = self._texts(step.response_ids)
        return [list(t) for t in zip(texts, chances, step.action_mask.tolist(), strict=True)]

    def _texts(self, ids: NDArray[np.int32]) -> list[str]:
        table = self._vocabulary
        if table is None:
            return [f"[{number}]" for number in ids.tolist()]
        return texts_of([table[i] if 0 <= i < len(table) else b"" for i in ids.tolist()])

    @cached_property
    def _reasons(self) -> Reasons | None:
        from trca.analysis.reasons import Reasons

        try:
            return Reasons(self.settings)
        except (ValueError, OSError):
            return None

    @cached_property
    def _vocabulary(self) -> tuple[bytes, ...] | None:
        """The bytes of every token; None where the tokenizer is not on this machine."""
        try:
            from huggingface_hub import snapshot_download

            from trca.cli.preflight.preflight import model_folder
            from trca.policies.models import load_tokenizer
            from trca.policies.spans import token_bytes

            name = self.settings.parameters.model
            folder = model_folder(self.settings) or snapshot_download(name, local_files_only=True)
            return token_bytes(load_tokenizer(folder))
        except (ImportError, ValueError, OSError):
            return None


def align(contexts: Sequence[Sequence[str]]) -> tuple[list[list[int | None]], list[list[int]]]:
    """Puts the steps of a group's rollouts into rows, in the same row where contexts meet.

    Each rollout in turn is matched to the rows so far by the longest blocks of equal contexts; what
    matches none makes rows of its own. Time only goes down.

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
    """The text of each token; a character of several tokens stands at the last of them."""
    decoder = getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(piece) for piece in pieces]


def _thought(step: Step) -> str:
    if found := _THOUGHT.search(step.response):
        return found[1].strip()
    return step.response.partition("<action>")[0].strip() if step.parsed else ""


def _all_credited(rollouts: Sequence[Rollout]) -> bool:
    return all(rollout.advantages is not None for rollout in rollouts)

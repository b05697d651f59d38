"""Samples of rollouts for experiment trackers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trca.records import Rollout

COLUMNS: Final = ("iteration", "task", "won", "score", "steps", "text")
"""Keys of a sample."""
_SAMPLES: Final = 2
"""Number of successful and of failed rollouts in a sample."""
_LONGEST: Final = 10_000
"""Characters of a rollout's text."""


def sample(rollouts: Sequence[Rollout], iteration: int) -> list[dict[str, Any]]:
    """Returns the first successful and the first failed rollouts, as mappings with `COLUMNS`."""
    won = [rollout for rollout in rollouts if rollout.won][:_SAMPLES]
    lost = [rollout for rollout in rollouts if not rollout.won][:_SAMPLES]
    return [
        dict(
            zip(
                COLUMNS,
                (iteration, r.task_id, r.won, r.score, len(r.steps), _text(r)),
                strict=True,
            )
        )
        for r in (*won, *lost)
    ]


def as_markdown(samples: Sequence[Mapping[str, Any]]) -> str:
    """Returns samples as Markdown. Code blocks hold the texts of the environment and the model."""
    return "\n\n".join(
        f"### {each['task']}: {'won' if each['won'] else 'lost'}, score {each['score']:g},"
        f" {each['steps']} steps\n\n" + "    " + each["text"].replace("\n", "\n    ")
        for each in samples
    )


def _text(rollout: Rollout) -> str:
    parts = [rollout.instruction]
    for step in rollout.steps:
        parts += [f"> {step.observation}", step.response]
    parts.append(f"> {rollout.last_observation}")
    text = "\n\n".join(parts)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

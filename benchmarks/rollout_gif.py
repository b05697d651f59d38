"""Draws a recorded rollout as an animated GIF: its actions, operators and credit, turn by turn.

    python benchmarks/rollout_gif.py outputs/quickstart/rollouts/iteration_000005/train.parquet 5

The second argument is the number of the rollout in the file, as `trca inspect` lists it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

from trca.records import Rollout
from trca.records.store import from_table, read_table
from trca.runs.curve import EXECUTION, HELD_OUT, INK, STYLE, TRAIN

TURN_MS: Final = 800
END_FRAMES: Final = 6
"""Repetitions of the last picture, so that a reader can look at it."""
GREY: Final = "#7a8794"


def animate(rollout: Rollout, path: Path) -> None:
    """Writes the GIF of a rollout.

    Args:
        rollout: A rollout of training, with advantages.
        path: The file, replaced.
    """
    steps, count = rollout.steps, len(rollout.steps)
    assert rollout.advantages is not None, "held-out rollouts have no advantages"
    rubric = [step.foundational + step.breakthrough for step in steps]
    columns = [
        ("$r^F + r^B$", rubric, (0.66, 0.14)),
        ("advantage $A$", list(rollout.advantages), (0.83, 0.14)),
    ]
    with rc_context(STYLE):
        figure = Figure((9.6, 0.9 + 0.27 * count))
        figure.suptitle(
            f"“{rollout.instruction.strip()}”", x=0.02, y=0.97, ha="left", fontweight="bold"
        )
        words = figure.add_axes((0.02, 0.09, 0.63, 0.78))
        _turns(words, count)
        words.axis("off")
        axes = []
        for title, values, (left, width) in columns:
            axis = figure.add_axes((left, 0.09, width, 0.78))
            _turns(axis, count)
            axis.set_title(title, fontsize=10)
            edge = 1.15 * max(map(abs, values))
            axis.set_xlim(-edge, edge)
            axis.set_yticks([])
            axis.spines["left"].set_visible(False)
            axis.grid(visible=False)
            axis.axvline(0, color=GREY, linewidth=0.8)
            axes.append(axis)
        for place, name in ((0.055, "action"), (0.53, "operators that fired")):
            words.text(place, -0.9, name, color=GREY, fontsize=9, va="center")

        def draw(frame: int) -> list[Any]:
            if frame < count:
                step, names = steps[frame], rollout.operators
                fired = [name for name, on in zip(names, step.judgments, strict=True) if on]
                words.text(0.035, frame, frame + 1, ha="right", va="center", color=GREY, size=9)
                words.text(0.055, frame, step.action, va="center", family="monospace", size=9.5)
                color = HELD_OUT if step.foundational < 0 else EXECUTION
                shown = ", ".join(fired).replace("_", " ")
                words.text(0.53, frame, shown, va="center", color=color, size=9)
                for axis, (_, values, _) in zip(axes, columns, strict=True):
                    value = values[frame]
                    axis.barh(frame, value, 0.7, color=HELD_OUT if value < 0 else TRAIN)
            elif frame == count:
                end = "won" if rollout.won else "lost"
                reward = (
                    f"Outcome: {end}, score {rollout.score:g}. That is all an outcome reward says."
                )
                figure.text(0.02, 0.03, reward, color=INK, fontsize=10)
            return []

        FuncAnimation(figure, draw, frames=count + END_FRAMES, init_func=list).save(
            path, PillowWriter(fps=1000 / TURN_MS), dpi=90
        )


def _turns(axis: Any, count: int) -> None:
    """Makes the turns the rows of an axis, from the top."""
    axis.set_ylim(count - 0.4, -0.6)


if __name__ == "__main__":
    recorded, number = Path(sys.argv[1]), int(sys.argv[2])
    animate(from_table(read_table(recorded))[number], Path(f"rollout-{number}.gif"))

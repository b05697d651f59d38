"""Draws the room of a recorded ALFWorld episode as a map."""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.drawing import Cell, Turn, followed


def draw_room(instruction: str, turns: Sequence[Turn]) -> list[list[Cell]]:
    """A cell for each receptacle with its contents, as far as the agent has seen them."""
    adapter = ALFWorldAdapter()
    return [_room(adapter.beliefs) for _ in followed(adapter, instruction, turns)]


def _room(beliefs: Beliefs) -> list[Cell]:
    contents: dict[str, list[str]] = {}
    for thing, spot in beliefs.where.items():
        contents.setdefault(spot, []).append(_described(beliefs, thing))
    held = [_described(beliefs, beliefs.held)] if beliefs.held else []
    cells: list[Cell] = [
        {"name": "in hand", "note": "" if held else "nothing", "items": held, "wide": True}
    ]
    for name in sorted(beliefs.receptacles, key=_by_number):
        items = sorted(contents.get(name, []), key=_by_number)
        here, known = name in beliefs.here, name in beliefs.searched
        state = "closed" if name in beliefs.closed else "open" if name in beliefs.opened else ""
        notes = ["agent" * here, state, "empty" * (known and not items)]
        cells.append(
            {
                "name": name,
                "note": ", ".join(note for note in notes if note),
                "items": items,
                "mark": "here" if here else "" if known or state or items else "faint",
            }
        )
    return cells


def _described(beliefs: Beliefs, thing: str) -> str:
    states = ", ".join(beliefs.states.get(thing, ()))
    return f"{thing} ({states})" if states else thing


def _by_number(name: str) -> tuple[str, int]:
    sort, number = name.split()[:2]
    return sort, int(number)

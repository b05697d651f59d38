"""`ScienceAdapter`: facts, context and memory line from instruction, observations and actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, get_args

from trca.envs import Adapter
from trca_scienceworld.facts import LOOKING, Binding, Facts, Verb
from trca_scienceworld.reading import (
    AMBIGUOUS,
    Page,
    answer_boxes,
    focus_targets,
    named_rooms,
    named_things,
    read_page,
    refused,
    wanted_kind,
)

_VERBS: Final = frozenset(get_args(Verb))
_ALIASES: Final = {"take": "pick", "turn": "activate", "drop": "put", "wait1": "wait"}
_FOCUSED: Final = re.compile(r"You focus on the (.+)\.")
_PLACED: Final = re.compile(r"You move the .+ to the (.+)\.")
_MEASURED: Final = re.compile(r"measures? a temperature")
_WORKED: Final = re.compile(
    r".*(?:is now connected to|is now activated|is now deactivated|You pour|mix to produce"
    r"|You mix|heats up|You dunk|turns? on|turned on)"
)


class ScienceAdapter(Adapter):
    """Follows an episode of ScienceWorld. Score and gold actions never reach it.

    Attributes:
        page: The last page.
        focused: The things of the agent's focus, in order.
        rooms: The things that the agent saw last in each room.
        seen: All things that the agent has seen.
        held: All things that the agent has held.
        refused: The actions that the simulator has refused.
    """

    facts_type, binding_type = Facts, Binding
    facts: Facts
    binding: Binding
    page: Page

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding = Binding(
            kind=wanted_kind(instruction),
            focus=focus_targets(instruction),
            boxes=answer_boxes(instruction),
            things=named_things(instruction),
            rooms=named_rooms(instruction),
        )
        self.page = read_page(observation)
        self.focused: tuple[str, ...] = ()
        self.rooms = {self.page.room: self.page.things}
        self.seen = {*self.page.things, *self.page.inventory}
        self.held = set(self.page.inventory)
        self._answers: set[str] = set()
        self.refused: set[str] = set()
        self._taken: set[tuple[str, str, str]] = set()
        self.facts = Facts(room=self.page.room)

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Facts:
        before, page = self.page, read_page(observation)
        verb = _verb(action, before)
        shown = dict.fromkeys((*page.things, *page.inventory, *_looked_at(verb, page)))
        new = tuple(name for name in shown if name not in self.seen)
        focus, placed = _FOCUSED.match(page.answer), _PLACED.match(page.answer)
        result = (action, before.state, page.answer + page.state)
        new_answer = page.answer not in self._answers
        if focus and new_answer:
            self.focused = (*self.focused, focus[1])
        self.facts = Facts(
            verb=verb,
            accepted=bool(action.strip()) and not refused(page.answer),
            ambiguous=page.answer.startswith(AMBIGUOUS),
            changed=page.state != before.state,
            repeated=verb not in LOOKING and result in self._taken,
            new_room=page.room not in self.rooms,
            new=new,
            new_named=tuple(name for name in new if _among(name, self.binding.things)),
            room=page.room,
            taken=tuple(name for name in page.inventory if name not in self.held),
            focused=focus[1] if focus and new_answer else "",
            placed=placed[1] if placed and new_answer else "",
            measured=new_answer and _MEASURED.search(page.answer) is not None,
            worked=new_answer and _WORKED.match(page.answer) is not None,
        )
        self.page = page
        self.rooms[page.room] = page.things
        self.seen.update(new)
        self.held.update(page.inventory)
        self._answers.add(page.answer)
        if refused(page.answer):
            self.refused.add(action)
        self._taken.add(result)
        return self.facts

    @property
    def holds(self) -> tuple[str, ...]:
        """The things in the inventory."""
        return self.page.inventory

    @property
    def memory(self) -> str:
        """Room, doors, things, inventory, focus and the answer if it refuses the action."""
        page = self.page
        ways = ", ".join(n if is_open else f"{n} closed" for n, is_open in page.doors.items())
        parts = [f"In {page.room}. See {', '.join(page.things) or 'nothing'}. To {ways}."]
        parts.append(f"Hold {', '.join(page.inventory) or 'nothing'}.")
        parts.append(f"Focus {', '.join(self.focused) or 'nothing'}.")
        visited = [room for room in self.rooms if room != page.room]
        parts.append(f"Been in {', '.join(visited) or 'no other room'}.")
        if page.answer.startswith(AMBIGUOUS):
            parts.append("Which? " + " ".join(page.answer.splitlines()[1:]))
        elif refused(page.answer):
            parts.append("Refused.")
        return " ".join(parts)

    @property
    def context(self) -> str:
        page = self.page
        asked = page.answer if page.answer.startswith(AMBIGUOUS) else ""
        text = "|".join([page.state, asked, *self.focused, *sorted(self.rooms)])
        return f"{page.room}|{blake2b(text.encode(), digest_size=8).hexdigest()}"


def _verb(action: str, page: Page) -> Verb:
    words = action.lower().split()
    if not words:
        return ""
    if words[0].isdigit() and page.answer.startswith(AMBIGUOUS):
        return "choice"
    verb = _ALIASES.get(words[0], words[0])
    return verb if verb in _VERBS else "other"  # type: ignore[return-value]


def _looked_at(verb: str, page: Page) -> tuple[str, ...]:
    """Names in the answer of an action that looks into a thing."""
    if verb not in ("look", "examine", "open") or refused(page.answer):
        return ()
    return read_page(f"In\n{page.answer}\n\n").things


def _among(name: str, wanted: Sequence[str]) -> bool:
    """Whether a name is or contains one of the wanted names."""
    return any(name == each or f" {each} " in f" {name} " for each in wanted)

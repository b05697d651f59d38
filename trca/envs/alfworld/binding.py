"""The task binder of ALFWorld: parses the instruction (paper, Appendix A.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

State = Literal["", "clean", "hot", "cool", "sliced", "on"]
"""A state of an object that observations can show; empty for no state."""

APPLIANCES: Final[dict[State, str]] = {"clean": "sinkbasin", "hot": "microwave", "cool": "fridge"}
"""The receptacle type that gives an object each state, fixed by the benchmark."""

_STATES: Final[dict[str, State]] = {"clean": "clean", "heat": "hot", "hot": "hot", "cool": "cool"}
_PHRASINGS: Final = tuple(
    re.compile(phrasing.replace("OBJECT", "(?P<target>[a-z]+)"))
    for phrasing in (
        r"look at OBJECT under the (?P<lamp>[a-z]+)",
        r"examine the OBJECT with the (?P<lamp>[a-z]+)",
        r"(?:put|find) (?P<two>two) OBJECT (?:and put them )?in (?P<destination>[a-z]+)",
        r"(?P<state>clean|heat|cool) some OBJECT and put it in (?P<destination>[a-z]+)",
        r"put a (?P<state>clean|hot|cool) OBJECT in (?P<destination>[a-z]+)",
        r"put (?:a|some) OBJECT (?:in|on) (?P<destination>[a-z]+)",
    )
)


@dataclass(frozen=True)
class ALFWorldBinding:
    """The requirements in an instruction. The defaults contain no requirement.

    Attributes:
        target: Type of the object to find, such as ``mug``.
        state: State that the object must have, or empty.
        appliance: Type of the receptacle that gives this state, or empty.
        quantity: Number of objects to place in one receptacle.
        destination: Type of this receptacle; empty if the task is to hold the object under a lamp.
        lamp: Type of the lamp to use while holding the object, or empty.
    """

    target: str = ""
    state: State = ""
    appliance: str = ""
    quantity: int = 1
    destination: str = ""
    lamp: str = ""


def bind(instruction: str) -> ALFWorldBinding:
    """Parses an instruction such as ``put a clean mug in shelf.``, in either phrasing."""
    text = instruction.strip().rstrip(".").lower()
    for phrasing in _PHRASINGS:
        match = phrasing.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict(default="")
        state = _STATES.get(parts.get("state", ""), "")
        return ALFWorldBinding(
            target=parts["target"],
            state=state,
            appliance=APPLIANCES.get(state, ""),
            quantity=2 if parts.get("two") else 1,
            destination=parts.get("destination", ""),
            lamp=parts.get("lamp", ""),
        )
    raise ValueError(
        f"cannot read the instruction {instruction[:200]!r}: known forms are 'put a mug in shelf',"
        " 'clean some mug and put it in shelf' (also heat, cool), 'put two mug in shelf' and 'look"
        " at mug under the desklamp'"
    )

"""The facts of a transition and the binding of a ticket, which the rubric reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["", "unknown", "check", "lookup", "repair", "account", "escalate", "done"]
Issue = Literal["", "service", "mobile_data", "mms"]


@dataclass(frozen=True)
class Facts:
    """The facts of one transition, which the conditions of the library read as ``facts``.

    Values are those that the agent has read in results so far. A fault is a value that the ticket
    or the policy calls wrong, such as airplane mode on.

    Attributes:
        kind: Kind of the first call: ``check`` reads the phone, ``lookup`` reads the carrier's
            database, ``repair`` changes the phone, ``account`` changes the carrier's database,
            ``escalate`` calls a human agent, ``done`` closes the ticket, ``unknown`` is no tool.
            Empty without a call.
        accepted: Whether the action has calls and none of them fails.
        repeated: Whether the agent made the same calls before, with the same results and the same
            known values after them.
        identified: Whether the agent reads the customer's id for the first time.
        line_found: Whether the agent reads for the first time which line the ticket is about.
        found: Names of the faults that the agent reads for the first time.
        fixed: Names of the values that were wrong and that a call makes right, each name once in an
            episode.
        broken: Names of the values that were right or unknown and that a call makes wrong.
        tested: Whether the agent runs the test that the ticket names, for the first time or for the
            first time after a value was fixed.
        solved: Whether this test succeeds for the first time.
        known_works: Whether the test succeeded before the action, without a change since then.
        hopeless: Whether the agent knew before the action of a fault that only a human can repair.
    """

    kind: Kind = ""
    accepted: bool = False
    repeated: bool = False
    identified: bool = False
    line_found: bool = False
    found: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    tested: bool = False
    solved: bool = False
    known_works: bool = False
    hopeless: bool = False


@dataclass(frozen=True)
class Binding:
    """The requirements of the ticket, which the conditions read as ``task``.

    Attributes:
        issue: The issue of the ticket; empty if it is none of the three.
        phone_number: The customer's phone number.
        abroad: Whether the customer is abroad.
    """

    issue: Issue = ""
    phone_number: str = ""
    abroad: bool = False

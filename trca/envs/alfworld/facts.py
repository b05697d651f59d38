"""The observable facts of an ALFWorld transition: what the adapter g_b reports (Appendix A.4).

Everything here is read off the agent's own action, the text that answered it, and the
admissible actions. There is no field for success, for the score, for what was not seen, or for the
future.
"""

from __future__ import annotations

from dataclasses import dataclass

from trca.envs.alfworld.actions import Verb
from trca.envs.alfworld.binding import State


@dataclass(frozen=True, slots=True)
class ALFWorldFacts:
    """Facts of one transition.

    Types are words such as ``mug``, not instances such as ``mug 1``. A type that the task does not
    name is ``other`` where one is asked for, and absent from lists: no operator can need it, and
    transitions that mean the same for the task have equal facts.

    Attributes:
        parsed: Whether an action could be read from the response.
        verb: What the action asks for.
        available: Whether, as far as was observed, all that the action names is there to act on:
            in hand, at the agent's place, or (for ``goto``) in the room.
        accepted: Whether the action was carried out.
        repeated: Whether what can be observed (place, hand, open receptacles, states, positions and
            all that is known) is now as it was at an earlier time of the episode.
        object_type: Type of the object the action names.
        receptacle_type: Type of the receptacle the action names.
        object_states: States the object named is known to have after the transition.
        gained_states: Those of them that were not known before it.
        new_objects: Types of the objects seen for the first time.
        new_places: Types of the receptacles arrived at for the first time.
        searched: Whether the contents of a receptacle were seen for the first time.
        located: Types of objects whose whereabouts (not in hand) were known before the transition.
        held_type: Type of the object in hand afterwards.
        held_states: States it is known to have.
        place_type: Type of the receptacle the agent is at afterwards.
        lamps: Types of the lamps known to be there.
        lit: Types of those that are on.
        alike_there: After a ``move``, objects of that type known in the receptacle.
        alike_elsewhere: After a ``move``, the most objects of that type known in another receptacle
            of that receptacle's type.
    """

    parsed: bool = True
    verb: Verb = ""
    available: bool = False
    accepted: bool = False
    repeated: bool = False
    object_type: str = ""
    receptacle_type: str = ""
    object_states: tuple[State, ...] = ()
    gained_states: tuple[State, ...] = ()
    new_objects: tuple[str, ...] = ()
    new_places: tuple[str, ...] = ()
    searched: bool = False
    located: tuple[str, ...] = ()
    held_type: str = ""
    held_states: tuple[State, ...] = ()
    place_type: str = ""
    lamps: tuple[str, ...] = ()
    lit: tuple[str, ...] = ()
    alike_there: int = 0
    alike_elsewhere: int = 0

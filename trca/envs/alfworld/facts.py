"""The facts of an ALFWorld transition, as reported by the adapter g_b (Appendix A.4).

All facts come from the agent's action, the observation after it, and the admissible actions. There
is no field for success, score, unobserved state or the future.
"""

from __future__ import annotations

from dataclasses import dataclass

from trca.envs.alfworld.binding import State
from trca.envs.alfworld.reading import Verb


@dataclass(frozen=True, slots=True)
class ALFWorldFacts:
    """Facts of one transition.

    Types are words such as ``mug``, not instances such as ``mug 1``. A type that the task does not
    name is ``other`` in a field with one type, and left out of lists: no operator needs it, and
    transitions with the same meaning for the task get equal facts.

    Attributes:
        parsed: Whether the response contained a readable action.
        verb: The verb of the action.
        available: Whether everything that the action names is known to be within reach: in hand, at
            the agent's place, or (for ``goto``) in the room.
        accepted: Whether the environment carried out the action.
        repeated: Whether the agent's knowledge (place, hand, open receptacles, states, positions
            and everything seen) now equals its knowledge at an earlier time of the episode.
        object_type: Type of the object in the action.
        receptacle_type: Type of the receptacle in the action.
        object_states: Known states of the action's object after the transition.
        gained_states: States in ``object_states`` that were unknown before the transition.
        new_objects: Types of the objects seen for the first time.
        new_places: Types of the receptacles visited for the first time.
        searched: Whether the contents of a receptacle were seen for the first time.
        located: Types of the objects with a known receptacle before the transition.
        held_type: Type of the object in hand after the transition.
        held_states: Known states of the object in hand.
        place_type: Type of the receptacle at the agent's place after the transition.
        lamps: Types of the lamps known to be at the agent's place.
        lit: Types of the lamps in ``lamps`` that are on.
        alike_there: After a ``move``: number of known objects of the moved type in the receptacle.
        alike_elsewhere: After a ``move``: largest number of known objects of the moved type in
            another receptacle of the same type.
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

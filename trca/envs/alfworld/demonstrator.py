"""A sensible next action, and what it is for: the warm start's demonstrator.

Both come from what an agent could have observed.
"""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.alfworld import resources
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.planner import View, best_way, in_order, may_hold
from trca.envs.alfworld.reading import kind


def demonstrated_action(task: ALFWorldBinding, beliefs: Beliefs, admissible: Sequence[str]) -> str:
    """Does what is known to help, else searches on; copes with whatever was done before.

    Args:
        task: What is asked for.
        beliefs: The room as observed so far.
        admissible: The actions that would be accepted now; the answer is one of them.
    """
    way = best_way(task, _view(beliefs))
    if way is not None and way.actions[0] in admissible:
        return way.actions[0]
    search = _search(task, beliefs)
    return search if search in admissible else "look"


def demonstrated_subgoal(task: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The first action on the known way that is no walking or opening, as verb and type of object.

    Such as ``take mug``, ``heat mug``, ``move mug`` and ``use desklamp``; ``find mug`` where no way
    is known.

    Args:
        task: What is asked for.
        beliefs: The room as observed so far.
    """
    way = best_way(task, _view(beliefs))
    for action in () if way is None else way.actions:
        verb, thing, *_ = action.split(" ")
        if verb not in ("go", "open"):
            return f"{verb} {thing}"
    return f"find {task.lamp if _seeks_lamp(task, beliefs) else task.target}"


def _view(beliefs: Beliefs) -> View:
    return View(
        receptacles=beliefs.receptacles,
        here=beliefs.here,
        held=beliefs.held,
        closed=beliefs.closed,
        where=beliefs.where,
        states=beliefs.states,
    )


def _seeks_lamp(task: ALFWorldBinding, beliefs: Beliefs) -> bool:
    """Whether the lamp is all that is missing."""
    return bool(task.lamp) and kind(beliefs.held) == task.target


def _search(task: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The next action of a search: likely receptacles first, of those the open ones first."""
    names = resources.type_names()
    lamp_only = _seeks_lamp(task, beliefs)

    def cost(receptacle: str) -> tuple[bool, bool]:
        closable = names.get(kind(receptacle), "") in resources.openable()
        likely = not closable if lamp_only else may_hold(receptacle, f"{task.target} 1")
        return not likely, closable and receptacle not in beliefs.here

    unsearched = [r for r in in_order(beliefs.receptacles) if r not in beliefs.searched]
    if not unsearched:
        return "look"
    receptacle = min(unsearched, key=cost)
    if receptacle not in beliefs.here:
        return f"go to {receptacle}"
    return f"{'open' if receptacle in beliefs.closed else 'examine'} {receptacle}"

"""A sensible next action from what an agent could have observed: the warm start's demonstrator."""

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
    view = View(
        receptacles=beliefs.receptacles,
        here=beliefs.here,
        held=beliefs.held,
        closed=beliefs.closed,
        where=beliefs.where,
        states=beliefs.states,
    )
    way = best_way(task, view)
    if way is not None and way.actions[0] in admissible:
        return way.actions[0]
    search = _search(task, beliefs)
    return search if search in admissible else "look"


def _search(task: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The next action of a search: likely receptacles first, of those the open ones first."""
    names = resources.type_names()
    lamp_only = bool(task.lamp) and kind(beliefs.held) == task.target

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

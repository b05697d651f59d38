"""The demonstrator of ALFWorld: sensible actions and subgoals for the warm start.

The demonstrator reads the agent's observations only.
"""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.alfworld import resources
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.planner import View, best_way, in_order, may_hold
from trca.envs.alfworld.reading import kind


def demonstrated_action(
    binding: ALFWorldBinding, beliefs: Beliefs, admissible: Sequence[str]
) -> str:
    """The next action of a known way to success, else of a search.

    Works after any sequence of actions.
    """
    way = best_way(binding, _view(beliefs))
    if way is not None and way.actions[0] in admissible:
        return way.actions[0]
    search = _search(binding, beliefs)
    return search if search in admissible else "look"


def demonstrated_subgoal(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """Verb and object type of the next action that is neither walking nor opening.

    Examples: ``take mug``, ``heat mug``, ``move mug`` and ``use desklamp``. Without a known way:
    ``find mug``.
    """
    way = best_way(binding, _view(beliefs))
    for action in () if way is None else way.actions:
        verb, thing, *_ = action.split(" ")
        if verb not in ("go", "open"):
            return f"{verb} {thing}"
    return f"find {binding.lamp if _seeks_lamp(binding, beliefs) else binding.target}"


def _view(beliefs: Beliefs) -> View:
    return View(
        receptacles=beliefs.receptacles,
        here=beliefs.here,
        held=beliefs.held,
        closed=beliefs.closed,
        where=beliefs.where,
        states=beliefs.states,
    )


def _seeks_lamp(binding: ALFWorldBinding, beliefs: Beliefs) -> bool:
    """Whether the agent holds the target and only needs the lamp."""
    return bool(binding.lamp) and kind(beliefs.held) == binding.target


def _search(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The next action of a search: likely receptacles first, then open before closed."""
    names = resources.type_names()
    lamp_only = _seeks_lamp(binding, beliefs)

    def cost(receptacle: str) -> tuple[bool, bool]:
        closable = names.get(kind(receptacle), "") in resources.openable()
        likely = not closable if lamp_only else may_hold(receptacle, f"{binding.target} 1")
        return not likely, closable and receptacle not in beliefs.here

    unsearched = [r for r in in_order(beliefs.receptacles) if r not in beliefs.searched]
    if not unsearched:
        return "look"
    receptacle = min(unsearched, key=cost)
    if receptacle not in beliefs.here:
        return f"go to {receptacle}"
    return f"{'open' if receptacle in beliefs.closed else 'examine'} {receptacle}"

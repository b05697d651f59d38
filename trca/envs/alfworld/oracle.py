"""The oracle of ALFWorld: reads the true state and plans a way to success.

The plan is short, but not always a shortest one: the planner handles one object at a time and knows
one location per object. For 89 of the 4,027 official games, the walkthrough of the release is
shorter.
"""

from __future__ import annotations

from collections import defaultdict

from trca.envs.alfworld.binding import ALFWorldBinding, bind
from trca.envs.alfworld.game import Game
from trca.envs.alfworld.planner import View, best_way
from trca.envs.alfworld.simulator import Simulator

_STATES = {"ishot": "hot", "iscool": "cool", "isclean": "clean", "istoggled": "on"}


class OracleError(RuntimeError):
    """The oracle has no plan from the current state."""


def oracle_action(binding: ALFWorldBinding, simulator: Simulator) -> str:
    """The next action of a plan for success, from any state of the game.

    Raises:
        OracleError: If there is no plan, as in a room without the required appliance.
    """
    way = best_way(binding, true_view(simulator))
    if way is None or way.missing:
        raise OracleError(f"no plan for {binding} from the current state: reset the game")
    return way.actions[0]


def walkthrough(game: Game) -> tuple[str, ...]:
    """Actions that complete a game, in order: the game file's, else the oracle's.

    Raises:
        OracleError: If there is no plan.
    """
    if game.walkthrough:
        return game.walkthrough
    binding, simulator = bind(game.task), Simulator(game)
    actions = list[str]()
    while not simulator.done:
        actions.append(oracle_action(binding, simulator))
        simulator.step(actions[-1])
    return tuple(actions)


def true_view(simulator: Simulator) -> View:
    """The true state of a simulator, in displayed names."""
    facts = defaultdict(list)
    for name, *arguments in simulator.facts:
        facts[name].append(arguments)
    place = next((at[1] for at in facts["atlocation"]), "")
    states: defaultdict[str, set[str]] = defaultdict(set)
    for fact, state in _STATES.items():
        for (thing,) in facts[fact]:
            states[thing].add(state)
    return View(
        receptacles=[receptacle for receptacle, _ in facts["receptacleatlocation"]],
        here={receptacle for receptacle, at in facts["receptacleatlocation"] if at == place},
        held=next((held[1] for held in facts["holds"]), ""),
        closed={r for (r,) in facts["openable"]} - {r for (r,) in facts["opened"]},
        where=dict(facts["inreceptacle"]),
        states=states,
    )

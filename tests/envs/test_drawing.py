"""Drawings of recorded turns: ALFWorld's room, WebShop's pages, and a small own environment."""

import pytest

from trca.envs import make
from trca.envs.drawing import drawings_of


def played(name, task, actions=(), **config):
    """The class, the instruction and the turns of an episode; by default that of the oracle."""
    env = make(name, **config).unwrapped
    observation, info = env.reset(options={"task": env.task_ids[task]})
    turns, over, actions = [("", observation)], False, iter(actions)
    while not over:
        action = next(actions, None) or env.oracle_action()
        observation, _, terminated, truncated, _ = env.step(action)
        turns.append((action, observation))
        over = terminated or truncated
    return type(env), info["task"], turns


def test_the_room_is_drawn_as_far_as_the_agent_has_seen_it():
    env_class, instruction, turns = played(
        "alfworld", 1, ["go to fridge 1", "fly", "open fridge 1"]
    )
    rooms = [
        {cell["name"]: cell for cell in cells}
        for cells in drawings_of(env_class, instruction, turns)
    ]
    assert len(rooms) == len(turns)
    assert all(cell["mark"] == "faint" for name, cell in rooms[0].items() if name != "in hand")
    assert rooms[1]["fridge 1"]["note"] == "agent, closed"
    assert rooms[2] == rooms[1]  # a refused action
    assert rooms[3]["fridge 1"]["note"].startswith("agent, open")
    for (action, _), before, room in zip(turns[1:], rooms[:-1], rooms[1:], strict=True):
        here = [name for name, cell in room.items() if cell.get("mark") == "here"]
        if action.startswith("go to "):
            assert here == [action[6:]]
        if action.startswith("take "):
            thing, _, place = action[5:].partition(" from ")
            assert room["in hand"]["items"] == [thing]
            assert thing in before[place]["items"]
            assert thing not in room[place]["items"]
        if action.startswith("clean "):
            assert room["in hand"]["items"] == [f"{action[6:].partition(' with ')[0]} (clean)"]
    thing, _, place = turns[-1][0][5:].partition(" to ")
    assert f"{thing} (clean)" in rooms[-1][place]["items"]


@pytest.mark.parametrize("mode", ["text", "text_rich"])
def test_the_shop_is_drawn_with_results_options_and_what_is_chosen(mode):
    env_class, instruction, turns = played("webshop", 0, observation_mode=mode)
    search, results, item, *chosen, bought = drawings_of(env_class, instruction, turns)
    assert [cell["name"] for cell in search] == ["search"]
    assert results[0]["lines"] == [turns[1][0][7:-1]]
    assert len(results) == 11
    product = turns[2][0][6:-1]
    (listed,) = (cell for cell in results if cell.get("items") == [product])
    assert (listed["name"], listed["note"]) == (item[0]["name"], item[0]["note"])
    groups = {cell["name"]: tuple(cell["items"]) for cell in item[1:]}
    assert groups["size"] == ("small", "xxl")
    assert list(groups) == ["color", "size", "style"]
    values = [value for cell in chosen[-1][1:] for value in cell["chosen"]]
    assert values == [action[6:-1] for action, _ in turns[3:-1]] == bought[0]["items"]
    assert not any(cell["chosen"] for cell in item[1:])


def drawing(result):
    class Coin:
        @classmethod
        def draw_turns(cls, instruction, turns):
            return result

    return drawings_of(Coin, "", [("", "heads")])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([[], []], "2 drawings for 1 turns"),
        ([[{"title": "coin"}]], "the key 'title': choose from name, note"),
        ([[{"name": 3}]], "name of a cell is 3: give a string"),
        ([[{"items": "heads"}]], "items of a cell is 'heads': give a list of strings"),
        ([[{"lines": [None]}]], "give a list of strings"),
        ([[{"mark": "red"}]], "give here, faint or an empty string"),
        ([[{"wide": 1}]], "give True or False"),
    ],
)
def test_a_wrong_drawing_is_refused_with_the_fix(result, message):
    with pytest.raises(ValueError, match=message):
        drawing(result)


def test_drawings_are_optional():
    assert drawing([]) == drawings_of(object, "", [("", "heads")]) == []
    assert drawing([[{"name": "coin", "lines": ("heads",), "mark": "here", "wide": True}]])

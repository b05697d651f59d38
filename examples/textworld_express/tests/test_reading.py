"""What is read from CookingWorld's texts; needs no Java."""

import pytest
from trca_textworld_express.adapter import CookingAdapter
from trca_textworld_express.facts import Binding
from trca_textworld_express.reading import read_page, read_recipe, refused, write_page
from trca_textworld_express.tasks import HALF, task_ids

TASK = (
    "You are hungry! Let's cook a delicious meal. Check the cookbook in the kitchen for the recipe."
    " Once done, enjoy your meal!"
)
KITCHEN = (
    "You are in the kitchen. In one part of the room you see a stove. There is also an oven. You"
    " also see an open fridge, that is empty. In another part of the room you see a counter that"
    " has a raw purple potato, some milk, and a cookbook on it. In one part of the room you see a"
    " cutlery drawer that is closed. There is also a dining chair, that has nothing on it.\n"
    "Through an open patio door, to the North you see the backyard."
    " To the East you see a closed plain door. To the West you see the living room."
)
BACKYARD = (
    "You are in the backyard. In one part of the room you see a barbeque. There is also a patio"
    " table that has a knife on it.\nThrough an open patio door, to the South you see the kitchen."
)
EMPTY = "Inventory (maximum capacity is 4 items):\n  Your inventory is currently empty."
RECIPE = (
    "Gather all following ingredients and follow the directions to prepare this tasty meal.\n"
    "Ingredients:\n  purple potato\n  milk\nDirections:\n  chop the purple potato\n"
    "  grill the purple potato\n  prepare meal"
)
READ = ("read cookbook", RECIPE)


def holding(*things):
    return "\n".join(
        ["Inventory (maximum capacity is 4 items):", *(f"  {each}" for each in things)]
    )


def follow(*turns, look=KITCHEN, inventory=EMPTY):
    """The adapter after actions with answers, and the facts of each.

    A turn may have the room and the inventory after it.
    """
    follower = CookingAdapter()
    follower.reset(TASK, write_page(look, look, inventory), [])
    facts = []
    for action, answer, *rest in turns:
        look, inventory = (*rest, look, inventory)[:2] if len(rest) != 1 else (look, rest[0])
        facts.append(follower.step(action, write_page(answer, look, inventory), []))
    return follower, facts


def test_a_page_has_fixtures_things_exits_and_inventory():
    page = read_page(write_page("You take the carrot.", KITCHEN, holding("a fried diced carrot")))
    assert page.answer == "You take the carrot."
    assert page.room == "kitchen"
    assert page.fixtures[:3] == ("stove", "oven", "fridge")
    assert page.fixtures[3:] == ("counter", "cutlery drawer", "dining chair")
    assert page.closed == ("cutlery drawer",)
    assert page.things == {"purple potato": ("raw",), "milk": (), "cookbook": ()}
    assert page.exits == {"north": "backyard", "east": "", "west": "living room"}
    assert page.inventory == {"carrot": ("fried", "diced")}
    assert read_page(write_page(KITCHEN, KITCHEN, EMPTY)).answer == ""


def test_a_recipe_has_ingredients_with_their_required_states():
    assert read_recipe(RECIPE) == {"purple potato": ("chopped", "grilled"), "milk": ()}
    assert read_recipe("You take the knife.") == {}


def test_the_binding_names_the_book_and_its_room():
    assert follow()[0].binding == Binding("cookbook", "kitchen")


def test_only_answers_that_refuse_are_refused():
    for answer in (
        "Unknown action: I'm not sure what you mean.",
        "You can't move there, the door is closed.",
        "That is already open.",
        "Your inventory currently has 4 items, and is full.  You can't pick up another item.",
    ):
        assert refused(answer)
    assert not refused("You take the carrot.")


def test_the_recipe_is_read_once_and_counts_once():
    follower, (first, again) = follow(READ, READ)
    assert (first.read, first.repeated, first.found) == ("cookbook", False, ())
    assert (again.read, again.repeated) == ("", True)
    assert follower.missing == ("purple potato", "milk", "knife")
    assert follower.directions == (("chop", "purple potato"), ("grill", "purple potato"))


def test_a_tool_and_an_ingredient_are_found_after_the_recipe_is_read():
    move = ("move north", BACKYARD, BACKYARD, EMPTY)
    _, (_, found) = follow(READ, move)
    assert (found.new_room, found.found_tools) == (True, ("knife", "barbeque"))
    _, (blind,) = follow(move)
    assert (blind.new_room, blind.found_tools) == (True, ())


def test_steps_of_the_recipe_count_and_others_are_unasked():
    raw, chopped = holding("a raw purple potato"), holding("a raw chopped purple potato")
    take = ("take purple potato", "You take the purple potato.", raw)
    chop = ("chop purple potato", "You chop the purple potato.", chopped)
    grill = ("cook purple potato in barbeque", "You grill the purple potato with the barbeque.")
    grilled = (*grill, holding("a grilled chopped purple potato"))
    _, facts = follow(READ, take, chop, grilled)
    assert [each.taken for each in facts] == [(), ("purple potato",), (), ()]
    assert [each.cut for each in facts] == ["", "", "purple potato", ""]
    assert [each.cooked for each in facts] == ["", "", "", "purple potato"]
    assert not any(each.unasked for each in facts)
    _, facts = follow(take, chop)
    assert [(each.cut, each.unasked) for each in facts] == [("", False), ("", True)]
    sliced = holding("a raw sliced purple potato")
    wrong = ("slice purple potato", "You slice the purple potato.", sliced)
    assert follow(READ, take, wrong)[1][-1].unasked
    assert follow(("eat milk", "You eat the milk.  It is delicious."))[1][0].unasked


def test_the_meal_is_prepared_and_eaten():
    prepare = ("prepare meal", "Adding the meal to your inventory.", holding("a meal"))
    eat = ("eat meal", "You eat the meal.  It is delicious.", EMPTY)
    _, facts = follow(prepare, eat, ("eat meal", "Unknown action: I'm not sure what you mean."))
    assert [each.meal for each in facts] == ["prepared", "eaten", ""]
    assert [each.unasked for each in facts] == [False, False, False]


def test_a_circle_without_news_repeats():
    north = ("move north", BACKYARD, BACKYARD, EMPTY)
    south = ("move south", KITCHEN, KITCHEN, EMPTY)
    _, facts = follow(north, south, north, south)
    assert [each.repeated for each in facts] == [False, False, True, True]


def test_a_known_way_leads_home_and_a_direction_to_what_is_new():
    follower, _ = follow(READ, ("move north", BACKYARD, BACKYARD, EMPTY))
    assert (follower.way(), follower.way("")) == ("south", "south")
    assert follower.memory == (
        "get purple potato in kitchen, milk in kitchen, knife in backyard."
        " do chop purple potato, grill purple potato. in backyard. see knife, barbeque."
        " exits south kitchen. kitchen south. hold nothing. last move north."
    )
    assert follower.context == "backyard|read|found 2|held 0|do 2|knife 0|rooms 2|open 0"


@pytest.mark.parametrize(
    "text", ["", "\n\n\n\n", "\n", "a\n\nb", "x" * 10**5, "(" * 1000, "Ingredients:\n\nDirections:"]
)
def test_any_text_is_read(text):
    follower, _ = follow((text, text), look=text)
    assert follower.memory
    assert follower.context
    assert read_recipe(text) == {}


def test_folds_and_panels_share_no_task():
    folds = [task_ids(split) for split in ("train", "dev", "test")]
    panels = [task_ids(split, n) for n in (0, 1, 31, 103) for split in ("train", "valid")]
    every = [task for each in folds + panels for task in each]
    assert len(every) == len(set(every)) == 3000 + 8 * HALF
    assert folds[1][0] == "dev/10000"
    with pytest.raises(ValueError, match="unknown split 'test' of a panel: choose train, valid"):
        task_ids("test", 1)
    with pytest.raises(ValueError, match="panel is -1: give 0 or more"):
        task_ids("train", -1)

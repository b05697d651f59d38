"""What is read from ScienceWorld's texts; needs no Java."""

import pytest
from trca_scienceworld.adapter import ScienceAdapter
from trca_scienceworld.facts import Binding
from trca_scienceworld.reading import choices, read_page, refused, write_page
from trca_scienceworld.tasks import VARIATIONS, task_ids, variations

KITCHEN = """This room is called the kitchen. In it, you see:
	the agent
	a substance called air
	a counter. On the counter is: a bowl (containing a red apple), a drawer.
	a orange box (containing nothing)
	a thermometer, currently reading a temperature of 10 degrees celsius
You also see:
	A door to the bathroom (that is closed)
	A door to the outside (that is open)"""
HALL = """This room is called the hallway. In it, you see:
	the agent
You also see:
	A door to the kitchen (that is open)"""
EMPTY = "In your inventory, you see:"
HELD = "In your inventory, you see:\n\ta drawer"
FIND = (
    "Your task is to find a(n) non-living thing. First, focus on the thing. Then, move it to the"
    " orange box in the kitchen."
)
MEASURE = (
    "Your task is to measure the temperature of unknown substance B, which is located around the"
    " living room. First, focus on the thermometer. Next, focus on the unknown substance B. If the"
    " unknown substance B temperature is above 100.0 degrees celsius, place it in the red box."
)


def adapter(instruction=FIND):
    follower = ScienceAdapter()
    follower.reset(instruction, write_page("", HALL, EMPTY), [])
    return follower


def test_a_page_has_the_names_of_things_doors_and_inventory():
    page = read_page(write_page("You move to the kitchen.", KITCHEN, HELD))
    assert page.answer == "You move to the kitchen."
    assert page.room == "kitchen"
    assert page.things == ("counter", "bowl", "red apple", "drawer", "orange box", "thermometer")
    assert page.doors == {"bathroom": False, "outside": True}
    assert page.inventory == ("drawer",)


def test_a_look_round_is_shown_once():
    assert write_page(KITCHEN, KITCHEN, EMPTY).count("kitchen") == 1
    assert read_page(write_page(KITCHEN, KITCHEN, EMPTY)).answer == ""


def test_the_binding_names_kind_targets_boxes_and_rooms():
    assert adapter().binding == Binding(
        kind="non-living thing", boxes=("orange box",), things=("orange box",), rooms=("kitchen",)
    )
    binding = adapter(MEASURE).binding
    assert binding.focus == ("thermometer", "unknown substance B")
    assert binding.boxes == ("red box",)
    assert binding.rooms == ("living room",)


def test_facts_of_a_move_a_focus_and_a_placement():
    follower = adapter()
    facts = follower.step("go kitchen", write_page("You move to the kitchen.", KITCHEN, EMPTY), [])
    assert (facts.verb, facts.accepted, facts.new_room, facts.room) == ("go", True, True, "kitchen")
    assert facts.new_named == ("orange box",)
    focus = write_page("You focus on the drawer.", KITCHEN, EMPTY)
    assert follower.step("focus on drawer", focus, []).focused == "drawer"
    again = follower.step("focus on drawer", focus, [])
    assert (again.focused, again.repeated) == ("", True)
    moved = write_page("You move the drawer to the inventory.", KITCHEN, HELD)
    facts = follower.step("pick up drawer", moved, [])
    assert facts.taken == ("drawer",)
    moved = write_page("You move the drawer to the orange box.", KITCHEN, EMPTY)
    assert follower.step("move drawer to orange box", moved, []).placed == "orange box"
    assert follower.step("move drawer to orange box", moved, []).placed == ""


def test_the_context_is_equal_for_equal_states_only():
    one, other = adapter(), adapter()
    page = write_page("You move to the kitchen.", KITCHEN, EMPTY)
    one.step("go kitchen", page, [])
    assert one.context != other.context
    other.step("look around", write_page("", HALL, EMPTY), [])
    other.step("go to kitchen", page, [])
    assert one.context == other.context
    one.step("focus on drawer", write_page("You focus on the drawer.", KITCHEN, EMPTY), [])
    assert one.context != other.context


def test_an_ambiguous_request_offers_its_numbers_and_is_refused():
    answer = "Ambiguous request: Please enter the number\n0:\tgo to kitchen\n12:\tgo to hallway"
    assert choices(answer) == ["0", "12"]
    assert refused(answer)
    assert not refused("You move to the kitchen.")
    facts = adapter().step("go", write_page(answer, HALL, EMPTY), [])
    assert facts.ambiguous
    assert not facts.accepted


@pytest.mark.parametrize(
    "text", ["", "\n\n\n\n", "\n", "a\n\nb", "x" * 10**5, "(" * 1000, "is called the ."]
)
def test_any_text_is_read(text):
    follower = adapter(text)
    follower.step(text, text, [])
    assert follower.memory
    assert follower.context


def test_the_splits_share_no_variation_and_cover_all():
    for name, count in VARIATIONS.items():
        splits = [variations(name, split) for split in ("train", "dev", "test")]
        assert [n for split in splits for n in split] == list(range(count))
    with pytest.raises(ValueError, match="unknown task type 'bail': choose of boil"):
        variations("bail", "train")
    with pytest.raises(ValueError, match="unknown split 'valid': choose train, dev, test"):
        variations("boil", "valid")


def test_the_head_of_a_panel_has_every_type():
    tasks = task_ids(tuple(VARIATIONS), "test", 10)
    assert {task.partition("/")[0] for task in tasks[:30]} == set(VARIATIONS)
    assert len(tasks) == len(set(tasks)) == 271
    assert len(task_ids(tuple(VARIATIONS), "test")) == 1819

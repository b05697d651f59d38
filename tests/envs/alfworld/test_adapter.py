"""ALFWorld's adapter on sentences of the original game: facts of each transition."""

import pytest

from trca.envs.alfworld.adapter import ALFWorldAdapter

ROOM = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
    "around you, you see a desk 1, a drawer 2, a drawer 1, a fridge 1, a microwave 1, a shelf 1, "
    "a shelf 2, and a sinkbasin 1.\n\nYour task is to: {task}"
)


class Episode:
    """Feeds an adapter; ``offers`` are the relevant admissible actions."""

    def __init__(self, task):
        self.adapter = ALFWorldAdapter()
        self.adapter.reset(task, ROOM.format(task=task), [])

    def __call__(self, action, observation, *offers):
        return self.adapter.step(action, observation, offers)

    def go(self, place, listing, *offers):
        return self(f"go to {place}", f"You arrive at {place}. {listing}", *offers)

    def take(self, thing, place):
        return self(f"take {thing} from {place}", f"You pick up the {thing} from the {place}.")

    def move(self, thing, place):
        return self(f"move {thing} to {place}", f"You move the {thing} to the {place}.")


@pytest.fixture
def episode():
    return Episode("put a clean mug in shelf.")


def on(place, listing):
    return f"On the {place}, you see {listing}."


def test_arriving_shows_new_objects_and_the_place_once(episode):
    first = episode.go("desk 1", on("desk 1", "a mug 1, and a pen 1"))
    assert first.verb == "goto"
    assert first.accepted
    assert first.available
    assert first.new_objects == ("mug",)
    assert first.searched
    assert first.located == ()
    assert episode.go("shelf 1", on("shelf 1", "nothing")).new_places == ("shelf",)
    again = episode.go("desk 1", on("desk 1", "a mug 1, and a pen 1"))
    assert again.new_objects == ()
    assert not again.searched
    assert again.located == ("mug",)
    assert episode.go("shelf 1", on("shelf 1", "nothing")).new_places == ()


def test_types_the_task_does_not_name_are_other_and_not_listed(episode):
    facts = episode.go("desk 1", on("desk 1", "a pen 1"))
    assert facts.receptacle_type == facts.place_type == "other"
    assert facts.new_objects == facts.new_places == ()
    assert episode.take("pen 1", "desk 1").held_type == "other"
    assert episode.move("pen 1", "desk 1").held_type == ""
    assert episode.go("shelf 2", on("shelf 2", "nothing")).place_type == "shelf"


def test_a_closed_receptacle_is_searched_when_it_is_opened(episode):
    shut = episode.go("drawer 1", "The drawer 1 is closed.")
    assert not shut.searched
    assert episode.adapter.context.startswith("other closed")
    opened = episode(
        "open drawer 1", "You open the drawer 1. The drawer 1 is open. In it, you see a mug 1."
    )
    assert opened.searched
    assert opened.new_objects == ("mug",)


def test_objects_first_named_in_the_offers_are_seen(episode):
    facts = episode.go(
        "drawer 1",
        "The drawer 1 is closed.",
        "examine drawer 1",
        "examine drawer 2",
        "examine mug 1",
        "take mug 1 from drawer 2",
    )
    assert facts.new_objects == ("mug",)
    assert episode.adapter.beliefs.here == {"drawer 1", "drawer 2"}
    assert episode.take("mug 1", "drawer 2").held_type == "mug"


def test_holding_and_states_follow_the_commands(episode):
    episode.go("desk 1", on("desk 1", "a mug 1"))
    taken = episode.take("mug 1", "desk 1")
    assert (taken.held_type, taken.held_states, taken.located) == ("mug", (), ("mug",))
    episode.go("sinkbasin 1", on("sinkbasin 1", "nothing"))
    cleaned = episode("clean mug 1 with sinkbasin 1", "You clean the mug 1 using the sinkbasin 1.")
    assert cleaned.gained_states == cleaned.object_states == cleaned.held_states == ("clean",)
    again = episode("clean mug 1 with sinkbasin 1", "You clean the mug 1 using the sinkbasin 1.")
    assert again.gained_states == ()
    assert again.repeated


def test_heating_undoes_cooling():
    episode = Episode("put a hot egg in desk.")
    episode.go("desk 1", on("desk 1", "a egg 1"))
    episode.take("egg 1", "desk 1")
    episode.go("fridge 1", "The fridge 1 is closed.")
    episode("cool egg 1 with fridge 1", "You cool the egg 1 using the fridge 1.")
    episode.go("microwave 1", "The microwave 1 is closed.")
    facts = episode("heat egg 1 with microwave 1", "You heat the egg 1 using the microwave 1.")
    assert facts.held_states == ("hot",)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("This is a hot and clean sliced mug 1.", ("clean", "hot", "sliced")),
        ("This is a cold mug 1.", ("cool",)),
        ("This is a clean mug 1.", ("clean",)),
        ("This mug 1 is on.", ("on",)),
        ("This mug 1 is off.", ()),
        ("There's nothing special about mug 1.", ()),
        ("This is a normal mug 1. In it, you see nothing.", ()),
    ],
)
def test_examining_an_object_shows_its_states(episode, text, states):
    episode.go("desk 1", on("desk 1", "a mug 1"))
    facts = episode("examine mug 1", text)
    assert facts.gained_states == states
    assert facts.repeated == (not states)


def test_what_brings_back_an_earlier_state_is_repeated(episode):
    assert episode("look", "You are in the middle of a room. Looking quickly around you").repeated
    assert not episode.go("desk 1", on("desk 1", "a pen 1")).repeated
    assert episode("inventory", "You are not carrying anything.").repeated
    assert episode("help", "\nAvailable commands:\n  look: ...").repeated
    assert not episode.take("pen 1", "desk 1").repeated
    assert episode.move("pen 1", "desk 1").repeated
    assert episode.take("pen 1", "desk 1").repeated
    assert not episode.go("shelf 1", on("shelf 1", "nothing")).repeated
    assert not episode.go("desk 1", on("desk 1", "nothing")).repeated
    assert episode.go("shelf 1", on("shelf 1", "nothing")).repeated
    assert not episode.move("pen 1", "shelf 1").repeated


@pytest.mark.parametrize(
    ("action", "verb", "available"),
    [
        ("take mug 1 from shelf 1", "take", False),
        ("take mug 2 from desk 1", "take", False),
        ("take mug 1 from desk 1", "take", True),
        ("go to sofa 1", "goto", False),
        ("go to desk 1", "goto", True),
        ("open shelf 2", "open", False),
        ("open desk 1", "open", True),
        ("move pen 1 to desk 1", "move", True),
        ("move mug 1 to desk 1", "move", False),
        ("clean pen 1 with desk 1", "clean", True),
        ("slice mug 1 with pen 1", "slice", True),
        ("slice mug 1 with mug 1", "slice", False),
        ("use mug 1", "use", True),
        ("use lamp 1", "use", False),
        ("examine mug 9", "examine", False),
        ("frobnicate", "", False),
        ("", "", False),
    ],
)
def test_a_rejected_action_says_whether_what_it_names_was_there(episode, action, verb, available):
    episode.go("desk 1", on("desk 1", "a mug 1, and a pen 1"), "examine desk 1")
    episode.take("pen 1", "desk 1")
    facts = episode(action, "Nothing happens.")
    assert not facts.accepted
    assert facts.verb == verb
    assert facts.available == available
    assert facts.parsed == bool(action)
    assert facts.held_type == "other"


def test_a_lamp_is_known_where_it_stands_and_lit_once_used():
    episode = Episode("look at mug under the desklamp.")
    seen = episode.go("desk 1", on("desk 1", "a desklamp 1, and a mug 1"))
    assert seen.lamps == ("desklamp",)
    assert seen.lit == ()
    used = episode("use desklamp 1", "You turn on the desklamp 1.")
    assert used.lit == used.lamps == ("desklamp",)
    away = episode.go("shelf 1", on("shelf 1", "nothing"))
    assert away.lamps == away.lit == ()


def test_placed_objects_are_counted_by_receptacle():
    episode = Episode("put two pen in shelf.")
    episode.go("desk 1", on("desk 1", "a pen 1, a pen 2, and a pen 3"))
    counts = []
    for pen, shelf in (("pen 1", "shelf 1"), ("pen 2", "shelf 2"), ("pen 3", "shelf 1")):
        episode.go("desk 1", on("desk 1", "..."))
        episode.take(pen, "desk 1")
        episode.go(shelf, on(shelf, "nothing"))
        facts = episode.move(pen, shelf)
        counts.append((facts.alike_there, facts.alike_elsewhere))
    assert counts == [(1, 0), (1, 1), (2, 1)]


def test_the_memory_line_tells_place_hand_targets_and_searched_places(episode):
    assert episode.adapter.memory == "At start. Holding nothing."
    episode.go("drawer 1", "The drawer 1 is closed.")
    assert episode.adapter.memory == "At drawer 1. Holding nothing."
    episode("open drawer 1", "You open the drawer 1. The drawer 1 is open. In it, you see a pen 1.")
    episode.go("desk 1", on("desk 1", "a mug 1, and a mug 2"))
    episode.take("mug 1", "desk 1")
    episode.go("drawer 2", "The drawer 2 is open. In it, you see nothing.")
    episode("examine mug 1", "This is a clean mug 1.")
    assert episode.adapter.memory == (
        "At drawer 2. Holding mug 1 (clean). Seen mug 2 in desk 1. Checked drawer 1 2, desk 1."
    )


def test_the_context_is_what_the_place_and_the_hand_mean_for_the_task(episode):
    contexts = [episode.adapter.context]

    def note(_):
        contexts.append(episode.adapter.context)

    note(episode.go("drawer 1", "The drawer 1 is closed."))
    note(episode.go("desk 1", on("desk 1", "a mug 1")))
    note(episode.take("mug 1", "desk 1"))
    note(episode.go("sinkbasin 1", on("sinkbasin 1", "nothing")))
    note(episode("clean mug 1 with sinkbasin 1", "You clean the mug 1 using the sinkbasin 1."))
    note(episode.go("shelf 2", on("shelf 2", "nothing")))
    note(episode.move("mug 1", "shelf 2"))
    assert contexts == [
        "start|nothing|found 0|placed 0|known 0",
        "other closed|nothing|found 0|placed 0|known 0",
        "source|nothing|found 1|placed 0|known 0",
        "other|target raw|found 0|placed 0|known 0",
        "appliance|target raw|found 0|placed 0|known 1",
        "appliance|target ready|found 0|placed 0|known 1",
        "goal|target ready|found 0|placed 0|known 2",
        "goal|nothing|found 0|placed 1|known 2",
    ]

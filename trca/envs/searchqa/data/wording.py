"""The vocabulary of the generated world: parts of names, and templates of passages and questions.

No two words of a list share a stem, so a search tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["person", "place", "work", "organisation"]


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of an entity to another entity or to a value.

    Attributes:
        name: Name of the relation.
        target: Kind of the related entity; blank for a plain value.
        values: The possible plain values.
        told: Template of the sentence in a passage, with ``{s}`` and ``{o}``.
        asked: Templates of the question.
        phrase: Template of the phrase for the related entity in a two-hop question; blank for a
            plain value.
    """

    name: str
    target: Kind | Literal[""]
    values: tuple[str, ...]
    told: str
    asked: tuple[str, ...]
    phrase: str = ""

    @property
    def question_kind(self) -> str:
        """The type of a question for this relation, by the kind of its answer."""
        kinds = {"person": "who", "place": "where", "organisation": "which"}
        return kinds.get(self.target, "when" if self.values == YEARS else "what")


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


FIRST_NAMES: Final = _list(
    "Ada Ben Cora Dov Elsa Finn Gail Hans Ines Jack Kate Lars Mina Nils Olga Paul"
    " Rosa Sven Tess Ugo Vera Wim Yara Zeno Anna Bert Cleo Dirk Edda Fred Gina Hugo"
)
"""Given names: names of women at even indices, names of men at odd indices."""
ONSETS: Final = _list(
    "Bal Ber Bor Dal Dor Fen Gal Gor Hal Jor Kal Ker Lan Lor Mal Mer"
    " Nal Nor Pal Per Ral Ros Sal Ser Tal Tor Val Ver Wal Wil Yar Zan"
)
"""Beginnings of made-up words."""
CODAS: Final = _list(
    "an ek in or um ath ild osk av eph ir ond uk arn elm ost"
    " ub ix ag erd olf imp ung esh ark ob enk urt ilm ev ock isp"
)
"""Endings of made-up words."""
PLACES: Final = _list("Bay, Hill, Ford, Mill, Port, Dale, Moor, Gate")
"""Second words of the names of places."""
ORGANISATIONS: Final = _list("Guild, Bank, Press, Club, Works, League, Trust, Union")
"""Second words of the names of organisations."""
ADJECTIVES: Final = _list(
    "Silent Red Broken Golden Lost Frozen Hidden Blue Empty Burning Little Last Iron Distant"
    " Secret White Bitter Quiet Second Narrow Green Hollow Wild Sleeping Black Endless Painted"
    " Crooked Early Silver Stolen Gentle Dark Foreign Happy Paper Restless Sunken Tall Velvet"
    " Wooden Yellow Ancient Brave Cold Deep Eternal Final"
)
"""First words of the titles of works."""
NOUNS: Final = _list(
    "Garden River Lantern Winter Bridge Letter Mountain Mirror Orchard Voyage Crown Tower"
    " Island Shadow Window Feather Harvest Stranger Clock Forest Summer Castle Ocean Song"
    " Anchor Arrow Autumn Bell Bird Boat Book Candle Carpet Cloud Comet Dance Desert Dream Drum"
    " Eagle Engine Evening Falcon Field Fire Flower Fountain Ghost Glove Guest Hammer Harp Horse"
    " Hour House Jewel Journey Key Kitchen Ladder Lake Leaf Library Lion Map Market Meadow Moon"
    " Morning Needle Night Nurse Oak Pearl Piano Pilot Prince Promise Queen Rain Ring Road Rope"
    " Sailor Shore Sister Snow Soldier Spring Star Stone Storm Street Thread Valley Wolf"
)
"""Second words of the titles of works."""

YEARS: Final = tuple(str(year) for year in range(1801, 1901))

RELATIONS: Final[Mapping[Kind, tuple[Relation, ...]]] = {
    "person": (
        Relation(
            "birthplace",
            "place",
            (),
            "{s} was born in {o}.",
            ("Where was {s} born?", "What is the birthplace of {s}?"),
            "the birthplace of {s}",
        ),
        Relation(
            "employer",
            "organisation",
            (),
            "{s} is employed by {o}.",
            ("Which organisation employs {s}?", "What is the employer of {s}?"),
            "the employer of {s}",
        ),
        Relation(
            "teacher",
            "person",
            (),
            "{s} was taught by {o}.",
            ("Who taught {s}?", "Who was the teacher of {s}?"),
            "the teacher of {s}",
        ),
        Relation(
            "profession",
            "",
            _list("painter doctor pilot baker lawyer farmer singer sailor tailor judge miner monk"),
            "{s} works as a {o}.",
            ("What is the profession of {s}?", "What does {s} work as?"),
        ),
        Relation(
            "year of birth",
            "",
            YEARS,
            "{s} was born in {o}.",
            ("In what year was {s} born?", "When was {s} born?"),
        ),
    ),
    "place": (
        Relation(
            "mayor",
            "person",
            (),
            "{s} has {o} as its mayor.",
            ("Who is the mayor of {s}?", "Who is mayor in {s}?"),
            "the mayor of {s}",
        ),
        Relation(
            "neighbour",
            "place",
            (),
            "{s} has {o} as its neighbour.",
            ("What place is the neighbour of {s}?", "Which town is the neighbour of {s}?"),
            "the neighbour of {s}",
        ),
        Relation(
            "water supplier",
            "organisation",
            (),
            "{s} gets its water from {o}.",
            (
                "Which organisation gives water to {s}?",
                "From which organisation does {s} get its water?",
            ),
            "the water supplier of {s}",
        ),
        Relation(
            "goods",
            "",
            _list("salt wine wool honey amber olives cheese copper roses tea marble apples"),
            "{s} is known for its {o}.",
            ("What is {s} known for?", "For what is {s} known?"),
        ),
    ),
    "work": (
        Relation(
            "author",
            "person",
            (),
            "{s} was written by {o}.",
            ("Who wrote {s}?", "Who is the author of {s}?"),
            "the author of {s}",
        ),
        Relation(
            "setting",
            "place",
            (),
            "{s} is set in {o}.",
            ("Where is {s} set?", "What is the setting of {s}?"),
            "the setting of {s}",
        ),
        Relation(
            "publisher",
            "organisation",
            (),
            "{s} was published by {o}.",
            ("Which organisation published {s}?", "What is the publisher of {s}?"),
            "the publisher of {s}",
        ),
        Relation(
            "genre",
            "",
            _list("comedy tragedy western romance satire fable thriller mystery saga ballad"),
            "{s} is of the genre {o}.",
            ("What is the genre of {s}?", "What genre is {s}?"),
        ),
        Relation(
            "year of release",
            "",
            YEARS,
            "{s} was released in {o}.",
            ("In what year was {s} released?", "When was {s} released?"),
        ),
    ),
    "organisation": (
        Relation(
            "founder",
            "person",
            (),
            "{s} was founded by {o}.",
            ("Who founded {s}?", "Who was the founder of {s}?"),
            "the founder of {s}",
        ),
        Relation(
            "seat",
            "place",
            (),
            "{s} is based in {o}.",
            ("Where is {s} based?", "What is the seat of {s}?"),
            "the seat of {s}",
        ),
        Relation(
            "leader",
            "person",
            (),
            "{s} is led by {o}.",
            ("Who leads {s}?", "Who is the leader of {s}?"),
            "the leader of {s}",
        ),
        Relation(
            "trade",
            "",
            _list("clocks boats shoes glass candles tools silk soap ropes lamps carpets bricks"),
            "{s} sells {o}.",
            ("What does {s} sell?", "Which goods does {s} sell?"),
        ),
        Relation(
            "year of founding",
            "",
            YEARS,
            "{s} began in {o}.",
            ("In what year did {s} begin?", "When did {s} begin?"),
        ),
    ),
}
"""Kind of an entity -> its relations; relations to entities come first."""

ALIASES: Final[Mapping[Kind, str]] = {
    "person": "{s} is also known as {o}.",
    "place": "{s} was once called {o}.",
    "organisation": "{s} is called {o} for short.",
}
"""Kind of an entity -> template of the sentence with its second name."""

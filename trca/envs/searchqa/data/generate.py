r"""Generates a world of people, places, works and organisations: its passages and questions.

Entities form circles of twenty, and all relations stay within a circle. Therefore the questions of
two circles share no entity, and splits consist of complete circles. A circle depends on the seed
and its number only, so a small world is the beginning of a larger one. Each entity has a passage of
short sentences. The first sentence leads to another entity of the circle, and two-hop questions
follow this relation. The passage of the subject does not answer a two-hop question.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from typing import Any, Final, Literal

from trca.common.strict_yaml import packaged
from trca.envs.retrieval.passages import Passage
from trca.envs.searchqa.answer_scores import normalized
from trca.envs.searchqa.data.questions import SPLITS, Question

Kind = Literal["person", "place", "work", "organisation"]

SIZES: Final = {"small": 200, "medium": 2_000, "large": 20_000}
"""Name of a generated world -> its number of passages."""
TWO_HOP: Final = "two-hop"
TASK_TYPES: Final = ("who", "where", "which", "what", "when", TWO_HOP)
"""Types of questions: one-hop questions by question word, and two-hop questions."""

_CIRCLE: Final[tuple[tuple[Kind, int], ...]] = (
    ("person", 8),
    ("place", 4),
    ("work", 4),
    ("organisation", 4),
)
CIRCLE: Final = sum(count for _, count in _CIRCLE)
"""Number of entities in a circle."""
_OF_A_HOP: Final = 15
"""Number of one-hop questions per circle; also the number of two-hop questions."""
_SPLIT_OF_TEN: Final = (0, 0, 1, 0, 2, 0, 0, 1, 0, 2)
_ALIASED: Final = 0.4
_COMMON: Final = 64
"""Number of made-up words in use, until the number of entities requires more words."""

YEARS: Final = tuple(str(year) for year in range(1801, 1901))


WORDS: Final[Mapping[str, Any]] = packaged(__package__, "generate.yaml")
"""The vocabulary; the file explains its keys."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement about an entity; ``relation`` is one of the relations in ``generate.yaml``.

    The value is the name of another entity of the circle, with its index, or a plain value.
    """

    relation: Mapping[str, Any]
    value: str
    target: int | None


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place, work or organisation.

    The id is that of its passage. The pronoun replaces the name after the first sentence.
    """

    id: str
    kind: Kind
    name: str
    alias: str
    pronoun: str
    facts: tuple[Fact, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        """The name and, if present, the alias."""
        return (self.name, self.alias) if self.alias else (self.name,)

    @property
    def passage(self) -> Passage:
        """The passage about this entity."""
        statements = [(fact.relation["told"], fact.value) for fact in self.facts]
        if self.alias:
            statements.insert(1, (WORDS["aliases"][self.kind], self.alias))
        sentences = (
            template.format(s=self.pronoun if number else self.name, o=value)
            for number, (template, value) in enumerate(statements)
        )
        return Passage(self.id, f'"{self.name}"\n{" ".join(sentences)}')


@dataclass(frozen=True)
class World:
    """A generated world: one passage per entity, and questions of all circles in turns."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]

    @cached_property
    def by_id(self) -> dict[str, Passage]:
        """The passages by id."""
        return {passage.id: passage for passage in self.passages}


@lru_cache(maxsize=4)
def generated(count: int, seed: int = 0) -> World:
    """The generated world with this number of passages; each seed gives a different world."""
    if count < 1 or count % CIRCLE:
        raise ValueError(f"count is {count}: a generated world has a multiple of {CIRCLE} passages")
    circles = [draw(number, seed) for number in range(count // CIRCLE)]
    questions = (questions_about(circle, number, seed) for number, circle in enumerate(circles))
    turns = chain.from_iterable(zip_longest(*questions))
    return World(
        passages=tuple(entity.passage for circle in circles for entity in circle),
        questions=tuple(question for question in turns if question is not None),
    )


def draw(number: int, seed: int = 0) -> tuple[Entity, ...]:
    """The entities of a circle."""
    rng = random.Random(f"searchqa/{seed}/{number}")
    kinds = [kind for kind, count in _CIRCLE for _ in range(count)]
    names = [
        _name(kind, number * count + place, seed)
        for kind, count in _CIRCLE
        for place in range(count)
    ]
    entities = []
    for place, kind in enumerate(kinds):
        facts = []
        for relation in WORDS["relations"][kind]:
            if "target" in relation:
                sort = relation["target"]
                target = rng.choice([p for p in range(CIRCLE) if kinds[p] == sort and p != place])
                facts.append(Fact(relation, names[target], target))
            else:
                facts.append(Fact(relation, rng.choice(relation.get("values", YEARS)), None))
        first = rng.choice([fact for fact in facts if fact.target is not None])
        rest = [fact for fact in facts if fact is not first]
        rng.shuffle(rest)
        pronoun = "It"
        if kind == "person":
            pronoun = ("She", "He")[WORDS["first_names"].index(names[place].split()[0]) % 2]
        has_alias = kind in WORDS["aliases"] and rng.random() < _ALIASED
        entities.append(
            Entity(
                id=f"{number * CIRCLE + place}",
                kind=kind,
                name=names[place],
                alias=_word(_COMMON + rng.randrange(_COMMON)) if has_alias else "",
                pronoun=pronoun,
                facts=(first, *rest),
            )
        )
    return tuple(entities)


def questions_about(circle: tuple[Entity, ...], number: int, seed: int) -> list[Question]:
    """The questions about a circle, half of them with two hops, in random order."""
    rng = random.Random(f"searchqa/{seed}/{number}/questions")
    one = [(entity, (fact,)) for entity in circle for fact in entity.facts]
    chosen = [
        each
        for hops in (one, list(_two_hop(circle)))
        for each in rng.sample(hops, min(_OF_A_HOP, len(hops)))
    ]
    rng.shuffle(chosen)
    split = SPLITS[_SPLIT_OF_TEN[number % 10]]
    questions = []
    for place, (subject, path) in enumerate(chosen):
        last = path[-1]
        via = subject if len(path) == 1 else circle[path[0].target or 0]
        name = subject.name
        if len(path) == 2:
            name = path[0].relation["phrase"].format(s=name)
        read = (subject,) if len(path) == 1 else (subject, via)
        questions.append(
            Question(
                id=f"{number}-{place}",
                dataset="generated",
                split=split,
                text=rng.choice(last.relation["asked"]).format(s=name),
                answers=_answers(circle, last),
                kind=_question_kind(last.relation) if len(path) == 1 else TWO_HOP,
                gold_ids=tuple(entity.id for entity in read),
                gold_titles=tuple(entity.name for entity in read),
            )
        )
    return questions


def _two_hop(circle: tuple[Entity, ...]) -> Iterator[tuple[Entity, tuple[Fact, ...]]]:
    """The questions whose answer and connection are only in the second passage."""
    for entity in circle:
        first = entity.facts[0]
        via = circle[first.target or 0]
        if entity.name in via.passage.contents:
            continue
        first_text = f" {normalized(entity.passage.contents)} "
        for fact in via.facts:
            answers = (f" {normalized(answer)} " for answer in _answers(circle, fact))
            if not any(answer in first_text for answer in answers):
                yield entity, (first, fact)


def _question_kind(relation: Mapping[str, Any]) -> str:
    if "target" not in relation:
        return "what" if "values" in relation else "when"
    kinds = {"person": "who", "place": "where", "organisation": "which"}
    return kinds.get(relation["target"], "what")


def _answers(circle: tuple[Entity, ...], fact: Fact) -> tuple[str, ...]:
    return (fact.value,) if fact.target is None else circle[fact.target].answers


_NAMES: Final[dict[Kind, tuple[str, list[str], int]]] = {
    "person": ("{0} {1}", WORDS["first_names"], 7919),
    "place": ("{1} {0}", WORDS["places"], 6007),
    "organisation": ("{1} {0}", WORDS["organisations"], 4637),
    "work": ("The {0} {1}", WORDS["adjectives"], 5479),
}
"""Kind of an entity -> template of a name, the words for ``{0}``, and the stride of `_pair`."""


def _name(kind: Kind, number: int, seed: int) -> str:
    template, words, stride = _NAMES[kind]
    if kind == "work":
        first, second = _pair(number, seed, stride, len(words), 24, len(WORDS["nouns"]))
        return template.format(words[first], WORDS["nouns"][second])
    first, second = _pair(number, seed, stride, len(words))
    return template.format(words[first], _word(second))


def _pair(
    number: int,
    seed: int,
    stride: int,
    narrow: int,
    common: int = _COMMON,
    wide: int = len(WORDS["onsets"]) * len(WORDS["codas"]),
) -> tuple[int, int]:
    """Two numbers below ``narrow`` and ``wide``, with a different pair for each number.

    The second number stays below ``common`` as long as possible, so that a small world needs few
    words. ``stride`` is a prime that divides neither number of pairs; it scatters the pairs.
    """
    few = narrow * common
    if number >= narrow * wide:
        raise ValueError(f"a kind has at most {narrow * wide:,} names: choose a smaller world")
    first, base, capacity = (0, 0, few) if number < few else (few, common, narrow * wide - few)
    code = (number - first + 1009 * seed) * stride % capacity
    return code % narrow, base + code // narrow


def _word(number: int) -> str:
    """One of 1,024 made-up words, such as ``Kerosk``."""
    onset, row = number % len(WORDS["onsets"]), number // len(WORDS["onsets"])
    return str(WORDS["onsets"][onset] + WORDS["codas"][(row + 5 * onset) % len(WORDS["codas"])])

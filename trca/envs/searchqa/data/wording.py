"""The vocabulary of generated worlds, from ``wording.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel

from trca.common.strict_yaml import packaged

Kind = Literal["person", "place", "work", "organisation"]
Words = tuple[str, ...]

YEARS: Final = tuple(str(year) for year in range(1801, 1901))


class Relation(BaseModel, frozen=True):
    """A relation of an entity to another entity or to a value.

    Attributes:
        name: Name of the relation.
        target: Kind of the related entity; empty for a plain value.
        values: The possible plain values.
        told: Template of the sentence in a passage, with ``{s}`` and ``{o}``.
        asked: Templates of the question.
        phrase: Template of the phrase for the related entity in a two-hop question; empty for a
            plain value.
    """

    name: str
    target: Kind | Literal[""] = ""
    values: Words = YEARS
    told: str
    asked: Words
    phrase: str = ""

    @property
    def question_kind(self) -> str:
        """The type of a question for this relation, by the kind of its answer."""
        if not self.target:
            return "when" if self.values == YEARS else "what"
        return {"person": "who", "place": "where", "organisation": "which"}.get(self.target, "what")


class Wording(BaseModel, frozen=True):
    """Parts of names, and templates of passages and questions.

    Attributes:
        first_names: Given names: of women at even indices, of men at odd indices.
        onsets: Beginnings of made-up words.
        codas: Endings of made-up words.
        places: Second words of the names of places.
        organisations: Second words of the names of organisations.
        adjectives: First words of the titles of works.
        nouns: Second words of the titles of works.
        aliases: Kind of an entity -> template of the sentence with its second name.
        relations: Kind of an entity -> its relations; relations to entities come first.
    """

    first_names: Words
    onsets: Words
    codas: Words
    places: Words
    organisations: Words
    adjectives: Words
    nouns: Words
    aliases: Mapping[Kind, str]
    relations: Mapping[Kind, tuple[Relation, ...]]


WORDS: Final = Wording.model_validate(packaged(__package__, "wording.yaml"))

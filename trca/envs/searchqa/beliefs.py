"""What an agent knows of a SearchQA episode, from its actions and the observations alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trca.envs.searchqa.actions import Action
from trca.envs.searchqa.binding import SearchQABinding
from trca.envs.searchqa.proper_names import names_in
from trca.envs.searchqa.reading import Shown, says, spaced
from trca.envs.searchqa.relations import stems_of

_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+(?=\W*[A-Z0-9])")


@dataclass
class Known:
    """A passage that was shown.

    Attributes:
        shown: Its longest form so far.
        words: The words of title and text between spaces.
        stems: What they come from.
        supports: Whether it supports; see `SearchQAFacts`.
        linked: Whether it does so for a lead.
    """

    shown: Shown
    words: str = ""
    stems: frozenset[str] = frozenset()
    supports: bool = False
    linked: bool = False

    def __post_init__(self) -> None:
        """Reads the text."""
        self.words, self.stems = self.shown.words, self.shown.stems


class Beliefs:
    """The episode as observed so far.

    Attributes:
        binding: What the question asks for.
        tool: The last action that was carried out; blank before.
        queries: What was searched for, as words between spaces, each where it came last (values: as
            written).
        results: The passages that the last search found, by key, in order.
        page: Keys of the passages that the observation shows.
        known: Every passage shown so far, by key, in order of first sight.
        read: Keys of those that were opened.
        names: Names of the question that a passage has shown.
        relations: Words of the relation that a relevant passage has shown.
        leads: Names learnt, as words between spaces, in order (values: as written).
        reply: The answer that was submitted; blank before.
    """

    def __init__(self, binding: SearchQABinding) -> None:
        """Starts with a question."""
        self.binding = binding
        self.tool = ""
        self.queries: dict[str, str] = {}
        self.results: tuple[tuple[str, str], ...] = ()
        self.page: tuple[tuple[str, str], ...] = ()
        self.known: dict[tuple[str, str], Known] = {}
        self.read: set[tuple[str, str]] = set()
        self.names: dict[str, None] = {}
        self.relations: dict[str, None] = {}
        self.leads: dict[str, str] = {}
        self.reply = ""
        self._telling = frozenset(
            stem for text in (*binding.entities, *binding.constraints) for stem in stems_of(text)
        ).union(binding.relation)

    def update(self, action: Action, passages: Sequence[Shown]) -> None:
        """Takes in an accepted action and the passages that answered it."""
        self.tool = action.verb
        if action.verb == "answer":
            self.reply = action.argument
            self.page = ()
            return
        self.page = tuple([self._add(passage) for passage in passages])
        if action.verb == "search":
            query = spaced(action.argument)
            self.queries.pop(query, None)
            self.queries[query] = action.argument
            self.results = self.page
        else:
            self.read.update(self.page)
        self._understand()

    def match(self, passage: Known) -> int:
        """How many telling words of the question a passage has."""
        return len(self._telling & passage.stems)

    def best_match(self) -> int:
        """The most telling words of the question in a passage shown so far."""
        return max([self.match(passage) for passage in self.known.values()], default=0)

    def support(self) -> list[Known]:
        """The passages that support, in order of first sight."""
        return [passage for passage in self.known.values() if passage.supports]

    def has_lead(self, passage: Known) -> bool:
        """Whether a passage is about a lead, by its title."""
        heading = passage.shown.heading
        return any(lead in heading for lead in self.leads)

    def relevant(self, passage: Known) -> bool:
        """Whether a passage is about a lead, or has a name of the question."""
        return self.has_lead(passage) or any(
            says(passage.words, name) for name in self.binding.entities
        )

    def stand_in(self, text: str, passages: Iterable[Known]) -> bool:
        """Whether the words of a text stand side by side in one of the passages."""
        return any(says(passage.words, text) for passage in passages)

    def _add(self, passage: Shown) -> tuple[str, str]:
        """Remembers the passage, in its longest form, and returns its key."""
        key = passage.key
        before = self.known.get(key)
        if before is None or len(before.shown.text) < len(passage.text):
            self.known[key] = Known(passage)
            if before is not None:
                self.known[key].supports = before.supports
                self.known[key].linked = before.linked
        return key

    def _understand(self) -> None:
        """Finds what is relevant, what supports, and what leads on; leads count at once."""
        for leading in (True, False):
            found: dict[str, str] = {}
            for passage in self.known.values():
                if not self.relevant(passage):
                    continue
                self.names.update(
                    dict.fromkeys(n for n in self.binding.entities if says(passage.words, n))
                )
                cues = [cue for cue in self.binding.relation if cue in passage.stems]
                self.relations.update(dict.fromkeys(cues))
                if cues and not passage.supports:
                    passage.supports = True
                    passage.linked = self.has_lead(passage)
                if cues and leading:
                    found.update(self._leads_of(passage))
            self.leads.update({k: v for k, v in found.items() if k not in self.leads})

    def _leads_of(self, passage: Known) -> Iterator[tuple[str, str]]:
        """Names in the sentences of a passage that lead on from what the question names."""
        cues = frozenset(self.binding.bridge or self.binding.relation)
        for sentence in sentences(passage.shown):
            if cues.isdisjoint(stems_of(sentence)):
                continue
            for name in names_in(sentence):
                if self._is_lead(name):
                    yield spaced(name), name

    def _is_lead(self, name: str) -> bool:
        """Whether a name is one that the question has not, neither as a whole nor in part."""
        words = spaced(name)
        return (
            len(words) > 4
            and name[0].isalpha()
            and not any(
                says(words, own) or says(spaced(own), name) for own in self.binding.entities
            )
            and not self._telling.issuperset(stems_of(name))
        )


def sentences(passage: Shown) -> list[str]:
    """The sentences of a passage's text."""
    return _SENTENCE.split(passage.text)

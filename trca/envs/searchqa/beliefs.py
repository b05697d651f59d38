"""An agent's knowledge of a SearchQA episode, derived from its actions and observations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from trca.envs.searchqa.binding import SearchQABinding
from trca.envs.searchqa.english import names_in, stems_of
from trca.envs.searchqa.reading import Action, Shown, says, spaced

_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+(?=\W*[A-Z0-9])")


class Beliefs:
    """The episode as observed so far.

    Attributes:
        tool: The verb of the last accepted action; empty before the first.
        queries: Past queries as words between spaces, ordered by last use (values: the query as
            written).
        results: Keys of the last search's results, in order.
        page: Keys of the passages in the current observation.
        known: The longest form of all passages shown so far, by key, in order of first sight.
        supporting: Keys of the passages that support the answer; see `SearchQAFacts`.
        linked: Keys of the passages that support the answer through a lead.
        read: Keys of the opened passages.
        names: Names of the question that a passage has shown.
        relations: Words of the relation that a relevant passage has shown.
        leads: Names learned from passages, as words between spaces, in order (values: the name as
            written).
        reply: The submitted answer; empty before.
    """

    def __init__(self, binding: SearchQABinding) -> None:
        self.binding = binding
        self.tool = ""
        self.queries: dict[str, str] = {}
        self.results: tuple[tuple[str, str], ...] = ()
        self.page: tuple[tuple[str, str], ...] = ()
        self.known: dict[tuple[str, str], Shown] = {}
        self.supporting: set[tuple[str, str]] = set()
        self.linked: set[tuple[str, str]] = set()
        self.read: set[tuple[str, str]] = set()
        self.names: dict[str, None] = {}
        self.relations: dict[str, None] = {}
        self.leads: dict[str, str] = {}
        self.reply = ""
        self._telling = frozenset(
            stem for text in (*binding.entities, *binding.constraints) for stem in stems_of(text)
        ).union(binding.relation)

    def update(self, action: Action, passages: Sequence[Shown]) -> None:
        """Updates the beliefs after an accepted action."""
        self.tool = action.verb
        if action.verb == "answer":
            self.reply = action.argument
            self.page = ()
            return
        self.page = tuple([passage.key for passage in passages])
        for passage in passages:
            before = self.known.get(passage.key)
            if before is None or len(before.text) < len(passage.text):
                self.known[passage.key] = passage
        if action.verb == "search":
            query = spaced(action.argument)
            self.queries.pop(query, None)
            self.queries[query] = action.argument
            self.results = self.page
        else:
            self.read.update(self.page)
        self._understand()

    def match(self, passage: Shown) -> int:
        """Number of the question's content words in a passage."""
        return len(self._telling & passage.stems)

    def best_match(self) -> int:
        """Largest number of the question's content words in a passage shown so far."""
        return max([self.match(passage) for passage in self.known.values()], default=0)

    def has_lead(self, passage: Shown) -> bool:
        """Whether the title of a passage contains a lead."""
        return any(lead in passage.heading for lead in self.leads)

    def relevant(self, passage: Shown) -> bool:
        """Whether a passage has a lead in its title or contains a name of the question."""
        return self.has_lead(passage) or any(
            says(passage.words, name) for name in self.binding.entities
        )

    def _understand(self) -> None:
        """Updates names, relations, supporting passages and leads.

        The second pass uses the leads of the first pass.
        """
        for leading in (True, False):
            new_leads: dict[str, str] = {}
            for passage in self.known.values():
                if not self.relevant(passage):
                    continue
                self.names.update(
                    dict.fromkeys(n for n in self.binding.entities if says(passage.words, n))
                )
                cues = [cue for cue in self.binding.relation if cue in passage.stems]
                self.relations.update(dict.fromkeys(cues))
                if cues and passage.key not in self.supporting:
                    self.supporting.add(passage.key)
                    if self.has_lead(passage):
                        self.linked.add(passage.key)
                if cues and leading:
                    new_leads.update(self._leads_of(passage))
            self.leads.update({k: v for k, v in new_leads.items() if k not in self.leads})

    def _leads_of(self, passage: Shown) -> Iterator[tuple[str, str]]:
        """Names in the sentences of a passage that contain the bridge or the relation."""
        cues = frozenset(self.binding.bridge or self.binding.relation)
        for sentence in sentences(passage):
            if cues.isdisjoint(stems_of(sentence)):
                continue
            for name in names_in(sentence):
                if self._is_lead(name):
                    yield spaced(name), name

    def _is_lead(self, name: str) -> bool:
        """Whether a name is new: no part of it is in the question's names, and vice versa."""
        words = spaced(name)
        return (
            len(words) > 4
            and name[0].isalpha()
            and not any(
                says(words, entity) or says(spaced(entity), name)
                for entity in self.binding.entities
            )
            and not self._telling.issuperset(stems_of(name))
        )


def sentences(passage: Shown) -> list[str]:
    """The sentences of a passage's text."""
    return _SENTENCE.split(passage.text)

"""The adapter of SearchQA: reads the text of an episode and reports facts of each transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from trca.envs.adapter import Adapter
from trca.envs.searchqa.beliefs import Beliefs, Known
from trca.envs.searchqa.binding import SearchQABinding, bind, formats_of
from trca.envs.searchqa.context import context_key, memory_line
from trca.envs.searchqa.facts import SearchQAFacts
from trca.envs.searchqa.pages import REJECTED
from trca.envs.searchqa.reading import Action, read_action, read_passages, says, spaced


class SearchQAAdapter(Adapter):
    """Follows a SearchQA episode; reads the question, observations and actions only.

    Attributes:
        beliefs: The episode as observed so far.
    """

    facts_type: ClassVar[type[SearchQAFacts]] = SearchQAFacts
    binding_type: ClassVar[type[SearchQABinding]] = SearchQABinding
    binding: SearchQABinding
    facts: SearchQAFacts
    beliefs: Beliefs

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode. The first observation contains only the question."""
        self.binding = bind(instruction)
        self.facts = SearchQAFacts()
        self.beliefs = Beliefs(self.binding)

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> SearchQAFacts:
        """Reads one transition and returns its facts; see `Adapter.step`."""
        read = read_action(action)
        accepted = read.verb != "" and observation != REJECTED
        if not accepted:
            self.facts = SearchQAFacts(parsed=action.strip() != "", verb=read.verb)
        elif read.verb == "answer":
            self.facts = self._answer(read)
        else:
            self.facts = self._retrieve(read, observation)
        return self.facts

    @property
    def context(self) -> str:
        """Structural key s~ of the current state; see `trca.envs.searchqa.context`."""
        return context_key(self.beliefs)

    @property
    def memory(self) -> str:
        """The memory line; see `trca.envs.searchqa.context`."""
        return memory_line(self.beliefs)

    def _retrieve(self, action: Action, observation: str) -> SearchQAFacts:
        beliefs = self.beliefs
        query = spaced(action.argument) if action.verb == "search" else ""
        searched, leads = len(beliefs.queries), tuple(beliefs.leads)
        names, relations = set(beliefs.names), set(beliefs.relations)
        texts = {key: passage.shown.text for key, passage in beliefs.known.items()}
        read = set(beliefs.read)
        supporting = {key for key, passage in beliefs.known.items() if passage.supports}
        match = beliefs.best_match()
        beliefs.update(action, read_passages(observation))
        page = [beliefs.known[key] for key in beliefs.page]
        fresh = [p for key, p in zip(beliefs.page, page, strict=True) if key not in texts]
        longer = [k for k in beliefs.page if texts.get(k) != beliefs.known[k].shown.text]
        support = [p for k, p in beliefs.known.items() if p.supports and k not in supporting]
        opened = action.verb == "open" and not read.issuperset(beliefs.page)
        return SearchQAFacts(
            verb=action.verb,
            accepted=True,
            repeated=not longer,
            new_query=query != "" and len(beliefs.queries) > searched,
            query_names=tuple([n for n in self.binding.entities if says(query, n)]),
            query_leads=sum([lead in query for lead in leads]),
            found=len(page) if action.verb == "search" else 0,
            new_passages=len(fresh),
            new_names=tuple([name for name in beliefs.names if name not in names]),
            new_relations=tuple([cue for cue in beliefs.relations if cue not in relations]),
            new_match=max([beliefs.match(passage) for passage in fresh], default=0),
            known_match=match,
            new_support=len(support),
            new_links=sum([passage.linked for passage in support]),
            opened=opened,
            relevant=opened and any(map(beliefs.relevant, page)),
            searched=searched,
            support=len(supporting),
        )

    def _answer(self, action: Action) -> SearchQAFacts:
        beliefs, binding = self.beliefs, self.binding
        support: list[Known] = beliefs.support()
        beliefs.update(action, ())
        words = spaced(action.argument)
        return SearchQAFacts(
            verb="answer",
            accepted=True,
            searched=len(beliefs.queries),
            support=len(support),
            formats=formats_of(action.argument, binding.choices),
            shown=beliefs.stand_in(action.argument, beliefs.known.values()),
            supported=beliefs.stand_in(action.argument, support),
            echo=not binding.choices and words in map(spaced, binding.entities),
        )

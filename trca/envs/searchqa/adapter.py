"""The adapter of SearchQA (the paper's g_b): facts, context and memory line of an episode.

All of them come from the question, the agent's actions and the observations (Appendix A.4). There
is no field for score, aliases of the right answer, gold passages, unobserved text or the future.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trca.envs.adapter import Adapter, memory_line_of, quoted
from trca.envs.searchqa.beliefs import Beliefs
from trca.envs.searchqa.binding import AnswerFormat, SearchQABinding, bind, formats_of
from trca.envs.searchqa.pages import REJECTED
from trca.envs.searchqa.reading import Action, Verb, read_action, read_passages, says, spaced


@dataclass(frozen=True, slots=True)
class SearchQAFacts:
    """Facts of one transition.

    "Names" are the names in the question (`SearchQABinding.entities`). A passage is "relevant" if
    it contains a name, or has a lead in its title. A relevant passage "supports" the answer if it
    also contains a word of `SearchQABinding.relation`. A "lead" is a name outside the question,
    from a sentence of a supporting passage about the bridge (`SearchQABinding.bridge`, else the
    relation).

    Attributes:
        parsed: Whether the response contained a readable action.
        verb: The verb of the action.
        accepted: Whether the environment carried out the action.
        repeated: Whether a search or opening shows no new text.
        new_query: Whether the words of a search differ from all earlier searches.
        query_names: Names of the question in a search.
        query_leads: Number of leads in a search.
        found: Number of passages that a search lists.
        new_passages: Number of listed or opened passages shown for the first time.
        new_names: Names of the question that appear for the first time in a passage.
        new_relations: Words of the relation that appear for the first time in a relevant passage.
        new_match: Largest number of the question's content words in a passage shown for the first
            time.
        known_match: Largest number of the question's content words in a passage shown before.
        new_support: Number of passages that begin to support the answer.
        new_links: Number of these passages that are about a lead.
        opened: Whether a passage is read in full for the first time.
        relevant: Whether the opened passage is relevant.
        searched: Number of different searches before the transition.
        support: Number of supporting passages before the transition.
        formats: The formats that the submitted answer fits.
        shown: Whether the submitted answer occurs in a passage shown.
        supported: Whether the submitted answer occurs in a supporting passage.
        echo: Whether the submitted answer is a name of the question, for a question without
            choices.
    """

    parsed: bool = True
    verb: Verb = ""
    accepted: bool = False
    repeated: bool = False
    new_query: bool = False
    query_names: tuple[str, ...] = ()
    query_leads: int = 0
    found: int = 0
    new_passages: int = 0
    new_names: tuple[str, ...] = ()
    new_relations: tuple[str, ...] = ()
    new_match: int = 0
    known_match: int = 0
    new_support: int = 0
    new_links: int = 0
    opened: bool = False
    relevant: bool = False
    searched: int = 0
    support: int = 0
    formats: tuple[AnswerFormat, ...] = ()
    shown: bool = False
    supported: bool = False
    echo: bool = False


class SearchQAAdapter(Adapter):
    """Follows a SearchQA episode; see `Adapter`."""

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
        """Reads one transition and returns its facts."""
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
        """The key of the current state, such as ``search|listed|query 1/1+0|relation 1/2+0|open``.

        The fields are those of the paper's table of context information. The key is coarse on
        purpose, because a context group has few rollouts of one question.

        Fields:
            tool: Verb of the last accepted action; ``none`` before the first.
            retrieval: ``start``; ``nothing`` after a search without results; ``support`` if a
                result of the last search supports the answer; else ``listed``.
            query: Number of the question's names in the last query / number of names + 1 if the
                query contains a lead.
            evidence: Number of the relation's words seen in relevant passages / number of words +
                number of passages that support the answer through a lead.
            answer: ``open`` or ``submitted``.
        """
        binding, beliefs = self.binding, self.beliefs
        query = next(reversed(beliefs.queries), "")
        named = sum([says(query, name) for name in binding.entities])
        led = any(lead in query for lead in beliefs.leads)
        if not beliefs.queries:
            retrieval = "start"
        elif not beliefs.results:
            retrieval = "nothing"
        else:
            supported = not beliefs.supporting.isdisjoint(beliefs.results)
            retrieval = "support" if supported else "listed"
        return "|".join(
            (
                beliefs.tool or "none",
                retrieval,
                f"query {named}/{len(binding.entities)}+{led:d}",
                f"relation {len(beliefs.relations)}/{len(binding.relation)}+{len(beliefs.linked)}",
                "submitted" if beliefs.reply else "open",
            )
        )

    @property
    def memory(self) -> str:
        """One line for a reader without memory: past queries and the passages on the page.

        A title is left out if the text begins with it. Example: ``Searched Ada Balan; Ben Ek. [1]
        Ben Ek was born in Lum Hill. [2] ...``
        """
        beliefs = self.beliefs
        if beliefs.reply:
            return f"Answered {quoted(beliefs.reply)}."
        if not beliefs.queries:
            return "Nothing searched."
        parts = [f"Searched {'; '.join(map(quoted, beliefs.queries.values()))}."]
        for key in beliefs.page:
            number, title, text, *_ = beliefs.known[key]
            titled = title and not text.startswith(title)
            parts.append(f"[{number}] {title}: {text}" if titled else f"[{number}] {text}")
        return memory_line_of(parts if beliefs.page else [*parts, "Nothing found."])

    def _retrieve(self, action: Action, observation: str) -> SearchQAFacts:
        beliefs = self.beliefs
        query = spaced(action.argument) if action.verb == "search" else ""
        searched, leads = len(beliefs.queries), tuple(beliefs.leads)
        names, relations = set(beliefs.names), set(beliefs.relations)
        texts = {key: passage.text for key, passage in beliefs.known.items()}
        read, supporting = set(beliefs.read), set(beliefs.supporting)
        match = beliefs.best_match()
        beliefs.update(action, read_passages(observation))
        page = [beliefs.known[key] for key in beliefs.page]
        fresh = [p for key, p in zip(beliefs.page, page, strict=True) if key not in texts]
        longer = [k for k in beliefs.page if texts.get(k) != beliefs.known[k].text]
        support = beliefs.supporting - supporting
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
            new_links=len(beliefs.linked & support),
            opened=opened,
            relevant=opened and any(map(beliefs.relevant, page)),
            searched=searched,
            support=len(supporting),
        )

    def _answer(self, action: Action) -> SearchQAFacts:
        beliefs, binding = self.beliefs, self.binding
        beliefs.update(action, ())
        words = spaced(action.argument)
        return SearchQAFacts(
            verb="answer",
            accepted=True,
            searched=len(beliefs.queries),
            support=len(beliefs.supporting),
            formats=formats_of(action.argument, binding.choices),
            shown=any(says(p.words, action.argument) for p in beliefs.known.values()),
            supported=any(
                says(beliefs.known[k].words, action.argument) for k in beliefs.supporting
            ),
            echo=not binding.choices and words in map(spaced, binding.entities),
        )

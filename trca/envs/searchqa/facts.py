"""The facts of a SearchQA transition, as reported by the adapter g_b (Appendix A.4).

All facts come from the question, the agent's actions and the observations. There is no field for
score, aliases of the right answer, gold passages, unobserved text or the future.
"""

from __future__ import annotations

from dataclasses import dataclass

from trca.envs.searchqa.binding import AnswerFormat
from trca.envs.searchqa.reading import Verb


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

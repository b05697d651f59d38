"""The observable facts of a SearchQA transition: what the adapter g_b reports (Appendix A.4).

Everything here is read off the question, the agent's own action and the text it was shown. There is
no field for the score, an alias of the right answer, a gold passage, what was not shown, or the
future.
"""

from __future__ import annotations

from dataclasses import dataclass

from trca.envs.searchqa.actions import Verb
from trca.envs.searchqa.binding import AnswerFormat


@dataclass(frozen=True, slots=True)
class SearchQAFacts:
    """Facts of one transition.

    "Names" are those of the question (`SearchQABinding.entities`). A passage is "relevant" when it
    has one of them, or a lead in its title; it "supports" when it speaks of what is asked too, by a
    word of `SearchQABinding.relation`. A "lead" is a name that the question has not, from a
    sentence of a supporting passage that speaks of what leads on (`SearchQABinding.bridge`, else
    the relation).

    Attributes:
        parsed: Whether an action could be read from the response.
        verb: What the action asks for.
        accepted: Whether the action was carried out.
        repeated: Whether a search or opening shows nothing that was not shown before.
        new_query: Whether a search has other words than every search before.
        query_names: Names of the question in a search.
        query_leads: How many leads a search has.
        found: How many passages a search lists.
        new_passages: How many of them, or of the opened, are shown for the first time.
        new_names: Names of the question that appear for the first time in a passage.
        new_relations: Words of the relation that a relevant passage has for the first time.
        new_match: The most telling words of the question in a passage shown for the first time.
        known_match: The same of the passages shown before.
        new_support: How many passages come to support.
        new_links: How many of those are about a lead.
        opened: Whether a passage is read in full for the first time.
        relevant: Whether the passage opened is relevant.
        searched: How many different searches were made before.
        support: How many passages supported before.
        formats: The formats that the submitted answer has.
        shown: Whether it stands in a passage shown.
        supported: Whether it stands in a passage that supports.
        echo: Whether it is a name of the question, of which the question gives no choice.
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

"""A sensible next action from what an agent could have observed: the warm start's demonstrator."""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.searchqa.beliefs import Beliefs, Known, sentences
from trca.envs.searchqa.binding import formats_of
from trca.envs.searchqa.pages import CUT
from trca.envs.searchqa.proper_names import names_in
from trca.envs.searchqa.reading import says, spaced
from trca.envs.searchqa.relations import stems_of


def demonstrated_action(beliefs: Beliefs) -> str:
    """Looks the subject up, goes on to what it leads to, and answers with what is said there.

    A name is looked up by a search for it; a passage that goes on where its listing ends is opened
    when the listing does not tell. Copes with whatever was done before.

    Args:
        beliefs: The episode as observed so far.
    """
    binding = beliefs.binding
    if binding.answer_format in ("choice", "yes or no"):
        return _compare(beliefs)
    subject = binding.entity or " ".join(binding.relation) or "name"
    asked = [stem for stem in binding.relation if stem not in binding.bridge]
    if binding.bridge:
        action, subject = _find(beliefs, subject, binding.bridge, "name")
        if action:
            return action
    action, found = _find(beliefs, subject, asked, binding.answer_format)
    return action or f"answer[{found}]"


def _find(
    beliefs: Beliefs,
    subject: str,
    cues: Sequence[str],
    form: str,
) -> tuple[str, str]:
    """What is said of a subject, or an action that may bring it to light.

    Returns:
        The action, or blank, and what was found; the subject itself where nothing is left to try.
    """
    about = [p for p in beliefs.known.values() if spaced(p.shown.title) == spaced(subject)]
    if not about and spaced(subject) not in beliefs.queries:
        return f"search[{subject}]", ""
    about = about or [p for p in beliefs.known.values() if says(p.words, subject)]
    for passage in about:
        if found := _said(beliefs, passage, subject, frozenset(cues), form):
            return "", found
    for passage in about:
        if _can_open(beliefs, passage):
            return f"open[{beliefs.results.index(passage.shown.key) + 1}]", ""
    query = f"{subject} {' '.join(cues)}"
    if spaced(query) not in beliefs.queries:
        return f"search[{query}]", ""
    said = (_said(beliefs, passage, subject, frozenset(), form) for passage in about)
    return "", next(filter(None, said), subject)


def _can_open(beliefs: Beliefs, passage: Known) -> bool:
    """Whether the passage is a result of the last search that goes on where its listing ends."""
    return passage.shown.key in beliefs.results and passage.shown.text.endswith(CUT)


def _said(beliefs: Beliefs, passage: Known, subject: str, cues: frozenset[str], form: str) -> str:
    """What a passage says of a subject in answer to the cues, in a format; blank when nothing."""
    told = sentences(passage.shown)
    if form == "date":
        told = sorted(told, key=lambda sentence: cues.isdisjoint(stems_of(sentence)))
    else:
        told = [sentence for sentence in told if not cues.isdisjoint(stems_of(sentence))] or (
            [] if cues else told
        )
    for sentence in told:
        if sentence.endswith(CUT):
            continue
        own = (subject, passage.shown.title, *beliefs.binding.entities)
        names = [n for n in names_in(sentence) if not any(says(spaced(o), n) for o in own)]
        last = sentence.rstrip(". ").rpartition(" ")[2]
        for candidate in [*names[::-1], last]:
            if form in formats_of(candidate, ()):
                return candidate
    return ""


def _compare(beliefs: Beliefs) -> str:
    """Looks up each thing that is compared, then takes the first choice."""
    binding = beliefs.binding
    for name in (*binding.choices, *binding.entities)[:2]:
        if spaced(name) not in beliefs.queries:
            return f"search[{name}]"
    return f"answer[{binding.choices[0] if binding.choices else 'yes'}]"

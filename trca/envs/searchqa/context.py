"""The structural context key s~ and the memory line of SearchQA, both from observations.

The key has the fields of the paper's table of context information: tool type, retrieval stage,
query state, evidence stage and answer-submission stage. The key is coarse on purpose, because a
context group has few rollouts of one question.
"""

from __future__ import annotations

from trca.envs.adapter import memory_line_of, quoted
from trca.envs.searchqa.beliefs import Beliefs
from trca.envs.searchqa.reading import says


def context_key(beliefs: Beliefs) -> str:
    """The key of the current state, such as ``search|listed|query 1/1+0|relation 1/2+0|open``.

    Fields:
        tool: Verb of the last accepted action; ``none`` before the first.
        retrieval: ``start``; ``nothing`` after a search without results; ``support`` if a result of
            the last search supports the answer; else ``listed``.
        query: Number of the question's names in the last query / number of names + 1 if the query
            contains a lead.
        evidence: Number of the relation's words seen in relevant passages / number of words +
            number of passages that support the answer through a lead.
        answer: ``open`` or ``submitted``.
    """
    binding = beliefs.binding
    query = next(reversed(beliefs.queries), "")
    named = sum([says(query, name) for name in binding.entities])
    led = any(lead in query for lead in beliefs.leads)
    links = sum([passage.linked for passage in beliefs.known.values()])
    return "|".join(
        (
            beliefs.tool or "none",
            _retrieval(beliefs),
            f"query {named}/{len(binding.entities)}+{led:d}",
            f"relation {len(beliefs.relations)}/{len(binding.relation)}+{links}",
            "submitted" if beliefs.reply else "open",
        )
    )


def memory_line(beliefs: Beliefs) -> str:
    """One line for a reader without memory: past queries and the passages on the page.

    A title is left out if the text begins with it. Example: ``Searched Ada Balan; Ben Ek. [1] Ben
    Ek was born in Lum Hill. [2] ...``
    """
    if beliefs.reply:
        return f"Answered {quoted(beliefs.reply)}."
    if not beliefs.queries:
        return "Nothing searched."
    parts = [f"Searched {'; '.join(map(quoted, beliefs.queries.values()))}."]
    for key in beliefs.page:
        number, title, text = beliefs.known[key].shown
        titled = title and not text.startswith(title)
        parts.append(f"[{number}] {title}: {text}" if titled else f"[{number}] {text}")
    return memory_line_of(parts if beliefs.page else [*parts, "Nothing found."])


def _retrieval(beliefs: Beliefs) -> str:
    if not beliefs.queries:
        return "start"
    if not beliefs.results:
        return "nothing"
    supported = any(beliefs.known[key].supports for key in beliefs.results)
    return "support" if supported else "listed"

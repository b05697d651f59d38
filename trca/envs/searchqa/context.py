"""The structural context key s~ and the memory line of SearchQA, both from what was observed.

The key has the fields of the paper's table of context information: tool type, retrieval stage,
query state, evidence stage, answer-submission stage. It is coarse on purpose: contexts are compared
among the few rollouts of one question.
"""

from __future__ import annotations

from trca.envs.memory import memory_line_of, quoted
from trca.envs.searchqa.beliefs import Beliefs
from trca.envs.searchqa.reading import says


def context_key(beliefs: Beliefs) -> str:
    """The key of the present state, such as ``search|listed|query 1/1+0|relation 1/2+0|open``.

    Fields:
        tool: The last action carried out, ``none`` before one.
        retrieval: ``start``; ``nothing`` when the last search found nothing; ``listed`` when none
            of what it found supports; else ``support``.
        query: How many names of the question the last query has, of how many, and whether a lead.
        evidence: How many words of the relation were seen with what is known, of how many, and how
            many passages support about a lead.
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
    """What a reader without memory would need, in one line: queries, and what is shown now.

    A title is left out where the text begins with it. For example ``Searched Ada Balan; Ben Ek. [1]
    Ben Ek was born in Lum Hill. [2] ...``.
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

"""The players of SearchQA: an oracle that reads the gold passages, a demonstrator that does not."""

from __future__ import annotations

from collections.abc import Sequence

from trca.envs.searchqa.beliefs import Beliefs, sentences
from trca.envs.searchqa.binding import formats_of
from trca.envs.searchqa.english import names_in, stems_of
from trca.envs.searchqa.pages import CUT
from trca.envs.searchqa.reading import Shown, says, spaced
from trca.envs.searchqa.simulator import Simulator
from trca.envs.text_env import OracleError


def oracle_action(simulator: Simulator, beliefs: Beliefs) -> str:
    """The next action towards the right answer, from any state before an answer.

    The plan searches for the titles of the first and the last gold passage, or for the question
    without gold titles. The plan opens the last passage if the list of results cuts it before the
    answer, and then submits the first alias. It takes at most four steps and always wins.
    """
    if simulator.done:
        raise OracleError("no plan after an answer: reset the environment")
    question = simulator.question
    titles = question.gold_titles or (question.text,)
    titles_found = {passage.title for passage in simulator.found.values()}
    for title in dict.fromkeys((titles[0], titles[-1])):
        if title not in titles_found and spaced(title) not in beliefs.queries:
            return f"search[{title}]"
    shown = [passage.words for passage in beliefs.known.values()]
    if not any(says(words, answer) for words in shown for answer in question.answers):
        for number, key in enumerate(beliefs.results, 1):
            passage = beliefs.known[key]
            if passage.text.endswith(CUT) and simulator.results[number - 1].title == titles[-1]:
                return f"open[{number}]"
    return f"answer[{question.answers[0]}]"


def demonstrated_action(beliefs: Beliefs) -> str:
    """Looks up the subject, follows the bridge, and answers from the last passage.

    A passage that is cut in the list of results is opened if the visible part has no answer. Works
    after any sequence of actions.
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
    action, value = _find(beliefs, subject, asked, binding.answer_format)
    return action or f"answer[{value}]"


def _find(beliefs: Beliefs, subject: str, cues: Sequence[str], form: str) -> tuple[str, str]:
    """An action that may reveal a value of a subject, or else an empty action and the value.

    The value is the subject if there is nothing left to try.
    """
    about = [p for p in beliefs.known.values() if spaced(p.title) == spaced(subject)]
    if not about and spaced(subject) not in beliefs.queries:
        return f"search[{subject}]", ""
    about = about or [p for p in beliefs.known.values() if says(p.words, subject)]
    for passage in about:
        if value := _value_in(beliefs, passage, subject, frozenset(cues), form):
            return "", value
    for passage in about:
        if passage.key in beliefs.results and passage.text.endswith(CUT):
            return f"open[{beliefs.results.index(passage.key) + 1}]", ""
    query = f"{subject} {' '.join(cues)}"
    if spaced(query) not in beliefs.queries:
        return f"search[{query}]", ""
    values = (_value_in(beliefs, passage, subject, frozenset(), form) for passage in about)
    return "", next(filter(None, values), subject)


def _value_in(
    beliefs: Beliefs, passage: Shown, subject: str, cues: frozenset[str], form: str
) -> str:
    """The answer to the cues in a passage about a subject, in a format; empty without answer."""
    candidate_sentences = sentences(passage)
    if form == "date":
        candidate_sentences = sorted(
            candidate_sentences, key=lambda sentence: cues.isdisjoint(stems_of(sentence))
        )
    else:
        candidate_sentences = [
            sentence for sentence in candidate_sentences if not cues.isdisjoint(stems_of(sentence))
        ] or ([] if cues else candidate_sentences)
    for sentence in candidate_sentences:
        if sentence.endswith(CUT):
            continue
        excluded_names = (subject, passage.title, *beliefs.binding.entities)
        names = [
            n for n in names_in(sentence) if not any(says(spaced(o), n) for o in excluded_names)
        ]
        last = sentence.rstrip(". ").rpartition(" ")[2]
        for candidate in [*names[::-1], last]:
            if form in formats_of(candidate, ()):
                return candidate
    return ""


def _compare(beliefs: Beliefs) -> str:
    """Looks up each of the compared names, then answers with the first choice."""
    binding = beliefs.binding
    for name in (*binding.choices, *binding.entities)[:2]:
        if spaced(name) not in beliefs.queries:
            return f"search[{name}]"
    return f"answer[{binding.choices[0] if binding.choices else 'yes'}]"

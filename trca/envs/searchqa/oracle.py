"""The omniscient player: knows the gold passages and walks a short way to the right answer."""

from __future__ import annotations

from trca.envs.searchqa.beliefs import Beliefs
from trca.envs.searchqa.pages import CUT
from trca.envs.searchqa.reading import says, spaced
from trca.envs.searchqa.simulator import Simulator


class OracleError(RuntimeError):
    """The oracle knows no way to success from here."""


def oracle_action(simulator: Simulator, beliefs: Beliefs) -> str:
    """The next action towards the right answer, from anywhere, by way of what supports it.

    It searches for the first and the last gold passage by their titles, or for the question where
    these are not known, opens the last one when its listing ends before the answer, and submits
    the first alias. That takes four steps at most, and wins whatever the search finds.

    Args:
        simulator: The simulator; its question has the gold passages and the answers.
        beliefs: What was shown so far.

    Raises:
        OracleError: When an answer was submitted already.
    """
    if simulator.done:
        raise OracleError("no way to success is known after an answer")
    question = simulator.question
    titles = question.gold_titles or (question.text,)
    found = {passage.title for passage in simulator.found.values()}
    for title in dict.fromkeys((titles[0], titles[-1])):
        if title not in found and spaced(title) not in beliefs.queries:
            return f"search[{title}]"
    shown = [passage.words for passage in beliefs.known.values()]
    if not any(says(words, answer) for words in shown for answer in question.answers):
        for number, key in enumerate(beliefs.results, 1):
            passage = beliefs.known[key].shown
            if passage.text.endswith(CUT) and simulator.results[number - 1].title == titles[-1]:
                return f"open[{number}]"
    return f"answer[{question.answers[0]}]"

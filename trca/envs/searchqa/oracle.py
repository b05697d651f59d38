"""The oracle of SearchQA: reads the gold passages and plans a short way to the right answer."""

from __future__ import annotations

from trca.envs.searchqa.beliefs import Beliefs
from trca.envs.searchqa.pages import CUT
from trca.envs.searchqa.reading import says, spaced
from trca.envs.searchqa.simulator import Simulator


class OracleError(RuntimeError):
    """The oracle has no plan from the current state."""


def oracle_action(simulator: Simulator, beliefs: Beliefs) -> str:
    """The next action towards the right answer, from any state before an answer.

    The plan searches for the titles of the first and the last gold passage, or for the question
    without gold titles. The plan opens the last passage if the list of results cuts it before the
    answer, and then submits the first alias. It takes at most four steps and always wins.

    Raises:
        OracleError: After an answer.
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
            passage = beliefs.known[key].shown
            if passage.text.endswith(CUT) and simulator.results[number - 1].title == titles[-1]:
                return f"open[{number}]"
    return f"answer[{question.answers[0]}]"

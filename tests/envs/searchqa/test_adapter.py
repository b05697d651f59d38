"""SearchQA's adapter on real text: facts of each transition, no hidden state."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.annotate import load_judge
from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.passages import Passage
from trca.envs.searchqa.adapter import SearchQAAdapter
from trca.envs.searchqa.data.questions import Question
from trca.envs.searchqa.reading import offered_actions
from trca.envs.searchqa.simulator import Simulator

QUESTION = "Where was the teacher of Ada Balan born?"
PASSAGES = (
    Passage("a", '"Ada Balan"\nAda Balan was taught by Ben Ek. She works as a judge in Pira Bay.'),
    Passage("b", '"Ben Ek"\nBen Ek came to Pira Bay as a boy. He was born in Lum Hill in 1820.'),
    Passage("c", '"The Red Bell"\nThe Red Bell was written by Ada Balan. It is a comedy.'),
    Passage("d", '"Lum Hill"\nLum Hill lies next to Pira Bay. It is known for its salt.'),
)
ASKED = Question("q", "made", "test", QUESTION, ("Lum Hill",), "two-hop", ("a", "b"))


RETRIEVER = BM25Retriever.of(PASSAGES)


class Reader:
    """Plays a simulator and feeds an adapter."""

    def __init__(self, question=ASKED, retriever=RETRIEVER):
        self.simulator = Simulator(retriever, top_k=2, max_passage_chars=40)
        self.adapter = SearchQAAdapter()
        self.judge = load_judge("searchqa", SearchQAAdapter)
        self.adapter.reset(question.text, self.simulator.reset(question), offered_actions(0))

    def __call__(self, action):
        observation = self.simulator.step(action)
        return self.adapter.step(action, observation, offered_actions(len(self.simulator.results)))

    def fired(self, action):
        judgments = self.judge.judge(self.adapter.binding, self(action))
        return {name for name, flag in zip(self.judge.library.ids, judgments, strict=True) if flag}


@pytest.fixture
def reader():
    return Reader()


def test_a_search_finds_the_subject_and_what_leads_on(reader):
    facts = reader("search[Ada Balan]")
    assert (facts.verb, facts.accepted, facts.new_query) == ("search", True, True)
    assert facts.query_names == facts.new_names == ("Ada Balan",)
    assert (facts.found, facts.new_passages) == (2, 2)
    assert facts.new_relations == ("teacher",)
    assert (facts.new_match, facts.known_match) == (3, 0)
    assert (facts.new_support, facts.new_links) == (1, 0)
    assert list(reader.adapter.beliefs.leads.values()) == ["Ben Ek"]


def test_a_lead_is_followed_to_what_is_asked(reader):
    reader("search[Ada Balan]")
    listed = reader("search[Ben Ek]")
    assert (listed.query_leads, listed.query_names, listed.searched) == (1, (), 1)
    assert (listed.new_support, listed.new_links) == (0, 0)
    read = reader("open[1]")
    assert (read.opened, read.relevant, read.repeated) == (True, True, False)
    assert read.new_relations == ("born",)
    assert (read.new_support, read.new_links) == (1, 1)


def test_what_was_shown_before_is_a_repetition(reader):
    reader("search[Ada Balan]")
    again = reader("search[ADA  balan!]")
    assert again.repeated
    assert not again.new_query
    other = reader("search[Balan Ada]")
    assert other.repeated
    assert other.new_query
    assert not reader("open[1]").repeated
    second = reader("open[1]")
    assert second.repeated
    assert not second.opened


@pytest.mark.parametrize(
    ("answer", "formats", "shown", "supported", "echo"),
    [
        ("Lum Hill", {"name"}, True, True, False),
        ("the Red Bell", {"name"}, True, False, False),
        ("ada balan", {"name"}, True, True, True),
        ("1820", {"date", "number"}, True, True, False),
        ("Oslo", {"name"}, False, False, False),
        ("Hill Lum", {"name"}, False, False, False),
        ("!", set(), False, False, False),
    ],
)
def test_an_answer_is_held_against_what_was_shown(reader, answer, formats, shown, supported, echo):
    for action in ("search[Ada Balan]", "search[Ben Ek]", "open[1]"):
        reader(action)
    facts = reader(f"answer[{answer}]")
    assert set(facts.formats) == formats
    assert (facts.shown, facts.supported, facts.echo) == (shown, supported, echo)
    assert (facts.searched, facts.support) == (2, 2)


@pytest.mark.parametrize(
    ("action", "verb"),
    [("", ""), (" ", ""), ("find Ada", ""), ("search[ ]", "search"), ("open[3]", "open")],
)
def test_what_is_not_carried_out_changes_nothing(reader, action, verb):
    reader("search[Ada Balan]")
    before = reader.adapter.context, reader.adapter.memory
    facts = reader(action)
    assert (facts.verb, facts.accepted) == (verb, False)
    assert facts.parsed == bool(action.strip())
    assert (reader.adapter.context, reader.adapter.memory) == before


def test_a_search_that_finds_nothing_is_seen_as_such(reader):
    facts = reader("search[xyzzy]")
    assert facts.accepted
    assert facts.found == 0
    assert reader.adapter.memory == "Searched xyzzy. Nothing found."


def test_the_context_names_tool_retrieval_query_evidence_and_answer(reader):
    contexts = [reader.adapter.context]
    for action in (
        "search[xyzzy]",
        "search[Ada Balan]",
        "search[Ben Ek]",
        "open[1]",
        "answer[Lum Hill]",
    ):
        reader(action)
        contexts.append(reader.adapter.context)
    assert contexts == [
        "none|start|query 0/1+0|relation 0/2+0|open",
        "search|nothing|query 0/1+0|relation 0/2+0|open",
        "search|support|query 1/1+0|relation 1/2+0|open",
        "search|support|query 0/1+1|relation 1/2+0|open",
        "open|support|query 0/1+1|relation 2/2+1|open",
        "answer|support|query 0/1+1|relation 2/2+1|submitted",
    ]


def test_the_memory_is_one_line_of_queries_and_of_what_is_shown(reader):
    assert reader.adapter.memory == "Nothing searched."
    reader("search[Ada Balan]")
    assert reader.adapter.memory == (
        "Searched Ada Balan. [1] Ada Balan was taught by Ben Ek. She…"
        " [2] The Red Bell was written by Ada Balan.…"
    )
    reader("open[1]")
    assert reader.adapter.memory == (
        "Searched Ada Balan. [1] Ada Balan was taught by Ben Ek. She works as a judge in Pira Bay."
    )
    reader("answer[Pira Bay]")
    assert reader.adapter.memory == "Answered Pira Bay."


@pytest.mark.parametrize(
    "hidden",
    [
        {"answers": ("Pira Bay", "1820")},
        {"gold_ids": ("c", "d"), "gold_titles": ("Lum Hill",)},
        {"kind": "where", "dataset": "nq", "id": "z"},
    ],
)
def test_questions_that_differ_only_in_what_is_hidden_are_judged_alike(hidden):
    """Different answers and gold passages change the scores only."""
    rng = np.random.default_rng(0)
    scores = set()
    for _ in range(12):
        one, other = Reader(), Reader(dataclasses.replace(ASKED, **hidden))
        for _ in range(6):
            actions = ["search[Ada Balan]", "search[Ben Ek]", "open[1]", "open[2]", ""]
            actions += ["answer[Lum Hill]", "answer[1820]", "search[Pira Bay]"]
            action = actions[int(rng.integers(len(actions)))]
            assert one(action) == other(action)
            assert one.adapter.context == other.adapter.context
            assert one.adapter.memory == other.adapter.memory
            scores.add((one.simulator.score, other.simulator.score))
            if one.simulator.done:
                break
    assert any(a != b for a, b in scores) == ("answers" in hidden)


@given(st.lists(st.one_of(st.text(), st.text("[]serchopnadw 1A.:…\n")), max_size=5))
@settings(max_examples=25, deadline=None)
def test_any_actions_are_judged(actions):
    reader = Reader(dataclasses.replace(ASKED, text=actions[0] if actions else QUESTION))
    for text in actions:
        for action in (text, f"search[{text}]", f"open[{text}]", f"answer[{text}]"):
            reader.simulator.done = False
            reader.fired(action)
    assert not reader.judge.errors


def test_passages_of_any_kind_are_read():
    texts = ['"A: B"\nC: D.', "no title", '""\n', '"X"\n' + "y " * 20_000, '"[1]"\n[2] Z: q']
    passages = [Passage(str(number), f"{text} Ada") for number, text in enumerate(texts)]
    reader = Reader(retriever=BM25Retriever.of(passages))
    for action in ("search[Ada]", "open[1]", "open[2]", "search[y]", "open[1]", "search[q z]"):
        reader.fired(action)
        assert "\n" not in reader.adapter.memory
    assert not reader.judge.errors

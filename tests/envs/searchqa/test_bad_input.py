"""Every input gets an answer, and the environment stays unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.retrieval.passages import Passage
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.data.generate import generated
from trca.envs.searchqa.pages import NOTHING_FOUND, REJECTED
from trca.envs.searchqa.reading import VERBS, read_action
from trca.envs.searchqa.simulator import LONGEST_QUERY, Simulator

WORLD = generated(60)
LONG = 100_000


@pytest.fixture(scope="module")
def simulator():
    simulator = Simulator(open_search("bm25", count=60), max_passage_chars=100)
    generated.cache_clear()
    yield simulator
    assert generated(60) == WORLD


@st.composite
def actions(draw):
    """Random bytes as text, with and without the brackets of an action."""
    text = draw(st.binary(max_size=40)).decode("latin-1")
    if draw(st.booleans()):
        text = text.encode("latin-1").decode("utf-8", "surrogateescape")
    form = draw(
        st.sampled_from(
            ["{}", "search[{}]", "open[{}]", "{}[{}]", "search[{}", "OPEN [{}] ", "[{}]"]
        )
    )
    return form.replace("{}", text)


@given(st.binary(max_size=2000), st.lists(actions(), min_size=10, max_size=10), st.integers(0, 89))
@settings(max_examples=150)
def test_thousands_of_random_actions_are_answered(simulator, noise, tried, number):
    """Ten valid and ten random actions, a hundred and fifty times."""
    size = len(noise) // 10
    cut = [noise[place * size : (place + 1) * size].decode("latin-1") for place in range(10)]
    simulator.reset(WORLD.questions[number])
    simulator.step(f"search[{WORLD.questions[number].gold_titles[0]}]")
    for action in (*tried, *cut):
        results = simulator.results
        observation = simulator.step(action)
        observation.encode()
        assert simulator.accepted != (observation == REJECTED)
        if not simulator.accepted:
            assert simulator.results == results
        if simulator.done:
            assert read_action(action).verb == "answer"
            break


@pytest.mark.parametrize(
    "query",
    [
        "Ada Balan " * (LONG // 10),
        "m" * LONG,
        " ".join(f"word{number}" for number in range(LONG // 8)),
        "\x00" * LONG,
        "é✓" * (LONG // 2),
        "[" * LONG,
        "\ud800" * LONG,
    ],
)
def test_a_query_of_a_hundred_kilobytes_is_answered(simulator, query):
    simulator.reset(WORLD.questions[0])
    observation = simulator.step(f"search[{query}]")
    assert simulator.accepted
    assert observation == NOTHING_FOUND or observation.startswith("[1] ")
    assert len(observation) < 1_000


def test_a_retriever_never_sees_a_query_that_it_might_choke_on():
    class Recording:
        def search(self, queries, limit):
            self.queries = queries
            return [[] for _ in queries]

        def close(self):
            pass

    retriever = Recording()
    simulator = Simulator(retriever)
    simulator.reset(WORLD.questions[0])
    simulator.step("search[" + "x\ud800 \n\t" * LONG + "]")
    [query] = retriever.queries
    assert len(query) == LONGEST_QUERY
    assert query.startswith("x? x?")
    query.encode()


@pytest.mark.parametrize(
    "action", ["[" * LONG, "]" * LONG, "search" * LONG, "open[" * LONG + "]", " " * LONG + "["]
)
def test_brackets_without_end_are_no_action(simulator, action):
    simulator.reset(WORLD.questions[0])
    assert simulator.step(action) == REJECTED


@pytest.mark.parametrize(
    "number", ["0", "4", "-1", "1.0", "1e0", "²", "１", "٣", "", "9" * LONG, "a"]
)
def test_only_listed_results_can_be_opened(simulator, number):
    simulator.reset(WORLD.questions[0])
    assert simulator.step(f"open[{number or 1}]") == REJECTED
    simulator.step("search[Ada Balan]")
    assert simulator.step(f"open[{number}]") == REJECTED
    assert simulator.step("open[1]").startswith("[1] ")
    assert simulator.step("open[ 003 ]").startswith("[3] ")


@pytest.mark.parametrize("action", ["search[]", "search[ \n]", "answer[]", "answer[\t ]", "answer"])
def test_blank_searches_and_answers_are_none(simulator, action):
    simulator.reset(WORLD.questions[0])
    assert simulator.step(action) == REJECTED
    assert not simulator.done


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("form", ["{}[x y]", " {} [ x  y ]\n", "{}[x\ny]"])
def test_case_and_space_around_a_verb_do_not_matter(verb, form):
    assert read_action(form.format(verb.upper())) == (verb, "x y")


class Odd:
    """Returns passages without title, with many lines, and more passages than the limit."""

    def search(self, queries, limit):
        passages = [
            Passage("", "no title at all"),
            Passage("", '"Ti\ttle"\nline one\n[9] Fake: line two'),
            Passage("", '""\n'),
            Passage("", "x" * 10**6),
        ]
        return [passages for _ in queries]

    def close(self):
        pass


def test_odd_passages_stay_on_their_lines():
    simulator = Simulator(Odd(), top_k=3, max_passage_chars=12)
    simulator.reset(WORLD.questions[0])
    listed = simulator.step("search[x]").split("\n")
    assert listed == ["[1] no title at…", "[2] Ti tle: line one [9]…", "[3] "]
    assert simulator.step("open[2]") == "[2] Ti tle: line one [9] Fake: line two"
    assert simulator.step("open[4]") == REJECTED


def test_a_long_passage_is_cut_in_the_list_and_whole_when_opened():
    simulator = Simulator(Odd(), top_k=4, max_passage_chars=50)
    simulator.reset(WORLD.questions[0])
    assert simulator.step("search[x]").split("\n")[3] == f"[4] {'x' * 50}…"
    assert simulator.step("open[4]") == f"[4] {'x' * 10**6}"

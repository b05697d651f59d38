"""Every input gets an answer, and the catalogue stays unchanged."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.webshop.catalogues import catalogue_of, generated
from trca.envs.webshop.data.products import encode
from trca.envs.webshop.simulator import Simulator
from trca.envs.webshop.tasks import make_goals


@pytest.fixture(scope="module")
def catalogue():
    return catalogue_of(*generated(60))


def digest(catalogue):
    sha = hashlib.sha256()
    for position in range(len(catalogue)):
        product = catalogue[position]
        sha.update(encode(product) + repr(product.price).encode())
    return sha.hexdigest(), catalogue.hash


@pytest.fixture(scope="module", params=["clean", "original"])
def simulator(request, catalogue):
    goals = make_goals(catalogue)
    simulator = Simulator(catalogue, goals, "text_rich", request.param)
    before = digest(catalogue)
    yield simulator
    assert digest(catalogue) == before
    assert make_goals.__wrapped__(catalogue) == goals


@st.composite
def actions(draw):
    """Random bytes as text, with and without the brackets of an action."""
    text = draw(st.binary(max_size=40)).decode("latin-1")
    if draw(st.booleans()):
        text = text.encode("latin-1").decode("utf-8", "surrogateescape")
    form = draw(st.sampled_from(["{}", "search[{}]", "click[{}]", "click[{}", "{}[{}]", "[{}]"]))
    return form.replace("{}", text)


@given(st.lists(actions(), min_size=20, max_size=20), st.integers(0, 19))
@settings(max_examples=80)
def test_thousands_of_random_actions_are_answered(simulator, tried, goal):
    simulator.reset(goal)
    simulator.step("search[mug]")
    if simulator.clickables[2:]:
        simulator.step(f"click[{simulator.clickables[2]}]")
    for action in tried:
        before, page = simulator.observation, simulator.page
        observation, reward, done = simulator.step(action)
        assert isinstance(observation, str)
        assert 0.0 <= reward <= 1.0
        assert not done
        if not simulator.accepted:
            assert (observation, simulator.page) == (before, page)


LONG = 100_000


@pytest.mark.parametrize(
    "query",
    [
        "mug " * (LONG // 4),
        "m" * LONG,
        " ".join(f"word{number}" for number in range(LONG // 8)),
        "\x00" * LONG,
        "é✓" * (LONG // 2),
    ],
)
def test_a_query_of_a_hundred_kilobytes_is_answered(simulator, query):
    simulator.reset(0)
    observation, _, done = simulator.step(f"search[{query}]")
    assert not done
    assert len(observation) < 10_000
    simulator.step("click[next >]")
    assert simulator.page in ("results", "search")


@pytest.mark.parametrize("action", ["[" * LONG, "]" * LONG, "[" * LONG + "]", "a[" * LONG + "\n]"])
def test_brackets_without_end_take_no_time(simulator, action):
    first = simulator.reset(0)
    assert simulator.step(action) == (first, 0.0, False)


@pytest.mark.parametrize("page", ["-1", "0", "999999", "< prev", "page -1", "next >"])
def test_there_is_no_page_before_the_first(simulator, page):
    simulator.reset(0)
    first = simulator.step("search[blue]")[0]
    for action in (f"click[{page}]", f"click[page {page}]", f"next[{page}]"):
        if page != "next >":
            assert simulator.step(action)[0] == first
    assert simulator.number >= 1

"""The memory line is short, and an agent's texts use no lasting process memory."""

import gc
import tracemalloc

import gymnasium
import numpy as np
import pytest

import trca.envs  # noqa: F401 (registers the environments)
from trca.envs.adapter import LONGEST_LINE

LINES = "two\nlines\u2028or\x1ethree\x85"


@pytest.fixture(scope="module", params=["trca/ALFWorld-v0", "trca/WebShop-v0", "trca/SearchQA-v0"])
def env(request):
    return gymnasium.make(request.param)


@pytest.mark.parametrize("words", [LINES, "mug " * 50_000, "x" * 10**6])
@pytest.mark.parametrize("form", ["search[{}]", "answer[{}]", "{}"])
def test_memory_is_one_short_line_whatever_is_written(env, words, form):
    env.reset(seed=0)
    *_, info = env.step(form.format(words))
    assert len(info["memory"].splitlines()) == 1
    assert len(info["memory"]) <= LONGEST_LINE


def test_what_an_agent_writes_is_not_kept(env):
    """An episode of three texts of over 20 kB leaves less than 10 kB of memory.

    Only bounded caches of short words grow, and a table of words sometimes doubles its places:
    hence the smaller growth of two counts.
    """

    def write(numbers):
        for number in numbers:
            env.reset(seed=0)
            for form in ("search[{}]", "{}", "click[{}]"):
                env.step(form.format(f"w{number} " * 100 + f"x{number}" * 10_000))
        env.reset(seed=0)
        gc.collect()

    write(range(15))
    tracemalloc.start()
    write(range(15, 17))
    sizes = [tracemalloc.get_traced_memory()[0]]
    for first in (17, 32):
        write(range(first, first + 15))
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert min(np.diff(sizes)) < 15 * 10_000

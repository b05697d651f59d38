"""The searches of a turn reach a retriever as one batch; results stay unchanged."""

import asyncio
import threading

import pytest
from fastapi import FastAPI

from tests.envs.retrieval.servers import http, replying, serving
from trca.algorithms.rollouts.env_pool import EnvPool
from trca.common.threads import run_to_end
from trca.envs import make
from trca.envs.retrieval.retriever import RetrievalError
from trca.envs.retrieval.wire import reply_body
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.tasks import generated_size


class Served:
    """A server over the generated passages that records the queries of every request."""

    def __init__(self, together=1):
        self.requests = []
        self.app = FastAPI()
        self.app.post("/retrieve")(self.retrieve)
        self._retriever = open_search("bm25", count=generated_size("small"))
        self._gate = threading.Barrier(together)

    def retrieve(self, body: dict):
        self._gate.wait(300)  # until this number of requests has arrived
        queries = body["queries"] if "queries" in body else [body["query"]]
        self.requests.append(queries)
        shape = "batch" if "queries" in body else "single"
        return reply_body(self._retriever.search(queries, body["topk"]), shape, with_scores=True)


def started(url, count, shape="batch"):
    retriever = {"name": "http", "urls": url, "shape": shape, "attempts": 1}
    envs = [SearchQAEnv(retriever=retriever) for _ in range(count)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    return envs


def searches(envs, word):
    """One search per environment for a word of its question."""
    return [f"search[{env._simulator.question.text.split()[word]}]" for env in envs]


def shown(envs, actions):
    """Observation, results and scores of each environment."""
    steps = [env.step(action)[:4] for env, action in zip(envs, actions, strict=True)]
    return steps, [env._simulator.results for env in envs]


def test_two_turns_of_32_environments_are_two_requests_and_find_what_single_searches_find():
    served = Served()
    with serving(served.app) as url:
        envs = started(f"{url}/retrieve", 32)
        together = []
        for word in (-1, 1):
            actions = searches(envs, word)
            SearchQAEnv.prefetch(list(zip(envs, actions, strict=True)))
            together.append(shown(envs, actions))
        assert len(served.requests) == 2
        envs = started(f"{url}/retrieve", 32)
        assert [shown(envs, searches(envs, word)) for word in (-1, 1)] == together
        assert len(served.requests) == 2 + 64
    assert any(results for _, passages in together for results in passages)


def test_a_server_of_single_queries_is_asked_all_at_once():
    served = Served(together=8)
    with serving(served.app) as url:
        envs = started(f"{url}/retrieve", 8, "single")
        actions = [f"search[Ada {number}]" for number in range(8)]
        SearchQAEnv.prefetch(list(zip(envs, actions, strict=True)))
        shown(envs, actions)
        assert sorted(served.requests) == [[f"Ada {number}"] for number in range(8)]


def test_only_searches_are_sent_and_only_for_the_step_they_were_made_for():
    served = Served()
    with serving(served.app) as url:
        first, second = started(f"{url}/retrieve", 2)
        SearchQAEnv.prefetch([(first, "answer[Ada]"), (second, "open[1]"), (first, "search[ ]")])
        assert served.requests == []
        SearchQAEnv.prefetch([(first, "search[Ada]"), (second, " SEARCH[ Ada ]")])
        assert served.requests == [["Ada"]]
        second.step("search[Ben]")
        first.step("search[Ada]")
        first.step("search[Ada]")
        assert served.requests == [["Ada"], ["Ben"], ["Ada"]]
        SearchQAEnv.prefetch([(first, "search[Eve]")])
        first.reset(seed=0)
        first.step("answer[Eve]")
        SearchQAEnv.prefetch([(first, "search[Eve]")])
        assert served.requests[3:] == [["Eve"]]


def test_a_step_raises_its_own_error_after_a_prefetch_that_failed():
    good = '{"result": [[{"document": {"id": "7", "contents": "\\"Ada\\"\\nAda was born."}}]]}'
    down = http("down", "503 Service Unavailable")
    with replying(down, down, http(good)) as (url, requests):
        [env] = started(url, 1)
        SearchQAEnv.prefetch([(env, "search[Ada]")])
        assert len(requests) == 1
        with pytest.raises(RetrievalError, match="503"):
            env.step("search[Ada]")
        assert env.step("search[Ada]")[0] == "[1] Ada: Ada was born."
        assert len(requests) == 3


def test_environments_that_search_over_a_network_step_while_others_do():
    served = Served(together=2)
    with serving(served.app) as url:
        envs = started(f"{url}/retrieve", 2)
        pool = EnvPool(lambda split: envs.pop())

        async def steps():
            first, second = await pool.take("train"), await pool.take("train")
            searching = asyncio.create_task(pool.step(first, "search[Ada]"))
            await asyncio.sleep(0.1)
            return await pool.step(second, "search[Ben]"), await searching

        # The server replies after both requests have arrived.
        assert all(step[4]["accepted"] for step in run_to_end(steps()))
        assert sorted(served.requests) == [["Ada"], ["Ben"]]
        run_to_end(pool.close())
    assert not SearchQAEnv().waits


def test_an_action_with_control_characters_is_not_prefetched():
    served = Served()
    with serving(served.app) as url:
        retriever = {"name": "http", "urls": f"{url}/retrieve", "attempts": 1}
        pool = EnvPool(lambda split: make("searchqa", split=split, retriever=retriever))

        async def turn():
            envs = [await pool.take("train") for _ in range(2)]
            for seed, env in enumerate(envs):
                await pool.reset(env, seed, {})
            actions = ("search[Ada\0\x1b]", "search[Ada Balan]")
            await asyncio.gather(*map(pool.step, envs, actions))

        run_to_end(turn())
        assert served.requests == [["Ada Balan"]]
        run_to_end(pool.close())

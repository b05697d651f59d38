"""Training on SearchQA continues while its retrieval server dies, restarts or sends nonsense."""

import asyncio
import json
import time
import zlib

import pytest
from fastapi.responses import HTMLResponse, Response

from tests.envs.retrieval.servers import serving
from tests.envs.retrieval.test_server import until_ready
from trca.algorithms import TRCAConfig
from trca.envs import make
from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.server import create_app
from trca.envs.searchqa.data.generate import generated
from trca.policies.tiny import build_tiny
from trca.policies.warmstart import Stage, TinySpec

PASSAGES = 200
GROUPS, SIZE = 4, 4
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny policy that writes searches and answers with arbitrary content."""
    folder = tmp_path_factory.mktemp("model")
    spec = TinySpec(
        hidden_size=48,
        layers=1,
        heads=2,
        kv_heads=1,
        feed_forward=96,
        stages=(Stage(0.3, 60),),
        batch_size=16,
        lr=1e-2,
        warmup=10,
    )
    build_tiny([make("searchqa", questions="small")], spec, folder, lambda *_: None)
    return folder


@pytest.fixture
def training(model):
    """Makes an algorithm with a retrieval server. Few attempts make faults visible."""
    made = []

    def start(url, timeout=60.0):
        retriever = {
            "name": "http",
            "urls": f"{url}/retrieve",
            "timeout": timeout,
            "attempts": 2,
            "pause": 0.05,
            "cooldown": 0.1,
        }
        config = TRCAConfig()
        config.environment(
            "trca/SearchQA-v0", env_config={"questions": "small", "retriever": retriever}
        )
        config.update_from_dict(
            {
                "model": str(model),
                "template": "compact",
                "memory": True,
                "history_length": 0,
                "tasks_per_iteration": GROUPS,
                "group_size": SIZE,
                "max_new_tokens": 24,
                "lr": 1e-3,
                "max_failed_iterations": 3,
            }
        )
        made.append(config.build_algo())
        return made[-1]

    yield start
    for algorithm in made:
        algorithm.stop()


def retrieval_server():
    """The application of `trca serve-retriever` over generated passages."""
    return create_app(lambda: BM25Retriever.of(generated(PASSAGES, 0).passages))


def iteration(algorithm):
    """Number of missing rollouts in one more iteration.

    Checks that the remaining rollouts are complete and counted once.
    """
    missing = algorithm.train()["missing_rollouts"]
    rollouts = algorithm.rollouts
    assert len(rollouts) + missing == GROUPS * SIZE
    assert not {r.group for r in rollouts} & {f.group for f in algorithm.failures}
    assert all(r.steps[-1].action.startswith("answer") or r.truncated for r in rollouts)
    assert all(len(r.advantages) == len(r.steps) for r in rollouts)
    return missing


@pytest.mark.slow
def test_training_outlives_a_server_that_stops_and_starts_again(training, free_port):
    with serving(retrieval_server(), free_port) as url:
        until_ready(url)
        algorithm = training(url)
        assert iteration(algorithm) == 0
    assert iteration(algorithm) > 0
    assert "no retrieval server is left" in algorithm.failures[-1].reason
    with serving(retrieval_server(), free_port):
        until_ready(url)
        time.sleep(0.1)  # the cooldown
        assert iteration(algorithm) == 0
    assert algorithm.rollouts


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["slow", "html", "truncated"])
def test_bad_replies_cost_rollouts_and_never_a_zero(training, fault):
    """Every fourth query gets a bad reply, in a batch or not, and on every attempt."""
    app, faulty = retrieval_server(), True

    @app.middleware("http")
    async def spoil(request, call_next):
        queries = json.loads(await request.body())["queries"]
        reply = await call_next(request)
        if not (faulty and any(zlib.crc32(query.encode()) % 4 == 0 for query in queries)):
            return reply
        if fault == "slow":
            await asyncio.sleep(10)
            return reply
        if fault == "html":
            return HTMLResponse("<html>Bad gateway</html>")
        whole = b"".join([part async for part in reply.body_iterator])
        return Response(whole[: len(whole) // 2], media_type="application/json")

    with serving(app) as url:
        until_ready(url)
        algorithm = training(url, timeout=2.0 if fault == "slow" else 60.0)
        assert sum(iteration(algorithm) for _ in range(2)) > 0
        faulty = False
        time.sleep(0.1)  # the cooldown
        assert iteration(algorithm) == 0

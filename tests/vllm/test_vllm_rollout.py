"""The rollout loop with a vLLM engine that dies in its stepping thread."""

import pytest

from tests.toy import Rooms
from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.play import RolloutLoop
from trca.envs import make
from trca.policies.engines import ENGINES
from trca.policies.engines.engine import EngineSpec, SamplingParams
from trca.policies.models import load_tokenizer
from trca.policies.prompts import Prompter

pytest.importorskip("vllm", reason="vLLM is not installed here: make test-vllm")

GROUPS = [GroupRequest(k, f"train-{k}", "train", 4, ("training", 7, 0)) for k in range(2)]
SAMPLING = SamplingParams(1.0, 48)


def break_soon(worker):
    """Makes the model of a vLLM worker raise an error in the 10th pass from now."""
    model, passes = worker.model_runner.model, iter(range(9))
    forward = model.forward

    def broken(*args, **kwargs):
        if next(passes, None) is None:
            raise RuntimeError("the GPU fell off the bus")
        return forward(*args, **kwargs)

    model.forward = broken


def test_a_dead_engine_is_opened_again_and_only_its_phase_lacks_rollouts(model):
    tokenizer, opened = load_tokenizer(str(model)), []

    def open_engine():
        engine = ENGINES.get("vllm").open(EngineSpec(str(model), "float32", max_tokens=512))
        opened.append(engine)
        return engine

    def break_engine():
        server = opened[-1]._server
        server._call(lambda: server._engine.collective_rpc(break_soon))

    def open_broken():
        engine = open_engine()
        if len(opened) <= 2:
            break_engine()
        return engine

    prompter = Prompter(tokenizer, "compact")
    loop = RolloutLoop(
        lambda split: make(Rooms, split=split),
        open_engine(),
        prompter,
        tokenizer,
        open_engine=open_broken,
    )
    whole = loop.run(GROUPS, SAMPLING)
    assert (len(whole.rollouts), whole.incidents) == (8, [])
    break_engine()
    lacking = loop.run(GROUPS, SAMPLING)
    assert len(lacking.rollouts) < 8
    assert {f.reason for f in lacking.failures} == {
        "RuntimeError: vLLM died: RuntimeError('the GPU fell off the bus')"
    }
    assert [i.action for i in lacking.incidents if i.kind == "engine"] == ["opened again"] * 2
    assert loop.engine is opened[2]
    again = loop.run(GROUPS, SAMPLING)
    assert again.incidents == []
    responses = [[[s.response for s in r.steps] for r in b.rollouts] for b in (whole, again)]
    assert responses[0] == responses[1]
    loop.close()

"""The rules as algorithms of prime-rl, on traces of verifiers.

prime-rl is no package of an index: its own functions are tested where it is installed.
"""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from foreign import LIBRARY, play
from test_credit import OURS, ours
from trca_interop.credit import Credit
from trca_interop.prime_rl import register, token_advantages, with_credit


@pytest.fixture(scope="module")
def played():
    return play(groups=3)


def plain_node(token_ids, mask):
    return SimpleNamespace(token_ids=token_ids, mask=mask, advantages=None)


def plain_trace(name, nodes, info):
    agent = SimpleNamespace(name="agent", trainable=True)
    return SimpleNamespace(id=name, agent=agent, nodes=nodes, info=info, has_error=False)


def traces_of(rows, make_node, make_trace):
    """A list of traces for each group; a turn is a prompt of 2 tokens and 1 to 4 sampled tokens."""
    rng, groups = np.random.default_rng(0), {}
    for group, rollout, annotation in rows:
        groups.setdefault(group, {}).setdefault(rollout, []).append(annotation)
    made = []
    for of_group in groups.values():
        made.append([])
        for name, annotations in of_group.items():
            nodes = []
            for _ in annotations:
                length = int(rng.integers(1, 5))
                nodes.append(make_node([1, 2], [False, False]))
                nodes.append(make_node([3] * (length + 1), [False] + [True] * length))
            made[-1].append(make_trace(name, nodes, {"trca": annotations}))
    return made


def compared(groups, wanted, advantages_of):
    """Checks the advantages of the sampled tokens of all traces; every step has the same ones."""
    steps = iter(wanted)
    for trace in (trace for group in groups for trace in group):
        for node in trace.nodes[1::2]:
            given = advantages_of(trace).pop(0) if callable(advantages_of) else node.advantages
            assert len(given) == sum(node.mask)
            np.testing.assert_allclose(given, next(steps), rtol=0, atol=1e-12)
    assert next(steps, None) is None


@pytest.mark.parametrize("rule", OURS)
def test_each_group_is_credited_as_by_our_trainer(rule, played):
    rollouts, rows = played
    groups = traces_of(rows, plain_node, plain_trace)
    credit = Credit.bind(rule, LIBRARY)
    by_trace = {}
    for group in groups:
        for trace, values in token_advantages(credit, group):
            lengths = np.cumsum([sum(node.mask) for node in trace.nodes[1::2]])
            assert len(values) == lengths[-1]
            by_trace[trace.id] = np.split(np.array(values), lengths[:-1])
    compared(groups, ours(rule, {}, rollouts), lambda trace: by_trace[trace.id])


def test_the_agents_of_a_game_are_not_compared(played):
    credit = Credit.bind("trca", LIBRARY)
    first, *_ = traces_of(played[1], plain_node, plain_trace)
    alone = dict(token_advantages_by_id(credit, first[:2]))
    for trace in first[2:]:
        trace.agent.name = "opponent"
    mixed = dict(token_advantages_by_id(credit, first))
    assert mixed.keys() > alone.keys()
    for name, values in alone.items():
        np.testing.assert_allclose(mixed[name], values, rtol=0, atol=1e-12)


def token_advantages_by_id(credit, traces):
    return [(trace.id, values) for trace, values in token_advantages(credit, traces)]


def test_a_trace_without_an_annotation_for_each_turn_is_refused(played):
    credit = Credit.bind("trca", LIBRARY)
    (trace, *_), *_ = traces_of(played[1], plain_node, plain_trace)
    trace.info["trca"] = trace.info["trca"][:-1]
    with pytest.raises(ValueError, match=r"turns and \d annotations: put an annotation of"):
        token_advantages(credit, [trace])
    trace.info = {}
    with pytest.raises(ValueError, match="turns and no annotations"):
        token_advantages(credit, [trace])


@pytest.mark.parametrize("rule", OURS)
def test_an_algorithm_of_prime_rl_assigns_the_advantages(rule, played, monkeypatch):
    algo = pytest.importorskip("prime_rl.orchestrator.algo", reason="prime-rl is not installed")
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from verifiers import v1
    from verifiers.v1.configs.agent import AgentConfig
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.task import TaskData
    from verifiers.v1.trace import AgentInfo, TraceTask
    from verifiers.v1.types import AssistantMessage

    task = TraceTask(type="Task", data=TaskData(prompt="take the key."))

    def make_node(token_ids, mask):
        message = AssistantMessage(content="go")
        return MessageNode(message=message, token_ids=token_ids, mask=mask, sampled=any(mask))

    def make_trace(name, nodes, info):
        agent = AgentInfo(config=AgentConfig(), name="agent")
        return v1.Trace(id=name, task=task, agent=agent, nodes=nodes, info=info, ok=True)

    monkeypatch.setattr(algo, "ALGORITHM_CLASSES", dict(algo.ALGORITHM_CLASSES))
    register(rule, LIBRARY)
    algorithm = algo.build_algorithm(GRPOAlgoConfig(), None)
    groups = traces_of(played[1], make_node, make_trace)
    for group in groups:
        episodes = [v1.Episode(task=task, traces=[trace]) for trace in group]
        failed = group[0].model_copy(deep=True)
        failed.info, failed.agent.trainable = {}, False
        episodes.append(v1.Episode(task=task, traces=[failed]))
        asyncio.run(algorithm.finalize_group(episodes))
        assert failed.nodes[1].advantages is None
    compared(groups, ours(rule, {}, played[0]), None)


def test_the_other_hooks_of_an_algorithm_stay():
    class Algorithm:
        async def score_episode(self, episode):
            return "scored"

    crediting = with_credit(Algorithm, Credit.bind("gigpo"))
    assert asyncio.run(crediting().score_episode(None)) == "scored"

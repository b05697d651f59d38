"""TRCA, GiGPO and BEACON as algorithms of prime-rl.

prime-rl has no registry for algorithms of users, so a rule takes the place of one of its names, by
default ``grpo``::

    register("trca", library="alfworld", lambda_=0.5)

``trace.info["trca"]`` of a rollout has the annotations of its turns; see docs/interop_credit.md.
Written for the source of prime-rl of 21 August 2026 (559b447), whose algorithms score episodes of
verifiers and assign one advantage to each sampled token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

from trca_interop.credit import COLUMN, Credit
from trca_interop.turns import turn_advantages

_ALGORITHMS: Final = "prime_rl.orchestrator.algo"


def register(rule: str, library: str | None = None, *, name: str = "grpo", **settings: Any) -> type:
    """Replaces an algorithm of prime-rl by a rule, in this process.

    Call it in the process of the orchestrator, before the orchestrator builds its algorithms.

    Args:
        rule: Name of the rule: trca, gigpo or beacon.
        library: Name or path of the rubric library that made the judgments.
        name: The ``algo.type`` that names the rule in prime-rl's config.
        settings: Settings of the rule.

    Returns:
        The class of the algorithm.

    Raises:
        ImportError: Without prime-rl.
        ValueError: For an unknown rule, setting or library.
    """
    credit = Credit.bind(rule, library, **settings)
    algorithms = import_module(_ALGORITHMS).ALGORITHM_CLASSES
    algorithms[name] = with_credit(algorithms[name], credit)
    chosen: type = algorithms[name]
    return chosen


def with_credit(algorithm: type, credit: Credit) -> type:
    """A subclass of an algorithm of prime-rl that scores a group of episodes with a rule.

    Args:
        algorithm: The class, such as ``GRPOAlgorithm``; settings of its advantages have no effect.
        credit: The rule.
    """

    class CreditingAlgorithm(algorithm):  # type: ignore[misc]
        """The algorithm with the advantages of the rule."""

        async def score_group(self, episodes: list[Any]) -> None:
            """Assigns an advantage to each sampled token of the group's trainable traces."""
            trainable = import_module(f"{_ALGORITHMS}.base").iter_trainable_traces
            assign = import_module(f"{_ALGORITHMS}.routing").assign_advantages
            for trace, values in token_advantages(credit, (t for _, t in trainable(episodes))):
                assign(trace, values)

    return CreditingAlgorithm


def token_advantages(credit: Credit, traces: Iterable[Any]) -> list[tuple[Any, list[float]]]:
    """The traces of a rollout group, each with the advantages of its sampled tokens.

    Agents of a game are groups of their own. A turn is a node of the trace with sampled tokens.

    Args:
        credit: The rule.
        traces: Traces of verifiers, with annotations in ``info``.

    Raises:
        ValueError: If a trace has no annotations, or another number than turns.
    """
    by_agent: dict[str, list[Any]] = defaultdict(list)
    for trace in traces:
        by_agent[trace.agent.name].append(trace)
    assigned = []
    for agent, of_agent in by_agent.items():
        annotations = [_annotations(trace) for trace in of_agent]
        ids = [trace.id for trace in of_agent]
        values = turn_advantages(credit, [agent] * len(ids), ids, annotations)
        for trace, of_turns in zip(of_agent, values, strict=True):
            nodes = zip(of_turns.tolist(), _sampled(trace), strict=True)
            assigned.append(
                (trace, [value for value, node in nodes for _ in range(sum(node.mask))])
            )
    return assigned


def _sampled(trace: Any) -> list[Any]:
    return [node for node in trace.nodes if any(node.mask)]


def _annotations(trace: Any) -> Sequence[Any]:
    annotations: Sequence[Any] | None = trace.info.get(COLUMN)
    turns = len(_sampled(trace))
    if annotations is None or len(annotations) != turns:
        count = "no" if annotations is None else len(annotations)
        raise ValueError(
            f"trace {trace.id!r} has {turns} turns and {count} annotations: put an annotation of"
            f" trca_interop.credit.annotate for each turn into trace.info[{COLUMN!r}]"
        )
    return annotations

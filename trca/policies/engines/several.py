"""`SeveralEngines`: the engines of several policies as one engine."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams


class SeveralEngines(Engine):
    """Sends each request to the engine of its policy (`Request.module`).

    Attributes:
        engines: Engines by id of their policy.
        version: Version of the weights of all engines.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """Takes one or more open engines of the same class; they share memory."""
        self.engines = dict(engines)
        first, *_ = opened = list(self.engines.values())
        self.version = first.version
        type(first).share_memory(opened)

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion of the request's policy."""
        return self.engines[request.module].submit(request, sampling)

    @property
    def in_batches(self) -> bool:
        """Whether requests wait for `flush`."""
        return any(engine.in_batches for engine in self.engines.values())

    def flush(self) -> None:
        """Runs the batch of each engine, in sequence."""
        for engine in self.engines.values():
            engine.flush()

    def sleep(self) -> None:
        """Ends a phase of sampling in every engine."""
        for engine in self.engines.values():
            engine.sleep()

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights of each policy, by its id."""
        for module, engine in self.engines.items():
            engine.load_weights(weights[module], version)
        self.version = version

    def close(self) -> None:
        """Closes every engine."""
        super().close()
        for engine in self.engines.values():
            engine.close()

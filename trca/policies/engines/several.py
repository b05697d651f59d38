"""`SeveralEngines`: the engines of several policies, as one."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from trca.policies.engines.engine import Completion, Engine, Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.lora import share_bases


class SeveralEngines:
    """Hands each request to the engine of its policy (`Request.module`).

    Attributes:
        engines: The engines by the ids of their policies.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """Takes open engines; there is at least one.

        With LoRA, the ``transformers`` engines of one model hold its base once.
        """
        self.engines = dict(engines)
        of_transformers = [e for e in self.engines.values() if isinstance(e, TransformersEngine)]
        share_bases([engine.model for engine in of_transformers])

    @property
    def version(self) -> int:
        """Version of the weights; all engines get theirs together."""
        return next(iter(self.engines.values())).version

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion by the request's policy."""
        return self.engines[request.module].submit(request, sampling)

    def flush(self) -> None:
        """Lets every engine generate, one after the other."""
        for engine in self.engines.values():
            engine.flush()

    def sleep(self) -> None:
        """Lets every engine rest."""
        for engine in self.engines.values():
            engine.sleep()

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights: those of each policy by its id."""
        for module, engine in self.engines.items():
            engine.load_weights(weights[module], version)

    def close(self) -> None:
        """Closes every engine."""
        for engine in self.engines.values():
            engine.close()

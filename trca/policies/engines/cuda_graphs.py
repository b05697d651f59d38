"""CUDA graphs for the pass of one new token per row.

Such a pass launches a thousand kernels and more, most of them shorter than their launch. A replayed
graph needs one launch. Its shapes and addresses are fixed: each number of rows and each size of the
cache has a graph, and all graphs use the same buffers for keys, values and logits.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from trca.policies.engines.row_cache import RowCache

_LOG: Final = logging.getLogger(__name__)

NextLogits = Callable[[Tensor, Tensor, RowCache], Tensor]
"""From tokens and positions int64 (rows, 1) and a cache to logits (rows, vocabulary)."""


class GraphedPass:
    """Runs `NextLogits` as CUDA graphs.

    Two kinds of passes run without: those of a model that waits for the GPU, which no graph can
    hold, and those of a large cache. The buffers keep their memory between two batches, and many
    keys and values take longer than the launches.

    The parameters of the model must keep their addresses: new weights are copied into them.

    Args:
        run: The pass, with logits in float32.
        vocabulary: Number of logits of a row.
        most_bytes: Most bytes of keys and values in the buffers.
    """

    def __init__(self, run: NextLogits, vocabulary: int, most_bytes: int) -> None:
        self._run = run
        self._vocabulary = vocabulary
        self._most = most_bytes
        self._graphs: dict[tuple[int, int], _Graph] = {}
        self._buffers: list[Tensor] = []
        # The graphs run one at a time, so that all can use the same memory for their kernels.
        self._pool: Any = None
        self._stream: Any = None
        self._refused = False

    def __call__(self, tokens: Tensor, positions: Tensor, cache: RowCache) -> Tensor:
        """See `NextLogits`. The logits are valid until the next call."""
        if not self._refused and self._move(cache, len(tokens)):
            shape = len(tokens), cache.size
            graph = self._graphs.get(shape) or self._make(tokens, positions, cache)
            if graph is not None:
                self._graphs[shape] = graph
                graph.tokens.copy_(tokens)
                graph.positions.copy_(positions)
                graph.replay()
                return graph.logits
        return self._run(tokens, positions, cache)

    def _move(self, cache: RowCache, rows: int) -> bool:
        """Moves keys and values into the buffers, unless they are there; False if too large."""
        held = cache.tensors
        if self._buffers and held[0].data_ptr() == self._buffers[0].data_ptr():
            return True
        if sum(each.nbytes for each in held) > self._most:
            return False
        sizes = [*(each.numel() for each in held), rows * self._vocabulary]
        room = [buffer.numel() for buffer in self._buffers] or [0] * len(sizes)
        if any(size > most for size, most in zip(sizes, room, strict=True)):
            self._drop()
            kinds = [*(each.dtype for each in held), torch.float32]
            self._buffers = [
                held[0].new_empty(max(size, most), dtype=kind)
                for size, most, kind in zip(sizes, room, kinds, strict=True)
            ]
        cache.move(self._buffers[:-1])
        return True

    def _drop(self) -> None:
        self._graphs.clear()
        self._buffers.clear()
        self._pool = None

    def _make(self, tokens: Tensor, positions: Tensor, cache: RowCache) -> _Graph | None:
        rows = len(tokens)
        tokens, positions = tokens.clone(), positions.clone()
        logits = self._buffers[-1][: rows * self._vocabulary].view(rows, self._vocabulary)

        def run() -> None:
            logits.copy_(self._run(tokens, positions, cache))

        try:
            replay = self._captured(run)
        except torch.OutOfMemoryError:
            self._drop()
            raise
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            _LOG.warning("no CUDA graphs for this model, sampling is slower: %s", first)
            self._refused = True
            self._drop()
            return None
        return _Graph(tokens, positions, logits, replay)

    def _captured(self, run: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that repeats the kernels of ``run``."""
        with torch.cuda.device(self._buffers[0].device):
            current = torch.cuda.current_stream()
            if self._pool is None:
                self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
            # Libraries take the workspaces of the stream here, and not within the graph.
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream), _no_waiting():
                run()
            current.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            capture = torch.cuda.graph(
                graph, self._pool, self._stream, capture_error_mode="thread_local"
            )
            try:
                with capture:
                    run()
            except RuntimeError:
                torch.cuda.set_stream(current)
                # PyTorch's generator of random numbers waits for the end of a successful capture.
                with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
                    self._buffers[-1].zero_()
                raise
        return graph.replay


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Raises a RuntimeError for an operation that waits for the GPU: a capture would fail there."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode")  # is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@dataclass
class _Graph:
    """One graph, with its inputs int64 (rows, 1) and its logits (rows, vocabulary)."""

    tokens: Tensor
    positions: Tensor
    logits: Tensor
    replay: Callable[[], None]

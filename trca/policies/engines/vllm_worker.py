"""Extensions that run in vLLM's processes: loading of pushed weights, a limit on sampled ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.functional import linear
from vllm.config import set_current_vllm_config
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SecondLogitsProcessor

vllm_add_adapters = PunicaWrapperCPU.add_lora_linear


def add_adapter(
    self: Any,
    y: Tensor,
    x: Tensor,
    lora_a_stacked: Sequence[Tensor],
    lora_b_stacked: Sequence[Tensor],
    scale: float,
    output_slices: Sequence[int],
    **kwargs: Any,
) -> None:
    """Adds the output of one adapter to a layer's output, on a CPU.

    vLLM's own method copies the factors once per token, which takes three quarters of all time. Its
    method stays for several adapters and for batches with requests without an adapter.

    ``y`` is (tokens, outputs), changed in place, and ``x`` (tokens, inputs). The factors of each
    slice are A, (adapters, 1, rank, inputs), and B, (adapters, 1, outputs, rank); q, k and v are
    slices of one layer.
    """
    if len(lora_a_stacked[0]) > 1 or self.token_lora_indices.any():
        vllm_add_adapters(
            self, y, x, lora_a_stacked, lora_b_stacked, scale, output_slices, **kwargs
        )
        return
    first = 0
    for a, b, width in zip(lora_a_stacked, lora_b_stacked, output_slices, strict=True):
        part = linear(linear(x, a[0, 0]), b[0, 0])
        y[:, first : first + width].add_(part, alpha=scale)
        first += width


PunicaWrapperCPU.add_lora_linear = add_adapter


class WorkerExtension:
    """Methods that vLLM adds to its worker class."""

    model_runner: Any
    vllm_config: Any
    device: torch.device

    def load_trca_weights(self, path: str) -> None:
        """Loads weights from a file into the running model, tensor by tensor."""
        model = self.model_runner.model
        with set_current_vllm_config(self.vllm_config), torch.inference_mode():
            initialize_layerwise_reload(model)
            with safe_open(path, "pt") as file:
                model.load_weights((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
            finalize_layerwise_reload(model, self.vllm_config.model_config)
            if torch.device(self.device).type == "cpu" and hasattr(model, "lm_head"):
                # A head tied to the embedding would keep a packed copy of the old embedding.
                dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)


class KnownIds(LogitsProcessor, SecondLogitsProcessor):  # type: ignore[misc]
    """Excludes ids outside the tokenizer, in both model runners of vLLM.

    On a GPU vLLM runs dense models with its second runner, which has its own interface.
    """

    def __init__(self, vllm_config: Any, *state: Any) -> None:
        self._known = int(vllm_config.additional_config["known_ids"])

    def apply(self, logits: Tensor, context: Any = None) -> Tensor:
        """Returns the logits with -inf for ids outside the tokenizer."""
        if logits.shape[-1] > self._known:
            logits[..., self._known :] = -torch.inf
        return logits

    def is_argmax_invariant(self) -> bool:
        """Returns False: an unknown id may be the likeliest."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Keeps no state."""

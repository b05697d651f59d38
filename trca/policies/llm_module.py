"""`LLMModule`: any Hugging Face causal language model as an RLlib module."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from trca.policies.canary import digest
from trca.policies.logits import score_tokens
from trca.policies.lora import add_lora, has_lora, lora_off
from trca.policies.models import checkpoint_layers, load_model, load_tokenizer, resolve_dtype
from trca.policies.sharding import shard
from trca.policies.weights import export_weights, import_weights


class LLMModule(TorchRLModule, InferenceOnlyAPI):
    """A policy, and where asked the frozen reference that it is kept close to.

    ``model_config``:
        model: Folder or Hugging Face name of the model and its tokenizer.
        dtype: ``float32``, ``bfloat16`` or ``auto`` (as the model was saved; the default). The
            engine and the reference hold their weights in it. A policy that is trained always has
            float32 weights, because bfloat16 weights lose small updates; it computes in bfloat16
            where the dtype says so.
        reference: Whether to keep a frozen copy of the first weights; False by default. Env runners
            never keep one.
        lora_rank: Rank of a LoRA adapter, which alone is trained then; 0 by default, for none. The
            model below it is in ``dtype``, the trained adapter in float32, and the reference is
            the model without its adapter.
        lora_alpha: The adapter's product is multiplied by ``lora_alpha / lora_rank``; 32 by
            default.
        gradient_checkpointing: Whether the backward pass computes the activations of each layer
            again, which saves memory and costs a forward pass; False by default. Dropout stays off.

    Attributes:
        model: The causal LM.
        reference: Its frozen copy; absent without ``reference``, with LoRA, and on env runners.
        dtype: The resolved dtype, ``float32`` or ``bfloat16``.
        sent: Digest of the weights that were last given to engines; blank before the first time.
        vocabulary: Number of ids that can be sampled.
    """

    def setup(self) -> None:
        """Builds the model from ``model_config``."""
        config = dict(cast("Mapping[str, Any]", self.model_config))
        name = config["model"]
        self.dtype = resolve_dtype(name, config.get("dtype", "auto"))
        self.vocabulary = len(load_tokenizer(name))
        self.sent = ""
        rank = int(config.get("lora_rank", 0))
        self.model = load_model(name, self.dtype if self.inference_only or rank else "float32")
        self._mixed = self.dtype == "bfloat16" and not self.inference_only
        if config.get("gradient_checkpointing", False) and not self.inference_only:
            checkpoint_layers(self.model)
        if rank:
            precision = None if self.inference_only else torch.float32
            add_lora(self.model, rank, int(config.get("lora_alpha", 32)), precision)
        elif config.get("reference", False) and not self.inference_only:
            self.reference = load_model(name, self.dtype).requires_grad_(False)

    def get_non_inference_attributes(self) -> list[str]:
        """The reference: env runners do without."""
        return ["reference"]

    def shard(self, device: str) -> None:
        """Splits policy and reference over the processes of the default group; all call this.

        Args:
            device: Type of the devices, ``cpu`` or ``cuda``.
        """
        shard(self.model, device, self._mixed)
        if hasattr(self, "reference"):
            shard(self.reference, device, mixed=False)
        self._mixed = False  # the shards are gathered in the precision they compute in

    @contextmanager
    def network(self, reference: bool = False) -> Iterator[Any]:
        """The policy's network, or the reference's, which is the policy's with its adapter off."""
        if not reference:
            yield self.model
        elif has_lora(self.model):
            with lora_off(self.model):
                yield self.model
        else:
            yield self.reference

    def score(
        self,
        *,
        input_ids: Tensor,
        row: Tensor,
        position: Tensor,
        targets: Tensor,
        temperature: float = 1.0,
        reference: bool = False,
    ) -> dict[str, Tensor]:
        """Log-probabilities of chosen tokens; only their positions meet the vocabulary.

        Args:
            input_ids: int64 (B, L), padded on the right, where causal attention never looks.
            row: int64 (K,), the row of each token to score.
            position: int64 (K,), the place before it, whose hidden state predicts it.
            targets: int64 (K,), its id.
            temperature: Temperature of the sampling distribution.
            reference: Whether the reference scores, instead of the policy.

        Returns:
            ``logprobs`` and ``entropy``, float32 (K,) each.
        """
        autocast = torch.autocast(input_ids.device.type, torch.bfloat16, enabled=self._mixed)
        with self.network(reference) as model, autocast:
            score = getattr(model, "score_tokens", None) or partial(score_tokens, model)
            logprobs, entropy = score(
                input_ids,
                row,
                position,
                targets,
                vocabulary=self.vocabulary,
                temperature=temperature,
            )
        return {"logprobs": logprobs, "entropy": entropy}

    def _forward_train(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return self.score(**batch)

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The policy's weights by the names of its own state dict, tied ones once.

        With LoRA they are the adapter's. What is frozen, such as the reference, is no part of the
        state: ``setup`` reads it from the same place again.

        Args:
            components: Ignored: there is one component.
            not_components: Ignored as well.
            inference_only: Whether the weights are for engines, which take them in `dtype`; else
                they keep the precision of the trainer.
            kwargs: What else RLlib says.
        """
        if not inference_only:
            return export_weights(self.model)
        weights = export_weights(self.model, getattr(torch, self.dtype))
        self.sent = digest(weights) if weights else ""
        return weights

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes the policy's weights.

        Raises:
            ValueError: When names or shapes are not those of the model.
        """
        import_weights(self.model, state)

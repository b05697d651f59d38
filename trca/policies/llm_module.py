"""`LLMModule`: any Hugging Face causal language model as an RLlib module."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

import torch
from pyarrow.fs import FileSystem
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn

from trca.policies.canary import digest
from trca.policies.logits import score_tokens
from trca.policies.lora import ADAPTER, add_lora, has_lora, lora_as, lora_off
from trca.policies.models import checkpoint_layers, load_model, load_tokenizer, resolve_dtype
from trca.policies.sharding import shard
from trca.policies.shared_prefixes import SharedPrefixes, enable_sharing, hidden_places, shares
from trca.policies.weight_files import weights_hash
from trca.policies.weights import export_weights, import_weights

CRITIC: Final = "critic"
"""Name of the critic's adapter, and prefix of the names of the critic's weights in a state."""
_BASE_HASH: Final = "base_sha256"
_HEAD: Final = f"{CRITIC}/head."
_NETWORK: Final = f"{CRITIC}/network."


class LLMModule(TorchRLModule, InferenceOnlyAPI):
    """A policy, with an optional frozen reference for the KL penalty.

    ``model_config``:
        model: Folder or Hugging Face name of the model and its tokenizer.
        dtype: ``float32``, ``bfloat16`` or ``auto`` (the default: the precision of the saved
            model). Precision of the weights of engine and reference. A trained policy always has
            float32 weights, because bfloat16 weights lose small updates; with ``bfloat16`` it
            computes in bfloat16.
        reference: Whether to keep a frozen copy of the first weights; False by default. Env runners
            never have a copy.
        lora_rank: Rank of a LoRA adapter; 0 (the default) for no adapter. With an adapter, only
            the adapter is trained. The frozen model is in ``dtype``, the adapter in float32, and
            the reference is the model without the adapter.
        lora_alpha: The adapter's product is multiplied by ``lora_alpha / lora_rank``; 32 by
            default.
        critic: Network of the critic; empty (the default) for no critic. ``trunk`` puts a linear
            head on the hidden states of the policy. ``own`` puts the head on a separate network,
            which starts from the policy's weights; with LoRA the separate network is a second
            adapter. Env runners never have a critic.
        value_heads: Number of values that the critic predicts for a position; 1 by default.
        gradient_checkpointing: Whether the backward pass computes the activations of each layer
            again, which saves memory and costs a forward pass; False by default. Dropout stays off.

    Attributes:
        model: The causal LM.
        reference: Its frozen copy; absent without ``reference``, with LoRA, and on env runners.
        value_head: The critic's linear head in float32, zero at first; absent without a critic.
        critic: The critic's separate network; absent with ``trunk``, with LoRA, and on env runners.
        dtype: The resolved dtype, ``float32`` or ``bfloat16``.
        sent: Digest of the last weights for engines; empty before the first push.
        vocabulary: Number of ids that can be sampled.
    """

    def setup(self) -> None:
        """Builds the model from ``model_config``."""
        config = dict(cast("Mapping[str, Any]", self.model_config))
        name, trains = config["model"], not self.inference_only
        self.dtype = resolve_dtype(name, config.get("dtype", "auto"))
        self.vocabulary = len(load_tokenizer(name))
        self.sent = ""
        self._base_hash = ""
        rank, alpha = int(config.get("lora_rank", 0)), int(config.get("lora_alpha", 32))
        checkpoints = bool(config.get("gradient_checkpointing", False)) and trains
        self.model = load_model(name, "float32" if trains and not rank else self.dtype)
        self._mixed = trains and self.dtype == "bfloat16"
        if checkpoints:
            checkpoint_layers(self.model)
        if rank:
            add_lora(self.model, rank, alpha, torch.float32 if trains else None)
            self._base_hash = weights_hash(name) if trains else ""
        elif config.get("reference", False) and trains:
            self.reference = load_model(name, self.dtype).requires_grad_(False)
        self.critic_kind = str(config.get("critic", "")) if trains else ""
        if self.critic_kind:
            width = self.model.config.get_text_config().hidden_size
            self.value_head = nn.Linear(width, int(config.get("value_heads", 1)))
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
        for network in (self.model, getattr(self, "reference", None)):
            if network is not None and trains:
                enable_sharing(network)
        if self.critic_kind == "own" and rank:
            add_lora(self.model, rank, alpha, torch.float32, CRITIC)
        elif self.critic_kind == "own":
            critic = load_model(name, "float32")
            enable_sharing(critic)
            self.critic = critic.base_model
            if checkpoints:
                checkpoint_layers(self.critic)

    def get_non_inference_attributes(self) -> list[str]:
        """Names the reference and the critic, which env runners do not need."""
        return ["reference", "critic", "value_head"]

    def critic_parameters(self) -> list[nn.Parameter]:
        """Returns the trained parameters that belong only to the critic."""
        if not self.critic_kind:
            return []
        adapter = f".{CRITIC}.weight"
        parameters = [
            parameter
            for name, parameter in self.named_parameters()
            if name.startswith(f"{CRITIC}.") or (has_lora(self.model) and name.endswith(adapter))
        ]
        return [*parameters, *self.value_head.parameters()]

    def shard(self, device: str) -> None:
        """Splits policy and reference over all processes of the default group, which call it."""
        shard(self.model, device, self._mixed)
        if hasattr(self, "reference"):
            shard(self.reference, device, mixed=False)
        self._mixed = False  # the shards are gathered in the precision they compute in

    @contextmanager
    def network(self, reference: bool = False) -> Iterator[Any]:
        """Yields the policy's network, or the reference's.

        With LoRA the reference is the policy's network with its adapter off.
        """
        if not reference:
            yield self.model
        elif has_lora(self.model):
            with lora_off(self.model):
                yield self.model
        else:
            yield self.reference

    @contextmanager
    def critic_network(self) -> Iterator[Any]:
        """Yields the critic's network, with the critic's adapter active if there is one.

        Checkpointed layers compute again in the backward pass, with the adapter that is active at
        that time. The backward pass must therefore run inside this context.
        """
        if hasattr(self, "critic"):
            yield self.critic
        elif self.critic_kind == "own":
            with lora_as(self.model, CRITIC):
                yield self.model.base_model
        else:
            yield self.model.base_model

    @property
    def frozen(self) -> Literal["", "reference", "base"]:
        """The frozen use of the start weights; empty without a frozen use. See `StartWeights`."""
        if has_lora(self.model):
            return "base"
        return "reference" if hasattr(self, "reference") else ""

    def get_metadata(self) -> dict[str, Any]:
        """Returns RLlib's metadata of a checkpoint, and the hash of the model below an adapter."""
        metadata: dict[str, Any] = super().get_metadata()
        return metadata | ({_BASE_HASH: self._base_hash} if self._base_hash else {})

    def restore_from_path(
        self,
        path: str | Path,
        *,
        component: str | None = None,
        filesystem: FileSystem | None = None,
        **kwargs: Any,
    ) -> None:
        """Loads a checkpoint of the module, as RLlib does; refuses an adapter of other weights."""
        if self._base_hash:
            files, folder = (
                (filesystem, str(path)) if filesystem else FileSystem.from_uri(str(path))
            )
            with files.open_input_stream(f"{folder}/{self.METADATA_FILE_NAME}") as file:
                trained_on = json.loads(file.read()).get(_BASE_HASH, self._base_hash)
            if trained_on != self._base_hash:
                name = cast("Mapping[str, Any]", self.model_config)["model"]
                raise ValueError(
                    f"{path}: the adapter was trained on weights of SHA-256 {trained_on[:12]}, and"
                    f" {name} now has weights of SHA-256 {self._base_hash[:12]}: put the first"
                    f" weights back into {name}"
                )
        super().restore_from_path(path, component=component, filesystem=filesystem, **kwargs)

    @property
    def shares_prefixes(self) -> bool:
        """Whether `score` and `values` accept the distinct prefixes of rows."""
        return shares(self.model)

    def values(
        self,
        *,
        input_ids: Tensor,
        row: Tensor,
        position: Tensor,
        shared: SharedPrefixes | None = None,
    ) -> Tensor:
        """Returns the critic's values of the text up to and including chosen positions, (K, H).

        Takes the arguments of `trca.policies.logits.score_tokens`.
        """
        inputs, row, position = hidden_places(input_ids, row, position, shared)
        autocast = torch.autocast(input_ids.device.type, torch.bfloat16, enabled=self._mixed)
        with self.critic_network() as network, autocast:
            hidden = network(**inputs, use_cache=False).last_hidden_state
        values: Tensor = self.value_head(hidden[row, position].float())
        return values

    def score(
        self,
        *,
        input_ids: Tensor,
        row: Tensor,
        position: Tensor,
        targets: Tensor,
        temperature: float = 1.0,
        reference: bool = False,
        shared: SharedPrefixes | None = None,
    ) -> dict[str, Tensor]:
        """Returns ``logprobs`` and ``entropy`` of chosen tokens, float32 (K,) each.

        Takes the arguments of `trca.policies.logits.score_tokens`, and whether the reference
        scores. Logits exist only at the positions of the tokens.
        """
        autocast = torch.autocast(input_ids.device.type, torch.bfloat16, enabled=self._mixed)
        with self.network(reference) as model, autocast:
            score = getattr(model, "score_tokens", None) or partial(score_tokens, model)
            options: dict[str, Any] = {"temperature": temperature, "shared": shared}
            logprobs, entropy = score(
                input_ids, row, position, targets, vocabulary=self.vocabulary, **options
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
        """Returns the weights of the policy by state dict name, and the weights of the critic.

        A tied weight appears once. With LoRA the weights are the adapter's. Engines,
        ``inference_only``, get weights in `dtype` and no critic. Frozen weights, such as the
        reference, are not part of the state: ``setup`` loads them again from the model's folder.
        """
        if not inference_only:
            return {
                prefix + name: array
                for prefix, (part, adapter) in self._parts().items()
                for name, array in export_weights(part, adapter=adapter).items()
            }
        weights = export_weights(self.model, getattr(torch, self.dtype))
        self.sent = digest(weights) if weights else ""
        return weights

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Loads the weights of the policy, and of the critic if there is one."""
        for prefix, (part, adapter) in self._parts().items():
            own = {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
            if not prefix:
                own = {k: v for k, v in state.items() if not k.startswith(f"{CRITIC}/")}
            import_weights(part, own, adapter)

    def _parts(self) -> dict[str, tuple[nn.Module, str]]:
        """Prefix of names in a state -> the network with these weights, and its adapter."""
        parts: dict[str, tuple[nn.Module, str]] = {"": (self.model, ADAPTER)}
        if self.critic_kind:
            parts[_HEAD] = self.value_head, ADAPTER
        if self.critic_kind == "own":
            separate = hasattr(self, "critic")
            parts[_NETWORK] = (self.critic, ADAPTER) if separate else (self.model, CRITIC)
        return parts

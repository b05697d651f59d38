"""`TextLearner`: the clipped objective on action tokens, for any number of learners.

Where this differs from RLlib's and the usual loops:

=======================  ===========================================================================
Batches                  Ragged `Rows`, not padded `MultiAgentBatch`es: rows of similar length share
                         a forward pass, and gradients accumulate over passes.
Several learners         Each takes its own rows of every mini-batch, sometimes none, and the
                         gradients are added up in buckets. Row weights come from the driver, so
                         the sum is that of one learner (DDP averages, and hangs without rows).
Sharded learners         With ``sharding: fsdp`` each holds a share of the model; see
                         `trca.policies.sharding`.
Logits                   At the tokens that enter the objective alone.
Reference                Scored once an iteration, before the epochs.
Not-finite steps         A loss or gradient norm that is not finite skips the update, and is counted
                         (RLlib's ``torch_skip_nan_gradients`` takes such steps).
Empty mini-batches       A mini-batch without a counted token moves no weight and enters no metric.
Mismatch                 Before its first update a learner compares its log-probabilities with the
                         sampler's, and stops when they are too far apart. Replayed rows take no
                         part in what is said of the mismatch.
=======================  ===========================================================================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import (
    COMPONENT_METRICS_LOGGER,
    COMPONENT_OPTIMIZER,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import (
    NUM_MODULE_STEPS_TRAINED,
    NUM_MODULE_STEPS_TRAINED_LIFETIME,
    WEIGHTS_SEQ_NO,
)
from ray.tune.utils.file_transfer import sync_dir_between_nodes
from torch import Tensor

from trca.algorithms.learner.checkpoint import (
    copies,
    fill,
    has_moments,
    load_shards,
    make_moments,
    save_shards,
    split_moments,
    training_tensors,
)
from trca.algorithms.learner.gradients import add_up
from trca.algorithms.learner.last_mlp import last_mlp_at
from trca.algorithms.learner.losses import LossInputs, LossTerms, objective
from trca.algorithms.learner.mismatch import MISMATCH_METRICS, correct, drift_metrics
from trca.algorithms.learner.rows import Rows, segments
from trca.algorithms.learner.start_weights import StartWeights, as_metadata
from trca.algorithms.learner.tensors import TokenBatch, no_tokens, one_response, token_batch
from trca.algorithms.settings.parameters import LossSettings
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.policies.canary import Sent
from trca.policies.dtypes import DTYPES
from trca.policies.lora import share_bases
from trca.policies.sharding import gathered, set_gradient_sync

logger = logging.getLogger(__name__)

SHARDS: Final = "shards"
"""Folder of a learner's checkpoint where sharded learners write."""
_SUMS: Final = (
    "loss",
    "policy",
    "kl",
    "kl_format",
    "entropy",
    "clip_ratio",
    "ratio_mean",
    "approx_kl",
)
UPDATE_METRICS: Final = (
    *_SUMS,
    "ratio_max",
    "grad_norm",
    *MISMATCH_METRICS,
    "skipped_updates",
    "lr",
)
"""Names of the metrics of an update, logged by the module's id."""


class _Pass(NamedTuple):
    """A forward pass.

    Attributes:
        batch: Its tensors.
        last: Whether it is the last over its rows, on all learners.
        rows: Its rows; None in a pass over nothing.
        places: Where the rows are among those of the mini-batch.
    """

    batch: TokenBatch
    last: bool
    rows: Rows | None = None
    places: Any = None


class TextLearner(TorchLearner):
    """Updates a language model on credited steps; of several policies, one after the other."""

    config: PolicyConfig

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._module_id = DEFAULT_MODULE_ID
        self._updates: dict[str, int] = {}
        self._compared: set[str] = set()
        self._replays = False
        self._terms: list[LossTerms] = []
        self._sums: list[tuple[float, float, float]] = []
        self._drifts: list[Any] = []

    def build(self) -> None:
        """Builds module and optimizer; every learner starts from the first one's weights."""
        torch.set_num_threads(self.config.torch_threads)
        super().build()
        settings = {name: getattr(self.config, name) for name in LossSettings.model_fields}
        self._settings = LossSettings(**settings)
        if self.distributed and not self._sharded:
            for parameter in self._params.values():
                torch.distributed.broadcast(parameter.data, src=0)
        modules: dict[str, Any] = dict(self.module.items())
        self._started_from = {
            module_id: StartWeights.of(module.model_config["model"], module.frozen)
            for module_id, module in modules.items()
        }

    def configure_optimizers_for_module(
        self, module_id: str, config: AlgorithmConfig | None = None
    ) -> None:
        """AdamW over the trainable parameters: the reference is frozen."""
        module: Any = self.module[module_id]
        self._module_id = module_id
        parameters = [p for p in module.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(
            self._in_groups(parameters),
            lr=self._lr,
            betas=tuple(self.config.adam_betas),
            weight_decay=self.config.weight_decay,
        )
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=parameters)

    def update(  # type: ignore[override]
        self,
        *,
        training_data: TrainingData,
        timesteps: dict[str, Any] | None = None,
        shuffle_key: Sequence[int] = (),
        **kwargs: Any,
    ) -> Any:
        """Trains ``num_epochs`` over this learner's rows.

        Args:
            training_data: Its ``batch`` is this learner's `Rows`, or those of each policy by its
                id, in the same order on all learners.
            timesteps: RLlib's counters.
            shuffle_key: Seed of the mini-batches; the same on all learners.
            kwargs: Ignored arguments of `LearnerGroup.update`.

        Returns:
            RLlib's reduced metrics.
        """
        self._check_is_built()
        self.before_gradient_based_update(timesteps=timesteps or {})
        self._weights_seq_no += 1
        given: Any = training_data.batch
        for module_id, rows in given.items() if isinstance(given, dict) else [(None, given)]:
            self._module_id = module_id or self._module_id
            self._update_module(rows, shuffle_key)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def _update_module(self, given: Rows, shuffle_key: Sequence[int]) -> None:
        """Trains one policy on its rows."""
        if self.config.replay_size:
            self._replays = bool(self._over_learners([_any_replayed(given)], largest=True)[0])
        rows, mismatch = self._scored(given)
        updates: list[dict[str, float]] = []
        self._drifts.clear()
        for epoch in range(self.config.num_epochs):
            key = (*shuffle_key, epoch)
            for minibatch, factor in rows.minibatches(self.config.minibatch_size, key):
                metrics = self._update_minibatch(minibatch, factor, updated=bool(updates))
                if metrics is not None:
                    updates.append(metrics)
        if mismatch is None:
            drift = np.concatenate([*self._drifts, np.empty(0)])
            mismatch = drift_metrics(drift, self._over_learners)
            if not self._replays:
                mismatch["mismatch_kl"] = updates[0]["approx_kl"] if updates else math.nan
        self._log_updates(updates, mismatch, len(rows) * self.config.num_epochs)

    def compute_loss_for_module(  # type: ignore[override]
        self,
        *,
        module_id: str,
        config: AlgorithmConfig,
        batch: LossInputs,
        fwd_out: dict[str, Tensor],
    ) -> Tensor:
        """The objective of a micro-batch.

        Args:
            module_id: The module.
            config: Its config.
            batch: What is known before the forward pass.
            fwd_out: ``logprobs`` and ``entropy`` of the tokens, (K,) each.
        """
        terms = objective(batch, fwd_out["logprobs"], fwd_out["entropy"], self._settings)
        self._terms.append(terms)
        return terms.loss

    @property
    def updates(self) -> int:
        """Optimizer steps taken, of the policy that was trained last."""
        return self._updates.get(self._module_id, 0)

    @updates.setter
    def updates(self, number: int) -> None:
        self._updates[self._module_id] = number

    def score_canary(self, prompt_ids: Any, ids: Any, module_id: str | None = None) -> Sent:
        """Scores what an engine sampled after a push; all learners take part.

        Args:
            prompt_ids: int32 (P,), the fixed prompt.
            ids: int32 (R,), the answer.
            module_id: The policy, where there are several.
        """
        self._module_id = module_id or self._module_id
        with torch.no_grad():
            out = self._forward(one_response(prompt_ids, ids, self._device), reference=False)
        module: Any = self._policy
        logprobs = out["logprobs"].cpu().numpy()
        return Sent(self._weights_seq_no, module.sent, module.dtype, logprobs)

    def score_rows(
        self, rows: Rows, reference: bool = False, module_id: str | None = None
    ) -> NDArray[np.float32]:
        """Scores response tokens without a gradient; all learners take part.

        Args:
            rows: This learner's rows; their action tokens are scored.
            reference: Whether the frozen reference scores.
            module_id: The policy, where there are several.

        Returns:
            float32 (sum of R,), log-probabilities; 0 where a token is none of the action.
        """
        self._module_id = module_id or self._module_id
        return self._score(rows, reference)

    def start_weights(self) -> dict[str, StartWeights]:
        """The weights that each policy starts from, by its id."""
        return self._started_from

    def get_metadata(self) -> dict[str, Any]:
        """RLlib's metadata of a checkpoint and the start weights."""
        metadata: dict[str, Any] = super().get_metadata()
        return metadata | as_metadata(self._started_from)

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state and the number of updates, which the warm-up goes by."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        several = len(self._module_ids) > 1
        return {**state, "updates": dict(self._updates) if several else self.updates}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state, an older one too.

        RLlib leaves weights out whose sequence number is not above its own, here and on the env
        runners; so a learner that has moved on takes the next number for what it restores.
        """
        own, self._weights_seq_no = self._weights_seq_no, -1
        super().set_state(state)
        self._weights_seq_no = max(0, self._weights_seq_no)
        if own > 0:
            self._weights_seq_no = max(own, self._weights_seq_no) + 1
        updates = state.get("updates", {})
        self._updates |= updates if isinstance(updates, dict) else {self._module_id: updates}

    def snapshot(self) -> tuple[bool, dict[str, Any]]:
        """Copies what updates have changed, of this learner's shares.

        Returns:
            That it is taken, which another process can know without fetching it; and the copy.
        """
        return True, {
            "tensors": copies(self._training_tensors()),
            "updates": dict(self._updates),
            "compared": set(self._compared),
            "start_weights": self._started_from,
            WEIGHTS_SEQ_NO: self._weights_seq_no,
            COMPONENT_METRICS_LOGGER: self.metrics.get_state(),
        }

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Goes on from a `snapshot` of a learner with the same share.

        Raises:
            OtherStartError: When the frozen weights have changed since the snapshot.
        """
        then = "set model: FOLDER in the config, and resume the run from its last checkpoint"
        for module_id, own in self._started_from.items():
            saved = snapshot["start_weights"][module_id]
            own.refuse_other(saved, module_id, "a learner that is built again", then)
        for module_id in self._module_ids:
            self._module_id = module_id
            if len(self._of_module(snapshot["tensors"])) > len(self._parameters):
                make_moments(self._trained, self.get_optimizer(module_id))
        fill(self._training_tensors(), snapshot["tensors"])
        self._updates, self._compared = snapshot["updates"], snapshot["compared"]
        self._weights_seq_no = snapshot[WEIGHTS_SEQ_NO]
        self.metrics.set_state(snapshot[COMPONENT_METRICS_LOGGER])

    def save_shards(self, path: str) -> None:
        """Saves this learner's shares; all learners call this together.

        Args:
            path: A folder that all learners see.
        """
        folder = Path(path)
        if torch.distributed.get_rank() == 0:
            left_out = [COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER]
            self.save_to_path(folder, state=self.get_state(not_components=left_out))
        save_shards(self._training_tensors(), folder / SHARDS)

    def restore_from_path(self, path: Any, **kwargs: Any) -> None:
        """Restores a checkpoint of whole weights or of shards; several learners do it together."""
        shards = Path(path) / SHARDS
        if shards.is_dir():
            if has_moments(shards):
                make_moments(self._model, self.get_optimizer(self._module_id))
            load_shards(self._training_tensors(), shards)
        super().restore_from_path(path, **kwargs)

    def restore_from_node(self, path: str, node: str, **kwargs: Any) -> None:
        """Restores a checkpoint that lies on another node."""
        if node == ray.util.get_node_ip_address() or Path(path).is_dir():
            self.restore_from_path(path, **kwargs)
            return
        with TemporaryDirectory() as folder:
            sync_dir_between_nodes(node, path, ray.util.get_node_ip_address(), folder)
            kwargs.pop("filesystem", None)
            self.restore_from_path(folder, **kwargs)

    def _get_optimizer_state(self) -> dict[str, Any]:
        if self._sharded:
            raise RuntimeError(
                "the optimizer's state of sharded learners is nowhere whole: save it with"
                " algorithm.save_to_path"
            )
        state: dict[str, Any] = super()._get_optimizer_state()
        return state

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        if not self._sharded:
            super()._set_optimizer_state(state)
            return
        for of_one in state.values():
            optimizer = self.get_optimizer(of_one["module_id"])
            split_moments(optimizer, of_one["state"]["state"])

    def _training_tensors(self) -> dict[str, Tensor]:
        ids = self._module_ids
        if len(ids) == 1:
            return training_tensors(self._trained, self.get_optimizer(self._module_id))
        tensors: dict[str, Tensor] = {}
        for module_id in ids:
            self._module_id = module_id
            own = training_tensors(self._trained, self.get_optimizer(module_id))
            tensors |= {f"{module_id}/{name}": tensor for name, tensor in own.items()}
        return tensors

    def _of_module(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Those of the training tensors that are of the present policy."""
        if len(self._module_ids) == 1:
            return tensors
        return {k: v for k, v in tensors.items() if k.startswith(f"{self._module_id}/")}

    @property
    def _module_ids(self) -> list[str]:
        """All policies, in order."""
        return sorted(self.module.keys())

    @property
    def _policy(self) -> Any:
        """The policy that is trained or scored now."""
        return self.module[self._module_id]

    @property
    def _shares(self) -> bool:
        """Whether it computes the common prefixes of rows once."""
        return bool(self._policy.shares_prefixes)

    @property
    def _lr(self) -> float:
        """Its full learning rate."""
        return float(self.config.policy_lr.get(self._module_id, self.config.lr))

    @property
    def _trained(self) -> Any:
        """What holds all trained parameters, by the names that checkpoints have."""
        return self._model

    @property
    def _model(self) -> Any:
        return self._policy.model

    def _make_modules_ddp_if_necessary(self) -> None:
        """No wrapper: `_update_minibatch` adds the gradients up."""

    def _map_module_to_device(self, module: Any) -> None:
        """Splits a model before it moves: no device need hold it whole.

        Policies with adapters on one base hold it once from there on.
        """
        if self._sharded:
            (policy,) = module.values()
            policy.shard(torch.device(self.device or "cpu").type)
        super()._map_module_to_device(module)
        share_bases([policy.model for policy in module.values()])

    @property
    def _sharded(self) -> bool:
        return bool(self.config.sharding == "fsdp" and self.distributed)

    @property
    def _parameters(self) -> list[torch.nn.Parameter]:
        optimizer = self.get_optimizer(self._module_id)
        parameters: Any = [self._params[ref] for ref in self._optimizer_parameters[optimizer]]
        return list(parameters)

    def _scored(self, rows: Rows) -> tuple[Rows, dict[str, float] | None]:
        """Fills in the reference's logprobs, and the policy's own where asked.

        Returns:
            The rows, and the mismatch of sampler and trainer where both were scored.
        """
        if self._settings.kl_coeff or self._settings.kl_coeff_format:
            rows = replace(rows, reference=self._score(rows, reference=True))
        if not self.config.recompute_logprobs:
            return rows, None
        own = self._score(rows, reference=False)
        settings: Any = self.config
        return correct(rows, own, settings, self._over_learners)

    def _score(self, rows: Rows, reference: bool) -> NDArray[np.float32]:
        """Log-probabilities of the response tokens that count, 0 elsewhere."""
        scores = np.zeros(len(rows.old_logprobs), dtype=np.float32)
        with torch.no_grad():
            for each in self._passes(rows):
                out = self._forward(each.batch, reference)
                if each.rows is not None:
                    counted = segments(rows.response_lengths, each.places)[each.batch.counted]
                    scores[counted] = out["logprobs"].cpu().numpy()
        return scores

    def _update_minibatch(
        self, rows: Rows, factor: float, updated: bool
    ) -> dict[str, float] | None:
        """One optimizer step, of this learner's rows together with those of the others.

        Args:
            rows: This learner's rows of the mini-batch.
            factor: See `Rows.minibatches`.
            updated: Whether there was an update on these rollouts before.

        Returns:
            Metrics of the mini-batch; None where no learner's rows have a counted token.
        """
        optimizer = self.get_optimizer(self._module_id)
        optimizer.zero_grad(set_to_none=True)
        self._terms.clear()
        self._sums.clear()
        for each in self._passes(rows):
            micro, batch = each.rows, each.batch
            set_gradient_sync(self._model, each.last or self.config.sync_each_pass)
            out = self._forward(batch, reference=False)
            if micro is None:
                (0.0 * out["logprobs"].sum()).backward()
                continue
            loss = self.compute_loss_for_module(
                module_id=self._module_id,
                config=self.config,
                batch=self._loss_inputs(micro, batch, factor),
                fwd_out=out,
            )
            loss.backward()
            if not updated:
                self._drifts.append(_drift(micro, batch, out["logprobs"]))
            acting, talking = micro.holding(micro.action), micro.holding(~micro.action)
            weights = micro.weights * factor
            shares = (float(weights[acting].sum()), float(weights[talking].sum()))
            self._sums.append((*shares, float(len(batch.targets))))
        metrics, counted = self._measured()
        if counted:
            compared = self._module_id in self._compared
            if not (compared or self._replays or self.config.recompute_logprobs):
                self._check_mismatch(metrics["approx_kl"])
            self._compared.add(self._module_id)
        self._learn_values(rows, factor)
        learned = self._add_up_gradients(bool(counted))
        norm, others = self._clip_gradients()
        finite = bool(np.isfinite(norm) and np.isfinite(others) and np.isfinite(metrics["loss"]))
        if finite:
            warmup = self.config.lr_warmup_updates
            self._set_lr(optimizer, min(1.0, (self.updates + 1) / max(warmup, 1)))
            optimizer.step()
            self.updates += learned
        else:
            logger.warning(
                "update skipped: loss %s, gradient norms %s and %s", metrics["loss"], norm, others
            )
        if not counted:
            return None
        return {**metrics, "grad_norm": norm, "skipped_updates": float(not finite)}

    def _in_groups(self, parameters: list[torch.nn.Parameter]) -> Any:
        """The parameters as the optimizer takes them."""
        return parameters

    def _set_lr(self, optimizer: Any, share: float) -> None:
        """Sets the learning rate to a share of the full one, while it warms up."""
        self._set_optimizer_lr(optimizer, self._lr * share)

    def _learn_values(self, rows: Rows, factor: float) -> None:
        """Adds the gradients of a critic; there is none here."""

    def _clip_gradients(self) -> tuple[float, float]:
        """Clips the gradients; returns their norm before that, and that of a critic's, here 0."""
        return self._clipped(self._parameters), 0.0

    def _clipped(self, parameters: Sequence[torch.nn.Parameter]) -> float:
        limit = self.config.grad_clip or float("inf")
        return float(gathered(torch.nn.utils.clip_grad_norm_(parameters, limit)))

    def _check_mismatch(self, mismatch: float) -> None:
        module: Any = self._policy
        bound = DTYPES[module.dtype].mismatch
        if mismatch > bound:
            raise RuntimeError(
                f"sampler and trainer disagree before the first update: mismatch_kl"
                f" {mismatch:.1e}, allowed {bound:.0e} in {module.dtype}. Likely causes: the engine"
                " has other weights than the trainer (a push that was lost or came late); it"
                " samples at another temperature; its attention, positions or precision differ for"
                f" {module.model.config.model_type!r} (see docs/models.md). With an engine that is"
                " meant to differ, set recompute_logprobs: true"
            )

    def _passes(self, rows: Rows) -> Iterator[_Pass]:
        """The forward passes over the rows that have a counted token.

        Passes over a sharded model are meetings of all learners. So they agree on the number first,
        and those with fewer rows go on with passes over nothing.
        """
        passes = [
            (places, micro)
            for places, micro in rows.numbered_microbatches(self.config.micro_batch_tokens)
            if self._counted(micro).any()
        ]
        most = len(passes)
        if self._sharded:
            most = int(self._over_learners([most], largest=True)[0])
        for number, (places, micro) in enumerate(passes, 1):
            batch = token_batch(micro, self._counted(micro), self._device, self._shares)
            yield _Pass(batch, number == most, micro, places)
        for number in range(len(passes) + 1, most + 1):
            yield _Pass(no_tokens(self._device), number == most)

    def _counted(self, rows: Rows) -> Any:
        return rows.action if not self._settings.kl_coeff_format else np.ones_like(rows.action)

    def _forward(self, batch: TokenBatch, reference: bool) -> dict[str, Tensor]:
        module: Any = self._policy
        with (
            module.network(reference) as model,
            last_mlp_at(model, batch.row, batch.position, batch.shared),
        ):
            out: dict[str, Tensor] = module.score(
                input_ids=batch.input_ids,
                row=batch.row,
                position=batch.position,
                targets=batch.targets,
                temperature=self.config.temperature,
                reference=reference,
                shared=batch.shared,
            )
        return out

    def _loss_inputs(self, rows: Rows, batch: TokenBatch, factor: float) -> LossInputs:
        counted = batch.counted
        to = self._device

        def column(values: Any) -> Tensor:
            return torch.from_numpy(np.asarray(values)).to(to)

        regularized = self._settings.kl_coeff or self._settings.kl_coeff_format
        return LossInputs(
            row=batch.row,
            action=column(rows.action[counted]),
            old_logprobs=column(rows.old_logprobs[counted]),
            advantage=column(rows.advantages),
            weight=column((rows.weights * factor).astype(np.float32)),
            reference_logprobs=column(rows.reference[counted]) if regularized else None,
            token_advantage=None
            if rows.token_advantages is None
            else column(rows.token_advantages[counted]),
        )

    def _add_up_gradients(self, counted: bool) -> bool:
        """Adds the gradients up over the learners; a parameter without one gets zeros.

        AdamW moves a parameter whose gradient is zero by its momentum, and leaves one without a
        gradient where it is; so one learner gets zeros as several do.

        Args:
            counted: Whether some learner's mini-batch has a counted token; else no parameter gets a
                gradient, and none moves.

        Returns:
            Whether any parameter gets one.
        """
        if counted:
            self._add_up(self._parameters)
        return counted

    def _add_up(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.distributed and not self._sharded:
            add_up([p.grad for p in parameters if p.grad is not None])

    def _measured(self) -> tuple[dict[str, float], int]:
        """Metrics of a mini-batch over all learners, and its number of counted tokens.

        Means are over the rows they are about.
        """
        sums = np.zeros(len(_SUMS) + 3)
        for terms, more in zip(self._terms, self._sums, strict=True):
            sums += [*(float(getattr(terms, name).detach()) for name in _SUMS), *more]
        total = self._over_learners(sums)
        metrics = dict(zip(_SUMS, total.tolist(), strict=False))
        acting, talking = np.maximum(total[-3:-1], 1e-12)
        for name in ("kl", "entropy", "clip_ratio", "ratio_mean", "approx_kl"):
            metrics[name] /= acting
        metrics["kl_format"] /= talking
        largest = max([float(t.ratio_max) for t in self._terms], default=0.0)
        metrics["ratio_max"] = float(self._over_learners([largest], largest=True)[0])
        return metrics, int(total[-1])

    def _over_learners(self, values: Any, largest: bool = False) -> Any:
        """The sums, or the largest, of these values over all learners."""
        if not self.distributed:
            return values
        tensor = torch.from_numpy(np.asarray(values, dtype=np.float64)).to(self._device)
        reduce = torch.distributed.ReduceOp
        torch.distributed.all_reduce(tensor, reduce.MAX if largest else reduce.SUM)
        return tensor.cpu().numpy()

    def _log_updates(
        self, updates: list[dict[str, float]], mismatch: dict[str, float], rows: int
    ) -> None:
        means = dict.fromkeys(UPDATE_METRICS, math.nan)
        if updates:
            means |= {name: float(np.mean([u[name] for u in updates])) for name in updates[0]}
            means["ratio_max"] = max(u["ratio_max"] for u in updates)
        means["skipped_updates"] = sum(u["skipped_updates"] for u in updates)
        means |= mismatch
        means["lr"] = self._get_optimizer_lr(self.get_optimizer(self._module_id))
        self.metrics.log_dict(means, key=self._module_id, reduce="mean", window=1)
        trained = (self._module_id, NUM_MODULE_STEPS_TRAINED)
        lifetime = (self._module_id, NUM_MODULE_STEPS_TRAINED_LIFETIME)
        self.metrics.log_value(trained, rows, reduce="sum")
        self.metrics.log_value(lifetime, rows, reduce="lifetime_sum")


def _drift(rows: Rows, batch: TokenBatch, logprobs: Tensor) -> Any:
    """Trainer's minus sampler's log-probability of each fresh action token, float64 (K,)."""
    own = logprobs.detach().cpu().numpy().astype(np.float64)
    measured = rows.action
    if rows.replayed is not None:
        measured = measured & ~np.repeat(rows.replayed, rows.response_lengths)
    return (own - rows.old_logprobs[batch.counted])[measured[batch.counted]]


def _any_replayed(rows: Rows) -> float:
    return float(rows.replayed is not None and rows.replayed.any())

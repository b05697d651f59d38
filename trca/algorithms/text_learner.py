"""`TextLearner`: the clipped objective on action tokens, for any number of learners.

Where this differs from RLlib's and the usual loops:

=======================  ===========================================================================
Batches                  Ragged `Rows`, not padded `MultiAgentBatch`es: rows of similar length share
                         a forward pass, and gradients accumulate over passes.
Several learners         Each takes its own rows of every mini-batch, sometimes none, and the
                         gradients are added up in buckets. Row weights come from the driver, so
                         the sum is that of one learner (DDP averages, and hangs without rows).
Logits                   At the tokens that enter the objective alone.
Reference                Scored once an iteration, before the epochs.
Not-finite steps         A loss or gradient norm that is not finite skips the update, and is counted
                         (RLlib's ``torch_skip_nan_gradients`` takes such steps).
Empty mini-batches       A mini-batch without a counted token moves no weight and enters no metric.
Mismatch                 Before its first update a learner compares its log-probabilities with the
                         sampler's, and stops when they are too far apart.
=======================  ===========================================================================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import (
    NUM_MODULE_STEPS_TRAINED,
    NUM_MODULE_STEPS_TRAINED_LIFETIME,
)
from torch import Tensor

from trca.algorithms.gradients import add_up
from trca.algorithms.last_mlp import last_mlp_at
from trca.algorithms.losses import LossInputs, LossTerms, objective
from trca.algorithms.parameters import LossSettings
from trca.algorithms.rows import Rows, segments
from trca.algorithms.tensors import TokenBatch, token_batch
from trca.algorithms.text_config import TextAlgorithmConfig
from trca.policies.dtypes import DTYPES

logger = logging.getLogger(__name__)

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
    "mismatch_kl",
    "skipped_updates",
    "lr",
)
"""Names of the metrics of an update, logged by the module's id."""


class TextLearner(TorchLearner):
    """Updates a language model on credited steps.

    Attributes:
        updates: Optimizer steps taken.
    """

    config: TextAlgorithmConfig

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.updates = 0
        self._compared = False
        self._terms: list[LossTerms] = []
        self._sums: list[tuple[float, float, float]] = []

    def build(self) -> None:
        """Builds module and optimizer; every learner starts from the first one's weights."""
        torch.set_num_threads(self.config.torch_threads)
        super().build()
        settings = {name: getattr(self.config, name) for name in LossSettings.model_fields}
        self._settings = LossSettings(**settings)
        if self.distributed:
            for parameter in self._parameters:
                torch.distributed.broadcast(parameter.data, src=0)

    def configure_optimizers_for_module(
        self, module_id: str, config: AlgorithmConfig | None = None
    ) -> None:
        """AdamW over the trainable parameters: the reference is frozen."""
        module: Any = self.module[module_id]
        parameters = [p for p in module.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(
            parameters,
            lr=self.config.lr,
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
            training_data: Its ``batch`` is this learner's `Rows`.
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
        rows, mismatch = self._scored(given)
        updates: list[dict[str, float]] = []
        for epoch in range(self.config.num_epochs):
            key = (*shuffle_key, epoch)
            for minibatch, factor in rows.minibatches(self.config.minibatch_size, key):
                metrics = self._update_minibatch(minibatch, factor)
                if metrics is not None:
                    updates.append(metrics)
        if mismatch is None:
            mismatch = updates[0]["approx_kl"] if updates else math.nan
        self._log_updates(updates, mismatch, len(rows) * self.config.num_epochs)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

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

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state and the number of updates, which the warm-up goes by."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        return {**state, "updates": self.updates}

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
        self.updates = state.get("updates", self.updates)

    def _make_modules_ddp_if_necessary(self) -> None:
        """No wrapper: `_update_minibatch` adds the gradients up."""

    @property
    def _parameters(self) -> list[torch.nn.Parameter]:
        parameters: Any = self._params.values()
        return list(parameters)

    def _scored(self, rows: Rows) -> tuple[Rows, float | None]:
        """Fills in the reference's logprobs, and the policy's own where asked.

        Returns:
            The rows, and the mismatch of sampler and trainer where both were scored.
        """
        if self._settings.kl_coeff or self._settings.kl_coeff_format:
            rows = replace(rows, reference=self._score(rows, reference=True))
        if not self.config.recompute_logprobs:
            return rows, None
        own = self._score(rows, reference=False)
        drift = (own - rows.old_logprobs)[rows.action].astype(np.float64)
        total = self._over_learners(np.array([np.sum(np.expm1(drift) - drift), len(drift)]))
        return replace(rows, old_logprobs=own), float(total[0] / max(total[1], 1.0))

    def _score(self, rows: Rows, reference: bool) -> Any:
        """Log-probabilities of the response tokens that count, 0 elsewhere."""
        scores = np.zeros(len(rows.old_logprobs), dtype=np.float32)
        with torch.no_grad():
            for order, micro in rows.numbered_microbatches(self.config.micro_batch_tokens):
                batch = self._tensors(micro)
                if len(batch.targets):
                    out = self._forward(batch, reference)
                    places = segments(rows.response_lengths, order)[batch.counted]
                    scores[places] = out["logprobs"].cpu().numpy()
        return scores

    def _update_minibatch(self, rows: Rows, factor: float) -> dict[str, float] | None:
        """One optimizer step, of this learner's rows together with those of the others.

        Returns:
            Metrics of the mini-batch; None where no learner's rows have a counted token.
        """
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID)
        optimizer.zero_grad(set_to_none=True)
        self._terms.clear()
        self._sums.clear()
        for micro in rows.microbatches(self.config.micro_batch_tokens):
            batch = self._tensors(micro)
            if not len(batch.targets):
                continue
            loss = self.compute_loss_for_module(
                module_id=DEFAULT_MODULE_ID,
                config=self.config,
                batch=self._loss_inputs(micro, batch, factor),
                fwd_out=self._forward(batch, reference=False),
            )
            loss.backward()
            acting, talking = micro.holding(micro.action), micro.holding(~micro.action)
            weights = micro.weights * factor
            shares = (float(weights[acting].sum()), float(weights[talking].sum()))
            self._sums.append((*shares, float(len(batch.targets))))
        metrics, counted = self._measured()
        if counted:
            if not self._compared and not self.config.recompute_logprobs:
                self._check_mismatch(metrics["approx_kl"])
            self._compared = True
            self._add_up_gradients()
        limit = self.config.grad_clip or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, limit))
        finite = bool(np.isfinite(norm) and np.isfinite(metrics["loss"]))
        if finite:
            warmup = self.config.lr_warmup_updates
            lr = self.config.lr * min(1.0, (self.updates + 1) / max(warmup, 1))
            self._set_optimizer_lr(optimizer, lr)
            optimizer.step()
            self.updates += 1
        else:
            logger.warning("update skipped: loss %s, gradient norm %s", metrics["loss"], norm)
        if not counted:
            return None
        return {**metrics, "grad_norm": norm, "skipped_updates": float(not finite)}

    def _check_mismatch(self, mismatch: float) -> None:
        module: Any = self.module[DEFAULT_MODULE_ID]
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

    def _tensors(self, rows: Rows) -> TokenBatch:
        counted = rows.action if not self._settings.kl_coeff_format else np.ones_like(rows.action)
        return token_batch(rows, counted, self._device)

    def _forward(self, batch: TokenBatch, reference: bool) -> dict[str, Tensor]:
        module: Any = self.module[DEFAULT_MODULE_ID]
        with module.network(reference) as model, last_mlp_at(model, batch.row, batch.position):
            out: dict[str, Tensor] = module.score(
                input_ids=batch.input_ids,
                row=batch.row,
                position=batch.position,
                targets=batch.targets,
                temperature=self.config.temperature,
                reference=reference,
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
        )

    def _add_up_gradients(self) -> None:
        """Adds the gradients up over the learners; a parameter without one gets zeros.

        AdamW moves a parameter whose gradient is zero by its momentum, and leaves one without a
        gradient where it is; so one learner gets zeros as several do. A mini-batch without a
        counted token does not come here: no parameter gets a gradient, and none moves.
        """
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.distributed:
            add_up([p.grad for p in self._parameters if p.grad is not None])

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

    def _log_updates(self, updates: list[dict[str, float]], mismatch: float, rows: int) -> None:
        means = dict.fromkeys(UPDATE_METRICS, math.nan)
        if updates:
            means |= {name: float(np.mean([u[name] for u in updates])) for name in updates[0]}
            means["ratio_max"] = max(u["ratio_max"] for u in updates)
        means["skipped_updates"] = sum(u["skipped_updates"] for u in updates)
        means["mismatch_kl"] = mismatch
        means["lr"] = self._get_optimizer_lr(self.get_optimizer(DEFAULT_MODULE_ID))
        self.metrics.log_dict(means, key=DEFAULT_MODULE_ID, reduce="mean", window=1)
        trained = (DEFAULT_MODULE_ID, NUM_MODULE_STEPS_TRAINED)
        lifetime = (DEFAULT_MODULE_ID, NUM_MODULE_STEPS_TRAINED_LIFETIME)
        self.metrics.log_value(trained, rows, reduce="sum")
        self.metrics.log_value(lifetime, rows, reduce="lifetime_sum")

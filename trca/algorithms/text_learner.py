"""`TextLearner`: the clipped objective on action tokens, for any number of learners.

Where this differs from RLlib's and the usual loops:

=======================  ===========================================================================
Batches                  Ragged `Rows`, not padded `MultiAgentBatch`es: rows of similar length share
                         a forward pass, and gradients accumulate over passes.
Several learners         Each takes its own rows of every mini-batch, none sometimes, and one
                         all-reduce adds the gradients up. Weights come from the driver, so the sum
                         is that of one learner (a DDP wrapper averages, and hangs without rows).
Logits                   At the tokens that enter the objective alone.
Reference                Scored once an iteration, before the epochs.
Not-finite steps         A loss or gradient norm that is not finite skips the update, and is counted
                         (RLlib's ``torch_skip_nan_gradients`` takes such steps).
=======================  ===========================================================================
"""

from __future__ import annotations

import logging
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

from trca.algorithms.last_mlp import last_mlp_at
from trca.algorithms.losses import LossInputs, LossSettings, LossTerms, objective
from trca.algorithms.rows import Rows, segments
from trca.algorithms.tensors import TokenBatch, token_batch
from trca.algorithms.text_config import TextAlgorithmConfig

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
STATISTICS: Final = (
    *_SUMS,
    "ratio_max",
    "grad_norm",
    "mismatch_kl",
    "skipped_updates",
    "lr",
)
"""Names of the figures of an update, logged by the module's id."""


class TextLearner(TorchLearner):
    """Updates a language model on credited steps.

    Attributes:
        updates: Optimizer steps taken.
    """

    config: TextAlgorithmConfig

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.updates = 0
        self._terms: list[LossTerms] = []
        self._shares: list[tuple[float, float]] = []

    def build(self) -> None:
        """Builds module and optimizer; every learner starts from the first one's weights."""
        torch.set_num_threads(self.config.torch_threads)
        super().build()
        settings = {name: getattr(self.config, name) for name in LossSettings.__dataclass_fields__}
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
        figures: list[dict[str, float]] = []
        for epoch in range(self.config.num_epochs):
            key = (*shuffle_key, epoch)
            for minibatch, factor in rows.minibatches(self.config.minibatch_size, key):
                figures.append(self._update_minibatch(minibatch, factor))
        if mismatch is None:
            mismatch = figures[0]["approx_kl"]
        self._log_figures(figures, mismatch, len(rows) * self.config.num_epochs)
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
        total = self._sum(np.array([np.sum(np.expm1(drift) - drift), len(drift)]))
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

    def _update_minibatch(self, rows: Rows, factor: float) -> dict[str, float]:
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID)
        optimizer.zero_grad(set_to_none=True)
        self._terms.clear()
        self._shares.clear()
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
            self._shares.append((float(weights[acting].sum()), float(weights[talking].sum())))
        self._add_up_gradients()
        figures = self._figures()
        limit = self.config.grad_clip or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, limit))
        finite = bool(np.isfinite(norm) and np.isfinite(figures["loss"]))
        if finite:
            warmup = self.config.lr_warmup_updates
            lr = self.config.lr * min(1.0, (self.updates + 1) / max(warmup, 1))
            self._set_optimizer_lr(optimizer, lr)
            optimizer.step()
            self.updates += 1
        else:
            logger.warning("update skipped: loss %s, gradient norm %s", figures["loss"], norm)
        return {**figures, "grad_norm": norm, "skipped_updates": float(not finite)}

    def _tensors(self, rows: Rows) -> TokenBatch:
        counted = rows.action if not self._settings.kl_coeff_format else np.ones_like(rows.action)
        return token_batch(rows, counted, self._device)

    def _forward(self, batch: TokenBatch, reference: bool) -> dict[str, Tensor]:
        module: Any = self.module[DEFAULT_MODULE_ID]
        model = module.reference if reference else module.model
        with last_mlp_at(model, batch.row, batch.position):
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
        if not self.distributed:
            return
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        torch.distributed.all_reduce(flat)
        for gradient, part in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))

    def _figures(self) -> dict[str, float]:
        """Figures of a mini-batch over all learners; means are over the rows they are about."""
        sums = np.zeros(len(_SUMS) + 2)
        for terms, shares in zip(self._terms, self._shares, strict=True):
            sums += [*(float(getattr(terms, name).detach()) for name in _SUMS), *shares]
        total = self._sum(sums)
        figures = dict(zip(_SUMS, total.tolist(), strict=False))
        acting, talking = np.maximum(total[-2:], 1e-12)
        for name in ("kl", "entropy", "clip_ratio", "ratio_mean", "approx_kl"):
            figures[name] /= acting
        figures["kl_format"] /= talking
        return {**figures, "ratio_max": max([float(t.ratio_max) for t in self._terms], default=0.0)}

    def _sum(self, values: Any) -> Any:
        if not self.distributed:
            return values
        tensor = torch.from_numpy(np.asarray(values, dtype=np.float64)).to(self._device)
        torch.distributed.all_reduce(tensor)
        return tensor.cpu().numpy()

    def _log_figures(self, figures: list[dict[str, float]], mismatch: float, rows: int) -> None:
        means = {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}
        means["ratio_max"] = max(f["ratio_max"] for f in figures)
        means["skipped_updates"] = sum(f["skipped_updates"] for f in figures)
        means["mismatch_kl"] = mismatch
        means["lr"] = self._get_optimizer_lr(self.get_optimizer(DEFAULT_MODULE_ID))
        self.metrics.log_dict(means, key=DEFAULT_MODULE_ID, reduce="mean", window=1)
        trained = (DEFAULT_MODULE_ID, NUM_MODULE_STEPS_TRAINED)
        lifetime = (DEFAULT_MODULE_ID, NUM_MODULE_STEPS_TRAINED_LIFETIME)
        self.metrics.log_value(trained, rows, reduce="sum")
        self.metrics.log_value(lifetime, rows, reduce="lifetime_sum")

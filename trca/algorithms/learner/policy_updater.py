"""`PolicyUpdater`: one policy of a learner, its parameters, optimizers, counters and passes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trca.algorithms.learner.losses import LossInputs, LossTerms, objective
from trca.algorithms.learner.mismatch import (
    MISMATCH_METRICS,
    correct,
    drift_metrics,
    drift_of,
    refuse_mismatch,
)
from trca.algorithms.learner.optimizers import OptimizerSpec, groups_of, make_optimizers
from trca.algorithms.learner.passes import ForwardPasses, Reduction, TokenBatch
from trca.algorithms.learner.rows import Rows
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.policies.llm_module import LLMModule
from trca.policies.sharding import gathered, set_gradient_sync
from trca.records import Floats

logger = logging.getLogger(__name__)

_SUMS: Final = tuple(f.name for f in fields(LossTerms) if f.name != "ratio_max")
UPDATE_METRICS: Final = (
    *_SUMS,
    "ratio_max",
    "grad_norm",
    *MISMATCH_METRICS,
    "skipped_updates",
    "lr",
)
"""Names of the metrics of an update, logged by the module's id."""

ComputeLoss = Callable[[LossInputs, dict[str, Tensor]], Tensor]
"""The loss of a pass, from what is known before the pass and its outputs."""


class MinibatchSums:
    """The loss terms of the passes of one mini-batch, and the size of each pass.

    The terms stay on their device until `metrics`: reading a term earlier waits for the pass.
    """

    def __init__(self) -> None:
        """Begins without a pass."""
        self.terms: list[LossTerms] = []
        self._sizes: list[tuple[float, float, float]] = []

    def add_size(self, rows: Rows, factor: float, tokens: int) -> None:
        """Adds the weight of a pass, scaled by ``factor``, and its number of counted tokens."""
        weights = rows.weights * factor
        acting = float(weights[rows.holding(rows.action_mask)].sum())
        talking = float(weights[rows.holding(~rows.action_mask)].sum())
        self._sizes.append((acting, talking, float(tokens)))

    def metrics(self, reduction: Reduction) -> tuple[dict[str, float], int]:
        """Metrics of the mini-batch over all learners, and the number of counted tokens.

        Each mean is over the rows that have a token of the metric's kind; nan without such a row.
        """
        sums = np.zeros(len(_SUMS) + 3)
        for terms, size in zip(self.terms, self._sizes, strict=True):
            sums += [*(float(getattr(terms, name).detach()) for name in _SUMS), *size]
        total = reduction.numbers(sums)
        metrics = dict(zip(_SUMS, total.tolist(), strict=False))
        acting, talking = (float(weight) or math.nan for weight in total[-3:-1])
        for name in ("kl", "entropy", "clip_ratio", "ratio_mean", "approx_kl"):
            metrics[name] /= acting
        metrics["kl_format"] /= talking
        largest = max([float(t.ratio_max) for t in self.terms], default=0.0)
        metrics["ratio_max"] = float(reduction.numbers([largest], largest=True)[0])
        return metrics, int(total[-1])


class PolicyUpdater:
    """Updates one policy on its rows.

    Attributes:
        parameters: Its trained parameters, in the order of the module.
        optimizers: Its optimizers, by their names in checkpoints.
        updates: Optimizer steps so far. The warm-up of the learning rate reads the number.
        compared: Whether the sampler's and the trainer's log-probabilities have been compared.
    """

    def __init__(
        self,
        module_id: str,
        module: LLMModule,
        config: PolicyConfig,
        reduction: Reduction,
        compute_loss: ComputeLoss,
    ) -> None:
        """Makes the optimizers of a module on its device, split where learners split it."""
        self.module, self.config = module, config
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.passes = ForwardPasses(module, config, reduction)
        self.updates = 0
        self.compared = False
        self._lr = float(config.settings.policy_lr.get(module_id, config.settings.lr))
        self._reduction, self._compute_loss = reduction, compute_loss
        self._sums = MinibatchSums()
        self._settings = config.settings
        self._of_minibatch = self._settings
        betas, decay = config.settings.adam_betas, config.settings.weight_decay
        self._groups = self._parameter_groups()
        spec = OptimizerSpec(self._groups, module, betas, decay)
        self.optimizers = make_optimizers(config.settings.optimizer, spec)
        self._rates = [float(group["lr"]) for group in groups_of(self.optimizers)]
        self._decay = 1.0

    @property
    def trained(self) -> nn.Module:
        """The module whose parameter names checkpoints have."""
        model: nn.Module = self.module.model
        return model

    def update(
        self, rows: Rows, shuffle_key: Sequence[int], iteration: int = 1
    ) -> dict[str, float]:
        """Trains ``num_epochs`` over this learner's rows; all learners call this together.

        Returns the metrics of the iteration. `TextLearner.update` has the arguments.
        """
        config, reduce = self.config, self._reduction.numbers
        passed = min((iteration - 1) / max(config.settings.iterations - 1, 1), 1.0)
        self._decay = 1.0 - (1.0 - config.settings.lr_end_factor) * passed
        replays = False
        if config.settings.replay_size:
            replays = bool(reduce([float(rows.replayed.any())], largest=True)[0])
        self._compare_sampler(rows)
        rows, mismatch = self._scored(rows)
        updates: list[dict[str, float]] = []
        self._norms: list[list[float]] = []
        skipped = 0
        drifts: list[Floats] = []
        for epoch in range(config.settings.num_epochs):
            key = (*shuffle_key, epoch)
            for minibatch, factor in rows.minibatches(config.settings.minibatch_size, key):
                first = None if updates else drifts
                metrics, finite = self._update_minibatch(minibatch, factor, first)
                skipped += not finite
                if metrics is not None:
                    updates.append(metrics)
        if mismatch is None:
            mismatch = drift_metrics(np.concatenate([*drifts, np.empty(0)]), reduce)
            if not replays:
                mismatch["mismatch_kl"] = updates[0]["approx_kl"] if updates else math.nan
        return mean_metrics(updates, mismatch, groups_of(self.optimizers)[0]["lr"], skipped)

    def loss(self, inputs: LossInputs, out: dict[str, Tensor]) -> Tensor:
        """The objective of a pass, for `TextLearner.compute_loss_for_module`; notes its terms."""
        terms = objective(inputs, out["logprobs"], out["entropy"], self._of_minibatch)
        self._sums.terms.append(terms)
        return terms.loss

    def _compare_sampler(self, rows: Rows) -> None:
        """Compares sampler and trainer, once, before the first update with a fresh action."""
        if self.compared or self.config.settings.recompute_logprobs:
            return
        fresh = rows.holding(rows.action_mask & np.isfinite(rows.old_logprobs)) & ~rows.replayed
        some = rows.take(np.flatnonzero(fresh)[: self.config.settings.minibatch_size])
        drift = (self.passes.score(some).astype(np.float64) - some.old_logprobs)[some.action_mask]
        kl = drift_metrics(drift, self._reduction.numbers)["mismatch_kl"]
        self.compared = not math.isnan(kl)
        refuse_mismatch(kl, self.module)

    def _scored(self, rows: Rows) -> tuple[Rows, dict[str, float] | None]:
        """Fills in scores of the reference and, if configured, of the policy with its mismatch."""
        if self._settings.kl_coeff or self._settings.kl_coeff_format:
            reference = self.passes.score(rows, reference=True)
            rows = replace(rows, optional={**rows.optional, "reference": reference})
        if not self.config.settings.recompute_logprobs:
            return rows, None
        logprobs = self.passes.score(rows)
        return correct(rows, logprobs, self.config.settings, self._reduction.numbers)

    def _update_minibatch(
        self, rows: Rows, factor: float, drifts: list[Floats] | None
    ) -> tuple[dict[str, float] | None, bool]:
        """Takes one optimizer step on the rows of all learners.

        Returns metrics, None if no learner has a row with a counted token; and whether loss and
        gradients are finite. ``drifts`` gets the drift of sampler and trainer; None after the first
        update.
        """
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        self._sums, self._of_minibatch = MinibatchSums(), self._settings
        if self._settings.entropy_coeff and not self._has_advantage(rows):
            self._of_minibatch = self._settings.model_copy(update={"entropy_coeff": 0.0})
        self._add_gradients(rows, factor, drifts)
        metrics, counted = self._sums.metrics(self._reduction)
        self._add_value_gradients(rows, factor)
        learns = self._learns(bool(counted))
        for group, has_gradient in zip(self._groups, learns, strict=True):
            self._reduction.gradients(group["params"] if has_gradient else [])
        norms = [self._clip(group["params"]) for group in self._groups]
        self._norms.append(norms)
        finite = bool(np.isfinite([metrics["loss"], *norms]).all())
        if finite:
            self._step(any(learns))
        else:
            logger.warning("update skipped: loss %s, gradient norms %s", metrics["loss"], norms)
        return ({**metrics, "grad_norm": norms[0]} if counted else None), finite

    def _has_advantage(self, rows: Rows) -> bool:
        """Whether an action of the mini-batch has an advantage, on any learner.

        Without one the entropy bonus would be alone, and Adam turns even its small gradient into
        steps of full size: the policy stops writing readable responses.
        """
        weighted = rows.weights > 0  # a step outside of action_ratio_band has no weight
        has = np.any(rows.advantages[rows.holding(rows.action_mask) & weighted])
        if "token_advantages" in rows.optional:
            of_weighted = np.repeat(weighted, rows.response_lengths)
            has |= np.any(rows.optional["token_advantages"][rows.action_mask & of_weighted])
        return bool(self._reduction.numbers([float(has)], largest=True)[0])

    def _add_gradients(self, rows: Rows, factor: float, drifts: list[Floats] | None) -> None:
        """Adds the gradients of the objective, pass by pass."""
        for each in self.passes.over(rows):
            set_gradient_sync(self.module.model, each.last or self.config.settings.sync_each_pass)
            out = self.passes.run(each.batch)
            if each.rows is None:
                (0.0 * out["logprobs"].sum()).backward()
                continue
            inputs = self._loss_inputs(each.rows, each.batch, factor)
            self._compute_loss(inputs, out).backward()
            if drifts is not None:
                drifts.append(drift_of(each.rows, each.batch.scored, out["logprobs"]))
            self._sums.add_size(each.rows, factor, len(each.batch.targets))

    def _step(self, learned: bool) -> None:
        """Takes a step of each optimizer; a step without a gradient does not count."""
        share = min(1.0, (self.updates + 1) / max(self.config.settings.lr_warmup_updates, 1))
        for group, rate in zip(groups_of(self.optimizers), self._rates, strict=True):
            group["lr"] = rate * share * self._decay
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.updates += learned

    def _loss_inputs(self, rows: Rows, batch: TokenBatch, factor: float) -> LossInputs:
        scored = batch.scored

        def column(values: NDArray[Any]) -> Tensor:
            return torch.from_numpy(values).to(self._reduction.device)

        def optional(name: str) -> Tensor | None:
            return column(rows.optional[name][scored]) if name in rows.optional else None

        return LossInputs(
            row=batch.row,
            action_mask=column(rows.action_mask[scored]),
            old_logprobs=column(rows.old_logprobs[scored]),
            advantage=column(rows.advantages),
            weight=column((rows.weights * factor).astype(np.float32)),
            reference_logprobs=optional("reference"),
            token_advantage=optional("token_advantages"),
        )

    def _parameter_groups(self) -> list[dict[str, Any]]:
        """The trained parameters in groups of one learning rate, which are clipped separately."""
        return [{"params": self.parameters, "lr": self._lr}]

    def _add_value_gradients(self, rows: Rows, factor: float) -> None:
        """Adds the gradients of a critic, if there is one."""

    def _learns(self, counted: bool) -> list[bool]:
        """Whether each group of parameters has a gradient; ``counted`` if the policy has one."""
        return [counted]

    def _clip(self, parameters: Sequence[nn.Parameter]) -> float:
        limit = self.config.settings.grad_clip or float("inf")
        return float(gathered(torch.nn.utils.clip_grad_norm_(parameters, limit)))


def mean_of(values: Sequence[float]) -> float:
    """The mean of the values that are not nan; nan without such a value."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def mean_metrics(
    updates: Sequence[dict[str, float]], mismatch: dict[str, float], lr: float, skipped: int
) -> dict[str, float]:
    """`UPDATE_METRICS` of an iteration: means over the updates with a counted token, or nan."""
    means = dict.fromkeys(UPDATE_METRICS, math.nan)
    if updates:
        means |= {name: mean_of([u[name] for u in updates]) for name in updates[0]}
        means["ratio_max"] = max(u["ratio_max"] for u in updates)
    return means | mismatch | {"lr": lr, "skipped_updates": float(skipped)}

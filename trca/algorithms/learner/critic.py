"""`ActorCriticLearner`: the learner of a policy and its critic.

::

    loss = 1/2 mean max((V - target)^2, (clip(V, V_old - c, V_old + c) - target)^2)

V_old are the values when the rollouts were credited. The mean is over the fresh steps of the
iteration; a step counts as the mean over its places that have a target. Mini-batches and the number
of learners do not change the mean. Replayed steps have no target and do not enter the mean.

Where this differs from the usual loops:

=======================  ===========================================================================
Passes                   The critic has separate passes, also as a head on the policy's hidden
                         states: rows without an action token teach the critic too.
Optimizer                The weights of the critic are a second group with the learning rate
                         ``critic_lr``. The gradients of policy and critic are clipped separately,
                         so that a large error of an own critic does not slow the policy down. With
                         ``critic: trunk`` the critic's gradient also flows into the policy's
                         weights, and the sum is clipped there.
=======================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trca.algorithms.learner.learner import TextLearner
from trca.algorithms.learner.passes import token_batch
from trca.algorithms.learner.policy_updater import PolicyUpdater
from trca.algorithms.learner.rows import Rows, segments
from trca.records import Bools, Floats

CRITIC_METRICS: Final = ("value_loss", "value_clip_ratio", "critic_grad_norm")
"""Names of the metrics of a critic's updates."""


class ActorCriticUpdater(PolicyUpdater):
    """Updates a policy on credited steps, and its critic on their targets."""

    @property
    def trained(self) -> nn.Module:
        """The policy's module: checkpoints name the parameters of policy and critic."""
        return self.module

    def update(
        self, rows: Rows, shuffle_key: Sequence[int], iteration: int = 1
    ) -> dict[str, float]:
        """As `PolicyUpdater.update`, with `CRITIC_METRICS`."""
        self._value_sums: list[Floats] = []
        metrics = super().update(rows, shuffle_key, iteration)
        loss, clipped, weight = np.mean(self._value_sums, axis=0)
        _, norm = np.mean(self._norms, axis=0)
        means = (2 * loss / max(weight, 1e-12), clipped / max(weight, 1e-12), norm)
        return metrics | dict(zip(CRITIC_METRICS, map(float, means), strict=True))

    def values(self, rows: Rows) -> NDArray[np.float32]:
        """Values of the text before each response token, without a gradient, (sum of R, H)."""
        values = np.zeros(
            (len(rows.action_mask), self.config.settings.value_heads), dtype=np.float32
        )
        with torch.no_grad():
            for places, micro in rows.microbatches(self.config.settings.micro_batch_tokens):
                of_micro = self._values(micro, np.ones(len(micro.action_mask), dtype=bool))
                values[segments(rows.response_lengths, places)] = of_micro.cpu().numpy()
        return values

    def _values(self, rows: Rows, places: Bools) -> Tensor:
        """Values of the text before these response tokens, (K, H)."""
        shares = bool(self.module.shares_prefixes)
        batch = token_batch(rows, places, self._reduction.device, shares)
        return self.module.values(
            input_ids=batch.input_ids, row=batch.row, position=batch.position, shared=batch.shared
        )

    def _add_value_gradients(self, rows: Rows, factor: float) -> None:
        sums, device = np.zeros(3), self._reduction.device
        settings: Any = self.config.settings  # of an algorithm with a critic
        for _, micro in rows.microbatches(settings.micro_batch_tokens):
            if "value_targets" not in micro.optional:
                continue  # all rows are replayed
            targets = micro.optional["value_targets"]
            targeted = ~np.isnan(targets)
            taught: Bools = np.any(targeted, axis=1)
            if not taught.any():
                continue
            row = np.repeat(np.arange(len(micro)), micro.response_lengths)
            each = np.stack([np.bincount(row, k, len(micro)) for k in targeted.T], axis=1)
            share = factor / rows.fresh_total / np.maximum(each, 1.0)[row]
            at = targeted[taught]

            def column(values: NDArray[Any], taught: Any = taught, at: Any = at) -> Tensor:
                return torch.from_numpy(values[taught][at].astype(np.float32)).to(device)

            with self.module.critic_network():
                values = self._values(micro, taught)
                loss, clipped = value_loss(
                    values[torch.from_numpy(at).to(device)],
                    column(micro.optional["old_values"]),
                    column(targets),
                    column(share),
                    settings.value_clip,
                )
                (settings.value_coeff * loss).backward()
            sums += [float(loss.detach()), float(clipped), share[taught][at].sum()]
        self._value_sums.append(self._reduction.numbers(sums))

    def _learns(self, counted: bool) -> list[bool]:
        taught = bool(self._value_sums[-1][2] > 0)
        return [counted or (taught and self.config.settings.critic_kind == "trunk"), taught]

    def _parameter_groups(self) -> list[dict[str, Any]]:
        settings: Any = self.config.settings
        ids = {id(parameter) for parameter in self.module.critic_parameters()}
        policy = [p for p in self.parameters if id(p) not in ids]
        critic = [p for p in self.parameters if id(p) in ids]
        return [{"params": policy, "lr": self._lr}, {"params": critic, "lr": settings.critic_lr}]


class ActorCriticLearner(TextLearner):
    """Updates language models on credited steps, and their critics on targets."""

    updater_class: ClassVar[type[PolicyUpdater]] = ActorCriticUpdater

    def value_rows(self, rows: Rows, module_id: str | None = None) -> NDArray[np.float32]:
        """Values of the text before each response token, float32 (sum of R, H).

        All learners take part, each with its rows. Without ``module_id`` the only policy answers.
        """
        updater = self._updater(module_id)
        assert isinstance(updater, ActorCriticUpdater)
        return updater.values(rows)


def value_loss(
    values: Tensor, old: Tensor, targets: Tensor, weight: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """The clipped squared error of K values, and the weighted share that the clip stops; scalars.

    ``clip`` is the largest difference to the old value; None for no limit.
    """
    error = (values - targets).square()
    if clip is None:
        return 0.5 * (weight * error).sum(), torch.zeros((), device=values.device)
    clipped = (old + (values - old).clamp(-clip, clip) - targets).square()
    loss = 0.5 * (weight * torch.maximum(error, clipped)).sum()
    return loss, (weight * (clipped > error)).sum().detach()

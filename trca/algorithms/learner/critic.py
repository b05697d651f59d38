"""`ActorCriticLearner`: the learner with a critic beside the objective.

::

    loss = 1/2 mean max((V - target)^2, (clip(V, V_old - c, V_old + c) - target)^2)

V_old are the values when the rollouts were credited. The mean is over the iteration's own steps,
each the mean over its places that have a target, whatever the cut into mini-batches and learners.
Replayed steps have no target and no part in the mean.

Where this differs from the usual loops:

=======================  ===========================================================================
Passes                   The critic has passes of its own, also where it is a head on the policy's
                         hidden states: rows without an action token teach the critic too.
Optimizer                One AdamW, the critic's own weights with their own learning rate; gradient
                         norms are clipped apart, so that a large error of the critic does not slow
                         the policy down.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trca.algorithms.learner.learner import TextLearner
from trca.algorithms.learner.rows import Rows, segments
from trca.algorithms.learner.tensors import token_batch

CRITIC_METRICS: Final = ("value_loss", "value_clip_ratio", "critic_grad_norm")
"""Names of the metrics of a critic's updates."""


class ActorCriticLearner(TextLearner):
    """Updates a language model on credited steps, and a critic on their targets."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._of_values: list[NDArray[np.float64]] = []

    def value_rows(self, rows: Rows, module_id: str | None = None) -> NDArray[np.float32]:
        """Values of the text before each response token; all learners take part.

        Args:
            rows: This learner's rows.
            module_id: The policy, where there are several.

        Returns:
            float32 (sum of R, H).
        """
        self._module_id = module_id or self._module_id
        found = np.zeros((len(rows.action), self.config.value_heads), dtype=np.float32)
        with torch.no_grad():
            for places, micro in rows.numbered_microbatches(self.config.micro_batch_tokens):
                values = self._values(micro, np.ones(len(micro.action), dtype=bool))
                found[segments(rows.response_lengths, places)] = values.cpu().numpy()
        return found

    def _values(self, rows: Rows, places: NDArray[np.bool_]) -> Tensor:
        """Values of the text before these response tokens, (K, H)."""
        batch = token_batch(rows, places, self._device, self._shares)
        values: Tensor = self._policy.values(
            input_ids=batch.input_ids,
            row=batch.row,
            position=batch.position,
            shared=batch.shared,
        )
        return values

    def _learn_values(self, rows: Rows, factor: float) -> None:
        sums = np.zeros(3)
        for micro in rows.microbatches(self.config.micro_batch_tokens):
            if micro.value_targets is None or micro.old_values is None:
                continue  # all of them are replayed
            known = ~np.isnan(micro.value_targets)
            taught: NDArray[np.bool_] = np.any(known, axis=1)
            if not taught.any():
                continue
            row = np.repeat(np.arange(len(micro)), micro.response_lengths)
            each = np.stack([np.bincount(row, k, len(micro)) for k in known.T], axis=1)
            share = factor / rows.fresh_total / np.maximum(each, 1.0)[row]
            at = known[taught]

            def column(of: NDArray[Any], taught: Any = taught, at: Any = at) -> Tensor:
                return torch.from_numpy(of[taught][at].astype(np.float32)).to(self._device)

            with self._policy.critic_network():
                values = self._values(micro, taught)
                loss, clipped = value_loss(
                    values[torch.from_numpy(at).to(self._device)],
                    column(micro.old_values),
                    column(micro.value_targets),
                    column(share),
                    self.config.value_clip,
                )
                (self.config.value_coeff * loss).backward()
            sums += [float(loss.detach()), float(clipped), share[taught][at].sum()]
        self._of_values.append(self._over_learners(sums))

    def _add_up_gradients(self, counted: bool) -> bool:
        taught = bool(self._of_values[-1][2] > 0)
        own = {id(p) for p in self._critic_parameters}
        policy = [p for p in self._parameters if id(p) not in own]
        on_trunk = self.config.critic_kind == "trunk"
        self._add_up(policy if counted or (taught and on_trunk) else [])
        self._add_up(self._critic_parameters if taught else [])
        return counted or taught

    def _clip_gradients(self) -> tuple[float, float]:
        critic = self._critic_parameters
        own = {id(p) for p in critic}
        policy = [p for p in self._parameters if id(p) not in own]
        norms = self._clipped(policy), self._clipped(critic)
        self._of_values[-1] = np.array([*self._of_values[-1], norms[1]])
        return norms

    def _in_groups(self, parameters: list[torch.nn.Parameter]) -> Any:
        own = {id(p) for p in self._critic_parameters}
        policy = [p for p in parameters if id(p) not in own]
        critic = [p for p in parameters if id(p) in own]
        return [{"params": policy}, {"params": critic, "lr": self.config.critic_lr}]

    def _set_lr(self, optimizer: Any, share: float) -> None:
        policy, critic = optimizer.param_groups
        policy["lr"], critic["lr"] = self._lr * share, self.config.critic_lr * share

    def _log_updates(
        self, updates: list[dict[str, float]], mismatch: dict[str, float], rows: int
    ) -> None:
        super()._log_updates(updates, mismatch, rows)
        loss, clipped, weight, norm = np.mean(self._of_values, axis=0)
        means = (2 * loss / max(weight, 1e-12), clipped / max(weight, 1e-12), norm)
        named = dict(zip(CRITIC_METRICS, map(float, means), strict=True))
        self.metrics.log_dict(named, key=self._module_id, reduce="mean", window=1)
        self._of_values.clear()

    @property
    def _critic_parameters(self) -> list[torch.nn.Parameter]:
        parameters: list[torch.nn.Parameter] = self._policy.critic_parameters()
        return parameters

    @property
    def _trained(self) -> Any:
        return self._policy


def value_loss(
    values: Tensor, old: Tensor, targets: Tensor, weight: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """The clipped squared error of values.

    Args:
        values: float (K,), with gradient.
        old: float (K,), V_old.
        targets: float (K,).
        weight: float (K,), weight of each.
        clip: How far a value may move from the old one; None for any way.

    Returns:
        The loss, and the weighted share of values whose gradient the clip stops, both scalars.
    """
    error = (values - targets).square()
    if clip is None:
        return 0.5 * (weight * error).sum(), torch.zeros((), device=values.device)
    clipped = (old + (values - old).clamp(-clip, clip) - targets).square()
    loss = 0.5 * (weight * torch.maximum(error, clipped)).sum()
    return loss, (weight * (clipped > error)).sum().detach()

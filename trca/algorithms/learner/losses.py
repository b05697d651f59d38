"""The clipped objective on flat tokens, as pure functions of PyTorch (Eq. final_objective).

A micro-batch is B rows, one interaction step each, and K tokens of their responses laid flat; the
tokens of a row carry its number, and ``action_mask`` marks those of its ``<action>`` span.
With one advantage A and one weight w a row,

::

    loss = sum_rows w (max(-rho A, -clip(rho, 1 - low, 1 + high) A)
                       + beta mean_action KL + beta_format mean_others KL - eta mean_action H)

    rho = exp sum_action (log pi - log pi_old)      ratio_level "action", the paper's
    rho = exp mean_action (log pi - log pi_old)     "action_mean", GSPO's over an action
    rho = exp (log pi - log pi_old) of a token      "token", PPO's; its row takes the mean of tokens

With ``policy_loss: log_likelihood`` -A log rho replaces the max: the log-likelihood of the action,
up to a constant, without a clip.

Every term is a sum over rows: a fixed weight times a function of the row. `row_weights` computes
the weights once, from all rows of the iteration. So mini-batches, micro-batches of any size and the
learners' shards add up to the same gradient.

Where this differs from the paper, or the paper is silent:

=======================  ===========================================================================
Clip                     1 - 0.2 and 1 + 0.28 (its table of hyperparameters; Eq. final_objective
                         writes one epsilon).
Log ratio                Clamped to +-20 before the exponential, as public trainers do; the
                         log-likelihood, which takes no exponential, is not.
KL                       Per token, k3, mean over the action's tokens of a row, with the row's
                         weight; the paper leaves estimator and average open.
KL on think and format   ``kl_coeff_format``, 0 in the paper: its loss reads only action tokens.
Entropy                  Mean over the action's tokens of a row; in the table, not in the equation.
Rows without an action   Only the KL on think and format tokens, by the paper's mask, and not even
                         this with ``token_mean``, where such a row has the weight 0;
                         ``train_malformed`` trains all response tokens as the action.
=======================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trca.algorithms.settings.groups import LossSettings
from trca.algorithms.settings.types import Aggregation, KLKind, RatioLevel
from trca.records import Floats, Ints

_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class LossInputs:
    """The inputs of the loss before the forward pass of a micro-batch: K tokens, B rows."""

    row: Tensor  # int64 (K,), the row of each token, 0 to B - 1, in any order
    action_mask: Tensor  # bool (K,), whether the token belongs to its row's action
    old_logprobs: Tensor  # float (K,), log pi_old
    advantage: Tensor  # float (B,)
    weight: Tensor  # float (B,), from row_weights
    reference_logprobs: Tensor | None = None  # float (K,), log pi_ref; None without a reference
    # float (K,), the advantage of each token instead of advantage; needs ratio_level "token"
    token_advantage: Tensor | None = None


@dataclass(frozen=True)
class LossTerms:
    """The loss of a micro-batch and its parts, scalars; all but ``loss`` are detached.

    Every field but ``ratio_max`` is a weighted sum over rows. The sum of a field over the
    micro-batches of an update is a weighted mean.
    """

    loss: Tensor  # the scalar to differentiate
    policy: Tensor  # the clipped surrogate's part of the loss
    kl: Tensor  # KL to the reference on action tokens, without its coefficient
    kl_format: Tensor  # KL to the reference on think and format tokens, without its coefficient
    entropy: Tensor  # entropy on action tokens
    clip_ratio: Tensor  # share of ratios at which the clip stops the gradient
    ratio_mean: Tensor
    ratio_max: Tensor  # 0 without a ratio
    # k3 estimate of KL(pi_old, pi) on action tokens; before the first update, the mismatch of
    # sampler and trainer
    approx_kl: Tensor


def row_weights(
    group: Ints,
    rollout: Ints,
    action_tokens: Ints,
    aggregation: Aggregation,
    constant_steps: int = 1,
) -> Floats:
    """The weight of each row of an iteration, (S,); they add up to 1 except with ``rollout_sum``.

    The loss of an update on a part of the rows is about the part's share. To spread the rows over U
    updates of usual size, multiply by U. If learners average their gradients, multiply by the
    number of learners.

    ``rollout_mean`` is the paper's, 1 / (groups x N x T_i): the mean over a rollout's steps, a
    group's rollouts, and the groups, counted among the given rows (see
    `trca.algorithms.base.crediting`). ``rollout_sum`` replaces T_i by ``constant_steps``.
    ``step_mean`` gives every row the same weight, ``token_mean`` every action token. Rollouts are
    unique over the iteration.
    """
    if len(rollout) == 0:
        return np.empty(0)
    if aggregation in ("rollout_mean", "rollout_sum"):
        _, first, of_row, length = np.unique(
            rollout, return_index=True, return_inverse=True, return_counts=True
        )
        groups, of_rollout, size = np.unique(group[first], return_inverse=True, return_counts=True)
        if aggregation == "rollout_sum":
            length = np.full_like(length, constant_steps)
        return np.asarray(1.0 / (len(groups) * size[of_rollout] * length)[of_row])
    if aggregation == "step_mean":
        return np.full(len(rollout), 1.0 / len(rollout))
    return np.asarray(action_tokens / max(int(action_tokens.sum()), 1), dtype=np.float64)


def objective(
    inputs: LossInputs, logprobs: Tensor, entropy: Tensor, settings: LossSettings
) -> LossTerms:
    """The loss of a micro-batch, from log pi with gradient and entropy of each token, (K,) each.

    Raises:
        ValueError: For a KL weight without a reference, or advantages of tokens under another ratio
            level.
    """
    row, mask, weight = inputs.row, inputs.action_mask, inputs.weight
    on_action, on_others = _shares(row, mask, weight), _shares(row, ~mask, weight)
    level = settings.ratio_level
    log_ratio = log_importance_ratio(logprobs, inputs.old_logprobs, row, mask, len(weight), level)
    ratio = log_ratio.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()
    if level == "token":
        advantage, share = inputs.advantage[row], on_action
        if inputs.token_advantage is not None:
            advantage = inputs.token_advantage
    elif inputs.token_advantage is not None:
        raise ValueError(
            f"each token has an advantage and ratio_level is {level!r}: set ratio_level to 'token'"
        )
    else:
        advantage = inputs.advantage
        share = torch.zeros_like(weight).index_add(0, row, on_action)
    if settings.policy_loss == "log_likelihood":
        unsampled = torch.zeros_like(logprobs)
        likelihood = log_importance_ratio(logprobs, unsampled, row, mask, len(weight), level)
        surrogate = -advantage * likelihood
    else:
        surrogate = clipped_surrogate(ratio, advantage, settings.clip_low, settings.clip_high)
    policy = (share * surrogate).sum()
    mean_entropy = (on_action * entropy).sum()
    loss = policy - settings.entropy_coeff * mean_entropy
    kl = kl_format = torch.zeros_like(policy)
    if inputs.reference_logprobs is not None:
        divergence = kl_estimate(logprobs, inputs.reference_logprobs, settings.kl_kind)
        kl, kl_format = (on_action * divergence).sum(), (on_others * divergence).sum()
        loss = loss + settings.kl_coeff * kl + settings.kl_coeff_format * kl_format
    elif settings.kl_coeff or settings.kl_coeff_format:
        raise ValueError(
            "a KL weight is set but reference_logprobs is None: pass reference_logprobs, or set"
            " kl_coeff and kl_coeff_format to 0"
        )

    with torch.no_grad():
        above, below = ratio > 1 + settings.clip_high, ratio < 1 - settings.clip_low
        stopped = ((advantage > 0) & above) | ((advantage < 0) & below)
        stopped &= settings.policy_loss == "clipped"
        drift = kl_estimate(inputs.old_logprobs, logprobs, "k3")
        return LossTerms(
            loss=loss,
            policy=policy.detach(),
            kl=kl.detach(),
            kl_format=kl_format.detach(),
            entropy=mean_entropy.detach(),
            clip_ratio=(share * stopped).sum(),
            ratio_mean=(share * ratio).sum(),
            ratio_max=(ratio * (share > 0)).max() if len(ratio) else torch.zeros_like(policy),
            approx_kl=(on_action * drift).sum(),
        )


def log_importance_ratio(
    logprobs: Tensor,
    old_logprobs: Tensor,
    row: Tensor,
    action_mask: Tensor,
    rows: int,
    level: RatioLevel,
) -> Tensor:
    """The logarithm of the importance ratio rho: (B,), or (K,) for tokens; 0 without an action."""
    log_ratio = torch.where(action_mask, logprobs - old_logprobs, 0.0)
    if level != "token":
        log_ratio = log_ratio.new_zeros(rows).index_add(0, row, log_ratio)
    if level == "action_mean":
        log_ratio = log_ratio / torch.bincount(row[action_mask], minlength=rows).clamp(min=1)
    return log_ratio


def clipped_surrogate(
    ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """max(-rho A, -clip(rho, 1 - low, 1 + high) A): the objective's min, as a loss, float (n,)."""
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return torch.maximum(-ratio * advantage, -clipped * advantage)


def kl_estimate(logprobs: Tensor, other: Tensor, kind: KLKind) -> Tensor:
    """Estimates of KL(p, q) at samples of p, (K,), from d = log p - log q clamped to +-20.

    k1 = d, k2 = d^2 / 2, k3 = exp(-d) + d - 1; "k3+" has the value of k3 and the gradient of k2.
    Only the gradient of k2 on samples of p equals the gradient of the divergence on average.
    """
    d = (logprobs - other).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
    if kind == "k1":
        return d
    k2, k3 = d.square() / 2, torch.expm1(-d) + d
    if kind == "k2":
        return k2
    return k3 if kind == "k3" else k2 + (k3 - k2).detach()


def _shares(row: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """The weight of each row, spread evenly over its tokens under the mask; 0 elsewhere: (K,)."""
    count = torch.bincount(row[mask], minlength=len(weight)).clamp(min=1)
    return (weight / count)[row] * mask

"""The mismatch of sampler and trainer: measurement, likely cause, and correction.

The drift of an action token is d = log pi_old - log pi_sampler. The trainer recomputes pi_old
before the first update. The sums and means are over the tokens of a step's action:

=======================  ===========================================================================
``importance_cap``       The step's advantage is multiplied by min(exp(sum d), cap): truncated
                         importance sampling. The correction for old weights is exact up to the
                         cap.
``token_ratio_band``     Tokens with exp(d) outside of the band leave the action (IcePop).
``action_ratio_band``    Steps with exp(mean d) outside of the band leave the batch, and the weights
                         of the remaining steps grow to the same sum: the geometric sequence mask.
=======================  ===========================================================================

Where this differs from the sources: weight and mask belong to a step's action, not to a response or
a rollout, since the paper's loss reads only action tokens. The weight multiplies the advantage, so
the clip does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trca.algorithms.learner.rows import Rows
from trca.algorithms.settings.parameters import TextParameters
from trca.policies.dtypes import DTYPES
from trca.policies.llm_module import LLMModule
from trca.records import Bools, Floats

MISMATCH_METRICS: Final = (
    "mismatch_kl",
    "mismatch_ratio",
    "mismatch_ratio_max",
    "mismatch_below",
    "masked_tokens",
    "masked_steps",
)
_LIMIT: Final = 20.0
_BELOW: Final = 0.9

OverLearners = Callable[..., Any]
"""Adds values up over the learners, or with ``largest=True`` takes the largest of each."""


def drift_of(rows: Rows, scored: Bools, logprobs: Tensor) -> Floats:
    """The drift of the fresh action tokens of a pass, trainer minus sampler: float64 (k,).

    ``scored`` marks the response tokens that ``logprobs`` has, (sum of R,).
    """
    trainer = logprobs.detach().cpu().numpy().astype(np.float64)
    measured = rows.action_mask & ~np.repeat(rows.replayed, rows.response_lengths)
    drift: Floats = (trainer - rows.old_logprobs[scored])[measured[scored]]
    return drift


def refuse_mismatch(mismatch_kl: float, module: LLMModule) -> None:
    """Stops a run whose sampler and trainer disagree before the first update."""
    bound = DTYPES[module.dtype].mismatch
    if mismatch_kl > bound:
        raise RuntimeError(
            f"sampler and trainer disagree before the first update: mismatch_kl"
            f" {mismatch_kl:.1e}, allowed {bound:.0e} in {module.dtype}. Likely causes: the engine"
            " has other weights than the trainer (a push that was lost or came late); it"
            " samples at another temperature; its attention, positions or precision differ for"
            f" {module.model.config.model_type!r} (see docs/models.md). With an engine that is"
            " meant to differ, set recompute_logprobs: true"
        )


def drift_metrics(drift: Floats, over_learners: OverLearners) -> dict[str, float]:
    """Measures the drift d of this learner's action tokens; nan without a token on any learner."""
    kl, ratio = np.expm1(drift) - drift, np.exp(np.clip(drift, -_LIMIT, _LIMIT))
    sums = over_learners(np.array([kl.sum(), ratio.sum(), (drift < 0).sum(), len(drift)]))
    largest = over_learners([ratio.max(initial=0.0)], largest=True)
    mean = np.asarray(sums[:3]) / (sums[3] or math.nan)
    return {
        "mismatch_kl": float(mean[0]),
        "mismatch_ratio": float(mean[1]),
        "mismatch_ratio_max": float(largest[0]) if sums[3] else math.nan,
        "mismatch_below": float(mean[2]),
        "masked_tokens": 0.0,
        "masked_steps": 0.0,
    }


def correct(
    rows: Rows,
    logprobs: NDArray[np.float32],
    settings: TextParameters,
    over_learners: OverLearners,
) -> tuple[Rows, dict[str, float]]:
    """Makes the trainer's log-probabilities, (sum of R,), the old ones; corrects for the sampler's.

    Returns the rows and the metrics; the module has the corrections.
    """
    action_mask, acting = rows.action_mask, rows.holding(rows.action_mask)
    drift = np.where(action_mask, logprobs.astype(np.float64) - rows.old_logprobs, 0.0)
    metrics = drift_metrics(drift[action_mask], over_learners)
    if settings.token_ratio_band is not None:
        action_mask = action_mask & _inside(drift, settings.token_ratio_band)
        drift = np.where(action_mask, drift, 0.0)
    row = np.repeat(np.arange(len(rows)), rows.response_lengths)
    count = np.bincount(row[action_mask], minlength=len(rows))
    total = np.bincount(row, drift, minlength=len(rows))
    kept = np.ones(len(rows), dtype=bool)
    if settings.action_ratio_band is not None:
        kept = ~acting | _inside(total / np.maximum(count, 1), settings.action_ratio_band)
    weights = rows.weights * kept
    tokens, left, steps, lost, weight, whole = over_learners(
        np.array(
            [
                rows.action_mask.sum(),
                action_mask.sum(),
                acting.sum(),
                (~kept).sum(),
                weights.sum(),
                rows.weights.sum(),
            ],
            dtype=np.float64,
        )
    )
    metrics["masked_tokens"] = float((tokens - left) / max(tokens, 1.0))
    metrics["masked_steps"] = float(lost / max(steps, 1.0))
    if lost:
        weights = weights * (whole / weight if weight else 0.0)
    advantages, optional = rows.advantages, rows.optional
    if settings.importance_cap is not None:
        ratio = np.minimum(np.exp(np.clip(total, -_LIMIT, _LIMIT)), settings.importance_cap)
        advantages = (advantages * ratio).astype(np.float32)
        if "token_advantages" in optional:
            of_tokens = (optional["token_advantages"] * ratio[row]).astype(np.float32)
            optional = {**optional, "token_advantages": of_tokens}
    return replace(
        rows,
        old_logprobs=logprobs,
        action_mask=action_mask,
        weights=weights,
        advantages=advantages,
        optional=optional,
    ), metrics


def cause(metrics: dict[str, float], staleness: int, dtype: str) -> str:
    """Names the likely cause of a mismatch; ``staleness`` is the largest age, in updates."""
    if staleness > 0:
        return (
            f"stale weights: steps were sampled up to {staleness} updates ago; lower max_staleness"
            " or lr, or set recompute_logprobs and importance_cap"
        )
    if metrics["mismatch_below"] > _BELOW:
        return (
            "sampling filters: nearly every token is likelier for the sampler than for the trainer,"
            " as with top_p, top_k, a penalty or another temperature; take them out of the engine"
        )
    if dtype != "float32":
        return (
            f"precision: engine and trainer round differently in {dtype}; set dtype to float32, or"
            " recompute_logprobs and token_ratio_band"
        )
    return (
        "another arithmetic: the push of weights was checked, so attention, positions or kernels"
        " of the engine differ from the trainer's"
    )


def _inside(log_ratio: Floats, band: tuple[float, float]) -> Bools:
    ratio = np.exp(np.clip(log_ratio, -_LIMIT, _LIMIT))
    return np.asarray((band[0] <= ratio) & (ratio <= band[1]))

"""The objective as the paper writes it: one row after another, no padding, in float64.

The input is rollouts with advantages, not rows. So a comparison also finds steps that are lost or
exchanged between rollouts and tensors.
"""

from collections import defaultdict

import torch


def slow_loss(model, reference, rollouts, settings, vocabulary):
    """The loss of a batch, -J of Eq. final_objective.

    Args:
        model: The policy, a causal LM in float64.
        reference: The frozen reference, in float64.
        rollouts: Rollouts with their advantages.
        settings: The config.
        vocabulary: Number of ids that can be sampled.
    """
    groups = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.group].append(rollout)
    steps = sum(len(rollout.steps) for rollout in rollouts)
    tokens = sum(int(step.action_mask.sum()) for rollout in rollouts for step in rollout.steps)
    loss = torch.zeros((), dtype=torch.float64)
    for rollout in rollouts:
        for step, advantage in zip(rollout.steps, rollout.advantages.tolist(), strict=True):
            weight = {
                "rollout_mean": 1 / len(groups) / len(groups[rollout.group]) / len(rollout.steps),
                "step_mean": 1 / steps,
                "token_mean": int(step.action_mask.sum()) / tokens,
            }[settings.aggregation]
            loss = loss + weight * _step_loss(
                model, reference, step, advantage, settings, vocabulary
            )
    return loss


def slow_scores(model, step, temperature, vocabulary):
    """Log-probability of each response token, and the entropy of its distribution."""
    ids = [*step.prompt_ids.tolist(), *step.response_ids.tolist()]
    logits = model(torch.tensor([ids])).logits[0, len(step.prompt_ids) - 1 : -1, :vocabulary]
    log_p = (logits / temperature).log_softmax(-1)
    chosen = torch.tensor(step.response_ids.tolist())
    return log_p[torch.arange(len(chosen)), chosen], -(log_p.exp() * log_p).sum(-1)


def _step_loss(model, reference, step, advantage, settings, vocabulary):
    new, entropy = slow_scores(model, step, settings.temperature, vocabulary)
    with torch.no_grad():
        ref, _ = slow_scores(reference, step, settings.temperature, vocabulary)
    old = torch.tensor(step.old_logprobs.tolist(), dtype=torch.float64)
    if settings.recompute_logprobs:
        old = new.detach()
    action = torch.tensor(step.action_mask.tolist())
    kl = _kl(new - ref, settings.kl_kind)
    loss = torch.zeros((), dtype=torch.float64)
    if not action.all():
        loss = loss + settings.kl_coeff_format * kl[~action].mean()
    if not action.any():
        return loss
    log_ratio = (new - old)[action]
    ratio = {
        "action": log_ratio.sum().exp()[None],
        "action_mean": log_ratio.mean().exp()[None],
        "token": log_ratio.exp(),
    }[settings.ratio_level]
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage).mean()
    loss = loss - surrogate + settings.kl_coeff * kl[action].mean()
    return loss - settings.entropy_coeff * entropy[action].mean()


def _kl(d, kind):
    return {"k1": d, "k2": d**2 / 2, "k3": torch.exp(-d) - 1 + d}[kind]

"""Checks of settings that exclude or need each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trca.algorithms.settings.policy_config import PolicyConfig


def check_combinations(config: PolicyConfig) -> None:
    """Checks settings that are valid one by one.

    Raises:
        ValueError: Names two settings that do not work together, and the change that works.
    """
    for name in ("importance_cap", "token_ratio_band", "action_ratio_band"):
        if getattr(config, name) is not None and not config.recompute_logprobs:
            raise ValueError(f"{name} compares with the trainer: set recompute_logprobs: true")
    if config.max_staleness and not config.in_evaluation and config.num_env_runners == 0:
        raise ValueError(
            f"max_staleness is {config.max_staleness}, and sampling ahead needs processes: set"
            " num_env_runners to 1 or more"
        )
    for name in ("refill_groups", "task_curriculum"):
        if config.max_staleness and getattr(config, name):
            raise ValueError(
                f"{name} goes by the results of the iteration before, and max_staleness samples"
                " ahead of these results: set one of the two to 0"
            )
    if config.replay_size and config.recompute_logprobs:
        raise ValueError(
            "replay_size compares with the policy that sampled, whose logprobs"
            " recompute_logprobs replaces: turn one of the two off"
        )
    if config.refill_groups and config.on_zero_advantage == "keep":
        raise ValueError(
            f"refill_groups is {config.refill_groups}, and no group is left out: set"
            " on_zero_advantage to drop_groups or drop_rollouts"
        )
    if config.critic_kind and config.sharding != "none":
        raise ValueError(
            f"sharding is {config.sharding!r}, and {type(config).__name__} has a critic, which"
            " learners do not split: set sharding to none"
        )

"""Self-play: a role learns while frozen earlier copies of the policies play the further roles.

As in RLlib's examples of self-play, the copies are policies of the run that ``policies_to_train``
leaves out, and ``policy_mapping_fn`` chooses who plays. Where this differs: the number of copies is
fixed (``frozen_copies``), because each policy has an engine. All copies start with the weights of
the start. Every ``frozen_copy_interval`` iterations, the oldest copy of each policy takes the
policy's present weights.

A training group has one role that learns; the groups of an iteration take the roles in turns. Each
further role is played by a copy that is drawn once for the group, so that rollouts of a group
compare actions against the same opponent. Evaluations play without copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trca.algorithms.rollouts.batch import GroupRequest, derive_seed
from trca.algorithms.settings.policy_config import copy_of, origin_of

if TYPE_CHECKING:
    from trca.algorithms.settings.policy_config import PolicyConfig


@dataclass(frozen=True)
class SelfPlayMapping:
    """A ``policy_mapping_fn`` with ``copies`` frozen copies of each policy.

    ``mapping`` gives the policy of a role, unless ``only`` names the only policy; ``learners`` are
    the roles that learn.
    """

    mapping: Callable[..., str]
    learners: tuple[str, ...]
    copies: int
    only: str = ""

    def __call__(self, agent_id: str, episode: GroupRequest | None = None, **kwargs: Any) -> str:
        """Returns the id of the policy that plays for a role in a group."""
        policy = self.only or self.mapping(agent_id, episode, **kwargs)
        if episode is None or episode.progress is None:  # an evaluation
            return policy
        if self.learners[episode.group % len(self.learners)] == agent_id:
            return policy
        drawn = derive_seed(*episode.key, episode.group, agent_id, "opponent")
        return copy_of(policy, drawn % self.copies)


def set_up_self_play(config: PolicyConfig) -> None:
    """Adds the frozen copies to the policies of a config.

    Raises:
        ValueError: For settings that do not allow self-play.
    """
    settings, roles = config.settings, config.roles
    copies = settings.frozen_copies
    mapping: Any = config.policy_mapping_fn
    policies = {origin_of(policy, config.policies) for policy in config.policies}
    if isinstance(mapping, SelfPlayMapping):  # of an earlier check of this config
        mapping = mapping.mapping
    elif copied := sorted(set(config.policies) - policies):
        raise ValueError(f"policy {copied[0]!r} has the name of a frozen copy: rename it")
    if not copies:
        if policies != set(config.policies):
            config.multi_agent(policies=policies, policy_mapping_fn=mapping)
        return
    if len(roles) < 2:
        raise ValueError(
            f"frozen_copies is {copies}, and no further role plays: set env_config.team to a team"
            " of two or more roles"
        )
    learners = tuple(role for role in roles if config.learns(role, config.module_of(role)))
    if settings.tasks_per_iteration < len(learners):
        raise ValueError(
            f"frozen_copies is {copies}, and a group has one role that learns: set"
            f" tasks_per_iteration to {len(learners)} or more"
        )
    trained: Any = config.policies_to_train
    if callable(trained):
        trained = [policy for policy in policies if trained(policy, None)]
    only = min(policies) if len(policies) == 1 else ""
    frozen = {copy_of(policy, number) for policy in policies for number in range(copies)}
    in_self_play: Any = SelfPlayMapping(mapping, learners, copies, only)
    config.multi_agent(
        policies=policies | frozen,
        policy_mapping_fn=in_self_play,
        policies_to_train=sorted(policies if trained is None else trained),
    )


def refreshed(config: PolicyConfig, iteration: int) -> dict[str, str]:
    """The frozen copies that take the weights of their policies before an iteration, from 0."""
    settings = config.settings
    number, rest = divmod(iteration, settings.frozen_copy_interval)
    if not settings.frozen_copies or rest or not number:
        return {}
    oldest = (number - 1) % settings.frozen_copies
    policies = {origin_of(policy, config.policies) for policy in config.policies}
    return {copy_of(policy, oldest): policy for policy in sorted(policies)}

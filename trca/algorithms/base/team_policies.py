"""Policies of a team's roles in a config: their mapping, and checks of the settings of teams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trca.algorithms.base.self_play import set_up_self_play
from trca.common.names import unknown

if TYPE_CHECKING:
    from trca.algorithms.settings.policy_config import PolicyConfig


@dataclass(frozen=True)
class RolePolicies:
    """A ``policy_mapping_fn``: the policy's id by role."""

    policies: dict[str, str]

    def __call__(self, agent_id: str, *args: Any, **kwargs: Any) -> str:
        """Returns the policy's id; ignores RLlib's other arguments."""
        return self.policies[agent_id]


def set_up_team(config: PolicyConfig) -> None:
    """Maps the roles of a team to policies.

    Raises:
        ValueError: For a role or a policy that the team does not have, for a team without a role
            that learns, and for sharded learners of several policies.
    """
    roles, chosen = config.roles, config.settings.role_policies
    settings = {
        "role_policies": chosen if isinstance(chosen, dict) else {},
        "frozen_roles": config.settings.frozen_roles,
    }
    for name, names in settings.items():
        for role in names:
            if role not in roles:
                choices = f": choose {', '.join(roles)}" if roles else ": set env_config.team"
                raise ValueError(f"{name} names {role!r}, and there is no such role{choices}")
    if chosen != "shared":
        if not roles:
            raise ValueError(f"role_policies is {chosen!r}, and no team plays: set env_config.team")
        policies = chosen if isinstance(chosen, dict) else {role: role for role in roles}
        if lacking := [role for role in roles if role not in policies]:
            raise ValueError(f"role_policies names no policy for {' and '.join(lacking)}")
        mapping: Any = RolePolicies(dict(policies))
        config.multi_agent(policies=set(policies.values()), policy_mapping_fn=mapping)
    set_up_self_play(config)
    for name in config.settings.policy_lr:
        if name not in config.policies:
            raise unknown("policy in policy_lr", name, config.module_ids)
    if config.in_evaluation:
        return
    if roles and not any(config.learns(role, config.module_of(role)) for role in roles):
        raise ValueError("every role is frozen: nothing would be learned")
    if len(config.policies) > 1 and config.settings.sharding != "none":
        raise ValueError(
            "sharding is not built for several policies: set sharding to none, or role_policies to"
            " shared"
        )

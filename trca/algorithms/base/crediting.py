"""Credit of an iteration: advantages of every step, and the rows that each policy learns from.

Rollouts without advantages can be left out of the update. The criterion is the advantage, not the
reward: a group without success has equal rewards and may still have rubric credit. Left-out
rollouts stay in the metrics, in the rollout file and in the count of trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trca.algorithms.base.metrics import credit_metrics, means, rollout_metrics
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.credit import READS, BoundRule, Sources
from trca.algorithms.credit.values import explained_variance
from trca.algorithms.learner.rows import OptionalColumns, Rows, columns_of, join_roles, make_rows
from trca.algorithms.settings.types import OnZeroAdvantage
from trca.envs.annotate import Operators
from trca.envs.text_env import DEFAULT_AGENT
from trca.records import Rollout, StepBatch, assign_advantages, by_agent
from trca.rubric import Budgets

NEAR_ZERO: Final = 1e-6
"""Largest absolute advantage that counts as zero: the epsilon of the norms."""


@dataclass(frozen=True)
class CreditedRollouts:
    """Rollouts of an agent with their advantages, and columns of steps and response tokens."""

    agent: str
    rollouts: list[Rollout]
    batch: StepBatch
    tokens: OptionalColumns


class Crediting:
    """Applies the credit rule of an algorithm to the rollouts of each agent separately."""

    def __init__(
        self,
        config: TextAlgorithmConfig,
        rule: BoundRule,
        operators: Mapping[str, Operators],
        sources: Callable[[list[Rollout]], Sources],
    ) -> None:
        """Takes config, bound rule, operators by agent, and the sources of reads for rollouts."""
        self._config, self._rule, self._sources = config, rule, sources
        self.operators = operators

    def credit(self, rollouts: Sequence[Rollout]) -> list[CreditedRollouts]:
        """Assigns advantages to rollouts."""
        return [self._credit(agent, played) for agent, played in by_agent(rollouts).items()]

    def rows(self, credited: Sequence[CreditedRollouts]) -> tuple[dict[str, Rows], int]:
        """The rows that each policy learns from, and the number of left-out rollouts."""
        config, left_out = self._config, 0
        parts: dict[str, list[Rows]] = {}
        for each in credited:
            trained = teaching(each.rollouts, config.settings.on_zero_advantage)
            left_out += len(each.rollouts) - len(trained)
            for module, rollouts in by_module(trained).items():
                rows = self._rows(each, rollouts)
                if len(rows) and config.learns(each.agent, module):
                    parts.setdefault(module, []).append(rows)
        return {module: join_roles(parts[module]) for module in sorted(parts)}, left_out

    def metrics(self, credited: Sequence[CreditedRollouts]) -> dict[str, Any]:
        """The metrics of rubric and credit; for a team, the means over roles and each role's."""
        config, by_role = self._config, dict[str, dict[str, Any]]()
        budgets = Budgets.of(config.settings.budgets)
        for each in credited:
            ids, tokens = self.operators[each.agent].ids, each.tokens
            by_role[each.agent] = credit_metrics(each.rollouts, each.batch, budgets, ids)
            learning = any(config.learns(r.agent_id, r.module_id) for r in each.rollouts)
            if learning and {"old_values", "value_targets"} <= tokens.keys():
                explained = explained_variance(tokens["old_values"], tokens["value_targets"])
                by_role[each.agent]["explained_variance"] = explained
        if list(by_role) == [DEFAULT_AGENT]:
            return by_role[DEFAULT_AGENT]
        shared = [{k: v for k, v in m.items() if k != "operators"} for m in by_role.values()]
        roles = {e.agent: rollout_metrics(e.rollouts) | by_role[e.agent] for e in credited}
        return {**means(shared), "roles": roles}

    def _credit(self, agent: str, rollouts: list[Rollout]) -> CreditedRollouts:
        rule, settings = self._rule, self._config.settings
        batch = StepBatch.from_rollouts(rollouts, self.operators[agent].categories)
        sources = self._sources(rollouts)
        reads = {name: READS.get(name)(sources, batch) for name in rule.reads}
        credit = rule.credit(batch, **reads)
        tokens = sum(len(step.response_ids) for r in rollouts for step in r.steps)
        rule.check_tokens(credit, tokens, settings.value_heads if settings.critic_kind else 0)
        assign_advantages(rollouts, credit.advantages)
        columns = {
            "token_advantages": credit.token_advantages,
            "old_values": reads["values"].tokens if "values" in reads else None,
            "value_targets": credit.value_targets,
        }
        given = {name: column for name, column in columns.items() if column is not None}
        return CreditedRollouts(agent, rollouts, batch, given)

    def _rows(self, credited: CreditedRollouts, taught: list[Rollout]) -> Rows:
        """The rows of some rollouts of an agent."""
        tokens = columns_of(credited.tokens, taught, credited.rollouts)
        return make_rows(taught, self._config.settings, tokens)


def by_module(rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    """Rollouts by the policy that acted, in their order."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.module_id, []).append(rollout)
    return groups


def teaching_groups(rollouts: Sequence[Rollout]) -> set[int]:
    """The groups with a step that has an advantage."""
    return {rollout.group for rollout in rollouts if _teaches(rollout)}


def teaching(rollouts: Sequence[Rollout], on_zero_advantage: OnZeroAdvantage) -> list[Rollout]:
    """The rollouts of the update, in their order; see the setting ``on_zero_advantage``."""
    if on_zero_advantage == "drop_groups":
        groups = teaching_groups(rollouts)
        return [rollout for rollout in rollouts if rollout.group in groups]
    if on_zero_advantage == "drop_rollouts":
        return [rollout for rollout in rollouts if _teaches(rollout)]
    return list(rollouts)


def _teaches(rollout: Rollout) -> bool:
    advantages = rollout.advantages
    return advantages is not None and bool((np.abs(advantages) > NEAR_ZERO).any())

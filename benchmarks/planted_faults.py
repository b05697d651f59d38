"""Plants faults that make learning go wrong, one at a time, and asks the tests to find each.

Run it on one core::

    OMP_NUM_THREADS=1 python benchmarks/planted_faults.py          # all
    OMP_NUM_THREADS=1 python benchmarks/planted_faults.py entropy  # those whose name has the word

A fault is an exact replacement of source text in a temporary copy of the tree; the script stops
when the text is gone or stands there twice. First the tests run without a fault and must pass. The
table names, for each fault, the test that failed first and the seconds until then. The exit status
is 1 when a fault survives.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("hypothesis", "pytest", "ray.rllib.algorithms.algorithm", "ray.tune", "transformers")

LEARNER = "tests/algorithms/test_text_learner.py"
SHARDING = "tests/policies/test_sharding.py"
SHARED = "tests/algorithms/test_sharding.py"
LEARNING = "tests/algorithms/test_learning.py"
TRCA = "tests/algorithms/trca/test_credit.py"
GIGPO = "tests/algorithms/gigpo/test_credit.py"
GRPO = "tests/algorithms/grpo/test_credit.py"
RLOO = "tests/algorithms/rloo/test_credit.py"
DR_GRPO = "tests/algorithms/dr_grpo/test_credit.py"
G2PO = "tests/algorithms/g2po/test_credit.py"
GAGPO = "tests/algorithms/gagpo/test_credit.py"
HGPO = "tests/algorithms/hgpo/test_credit.py"
GRAPHGPO = "tests/algorithms/graphgpo/test_credit.py"
IGPO = "tests/algorithms/igpo/test_credit.py"
REWARDFLOW = "tests/algorithms/rewardflow/test_credit.py"
NODES = "tests/algorithms/test_nodes.py"
AHEAD = "tests/algorithms/test_sampling_ahead.py"
ROWS = "tests/algorithms/test_rows.py"
REPLAY = "tests/algorithms/test_replay.py"
STEPSEARCH = "tests/algorithms/stepsearch/test_credit.py"
TURN_PPO = "tests/algorithms/turn_ppo/test_credit.py"
HIPER = "tests/algorithms/hiper/test_credit.py"
HIPER_TRAINING = "tests/algorithms/hiper/test_training.py"
PLANS = "tests/envs/test_plans.py"
SPANS = "tests/policies/test_spans.py"
WARM_START = "tests/policies/test_warmstart.py"
HCAPO = "tests/algorithms/hcapo/test_credit.py"
CRITIC = "tests/algorithms/test_critic.py"
DIAGNOSIS = "tests/algorithms/test_diagnosis.py"
VIEW = "tests/cli/view/test_page.py"
RECREDIT = "tests/algorithms/test_recredit.py"
READS = "tests/algorithms/credit/test_reads.py"
PLAN = "tests/cli/test_plan.py"
REINFORCE = "tests/algorithms/reinforce_plus_plus/test_credit.py"
GENERATION = "tests/rubric/test_generation.py"
TEAM = "tests/envs/teams/test_team_env.py"
TEAM_TRAINING = "tests/algorithms/test_teams.py"
PREFIXES = "tests/policies/test_shared_prefixes.py"
CHOICE = "tests/envs/test_choice.py"
LLM_JUDGE = "tests/algorithms/test_llm_judge.py"
OFFLINE = "tests/algorithms/test_offline.py"
TUNING = "tests/cli/test_tuning.py"
TRACKING = "tests/cli/test_tracking.py"
EPISODE = "tests/interop/test_episode.py"
TRL_ENV = "tests/interop/test_trl_environments.py"


@dataclass(frozen=True)
class Fault:
    """A way to be wrong.

    Attributes:
        name: What goes wrong.
        file: The file it is planted in, below ``trca``.
        old: The text to replace; stands in the file once.
        new: What takes its place.
        tests: The tests that must find it.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = (
    # Teams, shared prefixes, and what others read
    Fault(
        "a team whose reward reaches the last actor alone",
        "envs/teams/env.py",
        "            for each in self._open.values():\n                each.reward += reward",
        "            self._open[agent].reward += reward",
        TEAM,
    ),
    Fault(
        "a team whose judgments go to the next role",
        "envs/teams/env.py",
        'act.facts, act.rubric = info.get("facts"), info.get("rubric")',
        'act.facts, act.rubric = info.get("facts"), None',
        TEAM,
    ),
    Fault(
        "a team role that may take any action",
        "envs/teams/env.py",
        "return action if role.may(action) or not action.strip() else _NOT_ALLOWED",
        "return action",
        TEAM,
    ),
    Fault(
        "a team role that sees its own message",
        "envs/teams/env.py",
        "if v and k != agent]",
        "if v]",
        TEAM,
    ),
    Fault(
        "a team whose answerer sees the page",
        "envs/teams/env.py",
        'shown = [self._view[0]] if "observation" in self.team.roles[agent].sees else []',
        "shown = [self._view[0]]",
        TEAM,
    ),
    Fault(
        "a team transition that ends at once",
        "envs/teams/env.py",
        "ending = list(self._order) if self._over else [self.agent]",
        "ending = list(self._order)",
        TEAM,
    ),
    Fault(
        "team messages that are read when they are sent",
        "envs/teams/env.py",
        "if act.message is not None and name != agent:\n                    act.message.was_read()",
        "if act.message is not None:\n                    act.message.was_read()",
        TEAM,
    ),
    Fault(
        "team budgets of one role",
        "envs/teams/env.py",
        "EpisodeRewards(operators.categories, budgets, lambda_)",
        "EpisodeRewards(operators.categories, None, lambda_)",
        TEAM,
    ),
    Fault(
        "shared prefixes at places of their own",
        "policies/shared_prefixes.py",
        "position_ids=to((owner % width)[None])",
        "position_ids=to(np.arange(len(owner))[None])",
        PREFIXES,
    ),
    Fault(
        "shared prefixes whose outputs are mixed up",
        "policies/shared_prefixes.py",
        "index_select(0, shared_prefixes.owner)",
        "index_select(0, shared_prefixes.owner.flip(0))",
        PREFIXES,
    ),
    Fault(
        "shared prefixes of the row before, whole",
        "policies/shared_prefixes.py",
        "np.where(differs.any(axis=1), differs.argmax(axis=1), width)",
        "lengths[order[:-1]]",
        PREFIXES,
    ),
    Fault(
        "prefixes that are too few to share",
        "algorithms/tensors.py",
        "MOST_DISTINCT: Final = 0.9",
        "MOST_DISTINCT: Final = 0.0",
        LEARNER,
    ),
    Fault(
        "a learner that shares no prefixes",
        "algorithms/text_learner.py",
        "self._counted(micro), self._device, self._shares)",
        "self._counted(micro), self._device)",
        LEARNER,
    ),
    Fault(
        "rows that begin alike in passes apart",
        "algorithms/rows.py",
        "(-padded(len(row)), row.tobytes())",
        "-padded(len(row))",
        LEARNER,
    ),
    Fault(
        "a shared place whose gradient counts twice",
        "algorithms/last_mlp.py",
        "torch.unique(row * hidden.shape[1] + position)",
        "row * hidden.shape[1] + position",
        PREFIXES,
    ),
    Fault(
        "a choice that is off by one",
        "envs/choice.py",
        "self._admissible[number])",
        "self._admissible[number - 1])",
        CHOICE,
    ),
    Fault(
        "a choice whose mask is full",
        "envs/choice.py",
        "[:number] = 1.0",
        "[:] = 1.0",
        CHOICE,
    ),
    Fault(
        "an LLM judge that labels won rollouts",
        "algorithms/llm_judge.py",
        "for r in rollouts if not r.won for t",
        "for r in rollouts for t",
        LLM_JUDGE,
    ),
    Fault(
        "kappa without chance",
        "algorithms/llm_judge.py",
        "(observed - expected) / (1 - expected)",
        "observed",
        LLM_JUDGE,
    ),
    Fault(
        "an unread label that counts as Other",
        "algorithms/llm_judge.py",
        "CLASSES.index(label) if label in CLASSES and not others else UNLABELLED",
        "CLASSES.index(label) if label in CLASSES and not others else 3",
        LLM_JUDGE,
    ),
    Fault(
        "recorded evaluations",
        "algorithms/text_env_runner.py",
        "if config.output and any(group.progress is not None for group in groups):",
        "if config.output:",
        OFFLINE,
    ),
    Fault(
        "a recorded step limit that is an end",
        "algorithms/offline.py",
        "terminated=not rollout.truncated,\n        truncated=rollout.truncated",
        "terminated=True,\n        truncated=False",
        OFFLINE,
    ),
    # Sweeps and trackers
    Fault(
        "a sweep that ranks stopped points as whole",
        "cli/tuning.py",
        "elif result.iteration is None:",
        "elif result.iteration != -1:",
        TUNING,
    ),
    Fault(
        "a sweep that waits for no result",
        "cli/tuning.py",
        "while self._told <= self._suggested - self._open:",
        "while self._told <= self._suggested - self._open - 9:",
        TUNING,
    ),
    Fault(
        "a resumed sweep that forgets its rungs",
        "cli/tuning.py",
        "for line in self._lines:",
        "for line in ():",
        TUNING,
    ),
    Fault(
        "a sweep that compares trials across panels",
        "cli/tuning.py",
        "named: Any = _Named(trial)",
        'named, among = _Named(trial), ""',
        TUNING,
    ),
    Fault(
        "a sweep that averages stopped runs",
        "cli/sweep_table.py",
        'sound = [trial for trial in each if trial.state == "finished"]',
        'sound = [trial for trial in each if trial.state in ("finished", "stopped")]',
        TUNING,
    ),
    Fault(
        "a sweep that leaves a point half made",
        "cli/sweeping.py",
        "if group is None or len(group) < self._sweep.repeats:",
        "if group is None:",
        TUNING,
    ),
    Fault(
        "a tracker that gets an iteration twice",
        "cli/tracking.py",
        'if iteration <= self._known.get(name, {}).get("iteration", 0):',
        "if iteration <= 0:",
        TRACKING,
    ),
    Fault(
        "a tracker that starts anew when resumed",
        "cli/tracking.py",
        'str(known.get("run", ""))',
        '""',
        TRACKING,
    ),
    Fault(
        "a tracker that is told the credentials",
        "cli/tracking.py",
        "            run.settings,\n            rank_zero_only",
        '            {**run.settings, **__import__("os").environ},\n            rank_zero_only',
        TRACKING,
    ),
    Fault(
        "a tracker whose failure ends training",
        "cli/tracking.py",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        TRACKING,
    ),
    # Adapters
    Fault(
        "a failed environment that pays zero",
        "interop/episode.py",
        'return None if self.failure else sum(step["reward"]',
        'return sum(step["reward"]',
        EPISODE,
    ),
    Fault(
        "a rubric that outlives its episode",
        "interop/episode.py",
        'self.task_id, self.steps, self.over, self.won, self.failure = "", [], True, False, ""',
        'self.task_id, self.over, self.won, self.failure = "", True, False, ""',
        EPISODE,
    ),
    Fault(
        "train and test tasks of others that overlap",
        "interop/splits.py",
        'if (n % 10 == 0) == (split == "test")',
        'if n % 10 == 0 or split == "train"',
        EPISODE,
    ),
    Fault(
        "a step limit that pays nothing",
        "interop/trl_env.py",
        "if self._steps + 1 == self.max_steps:",
        "if self._steps == self.max_steps:",
        TRL_ENV,
    ),
    Fault(
        "a broken tool that talks to the model",
        "interop/trl_env.py",
        "except ValueError as error:\n            return str(error), False",
        "except Exception as error:\n            return str(error), False",
        TRL_ENV,
    ),
    # What a user brings
    Fault(
        "a model never told its errors",
        "rubric/generation.py",
        "interface.prompt + _AGAIN.format(",
        "interface.prompt + _AGAIN[:0].format(",
        GENERATION,
    ),
    Fault(
        "a model told one error at a time",
        "rubric/generation.py",
        '.check("library", terms)',
        '.check("library")',
        GENERATION,
    ),
    Fault(
        "a model shown what the oracle does",
        "envs/interface.py",
        "action = act(info)",
        "action = env.unwrapped.oracle_action()",
        "tests/envs/test_interface.py",
    ),
    Fault(
        "an operator that always fires unnoticed",
        "envs/library_report.py",
        "rate[number] == 1",
        "rate[number] > 1",
        "tests/envs/test_library_report.py",
    ),
    Fault(
        "overlap of all steps, not of those that fire",
        "envs/library_report.py",
        "both >= OVERLAP * either",
        "both >= OVERLAP * len(fired)",
        "tests/envs/test_library_report.py",
    ),
    Fault(
        "a package with the template's name in it",
        "cli/commands/new_env.py",
        're.sub("key_door|KeyDoor"',
        're.sub("KeyDoor"',
        "tests/cli/test_new_env.py",
    ),
    Fault(
        "a job without what its engine needs",
        "cli/submission.py",
        "or any(marker.evaluate",
        "or all(marker.evaluate",
        "tests/cli/test_submit.py",
    ),
    Fault(
        "a vector of one worker's text",
        "envs/text_space.py",
        "_path(shared_memory, index).write_bytes",
        "_path(shared_memory, 0).write_bytes",
        "tests/envs/test_conformance.py",
    ),
    # Credit
    Fault(
        "signs before and after mixed up",
        "algorithms/recredit.py",
        "np.bincount(3 * old + new",
        "np.bincount(3 * new + old",
        RECREDIT,
    ),
    Fault(
        "a missing episode compared as a failure",
        "cli/pairing.py",
        """        if outcome["won"] is None:
            continue
""",
        "",
        "tests/cli/test_compare.py",
    ),
    Fault(
        "text of a model read as HTML",
        "cli/view/page/parts.js",
        "node.append(child instanceof Node ? child : document.createTextNode(String(child)));",
        "if (child instanceof Node) node.append(child);\n    else node.innerHTML += child;",
        VIEW,
    ),
    Fault(
        "an exported script element ended by its data",
        "cli/view/bundle.py",
        "return text.translate(_SAFE)",
        "return text",
        VIEW,
    ),
    Fault(
        "a page without a policy",
        "cli/view/bundle.py",
        'page = read("view.html").replace("<!-- policy -->", head)',
        'page = read("view.html").replace("<!-- policy -->", "")',
        VIEW,
    ),
    Fault(
        "an answer to any host",
        "cli/view/server.py",
        'allowed_hosts=[HOST, "localhost"]',
        'allowed_hosts=["*"]',
        "tests/cli/view/test_server.py",
    ),
    Fault(
        "parts shown that do not add up",
        "cli/view/details.py",
        "if gap > _EXACT:",
        "if gap > np.inf:",
        "tests/cli/view/test_details.py",
    ),
    Fault(
        "useful transitions counted in all rollouts",
        "algorithms/diagnosis.py",
        "kinds = transition_classes(batch)[lost]",
        "kinds = transition_classes(batch)",
        DIAGNOSIS,
    ),
    Fault(
        "a refused action taken for a valid one",
        "algorithms/diagnosis.py",
        "batch.parsed & batch.accepted & ~invalidity",
        "batch.parsed & batch.accepted",
        DIAGNOSIS,
    ),
    Fault(
        "a collapse seen in the gradient alone",
        "algorithms/diagnosis.py",
        "if grows and accepted[1] < accepted[0] - 0.1:",
        "if gradients[1] > 1.5 * gradients[0]:",
        DIAGNOSIS,
    ),
    Fault(
        "groups of two iterations taken for one",
        "algorithms/recredit.py",
        "group=groups + number,",
        "group=number,",
        "tests/cli/test_recredit.py",
    ),
    Fault(
        "gold read without being asked for",
        "algorithms/credit/registry.py",
        'if bound.gold and not parameters.get("gold_in_training", True):',
        'if bound.gold and not parameters.get("gold_in_training", True) and not rest:',
        READS,
    ),
    Fault(
        "later differences of the critic at full weight",
        "algorithms/turn_ppo/credit.py",
        "return discounted_returns(differences, batch.rollout, gamma * gae_lambda)",
        "return discounted_returns(differences, batch.rollout, gamma)",
        TURN_PPO,
    ),
    Fault(
        "a turn's advantage passed on into the turn before it, token by token",
        "algorithms/turn_ppo/credit.py",
        "discounted_returns(differences, step, token_gamma * gae_lambda)",
        "discounted_returns(differences, batch.rollout[step], token_gamma * gae_lambda)",
        TURN_PPO,
    ),
    Fault(
        "hindsight that takes credit from a success",
        "algorithms/hcapo/credit.py",
        "step = np.where(won, np.maximum(step, 0.0), step)",
        "step = np.where(won, step, np.maximum(step, 0.0))",
        HCAPO,
    ),
    Fault(
        "hindsight compared over the whole batch",
        "algorithms/hcapo/credit.py",
        "mean = (np.bincount(number, likely, len(starts)) / lengths)[number]",
        "mean = np.full(len(batch), likely.mean())",
        HCAPO,
    ),
    Fault(
        "credit that passes from one subgoal's actions to those of the one before",
        "algorithms/hiper/credit.py",
        "of_actions = discounted_returns(differences, segment, gamma * gae_lambda)",
        "of_actions = discounted_returns(differences, batch.rollout, gamma * gae_lambda)",
        HIPER,
    ),
    Fault(
        "segments of any length discounted as if they were one turn",
        "algorithms/hiper/credit.py",
        "np.power(gamma, turns, dtype=np.float64)",
        "np.power(gamma, turns > 0, dtype=np.float64)",
        HIPER,
    ),
    Fault(
        "a first turn that pays for keeping",
        "algorithms/hiper/credit.py",
        "- keep_penalty * ~starting",
        "- keep_penalty * ~plans.switch",
        HIPER,
    ),
    Fault(
        "the subgoal of a turn that keeps it credited too",
        "algorithms/hiper/credit.py",
        "((part == OF_SUBGOAL) & ~starting[step])",
        "((part == OF_SUBGOAL) & (step < 0))",
        HIPER,
    ),
    Fault(
        "the value of an action read before its subgoal",
        "algorithms/hiper/credit.py",
        "at_action[acting] = tokens[nearest]",
        "at_action[acting] += 0 * tokens[nearest]",
        HIPER,
    ),
    Fault(
        "a plan that is read with two subgoals",
        "envs/plans.py",
        "response.count(tag) != 1",
        "response.count(tag) < 1",
        PLANS,
    ),
    Fault(
        "special tokens of a model's making in the next prompt",
        "envs/plans.py",
        'any(sign in subgoal for sign in "<>")',
        'any(sign in subgoal for sign in "\\0")',
        PLANS,
    ),
    Fault(
        "parts of a plan a token too long",
        "policies/spans.py",
        "parts[tokens(span)] = part",
        "parts[tokens((span[0], span[1] + 1))] = part",
        SPANS,
    ),
    Fault(
        "a subgoal forgotten after a response that cannot be read",
        "algorithms/rollout.py",
        """        if episode.response.plan is not None:
            episode.subgoals[episode.rollout.agent_id] = episode.response.plan.subgoal
""",
        """        plan = episode.response.plan
        episode.subgoals[episode.rollout.agent_id] = "" if plan is None else plan.subgoal
""",
        HIPER_TRAINING,
    ),
    Fault(
        "demonstrated subgoals that change with random actions",
        "policies/warmstart.py",
        "subgoal = subgoal or inner.demonstrator_subgoal()",
        "subgoal = inner.demonstrator_subgoal()",
        WARM_START,
    ),
    # Critic
    Fault(
        "nothing expected after the step limit",
        "algorithms/critic.py",
        "after[batch.truncated] = [v[0] for v in found[len(steps) :]] if beyond else 0.0",
        "after[batch.truncated] = 0.0",
        CRITIC,
    ),
    Fault(
        "the value of a state read a token early",
        "policies/llm_module.py",
        "self.value_head(hidden[row, position].float())",
        "self.value_head(hidden[row, (position - 1).clamp(min=0)].float())",
        CRITIC,
    ),
    Fault(
        "the critic's weights sent to engines",
        "policies/llm_module.py",
        "weights = export_weights(self.model, getattr(torch, self.dtype))",
        "weights = {**export_weights(self.model, getattr(torch, self.dtype)),"
        " **self._critic_state()}",
        CRITIC,
    ),
    Fault(
        "values clipped the wrong way round",
        "algorithms/critic.py",
        "0.5 * (weight * torch.maximum(error, clipped)).sum()",
        "0.5 * (weight * torch.minimum(error, clipped)).sum()",
        CRITIC,
    ),
    Fault(
        "advantages negated by the rule",
        "algorithms/trca/credit.py",
        "return parts.episode + parts.step",
        "return -parts.episode - parts.step",
        TRCA,
    ),
    Fault(
        "ddof 1 in TRCA",
        "algorithms/trca/credit.py",
        "step = normalize(returns, contexts, ddof=ddof,",
        "step = normalize(returns, contexts, ddof=1,",
        TRCA,
    ),
    Fault(
        "ddof 0 in GRPO",
        "algorithms/grpo/credit.py",
        "return trajectory_advantage(batch, ddof=1, epsilon=epsilon)",
        "return trajectory_advantage(batch, ddof=0, epsilon=epsilon)",
        GRPO,
    ),
    Fault(
        "gamma ignored by TRCA",
        "algorithms/trca/credit.py",
        "batch.rollout, gamma)",
        "batch.rollout, 1.0)",
        TRCA,
    ),
    Fault(
        "gamma ignored by GiGPO",
        "algorithms/gigpo/credit.py",
        "batch.rollout, gamma)",
        "batch.rollout, 1.0)",
        GIGPO,
    ),
    Fault(
        "returns run over the end of a rollout",
        "algorithms/credit/arithmetic.py",
        "rows = np.flatnonzero(left > horizon)",
        "rows = np.arange(len(returns) - horizon)",
        TRCA,
    ),
    Fault(
        "lambda swapped",
        "rubric/rewards.py",
        "return (1.0 - lambda_) * r_f + lambda_ * r_b",
        "return lambda_ * r_f + (1.0 - lambda_) * r_b",
        TRCA,
    ),
    Fault(
        "failures imitated too",
        "algorithms/filtered_bc/credit.py",
        "outcomes(batch.won.astype(np.float64)",
        "outcomes(np.sign(batch.terminated)",
        "tests/algorithms/filtered_bc/test_credit.py",
    ),
    Fault(
        "imitation stopped by the clip",
        "algorithms/losses.py",
        'if settings.policy_loss == "log_likelihood":',
        "if False:",
        "tests/algorithms/test_losses.py",
    ),
    Fault(
        "groups left out by their rewards",
        "algorithms/filtering.py",
        "advantages = rollout.advantages",
        "advantages = np.array([step.reward for step in rollout.steps])",
        "tests/algorithms/test_filtering.py",
    ),
    Fault(
        "refilled groups play the same tasks again",
        "algorithms/curriculum.py",
        "rest = [task for task in order if task not in played] or order",
        "rest = list(self.tasks(iteration, size))",
        "tests/algorithms/test_curriculum.py",
    ),
    Fault(
        "curriculum forgets nothing",
        "algorithms/curriculum.py",
        "(successes / 2 + sum(won), number / 2 + len(won))",
        "(successes + sum(won), number + len(won))",
        "tests/algorithms/test_curriculum.py",
    ),
    Fault(
        "curriculum prefers what is solved",
        "algorithms/curriculum.py",
        "self._strength * 4.0 * p * (1.0 - p)",
        "self._strength * p",
        "tests/algorithms/test_curriculum.py",
    ),
    Fault(
        "curriculum lost on resume",
        "algorithms/text_algorithm.py",
        "self.curriculum.set_state(state[_CURRICULUM])",
        "pass",
        "tests/algorithms/test_options.py",
    ),
    Fault(
        "refilled groups drop out of the metrics",
        "algorithms/filtering.py",
        "    sampled.rollouts += more.rollouts\n",
        "",
        "tests/algorithms/test_options.py",
    ),
    Fault(
        "replayed with the advantages of then",
        "algorithms/replay.py",
        "np.full(len(rollout.steps), gain)",
        "np.ones(len(rollout.steps))",
        REPLAY,
    ),
    Fault(
        "replay imitates what is no longer good",
        "algorithms/replay.py",
        "if gain > 0.0",
        "if True",
        REPLAY,
    ),
    Fault(
        "replay forgets no old rollout",
        "algorithms/replay.py",
        "iteration - self._kept[0][0] > self._max_age",
        "False",
        REPLAY,
    ),
    Fault(
        "replayed rows weigh as much as fresh ones",
        "algorithms/replay.py",
        "weights=weight * more.weights",
        "weights=more.weights",
        REPLAY,
    ),
    Fault(
        "replayed tokens lose their step's advantage beside a critic",
        "algorithms/rows.py",
        "return np.repeat(rows.advantages, rows.response_lengths)",
        "return np.zeros(len(rows.action), np.float32)",
        ROWS,
    ),
    Fault(
        "a critic learns that replayed states are worth nothing",
        "algorithms/rows.py",
        '("value_targets", np.nan)',
        '("value_targets", 0.0)',
        ROWS,
    ),
    Fault(
        "replayed rows marked by their place in a shard",
        "algorithms/rows.py",
        "replayed=None if self.replayed is None else self.replayed[rows]",
        "replayed=None if self.replayed is None else self.replayed[: len(rows)]",
        REPLAY,
    ),
    Fault(
        "roles of a team share what they replay",
        "algorithms/text_algorithm.py",
        "self._replays.setdefault(agent, Replay(size, age))",
        'self._replays.setdefault("", Replay(size, age))',
        TEAM_TRAINING,
    ),
    Fault(
        "replayed rollouts of each role count whole",
        "algorithms/text_algorithm.py",
        "share = weight / max(acting[module], 1)",
        "share = weight",
        TEAM_TRAINING,
    ),
    Fault(
        "one critic is asked about every role",
        "algorithms/critic_learner.py",
        "self._module_id = module_id or self._module_id",
        "pass",
        TEAM_TRAINING,
    ),
    Fault(
        "a role's last state is that of the role on turn",
        "algorithms/rollout.py",
        "self._prompt(episode, rollout, last.observation, last.info)",
        "self._prompt(episode, rollout, episode.observation, episode.info)",
        TEAM_TRAINING,
    ),
    Fault(
        "replay lost on resume",
        "algorithms/text_algorithm.py",
        "self._replay_of(agent).set_state(kept)",
        "pass",
        "tests/algorithms/test_options.py",
    ),
    Fault(
        "replayed rows counted as a mismatch",
        "algorithms/text_learner.py",
        "measured = measured & ~np.repeat",
        "_ = measured & ~np.repeat",
        "tests/algorithms/test_options.py",
    ),
    Fault(
        "a rule's own parameter ignored",
        "algorithms/credit/registry.py",
        "parameters = {**parameters, **own}",
        "_ = {**parameters, **own}",
        "tests/algorithms/credit/test_registry.py",
    ),
    Fault(
        "outcome_scale ignored",
        "algorithms/trca/credit.py",
        "outcome_scale * batch.reward + rubric",
        "batch.reward + rubric",
        TRCA,
    ),
    Fault(
        "budgets shrink with failures",
        "algorithms/trca/credit.py",
        "share = 1.0 - np.bincount(groups, won)",
        "share = np.bincount(groups, won)",
        TRCA,
    ),
    Fault(
        "r^B counts every firing",
        "rubric/rewards.py",
        "    first[1:] = (operator[1:]",
        "    _ = (operator[1:]",
        TRCA,
    ),
    Fault(
        "Invalidity rewarded",
        "rubric/rewards.py",
        "-budgets.invalidity, budgets.execution])",
        "budgets.invalidity, budgets.execution])",
        TRCA,
    ),
    Fault(
        "outcomes not normalised by group",
        "algorithms/grpo/credit.py",
        "groups = joint_codes(batch.group[starts])",
        "groups = joint_codes(0 * batch.group[starts])",
        TRCA,
    ),
    Fault(
        "RLOO's baseline holds the rollout itself",
        "algorithms/rloo/credit.py",
        "np.maximum(size - 1, 1)",
        "size",
        RLOO,
    ),
    Fault(
        "Dr. GRPO divides by the deviation",
        "algorithms/dr_grpo/credit.py",
        "divide=False",
        "divide=True",
        DR_GRPO,
    ),
    Fault(
        "REINFORCE++ without its global statistics",
        "algorithms/reinforce_plus_plus/credit.py",
        "np.zeros_like(batch.rollout)",
        "batch.group",
        REINFORCE,
    ),
    Fault(
        "without_foundational keeps r^F",
        "algorithms/trca/credit.py",
        "foundational = np.zeros_like(foundational)",
        "breakthrough = np.zeros_like(breakthrough)",
        TRCA,
    ),
    Fault(
        "a text joins the last text that it is like",
        "algorithms/credit/anchors.py",
        "                break\n",
        "                pass\n",
        GIGPO,
    ),
    Fault(
        "similar anchors across groups",
        "algorithms/credit/anchors.py",
        "founders[int(group[row])]",
        "founders[0]",
        GIGPO,
    ),
    Fault(
        "HGPO's histories reach into the rollout before",
        "algorithms/hgpo/credit.py",
        "rows = np.flatnonzero(position >= level - 1)",
        "rows = np.arange(level - 1, len(batch))",
        HGPO,
    ),
    Fault(
        "HGPO weighs all levels alike",
        "algorithms/hgpo/credit.py",
        "float(level + 1) ** alpha",
        "1.0",
        HGPO,
    ),
    Fault(
        "GraphGPO takes the distance before the step",
        "algorithms/graphgpo/credit.py",
        "distance[after]",
        "distance[before]",
        GRAPHGPO,
    ),
    Fault(
        "one farthest distance for all groups",
        "algorithms/graphgpo/credit.py",
        "farthest[groups] + 1.0",
        "farthest.max() + 1.0",
        GRAPHGPO,
    ),
    Fault(
        "RewardFlow without discount",
        "algorithms/rewardflow/credit.py",
        "lambda ahead: gamma * ahead",
        "lambda ahead: ahead",
        REWARDFLOW,
    ),
    Fault(
        "StepSearch pays for gold that was found before",
        "algorithms/stepsearch/credit.py",
        "        best[later] = np.maximum(best[later], best[later - horizon])\n",
        "",
        STEPSEARCH,
    ),
    Fault(
        "StepSearch forgets what was seen",
        "algorithms/stepsearch/credit.py",
        "step[first][held] < step",
        "step[first][held] == step - 1",
        STEPSEARCH,
    ),
    Fault(
        "StepSearch pays the answer on every step",
        "algorithms/stepsearch/credit.py",
        "rewards[ends] += final_f1[ends]",
        "rewards += final_f1",
        STEPSEARCH,
    ),
    Fault(
        "IGPO gains of the step before",
        "algorithms/igpo/credit.py",
        "next_values(worth, batch.rollout, 0.0) - worth)",
        "worth - next_values(worth, batch.rollout, 0.0))",
        IGPO,
    ),
    Fault(
        "IGPO final answers compared with gains",
        "algorithms/igpo/credit.py",
        'if normalization == "separate" else',
        'if normalization == "joint" else',
        IGPO,
    ),
    Fault(
        "IGPO scores the tags around the answer",
        "algorithms/answers.py",
        "start + len(answer.encode()))",
        "len(response.encode()))",
        IGPO,
    ),
    Fault(
        "values flow back one transition only",
        "algorithms/credit/graph.py",
        "risen = np.unique(states)",
        "risen = np.unique(states)[:0]",
        REWARDFLOW,
    ),
    Fault(
        "G2PO's end of a rollout is worth what comes next in the batch",
        "algorithms/credit/arithmetic.py",
        "    following[starts + lengths - 1] = at_end\n",
        "",
        G2PO,
    ),
    Fault(
        "G2PO's gains compared from the same state",
        "algorithms/g2po/credit.py",
        "normalize(following - value, groups,",
        "normalize(following - value, states,",
        G2PO,
    ),
    Fault(
        "GAGPO without lambda",
        "algorithms/gagpo/credit.py",
        "gamma * gae_lambda)",
        "gamma)",
        GAGPO,
    ),
    Fault(
        "rollout_sum divides by the length",
        "algorithms/losses.py",
        "length = np.full_like(length, constant_steps)",
        "length = length * constant_steps",
        "tests/algorithms/test_losses.py",
    ),
    Fault(
        "context groups across tasks",
        "algorithms/trca/credit.py",
        "contexts = joint_codes(batch.group, batch.context)",
        "contexts = joint_codes(batch.context)",
        TRCA,
    ),
    Fault(
        "the run's settings do not reach the rule",
        "algorithms/text_algorithm.py",
        "bind_credit(self.config.credit, self.config.parameters())",
        "bind_credit(self.config.credit, {})",
        LEARNING,
    ),
    # Rollouts
    Fault(
        "context taken after the action",
        "algorithms/rollout.py",
        "        context=str(ended.context),",
        "        context=str(ended.next_context),",
        LEARNING,
    ),
    Fault(
        "context annotated after the action",
        "envs/annotate.py",
        'info["context"] = self._context\n        if',
        'info["context"] = self._text_env.adapter.context\n        if',
        LEARNING,
    ),
    Fault(
        "the run's budgets do not reach the environment",
        "algorithms/text_env_runner.py",
        "judged.reward_by(self.config.budgets, lambda_)",
        "judged.reward_by(None, lambda_)",
        LEARNING,
    ),
    Fault(
        "r^B of info counts every firing",
        "rubric/rewards.py",
        "                self._covered.add(operator)\n",
        "",
        LEARNING,
    ),
    Fault(
        "truncated counted as success",
        "algorithms/rollout.py",
        'rollout.won = bool(info["won"])',
        'rollout.won = bool(info["won"] or truncated)',
        LEARNING,
    ),
    Fault(
        "a lost group scored zero",
        "algorithms/rollout.py",
        "done = [e for e in own if e.done]",
        "done = list(own)",
        LEARNING,
    ),
    Fault(
        "one seed for all rollouts of a group",
        "algorithms/rollout.py",
        "turn = (episode.request.group, episode.index, episode.turns)",
        "turn = (episode.request.group, episode.turns)",
        LEARNING,
    ),
    Fault(
        "engine seed ignored",
        "policies/engines/transformers.py",
        "np.random.Philox(key=request.seed)",
        "np.random.Philox(key=0)",
        LEARNING,
    ),
    Fault(
        "weights pushed a version late",
        "algorithms/text_env_runner.py",
        "        self._weights, self.weights_version = dict(weights), version",
        "        late, self._late = getattr(self, '_late', None), dict(weights)\n"
        "        self._weights, self.weights_version = late or self._late, version",
        LEARNING,
    ),
    Fault(
        "weights never pushed",
        "algorithms/text_env_runner.py",
        "            self._load_weights(self.loop.engine)",
        "            pass",
        LEARNING,
    ),
    # Rows
    Fault(
        "advantages negated on the way to the rows",
        "algorithms/rows.py",
        "advantages=advantages_of(rollouts).astype(np.float32),",
        "advantages=-advantages_of(rollouts).astype(np.float32),",
        LEARNER,
    ),
    Fault(
        "advantage of another row",
        "algorithms/rows.py",
        "advantages=self.advantages[rows],",
        "advantages=self.advantages[np.roll(rows, 1)],",
        LEARNER,
    ),
    Fault(
        "weight of another row",
        "algorithms/rows.py",
        "weights=self.weights[rows],",
        "weights=self.weights[np.sort(rows)],",
        LEARNER,
    ),
    Fault(
        "aggregation forced to the mean over steps",
        "algorithms/losses.py",
        'if aggregation in ("rollout_mean", "rollout_sum"):',
        'if aggregation == "never":',
        LEARNER,
    ),
    Fault(
        "mini-batch factor missing",
        "algorithms/rows.py",
        "self.total / len(chunk)",
        "1.0",
        LEARNER,
    ),
    Fault(
        "weights averaged by shard",
        "algorithms/rows.py",
        "return [self.take(np.sort(order[k::count])) for k in range(count)]",
        "from dataclasses import replace\n\n"
        "        parts = [self.take(np.sort(order[k::count])) for k in range(count)]\n"
        "        return [replace(p, weights=p.weights / p.weights.sum() / count) for p in parts]",
        LEARNER,
    ),
    Fault(
        "every mini-batch is the first",
        "algorithms/rows.py",
        "own = place[np.sort(chunk)]",
        "own = place[np.arange(len(chunk))]",
        LEARNER,
    ),
    Fault(
        "action span shifted by a token",
        "algorithms/tensors.py",
        "position=torch.from_numpy(place - 1).to(device),",
        "position=torch.from_numpy(place).to(device),",
        LEARNER,
    ),
    Fault(
        "action mask shifted by a token",
        "algorithms/rows.py",
        "        action=action,\n",
        "        action=np.roll(action, 1),\n",
        LEARNER,
    ),
    # Loss
    Fault(
        "surrogate's sign",
        "algorithms/losses.py",
        "return torch.maximum(-ratio * advantage, -clipped * advantage)",
        "return torch.maximum(ratio * advantage, clipped * advantage)",
        LEARNER,
    ),
    Fault(
        "surrogate takes the maximum",
        "algorithms/losses.py",
        "return torch.maximum(-ratio * advantage, -clipped * advantage)",
        "return torch.minimum(-ratio * advantage, -clipped * advantage)",
        LEARNER,
    ),
    Fault(
        "clip bounds swapped",
        "algorithms/losses.py",
        "clipped_surrogate(ratio, advantage, settings.clip_low, settings.clip_high)",
        "clipped_surrogate(ratio, advantage, settings.clip_high, settings.clip_low)",
        LEARNER,
    ),
    Fault(
        "ratio over think tokens too",
        "algorithms/losses.py",
        "log_ratio = torch.where(action, logprobs - old_logprobs, 0.0)",
        "log_ratio = logprobs - old_logprobs",
        LEARNER,
    ),
    Fault(
        "entropy sign",
        "algorithms/losses.py",
        "loss = policy - settings.entropy_coeff * mean_entropy",
        "loss = policy + settings.entropy_coeff * mean_entropy",
        LEARNER,
    ),
    Fault(
        "KL sign",
        "algorithms/losses.py",
        "loss = loss + settings.kl_coeff * kl +",
        "loss = loss - settings.kl_coeff * kl +",
        LEARNER,
    ),
    Fault(
        "KL the other way round",
        "algorithms/losses.py",
        "return torch.expm1(-d) + d\n",
        "return torch.expm1(d) - d\n",
        LEARNER,
    ),
    # Learner
    Fault(
        "KL against the current policy",
        "algorithms/text_learner.py",
        "reference=self._score(rows, reference=True)",
        "reference=self._score(rows, reference=False)",
        LEARNER,
    ),
    Fault(
        "reference moving",
        "algorithms/text_learner.py",
        "            optimizer.step()\n",
        "            optimizer.step()\n"
        "            module = self.module[DEFAULT_MODULE_ID]\n"
        "            module.reference.load_state_dict(module.model.state_dict())\n",
        LEARNER,
    ),
    Fault(
        "trainer at temperature 1",
        "algorithms/text_learner.py",
        "temperature=self.config.temperature,",
        "temperature=1.0,",
        LEARNER,
    ),
    Fault(
        "old log-probabilities recomputed silently",
        "algorithms/text_learner.py",
        "if not self.config.recompute_logprobs:",
        "if False:",
        LEARNER,
    ),
    Fault(
        "warm-up of the learning rate ignored",
        "algorithms/text_learner.py",
        "self._set_lr(optimizer, min(1.0, (self.updates + 1) / max(warmup, 1)))",
        "self._set_lr(optimizer, 1.0)",
        LEARNER,
    ),
    Fault(
        "gradient not clipped",
        "algorithms/text_learner.py",
        'limit = self.config.grad_clip or float("inf")',
        'limit = float("inf")',
        LEARNER,
    ),
    Fault(
        "gradients averaged over learners",
        "algorithms/gradients.py",
        "torch.distributed.all_reduce(flat)",
        "torch.distributed.all_reduce(flat)\n        flat /= torch.distributed.get_world_size()",
        LEARNER,
    ),
    Fault(
        "one epoch whatever is set",
        "algorithms/text_learner.py",
        "for epoch in range(self.config.num_epochs):",
        "for epoch in range(1):",
        LEARNER,
    ),
    Fault(
        "a micro-batch forgets the one before",
        "algorithms/text_learner.py",
        "            loss.backward()\n",
        "            optimizer.zero_grad()\n            loss.backward()\n",
        LEARNER,
    ),
    # Shares of a model
    Fault(
        "a shared model stays whole after a pass",
        "policies/sharding.py",
        "reshard_after_forward=True",
        "reshard_after_forward=False",
        SHARDING,
    ),
    Fault(
        "gradients of shares added up in bfloat16",
        "policies/sharding.py",
        "MixedPrecisionPolicy(torch.bfloat16, torch.float32)",
        "MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)",
        SHARDING,
    ),
    Fault(
        "gradients of shares added up after each pass",
        "algorithms/text_learner.py",
        "set_gradient_sync(self._model, each.last or",
        "set_gradient_sync(self._model, True or",
        SHARED,
    ),
    Fault(
        "gradients of shares added up after the first pass alone",
        "algorithms/text_learner.py",
        "yield _Pass(batch, number == most, micro, places)",
        "yield _Pass(batch, number == 1, micro, places)",
        SHARED,
    ),
    Fault(
        "groups of a lost runner are not sampled again",
        "algorithms/sampling.py",
        "        parts += again\n",
        "",
        NODES,
    ),
    Fault(
        "a push to a runner that has not taken the last one is dropped",
        "algorithms/text_config.py",
        "self.max_requests_in_flight_per_env_runner = pushes",
        "pass",
        AHEAD,
    ),
    # Plan
    Fault(
        "a head planned for a critic of its own",
        "cli/memory.py",
        "shape.parameters - shape.head",
        "shape.parameters",
        PLAN,
    ),
    Fault(
        "a network planned for a critic on the trunk",
        "cli/memory.py",
        '(network if kind == "own" else 0)',
        "network",
        PLAN,
    ),
    Fault(
        "a critic's moments left out of the plan",
        "cli/memory.py",
        "= policies * critic * 16",
        "= policies * critic * 8",
        PLAN,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a tree.

    Attributes:
        failed: The first test that failed; empty where none did.
        passed: Number of tests that passed.
        seconds: Wall-clock seconds.
    """

    failed: str
    passed: int
    seconds: float


class Witness:
    """Pytest plugin: notes what fails when it is called (an error of a fixture proves nothing)."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Pytest's hook."""
        if report.when == "call":
            self.passed += report.passed
            if report.failed:
                self.failed.append(report.nodeid)


def plant(tree: Path, fault: Fault) -> None:
    """Writes the fault into the tree.

    Raises:
        ValueError: When the text to replace does not stand in the file exactly once.
    """
    path = tree / "trca" / fault.file
    text = path.read_text() if path.is_file() else ""
    if text.count(fault.old) != 1:
        raise ValueError(
            f"fault {fault.name!r}: trca/{fault.file} has {text.count(fault.old)} times, not once:"
            f"\n{fault.old}"
        )
    path.write_text(text.replace(fault.old, fault.new))


def copy_tree(tree: Path) -> None:
    """Copies what the tests need."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    listed += ["trca", "tests", "examples"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in [*filter(None, names), "pyproject.toml"]:
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name, follow_symlinks=False)


def run(tree: Path, tests: Sequence[str]) -> Outcome:
    """Runs tests on a tree up to the first failure, in a fork that has the libraries loaded.

    Raises:
        RuntimeError: When no test ran, such as for a tree that cannot be imported.
    """
    start = time.perf_counter()
    report, output = tree / "report.json", tree / "output.txt"
    report.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        try:
            with output.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.chdir(tree)
            sys.path.insert(0, str(tree))
            os.environ["PYTHONPATH"] = str(tree)
            witness = Witness()
            import pytest

            pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests], plugins=[witness])
            report.write_text(json.dumps([(witness.failed or [""])[0], witness.passed]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    failed, passed = json.loads(report.read_text()) if report.is_file() else ("", 0)
    if not failed and not passed:
        raise RuntimeError(f"no test ran:\n{output.read_text()[-3000:]}")
    return Outcome(failed, passed, time.perf_counter() - start)


def one_example_is_enough() -> None:
    """Spares Hypothesis the search for a smaller example: that a test fails says it all."""
    from hypothesis import Phase, settings

    settings.register_profile("planted", phases=(Phase.explicit, Phase.generate))
    settings.load_profile("planted")


def main() -> int:
    """Plants the faults asked for, one by one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="faults whose names have one of these; else all")
    words = parser.parse_args().words
    chosen = [f for f in FAULTS if not words or any(word in f.name for word in words)]
    if not chosen:
        parser.error(f"no fault has {' or '.join(words)} in its name")
    sys.dont_write_bytecode = True
    for name in LIBRARIES:
        importlib.import_module(name)
    one_example_is_enough()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        tests = list(dict.fromkeys(fault.tests for fault in chosen))
        clean = run(tree, tests)
        print(f"no fault: {clean.passed} tests pass in {clean.seconds:.0f} s", flush=True)
        if clean.failed:
            print(f"no fault, and yet {clean.failed} fails")
            return 1
        survived = 0
        for fault in chosen:
            path = tree / "trca" / fault.file
            before = path.read_text() if path.is_file() else ""
            plant(tree, fault)
            outcome = run(tree, [fault.tests])
            path.write_text(before)
            survived += not outcome.failed
            killer = outcome.failed.removeprefix("tests/") or "SURVIVES"
            print(f"{fault.name:45} {outcome.seconds:5.1f} s  {killer}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} faults are found")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())

"""`TextAlgorithm`: one iteration of RL on text environments, in RLlib's anatomy.

panel -> rollout groups on the env runners -> columns -> credit rule -> rows -> learners -> weights
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, ClassVar

import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_LEARNER_GROUP
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.tune.result import DONE

from trca.algorithms.base.curriculum import Curriculum
from trca.algorithms.base.evaluation import Evaluation
from trca.algorithms.base.filtering import add, teaching, teaching_groups
from trca.algorithms.base.metrics import credit_metrics, rollout_metrics
from trca.algorithms.base.recorder import RunRecorder
from trca.algorithms.base.replay import Replay, add_replayed, replay_weight
from trca.algorithms.base.text_config import ALGORITHM_OF, TextAlgorithmConfig
from trca.algorithms.credit import READS, Sources, bind_credit
from trca.algorithms.credit.inputs.values import explained_variance
from trca.algorithms.learner.critic import CRITIC_METRICS
from trca.algorithms.learner.group import TextLearnerGroup
from trca.algorithms.learner.learner import UPDATE_METRICS
from trca.algorithms.learner.mismatch import MISMATCH_METRICS, cause
from trca.algorithms.learner.rows import Rows, TokenColumns, join_roles, make_rows
from trca.algorithms.learner.start_weights import read_start_weights, unknown_start
from trca.algorithms.rollouts.environments import env_creator, no_rubric
from trca.algorithms.rollouts.loop import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.sampling import sample_groups, wait_for_one
from trca.algorithms.rollouts.sampling_ahead import SamplingAhead
from trca.common.memory import own_memory_mb
from trca.envs.annotate import Operators
from trca.envs.panel import Panel
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.canary import Canary, PushError, Sent, check
from trca.policies.dtypes import DTYPES
from trca.policies.engines.engine import SamplingParams
from trca.policies.models import resolve_dtype
from trca.records import Rollout, StepBatch, assign_advantages, by_agent
from trca.records.failures import Failure, Incident
from trca.rubric import Budgets

logger = logging.getLogger(__name__)

_TRAINING_STEPS = "training_steps"
_CURRICULUM = "curriculum"
_REPLAY = "replay"


@dataclass(frozen=True)
class _Credited:
    """Rollouts of an agent that have their advantages.

    Attributes:
        agent: The agent.
        rollouts: Its rollouts.
        batch: Their columns.
        tokens: Those of their tokens.
    """

    agent: str
    rollouts: list[Rollout]
    batch: StepBatch
    tokens: TokenColumns

    def critic_metrics(self) -> dict[str, Any]:
        """What the critic's values explain of their targets; empty without a critic."""
        values, targets = self.tokens.values, self.tokens.value_targets
        if values is None or targets is None:
            return {}
        return {"explained_variance": explained_variance(values, targets)}


class TextAlgorithm(Algorithm):
    """Trains a language model in a text environment; algorithms differ in their credit rule.

    Attributes:
        rollouts: The rollouts of the last iteration, with their advantages.
        failures: The rollouts that were missing in it.
        incidents: All that failed in it, and what was done about it.
        evaluation: The last evaluation, None before the first.
        training_steps: Training iterations begun, over all restarts.
        config_class: Class of its config.
    """

    config_class: ClassVar[type[TextAlgorithmConfig]] = TextAlgorithmConfig
    config: TextAlgorithmConfig
    metrics: MetricsLogger
    env_runner_group: EnvRunnerGroup
    learner_group: TextLearnerGroup

    def __init_subclass__(
        cls, config: type[TextAlgorithmConfig] | None = None, **kwargs: Any
    ) -> None:
        """Pairs an algorithm with its config: ``class GRPO(TextAlgorithm, config=GRPOConfig)``."""
        super().__init_subclass__(**kwargs)
        if config is not None:
            cls.config_class, ALGORITHM_OF[config] = config, cls

    def setup(self, config: AlgorithmConfig) -> None:  # type: ignore[override]
        """Sets up RLlib's parts and the training panel."""
        torch.set_num_threads(self.config.torch_threads)
        self.rollouts: list[Rollout] = []
        self.failures: list[Failure] = []
        self.incidents: list[Incident] = []
        self.evaluation: Evaluation | None = None
        self.training_steps = 0
        self._failed_in_a_row = 0
        self._rebuilt = 0
        self._known: list[_Credited] = []
        self._first_reason = ""
        self._panels: dict[str, Panel] = {}
        self._canaries: dict[tuple[int, str], Canary] = {}
        self._ahead: SamplingAhead | None = None
        self._curriculum: Curriculum | None = None
        self._replays: dict[str, Replay] = {}
        self._credit = bind_credit(self.config.credit, self.config.parameters())
        super().setup(config)
        try:
            self._check_sources()
        except ValueError as error:
            self.recorder.fail(self, error)
            raise

    @property
    def recorder(self) -> RunRecorder:
        """The callback that records the run."""
        recorders = [each for each in self.callbacks if isinstance(each, RunRecorder)]
        return recorders[0]

    def step(self) -> dict[str, Any]:
        """Runs an iteration; the result of the last one says that training is done."""
        result: dict[str, Any] = super().step()
        return {**result, DONE: self.iteration + 1 >= self.config.iterations}

    def train(self) -> dict[str, Any]:
        """Runs an iteration and records it.

        A trial that Ray Tune restores after its last iteration gives the last result again.
        """
        if (end := self.recorder.recorded_end(self)) is not None:
            return end
        try:
            result: dict[str, Any] = super().train()  # type: ignore[no-untyped-call]
        except Exception as error:
            self.recorder.fail(self, error)
            raise
        return result

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The settings that a checkpoint keeps: all but the run's folder."""
        (state, *rest), kwargs = super().get_ctor_args_and_kwargs()
        return ({**state, "run_folder": None}, *rest), kwargs

    def cleanup(self) -> None:
        """Stops RLlib's parts and closes the run's folder."""
        super().cleanup()
        self.recorder.close(self)

    @classmethod
    def get_default_config(cls) -> TextAlgorithmConfig:
        """Returns the config with the default hyperparameters."""
        return cls.config_class(algo_class=cls)

    def panel(self, split: str) -> Panel:
        """Returns the whole panel of a split."""
        if split not in self._panels:
            self._panels[split] = self._ask_runner("panel", split)
        return self._panels[split]

    @property
    def curriculum(self) -> Curriculum:
        """Draws the training tasks."""
        if self._curriculum is None:
            config = self.config
            panel = self.panel(config.train_split)
            self._curriculum = Curriculum(panel, config.task_curriculum, config.seed or 0)
        return self._curriculum

    def training_step(self) -> None:
        """Samples the iteration's groups, credits every step, updates the learners, syncs weights.

        Raises:
            RuntimeError: When several iterations in a row have no rollout; its words are the first
            reason.
        """
        self.incidents = []
        sampled = self._sample()
        self.rollouts, self.failures = sampled.rollouts, sampled.failures
        self.incidents = sampled.incidents
        missing = sum(f.rollouts for f in sampled.failures)
        self._log({"missing_rollouts": missing, "timing": sampled.seconds})
        self.curriculum.learn(sampled.rollouts)
        self._log({"panel_hash": self.panel(self.config.train_split).hash}, reduce="item")
        if not sampled.rollouts:
            self._skip(sampled.failures)
            return
        self._failed_in_a_row = 0
        rows = self._with_replay(self._assign_credit(sampled))
        if rows:
            self._update(rows)
        self._note_lost_learners()
        self._log_memory(sampled.memory_mb)

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Takes restarted runners into service; waits for one where none is left."""
        wait_for_one(env_runner_group, self.config.sample_timeout_s)
        restored: list[int] = super().restore_env_runners(env_runner_group)
        return restored

    def get_state(self, components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns RLlib's state, and what the next iteration's rollouts and rows depend on."""
        state: dict[str, Any] = super().get_state(components, **kwargs)
        state[_TRAINING_STEPS] = self.training_steps
        if self.config.task_curriculum:
            state[_CURRICULUM] = self.curriculum.get_state()
        if self.config.replay_size:
            state[_REPLAY] = {agent: kept.get_state() for agent, kept in self._replays.items()}
        return state

    def save_to_path(self, path: Any = None, **kwargs: Any) -> str:
        """Saves a checkpoint; sharded learners write their shares of it."""
        with self.learner_group.saving():
            saved: str = super().save_to_path(path, **kwargs)
        return saved

    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Restores a checkpoint, or a component that lies in one.

        Raises:
            OtherStartError: When a policy has frozen weights that differ from the start weights
                in the checkpoint.
        """
        self._refuse_other_start(path, kwargs.get("component"), kwargs.get("filesystem"))
        super().restore_from_path(path, *args, **kwargs)  # type: ignore[no-untyped-call]

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state."""
        super().set_state(state)
        self.training_steps = state.get(_TRAINING_STEPS, self.training_steps)
        self._canaries = {}
        self._ahead = None  # what is sampled ahead is of the policy before, and of its iterations
        if self.config.task_curriculum and _CURRICULUM in state:
            self.curriculum.set_state(state[_CURRICULUM])
        if self.config.replay_size and _REPLAY in state:
            self._replays = {}
            for agent, kept in state[_REPLAY].items():
                self._replay_of(agent).set_state(kept)

    def _refuse_other_start(self, path: Any, component: str | None, filesystem: Any) -> None:
        """Compares the start weights of every learner with those that a checkpoint names.

        Args:
            path: The checkpoint, or the component in it.
            component: The component's name; None for the whole checkpoint.
            filesystem: Arrow's file system that holds the path; None for that of the path.
        """
        if component and not component.startswith(COMPONENT_LEARNER_GROUP):
            return
        checkpoint = str(path).removesuffix(f"/{component}")
        saved = read_start_weights(checkpoint, filesystem)
        then = "set model: FOLDER in the config, for a run in its config.yaml"
        for of_learner in self.learner_group.ask("start_weights"):
            for module, own in of_learner.items():
                if module in saved:
                    own.refuse_other(saved[module], module, checkpoint, then)
                elif own.frozen:
                    logger.warning(unknown_start(checkpoint))

    @classmethod
    def _should_create_evaluation_env_runners(cls, eval_config: AlgorithmConfig) -> bool:
        return bool(eval_config.evaluation_num_env_runners > 0)

    @staticmethod
    def _get_env_id_and_creator(env_specifier: Any, config: AlgorithmConfig) -> tuple[Any, Any]:
        return env_specifier, env_creator(env_specifier)

    def _sample(self) -> RolloutBatch:
        config, number = self.config, self.training_steps
        self.training_steps += 1
        sampling = SamplingParams(config.temperature, config.max_new_tokens)
        if config.max_staleness:
            if self._ahead is None:
                self._ahead = SamplingAhead(
                    self.env_runner_group, self._groups, sampling, config.max_staleness, number
                )
            sampled, metrics = self._ahead.take(number, config.sample_timeout_s)
        else:
            sampled, metrics = sample_groups(
                self.env_runner_group, self._groups(number), sampling, config.sample_timeout_s
            )
        if config.refill_groups:
            metrics += self._refill(sampled, number, sampling)
        self.metrics.aggregate(metrics, key=ENV_RUNNER_RESULTS)
        return sampled

    def _refill(
        self, sampled: RolloutBatch, number: int, sampling: SamplingParams
    ) -> list[dict[str, Any]]:
        """Samples groups in place of those without any advantage, up to the bound.

        Returns:
            The runners' metrics.
        """
        config, found = self.config, list[dict[str, Any]]()
        size, wanted = config.tasks_per_iteration, len({r.group for r in sampled.rollouts})
        refilled = 0
        while refilled < config.refill_groups and sampled.rollouts:
            start = time.perf_counter()
            self._known = self._credited(sampled.rollouts)
            seconds = sampled.seconds.get("credit", 0.0) + time.perf_counter() - start
            sampled.seconds["credit"] = seconds
            learned = [r for r in sampled.rollouts if config.learns(r.agent_id, r.module_id)]
            lacking = wanted - len(teaching_groups(learned))
            count = min(lacking, config.refill_groups - refilled)
            if count <= 0:
                break
            tasks = self.curriculum.more(number, size, refilled, count)
            more, metrics = sample_groups(
                self.env_runner_group,
                self._requests(number, tasks, size + refilled),
                sampling,
                config.sample_timeout_s,
            )
            add(sampled, more)
            self._known = []
            found += metrics
            refilled += count
        self._log({"refilled_groups": refilled})
        return found

    def _groups(self, number: int) -> list[GroupRequest]:
        """The rollout groups of an iteration."""
        return self._requests(
            number, self.curriculum.tasks(number, self.config.tasks_per_iteration)
        )

    def _requests(self, number: int, tasks: Sequence[str], first: int = 0) -> list[GroupRequest]:
        config = self.config
        key = ("training", config.seed or 0, number)
        progress = min(1.0, number / config.iterations)
        return [
            GroupRequest(k, task, config.train_split, config.group_size, key, progress)
            for k, task in enumerate(tasks, first)
        ]

    def _credited(self, rollouts: list[Rollout]) -> list[_Credited]:
        """Gives rollouts their advantages, each agent's among themselves."""
        return [self._credited_agent(agent, own) for agent, own in by_agent(rollouts).items()]

    def _credited_agent(self, agent: str, rollouts: list[Rollout]) -> _Credited:
        batch = StepBatch.from_rollouts(rollouts, self._operators[agent].categories)
        sources = self._sources(rollouts)
        read = {name: READS.get(name)(sources, batch) for name in self._credit.reads}
        credit = self._credit.credit(batch, **read)
        spoken = sum(len(step.response_ids) for r in rollouts for step in r.steps)
        heads = self.config.value_heads if self.config.critic_kind else 0
        self._credit.check_tokens(credit, spoken, heads)
        assign_advantages(rollouts, credit.advantages)
        values = read["values"].tokens if "values" in read else None
        tokens = TokenColumns(credit.token_advantages, values, credit.value_targets)
        return _Credited(agent, rollouts, batch, tokens)

    def _assign_credit(self, sampled: RolloutBatch) -> dict[str, Rows]:
        """Credits every step; returns the rows that each policy learns from."""
        start = time.perf_counter() - sampled.seconds.get("credit", 0.0)
        rollouts, config = sampled.rollouts, self.config
        credited, kept = self._known or self._credited(rollouts), 0
        self._known = []
        parts: dict[str, list[Rows]] = {}
        for each in credited:
            taught = teaching(each.rollouts, config.on_zero_advantage)
            kept += len(taught)
            for module, own in _by_module(taught).items():
                rows = self._rows(each, own)
                if len(rows) and config.learns(each.agent, module):
                    parts.setdefault(module, []).append(rows)
        self._log({"left_out_rollouts": len(rollouts) - kept})
        self._log({"timing": {"credit": time.perf_counter() - start}})
        self._log(rollout_metrics(rollouts))
        self._log_credit(credited)
        self._log({"gold_in_training": float(bool(self._credit.gold))})
        generated = sum(len(step.response_ids) for r in rollouts for step in r.steps)
        self._log({"tokens_per_second": generated / max(sampled.seconds["generation"], 1e-9)})
        return {module: join_roles(parts[module]) for module in sorted(parts)}

    def _rows(self, credited: _Credited, taught: list[Rollout]) -> Rows:
        """The rows of some of an agent's rollouts."""
        config, columns, tokens = self.config, credited.batch, credited.tokens
        if len(taught) < len(credited.rollouts):
            columns = StepBatch.from_rollouts(taught, columns.categories)
            tokens = tokens.of_rollouts(taught, credited.rollouts)
        return make_rows(
            taught,
            columns,
            config.aggregation,
            config.train_malformed,
            config.constant_steps,
            tokens,
        )

    def _log_credit(self, credited: list[_Credited]) -> None:
        """Logs the metrics of rubric and credit, of a team by role too."""
        budgets = Budgets.of(self.config.budgets)
        found = {
            each.agent: credit_metrics(
                each.rollouts, each.batch, budgets, self._operators[each.agent].ids
            )
            | (each.critic_metrics() if self._learned(each) else {})
            for each in credited
        }
        if list(found) == [DEFAULT_AGENT]:
            self._log(found[DEFAULT_AGENT])
            return
        self._log(
            _means([{k: v for k, v in m.items() if k != "operators"} for m in found.values()])
        )
        played = {each.agent: rollout_metrics(each.rollouts) for each in credited}
        self._log({"roles": {agent: played[agent] | found[agent] for agent in found}})

    def _learned(self, credited: _Credited) -> bool:
        """Whether an agent's rollouts teach a policy."""
        return any(self.config.learns(r.agent_id, r.module_id) for r in credited.rollouts)

    def _with_replay(self, parts: dict[str, Rows]) -> dict[str, Rows]:
        """Adds the rollouts that are due to be replayed; keeps the good ones of this iteration.

        Each role's among themselves; the roles that one policy acts for count alike.
        """
        config, iteration = self.config, self.training_steps - 1
        if not config.replay_size:
            return parts
        settings: Any = config
        weight = replay_weight(iteration, config.replay_weight, config.replay_ramp)
        learning = [r for r in self.rollouts if config.learns(r.agent_id, r.module_id)]
        acting = Counter(module for _, module in {(r.agent_id, r.module_id) for r in learning})
        parts, count = dict(parts), 0
        for agent, rollouts in by_agent(learning).items():
            categories = self._operators[agent].categories
            none = make_rows([], StepBatch.from_rollouts([], categories), config.aggregation, False)
            replayed = self._replay_of(agent).take(iteration)
            self._replay_of(agent).keep(iteration, rollouts)
            count += len(replayed)
            for module, own in _by_module(replayed).items():
                share = weight / max(acting[module], 1)
                rows = parts.get(module, none)
                parts[module] = add_replayed(rows, own, share, categories, settings)
        self._log({"replayed_rollouts": count})
        return {module: parts[module] for module in sorted(parts)}

    def _replay_of(self, agent: str) -> Replay:
        size, age = self.config.replay_size, self.config.replay_max_age
        return self._replays.setdefault(agent, Replay(size, age))

    @property
    def gold_reads(self) -> tuple[str, ...]:
        """The gold that the credit rule reads, by name."""
        return self._credit.gold

    def _check_sources(self) -> None:
        """Asks the environment for its operators.

        Raises:
            ValueError: When the environment lacks something that the credit rule reads.
        """
        for name in self._credit.reads:
            if lack := READS.get(name).lack(self._sources([])):
                raise ValueError(f"credit rule {self._credit.name!r} reads {name}: {lack}")
        self._operators: dict[str, Operators] = self._ask_runner("operators")
        needs_rubric = self.config.parameters_class.needs_rubric
        if needs_rubric and not any(each.ids for each in self._operators.values()):
            raise ValueError(
                no_rubric(type(self).__name__, self.config.env, self.config.env_config)
            )

    def _sources(self, rollouts: list[Rollout]) -> Sources:
        runner: Any = self.env_runner_group.local_env_runner
        learners: Any = self.learner_group
        if rollouts and len(self.config.module_ids) > 1:
            learners = learners.of(*sorted(_by_module(rollouts)))
        return Sources(self.config, runner, learners, rollouts)

    def _update(self, rows: dict[str, Rows]) -> None:
        start = time.perf_counter()
        count = max(1, self.config.num_learners)
        sharded = {module: own.shards(count) for module, own in rows.items()}
        shards = [{module: own[k] for module, own in sharded.items()} for k in range(count)]
        data: dict[str, Any] = {"batches": shards}
        if not self.learner_group.is_remote:
            data = {"batch": shards[0]}
        results = self.learner_group.update(
            **data,
            timesteps={
                NUM_ENV_STEPS_SAMPLED_LIFETIME: self.metrics.peek(
                    (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0
                )
            },
            shuffle_key=(self.config.seed or 0, self.training_steps),
        )
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        names = UPDATE_METRICS + (CRITIC_METRICS if self.config.critic_kind else ())
        learned_metrics: dict[str, dict[str, float]] = {}
        for module in rows:
            peeked = self.metrics.peek((LEARNER_RESULTS, module))
            learned_metrics[module] = {name: peeked[name] for name in names}
        self._log(_means(list(learned_metrics.values())))
        if len(self.config.module_ids) > 1:
            self._log({"policies": learned_metrics})
        for of_one in learned_metrics.values():
            self._watch_mismatch({name: float(of_one[name]) for name in MISMATCH_METRICS})
        learned = time.perf_counter()
        self._push()
        seconds = {"learning": learned - start, "sync": time.perf_counter() - learned}
        self._log({"timing": seconds})

    def _note_lost_learners(self) -> None:
        """Notes the learners that were lost since the last time, in an update or elsewhere."""
        before, self._rebuilt = self._rebuilt, self.learner_group.rebuilt
        for _ in range(before, self._rebuilt):
            lost = Incident(time.time(), "learner", "", "", "it was lost", "retried")
            self.incidents.append(lost)

    def _watch_mismatch(self, mismatch: dict[str, float]) -> None:
        """Logs the age of the weights that sampled, and warns of a mismatch with its cause."""
        versions = [step.version for rollout in self.rollouts for step in rollout.steps]
        local: Any = self.env_runner_group.local_env_runner  # it has what was pushed last
        now = max(local.weights_version, *versions)
        ages = [now - version for version in versions]
        self._log({"staleness": float(np.mean(ages)), "staleness_max": max(ages)})
        dtype = resolve_dtype(self.config.resolved_model(), self.config.dtype)
        bound = DTYPES[dtype].mismatch
        if mismatch["mismatch_kl"] > bound:
            logger.warning(
                "sampler and trainer disagree: mismatch_kl %.1e is above %.0e. Likely cause: %s",
                mismatch["mismatch_kl"],
                bound,
                cause(mismatch, max(ages), dtype),
            )

    def _push(self) -> None:
        """Sends the weights to the engines and checks them.

        Learners that are lost in between are built again and have sent nothing: they send again.
        """
        while True:
            rebuilt = self.learner_group.rebuilt
            self.env_runner_group.sync_weights(
                from_worker_or_learner_group=self.learner_group, inference_only=True
            )
            try:
                return self._check_push()
            except PushError:
                if self.learner_group.rebuilt == rebuilt:
                    raise

    def _check_push(self) -> None:
        """Asks every engine for its canary and compares it with what the learners sent.

        Runners that sample ahead are busy: their steps say which version they were sampled with.
        """
        if self.config.max_staleness:
            return
        runners, scored = self.env_runner_group, dict[tuple[str, bytes], Sent]()
        answers: list[tuple[int, dict[str, Canary]]] = runners.foreach_env_runner(
            methodcaller("canary"),
            local_env_runner=runners.num_remote_env_runners() == 0,
            timeout_seconds=self.config.generation_timeout_s,
        )
        worst = 0.0
        for number, module, canary in [(k, m, c) for k, own in answers for m, c in own.items()]:
            said = module, canary.ids.tobytes()
            if said not in scored:
                scores = self.learner_group.ask(
                    "score_canary",
                    prompt_ids=canary.prompt_ids,
                    ids=canary.ids,
                    module_id=module,
                )
                scored[said] = max(scores, key=lambda sent: bool(sent.digest))  # who sent them
            before = self._canaries.get((number, module))
            worst = max(worst, check(canary, scored[said], before))
            self._canaries[number, module] = canary
        self._log({"push_difference": worst})

    def _log_memory(self, runners_mb: float) -> None:
        memory = {"driver": own_memory_mb(), "runners": runners_mb}
        if self.learner_group.is_remote:
            memory["learners"] = max(self.learner_group.ask("apply", func=own_memory_mb))
        self._log({"memory_mb": memory})

    def _skip(self, failures: list[Failure]) -> None:
        reason = failures[0].reason if failures else "there was no group to sample"
        if self._failed_in_a_row == 0:
            self._first_reason = reason
        self._failed_in_a_row += 1
        self.metrics.log_value("skipped_iterations", 1, reduce="lifetime_sum")
        logger.error("iteration %d has no rollout: %s", self.training_steps, reason)
        if self._failed_in_a_row >= self.config.max_failed_iterations:
            raise RuntimeError(
                f"{self._first_reason} (every rollout is missing,"
                f" {self._failed_in_a_row} iterations in a row)"
            )

    def _ask_runner(self, method: str, *args: Any) -> Any:
        return getattr(self.env_runner_group.local_env_runner, method)(*args)

    def _log(self, metrics: dict[str, Any], reduce: str = "mean") -> None:
        window = 1 if reduce == "mean" else None
        self.metrics.log_dict(metrics, reduce=reduce, window=window)


def _by_module(rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    """Rollouts by the policy that acted, in their order."""
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        found.setdefault(rollout.module_id, []).append(rollout)
    return found


def _means(metrics: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric; of one, the metric itself."""
    if len(metrics) == 1:
        return metrics[0]
    names = dict.fromkeys(name for each in metrics for name in each)
    return {n: float(np.mean([each[n] for each in metrics if n in each])) for n in names}

"""`TextAlgorithm`: one iteration of RL on text environments, in RLlib's anatomy.

panel -> rollout groups on the env runners -> columns -> credit rule -> rows -> learners -> weights
"""

from __future__ import annotations

import logging
import time
from functools import cached_property
from typing import Any, ClassVar

import ray
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

from trca.algorithms.base.crediting import CreditedRollouts, Crediting, by_module
from trca.algorithms.base.curriculum import Curriculum
from trca.algorithms.base.evaluation import Evaluation
from trca.algorithms.base.iteration_sampling import IterationSampler
from trca.algorithms.base.metrics import means, rollout_metrics
from trca.algorithms.base.recorder import RunRecorder
from trca.algorithms.base.replay import AgentReplays
from trca.algorithms.base.self_play import refreshed
from trca.algorithms.base.supply import check_supply
from trca.algorithms.base.text_config import ALGORITHM_OF, TextAlgorithmConfig
from trca.algorithms.base.weight_push import WeightPush, staleness, warn_of_mismatch
from trca.algorithms.credit import READS, Sources, bind_credit
from trca.algorithms.learner.critic import CRITIC_METRICS
from trca.algorithms.learner.group import LearnersLostError, TextLearnerGroup
from trca.algorithms.learner.mismatch import MISMATCH_METRICS
from trca.algorithms.learner.policy_updater import UPDATE_METRICS
from trca.algorithms.learner.rows import Rows
from trca.algorithms.learner.start_weights import read_start_weights
from trca.algorithms.rollouts.batch import RolloutBatch
from trca.algorithms.rollouts.environments import default_split, env_creator, no_rubric
from trca.algorithms.rollouts.sampling import wait_for_one
from trca.common.process import own_memory_mb
from trca.envs.annotate import Operators
from trca.envs.panel import Panel
from trca.records import Rollout
from trca.records.rollout import Failure, Incident

logger = logging.getLogger(__name__)

_TRAINING_STEPS = "training_steps"
_CURRICULUM = "curriculum"
_REPLAY = "replay"


class TextAlgorithm(Algorithm):
    """Trains a language model in a text environment; algorithms differ in their credit rule.

    Attributes:
        rollouts: The rollouts of the last iteration, with their advantages.
        failures: The missing rollouts of the last iteration.
        incidents: The failures of the last iteration and their treatment.
        evaluation: The last evaluation; None before the first.
        training_steps: Number of started iterations, including those before a restart.
        config_class: Class of the config.
    """

    config_class: ClassVar[type[TextAlgorithmConfig[Any]]] = TextAlgorithmConfig
    sampler_class: ClassVar[type[IterationSampler]] = IterationSampler
    crediting_class: ClassVar[type[Crediting]] = Crediting
    # The numbers of each result in Tune's console; RLlib's class has them under this name.
    _progress_metrics = (  # type: ignore[assignment]
        "success_rate",
        "evaluation/success_rate",
        "foundational_reward",
    )
    config: TextAlgorithmConfig
    metrics: MetricsLogger
    env_runner_group: EnvRunnerGroup
    learner_group: TextLearnerGroup

    def __init_subclass__(
        cls, config: type[TextAlgorithmConfig[Any]] | None = None, **kwargs: Any
    ) -> None:
        """Pairs an algorithm with its config: ``class GRPO(TextAlgorithm, config=GRPOConfig)``."""
        super().__init_subclass__(**kwargs)
        if config is not None:
            cls.config_class, ALGORITHM_OF[config] = config, cls
            cls.__doc__ = cls.__doc__ or config.__doc__

    def setup(self, config: AlgorithmConfig) -> None:  # type: ignore[override]
        """Sets up RLlib's parts and the training panel.

        Raises:
            ValueError: If the processes need more than Ray has, if sharded learners cannot write
                their checkpoint into one folder, or if the environment lacks a source of the credit
                rule or a rubric.
        """
        torch.set_num_threads(self.config.settings.torch_threads)
        self.rollouts: list[Rollout] = []
        self.failures: list[Failure] = []
        self.incidents: list[Incident] = []
        self.evaluation: Evaluation | None = None
        self.training_steps = 0
        self._failed_in_a_row = 0
        self._first_reason = ""
        self._panels: dict[str, Panel] = {}
        self._credit = bind_credit(self.config.settings.credit, self.config.settings)
        check_supply(self.config)
        super().setup(config)
        try:
            self._check()
        except ValueError as error:
            self.recorder.fail(self, error)
            raise

    @property
    def recorder(self) -> RunRecorder:
        """The callback that records the run."""
        return next(each for each in self.callbacks if isinstance(each, RunRecorder))

    def step(self) -> dict[str, Any]:
        """Runs an iteration; ``done`` is True in the result of the last iteration."""
        result: dict[str, Any] = super().step()
        # Tune's table of trials has a column for each of the first four numbers of a result.
        first = {key: result[key] for key in ("success_rate",) if key in result}
        return {**first, **result, DONE: self.iteration + 1 >= self.config.settings.iterations}

    def train(self) -> dict[str, Any]:
        """Runs and records an iteration.

        A trial that Ray Tune restores after its last iteration returns the last result once more.
        """
        if (end := self.recorder.recorded_end(self)) is not None:
            return end
        try:
            result: dict[str, Any] = super().train()  # type: ignore[no-untyped-call]
        except Exception as error:
            if isinstance(error, LearnersLostError):
                lost = Incident(time.time(), "learner", "", "", "it was lost", "the run ended")
                self.incidents.append(lost)
            self.recorder.fail(self, error)
            raise
        return result

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the settings for a checkpoint, without the run's folder."""
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
        """Returns the complete panel of a split."""
        if split not in self._panels:
            self._panels[split] = self._ask_runner("panel", split)
        return self._panels[split]

    @cached_property
    def evaluation_panel(self) -> Panel:
        """The tasks of an evaluation."""
        config, changes = self.config, self.config.evaluation_env_config
        env_config = {**config.env_config, **changes}
        split = config.settings.evaluation_split or default_split(config.env, env_config)
        panel = self._ask_runner("panel", split, changes) if changes else self.panel(split)
        return panel.head(config.settings.evaluation_tasks)

    @cached_property
    def curriculum(self) -> Curriculum:
        """Draws the training tasks."""
        settings, seed = self.config.settings, self.config.seed or 0
        return Curriculum(self.panel(settings.train_split), settings.task_curriculum, seed)

    @cached_property
    def sampler(self) -> IterationSampler:
        """Samples the rollout groups."""
        return self.sampler_class(
            self.config, self.env_runner_group, self.curriculum, self.crediting
        )

    @cached_property
    def crediting(self) -> Crediting:
        """Assigns advantages and makes rows."""
        return self.crediting_class(self.config, self._credit, self._operators, self._sources)

    @cached_property
    def replays(self) -> AgentReplays:
        """The rollouts kept for self-imitation."""
        return AgentReplays(self.config)

    @cached_property
    def weight_push(self) -> WeightPush:
        """Pushes weights to the engines."""
        return WeightPush(self.config, self.env_runner_group, self.learner_group)

    def training_step(self) -> None:
        """Samples the groups, credits every step, updates the learners and pushes the weights.

        Raises:
            RuntimeError: If ``max_failed_iterations`` successive iterations have no rollout.
        """
        settings, self.incidents = self.config.settings, []
        number, self.training_steps = self.training_steps, self.training_steps + 1
        batch, metrics = self.sampler.sample(number)
        self.rollouts, self.failures = batch.rollouts, batch.failures
        self.incidents = batch.incidents
        credited, refilled = self.sampler.credit(batch, metrics, number)
        self.metrics.aggregate(metrics, key=ENV_RUNNER_RESULTS)
        missing = sum(f.rollouts for f in batch.failures)
        self._log({"missing_rollouts": missing, "timing": batch.seconds})
        if settings.refill_groups:
            self._log({"refilled_groups": refilled})
        self.curriculum.learn(batch.rollouts)
        self._log({"panel_hash": self.panel(settings.train_split).hash}, reduce="item")
        if not batch.rollouts:
            self._skip(batch.failures)
            return
        self._failed_in_a_row = 0
        rows = self._make_rows(batch, credited)
        if settings.replay_size:
            rows, replayed = self.replays.add(rows, batch.rollouts, number)
            self._log({"replayed_rollouts": replayed})
        if rows:
            self._update(rows)
        memory = {"driver": own_memory_mb(), "runners": batch.process_memory_mb}
        if self.learner_group.is_remote:
            memory["learners"] = max(self.learner_group.ask("apply", func=own_memory_mb))
        self._log({"memory_mb": memory})

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Takes restarted runners into service; waits for a runner if all are lost."""
        wait_for_one(env_runner_group, self.config.settings.sample_timeout_s)
        restored: list[int] = super().restore_env_runners(env_runner_group)
        return restored

    def get_state(self, components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns RLlib's state with iteration, curriculum and replays."""
        state: dict[str, Any] = super().get_state(components, **kwargs)
        state[_TRAINING_STEPS] = self.training_steps
        state[_CURRICULUM] = self.curriculum.get_state()
        state[_REPLAY] = self.replays.get_state()
        return state

    def save_to_path(self, path: Any = None, **kwargs: Any) -> str:
        """Saves a checkpoint; sharded learners write their shares."""
        with self.learner_group.saving():
            saved: str = super().save_to_path(path, **kwargs)
        return saved

    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Restores a checkpoint or a component; an `OtherStartError` if frozen weights differ."""
        component = str(kwargs.get("component") or "")
        if not component or component.startswith(COMPONENT_LEARNER_GROUP):
            checkpoint = str(path).removesuffix(f"/{component}")
            saved = read_start_weights(checkpoint, kwargs.get("filesystem"))
            fix = "set model: FOLDER in the config, for a run in its config.yaml"
            for of_learner in self.learner_group.ask("start_weights"):
                for module, start in of_learner.items():
                    if module in saved:
                        start.refuse_other(saved[module], module, checkpoint, fix)
        super().restore_from_path(path, *args, **kwargs)  # type: ignore[no-untyped-call]

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state."""
        super().set_state(state)
        self.training_steps = state.get(_TRAINING_STEPS, self.training_steps)
        for part in ("weight_push", "sampler"):  # with groups and answers of the replaced weights
            vars(self).pop(part, None)
        if _CURRICULUM in state:
            self.curriculum.set_state(state[_CURRICULUM])
        if _REPLAY in state:
            self.replays.set_state(state[_REPLAY])

    @classmethod
    def _should_create_evaluation_env_runners(cls, eval_config: AlgorithmConfig) -> bool:
        return bool(eval_config.evaluation_num_env_runners > 0)

    @staticmethod
    def _get_env_id_and_creator(env_specifier: Any, config: AlgorithmConfig) -> tuple[Any, Any]:
        return env_specifier, env_creator(env_specifier)

    def _make_rows(self, batch: RolloutBatch, credited: list[CreditedRollouts]) -> dict[str, Rows]:
        """Returns the rows of each policy; logs metrics of play and credit."""
        start = time.perf_counter() - batch.seconds["credit"]
        rows, left_out = self.crediting.rows(credited)
        seconds = time.perf_counter() - start
        self._log({"left_out_rollouts": left_out, "timing": {"credit": seconds}})
        self._log(self._play_metrics(batch.rollouts))
        self._log(self.crediting.metrics(credited))
        if len(self.config.module_ids) > 1:
            rates = {m: rollout_metrics(r) for m, r in by_module(batch.rollouts).items()}
            names = ("success_rate", "score")
            self._log({"policies": {m: {k: of[k] for k in names} for m, of in rates.items()}})
        self._log({"gold_in_training": float(bool(self._credit.gold))})
        generated = sum(len(step.response_ids) for r in batch.rollouts for step in r.steps)
        self._log({"tokens_per_second": generated / max(batch.seconds["generation"], 1e-9)})
        return rows

    def _play_metrics(self, rollouts: list[Rollout]) -> dict[str, Any]:
        """The metrics of the iteration's rollouts, without rubric and credit."""
        return rollout_metrics(rollouts)

    @property
    def gold_reads(self) -> tuple[str, ...]:
        """The gold that the credit rule reads, by name."""
        return self._credit.gold

    @cached_property
    def _operators(self) -> dict[str, Operators]:
        """Rubric operators by agent."""
        operators: dict[str, Operators] = self._ask_runner("operators")
        return operators

    def _check(self) -> None:
        """Checks sources and rubric of the credit rule, and the nodes of sharded learners."""
        config, settings = self.config, self.config.settings
        for name in self._credit.reads:
            if lack := READS.get(name).lack(self._sources([])):
                raise ValueError(f"credit rule {self._credit.name!r} reads {name}: {lack}")
        judged = any(each.ids for each in self._operators.values())
        if settings.needs_rubric() and not judged:
            raise ValueError(no_rubric(type(self).__name__, config.env, config.env_config))
        run = self.recorder.run
        if settings.sharding == "none" or run is None or run.storage is None:
            return
        nodes = set(self.learner_group.ask("apply", func=_node_id))  # a run at a URI needs one
        if len(nodes) > 1:
            raise ValueError(
                f"sharding is {settings.sharding!r}, and the learners are on"
                f" {len(nodes)} nodes: their shares of a checkpoint cannot meet before"
                f" {run.address} gets them. Name a folder that all nodes see in place of the URI,"
                " keep the learners on one node, or set sharding to none"
            )

    def _sources(self, rollouts: list[Rollout]) -> Sources:
        runner: Any = self.env_runner_group.local_env_runner
        learners: Any = self.learner_group
        if rollouts and len(self.config.module_ids) > 1:
            learners = learners.of(*sorted(by_module(rollouts)))
        return Sources(self.config, runner, learners, rollouts)

    def _update(self, rows: dict[str, Rows]) -> None:
        start = time.perf_counter()
        count = max(1, self.config.num_learners)
        sharded = {module: of_policy.shards(count) for module, of_policy in rows.items()}
        shards = [{module: parts[k] for module, parts in sharded.items()} for k in range(count)]
        counter = NUM_ENV_STEPS_SAMPLED_LIFETIME
        results = self.learner_group.update(
            batches=shards,
            timesteps={counter: self.metrics.peek((ENV_RUNNER_RESULTS, counter), default=0)},
            shuffle_key=(self.config.seed or 0, self.training_steps),
            iteration=self.training_steps,
        )
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        names = UPDATE_METRICS + (CRITIC_METRICS if self.config.settings.critic_kind else ())
        learned_by = {module: self.metrics.peek((LEARNER_RESULTS, module)) for module in rows}
        by_policy = {m: {name: each[name] for name in names} for m, each in learned_by.items()}
        self._log(means(list(by_policy.values())))
        if len(self.config.module_ids) > 1:
            self._log({"policies": by_policy})
        local: Any = self.env_runner_group.local_env_runner  # has the weights pushed last
        ages = staleness(self.rollouts, local.weights_version)
        self._log(ages)
        for of_policy in by_policy.values():
            mismatch = {name: float(of_policy[name]) for name in MISMATCH_METRICS}
            warn_of_mismatch(self.config, mismatch, ages["staleness_max"])
        learned = time.perf_counter()
        if copies := refreshed(self.config, self.training_steps):
            self.learner_group.ask("copy_policies", copies=copies)
        self._log(self.weight_push.push())
        sync = time.perf_counter() - learned
        self._log({"timing": {"learning": learned - start, "sync": sync}})

    def _skip(self, failures: list[Failure]) -> None:
        reason = "there was no group to sample"
        if failures:
            reason = f"task {failures[0].task_id!r}: {failures[0].reason}"
        if self._failed_in_a_row == 0:
            self._first_reason = reason
        self._failed_in_a_row += 1
        self.metrics.log_value("skipped_iterations", 1, reduce="lifetime_sum")
        logger.error("iteration %d has no rollout: %s", self.training_steps, reason)
        if self._failed_in_a_row >= self.config.settings.max_failed_iterations:
            raise RuntimeError(
                f"{self._first_reason} (every rollout is missing,"
                f" {self._failed_in_a_row} iterations in a row)"
            )

    def _ask_runner(self, method: str, *args: Any) -> Any:
        return getattr(self.env_runner_group.local_env_runner, method)(*args)

    def _log(self, metrics: dict[str, Any], reduce: str = "mean") -> None:
        window = 1 if reduce == "mean" else None
        self.metrics.log_dict(metrics, reduce=reduce, window=window)


def _node_id(learner: Any) -> str:
    return str(ray.get_runtime_context().get_node_id())

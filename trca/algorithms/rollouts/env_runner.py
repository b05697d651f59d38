"""`TextEnvRunner`: RLlib's env runner for text environments; samples complete rollout groups."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import gymnasium
import ray
import torch
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_AGENT_ID
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils import deep_update
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.framework import get_device
from ray.rllib.utils.metrics import (
    EPISODE_LEN_MEAN,
    EPISODE_RETURN_MEAN,
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    WEIGHTS_SEQ_NO,
)

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.callbacks import RunnerCallbacks
from trca.algorithms.rollouts.env_pool import operators_of
from trca.algorithms.rollouts.play import RolloutLoop
from trca.algorithms.rollouts.recording import Teacher
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.algorithms.settings.types import AGENT_PROGRAMS
from trca.common.process import link_errors, log_process
from trca.envs.annotate import Operators
from trca.envs.panel import Panel
from trca.envs.responses import RESPONSE_FORMATS
from trca.envs.text_env import Gold, MissingPartError
from trca.policies.canary import Canary, ask, digest
from trca.policies.engines import engine_class
from trca.policies.engines.engine import Engine, SamplingParams, SeveralEngines
from trca.records import Rollout, by_agent, by_episode, write_rollouts
from trca.rubric.rewards import DEFAULT_LAMBDA


def error_link(config: Any, number: int) -> Path:
    """The link in a run folder to the standard error of a runner; see `link_errors`."""
    kind = "evaluation" if config.in_evaluation else "env"
    return Path(config.run_folder, "logs", f"{kind}_runner_{number}.err")


class TextEnvRunner(EnvRunner, Checkpointable):
    """Samples rollout groups with the newest weights, of RLlib's number ``weights_version``.

    Environments, model and engine are made on first use. The local runner of an algorithm with
    remote runners has only the weights to pass on.
    """

    config: PolicyConfig

    def __init__(self, *, config: PolicyConfig, **kwargs: Any) -> None:
        """Takes RLlib's arguments: the config, ``env_creator``, ``worker_index`` and others."""
        super().__init__(config=config, **kwargs)
        torch.set_num_threads(config.settings.torch_threads)
        if self.worker_index and config.run_folder:
            log_process(Path(config.run_folder, "logs", "output.log"))
            link_errors(error_link(config, self.worker_index))
        self._env_creator = kwargs["env_creator"]
        self._weights: dict[str, Any] | None = None
        self.weights_version = -1

    @cached_property
    def device(self) -> torch.device:
        """Device of the engine: a GPU if ``num_gpus_per_env_runner`` is above 0.

        The runner of the driver (``num_env_runners: 0``) takes the driver's GPU.
        """
        gpus = self.config.num_gpus_per_env_runner
        if gpus > 0 and not torch.cuda.is_available():
            raise RuntimeError(
                f"num_gpus_per_env_runner is {gpus} and this process sees no GPU: set it to 0, or"
                " start Ray on a machine with a GPU"
            )
        return torch.device(get_device(self.config, gpus))

    @cached_property
    def loop(self) -> RolloutLoop:
        """The rollout loop, with the engine and the weights loaded."""
        config = self.config
        tokenizer = engine_tokenizer(config.settings.engine, config.resolved_model())
        responses = RESPONSE_FORMATS.get(config.settings.response_format)
        program = config.settings.agent_program
        return RolloutLoop(
            self._make_played_env,
            self._open_engine(),
            make_prompter(config.settings, tokenizer),
            tokenizer,
            responses,
            config.settings,
            None if engine_class(config.settings.engine).remote else self._open_engine,
            keep_final_prompts=bool(config.settings.critic_kind),
            module_of=config.module_of,
            teacher=self._teacher(),
            callbacks=self.callbacks,
            program=AGENT_PROGRAMS.get(program) if program is not None else None,
        )

    @cached_property
    def callbacks(self) -> RunnerCallbacks | None:
        """RLlib's callbacks of env runners; None without one."""
        return RunnerCallbacks.of(self)

    def sample(
        self,
        *,
        groups: Sequence[GroupRequest] = (),
        sampling: SamplingParams | None = None,
        **kwargs: Any,
    ) -> RolloutBatch:
        """Samples groups to the end of their episodes, by default with the settings of training."""
        config = self.config
        batch = self.loop.run(
            groups,
            sampling or SamplingParams(config.settings.temperature, config.settings.max_new_tokens),
        )
        self._log(batch.rollouts)
        if self.callbacks is not None:
            self.callbacks.sampled(batch)
        trained = any(group.progress is not None for group in groups)
        if config.output and trained and batch.rollouts:
            name = f"{self.weights_version:06d}-{self.worker_index or 0:03d}-{uuid4().hex}.parquet"
            write_rollouts(f"{config.output}/{name}", batch.rollouts)
        return batch

    def canary(self) -> tuple[int, dict[str, Canary]]:
        """Returns the number of this runner and each policy's answer to the fixed prompt."""
        loop, weights, canaries = self.loop, self._weights or {}, dict[str, Canary]()
        for module in self.config.module_ids:
            sent = digest(weights.get(module, {}))
            tokenizer, temperature = loop.tokenizer, self.config.settings.temperature
            canaries[module] = ask(loop.engine, tokenizer, temperature, sent, module)
        return self.worker_index or 0, canaries

    def panel(self, split: str, changes: Mapping[str, Any] | None = None) -> Panel:
        """Returns the tasks of a split, in order, for changed arguments of the environment."""
        with closing(self._make_env(split, changes)) as env:
            panel: Panel = env.get_wrapper_attr("panel")
            return panel

    def gold(self, split: str, task_ids: Sequence[str]) -> list[Gold]:
        """Returns the hidden truth of tasks, for credit rules that read gold."""
        with closing(self._make_env(split)) as env:
            if not env.has_wrapper_attr("gold"):
                raise MissingPartError(f"{self.config.env} has no gold(task_id)")
            return [env.get_wrapper_attr("gold")(task_id) for task_id in task_ids]

    def operators(self) -> dict[str, Operators]:
        """Returns the rubric operators of each agent; empty without a rubric."""
        with closing(self._make_env(self.config.settings.train_split)) as env:
            return dict(operators_of(env))

    def get_metrics(self) -> Any:
        """Returns RLlib's counters of sampled steps and episodes since the last call."""
        return self.metrics.reduce()

    def get_spaces(self) -> dict[str, Any]:
        """Returns the spaces: text in, text out."""
        spaces = (self.config.observation_space, self.config.action_space)
        return {INPUT_ENV_SPACES: spaces} | dict.fromkeys(self.config.module_ids, spaces)

    def assert_healthy(self) -> None:
        """Checks that the runner was set up."""
        assert self._env_creator is not None

    def stop(self) -> None:
        """Closes the environments and the engine."""
        if "loop" in self.__dict__:
            self.loop.close()
            del self.loop

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Returns the version of the weights, and the weights unless excluded."""
        state: dict[str, Any] = {WEIGHTS_SEQ_NO: self.weights_version}
        if self._weights is not None and self._check_component(
            COMPONENT_RL_MODULE, components, not_components
        ):
            state[COMPONENT_RL_MODULE] = self._weights
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes new weights; ignores the version in use."""
        if COMPONENT_RL_MODULE not in state:
            return
        version = state.get(WEIGHTS_SEQ_NO, 0)
        if version == self.weights_version:
            return
        weights = state[COMPONENT_RL_MODULE]
        if isinstance(weights, ray.ObjectRef):
            weights = ray.get(weights)
        self._weights, self.weights_version = dict(weights), version
        if "loop" in self.__dict__:
            self._load_weights(self.loop.engine)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments that rebuild this runner."""
        return (), {"config": self.config, "env_creator": self._env_creator}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Returns none: the learner saves the weights."""
        return []

    def _teacher(self) -> Teacher | None:
        """Gives the responses of groups with a demonstration."""
        return None

    def _open_engine(self) -> Engine:
        config, device = self.config, str(self.device)
        chosen = engine_class(config.settings.engine)
        engines: dict[str, Engine] = {
            module: chosen.open(config.engine_spec(config.model_of(module), device))
            for module in config.module_ids
        }
        (first, *more) = engines.values()
        engine = SeveralEngines(engines) if more else first
        if self._weights is not None:
            self._load_weights(engine)
        return engine

    def _load_weights(self, engine: Engine) -> None:
        weights: Any = self._weights
        (first, *more) = self.config.module_ids
        engine.load_weights(weights if more else weights[first], self.weights_version)

    def _make_played_env(
        self, split: str, changes: Mapping[str, Any] | None = None
    ) -> gymnasium.Env[str, str]:
        env = self._make_env(split, changes)
        if self.callbacks is not None:
            self.callbacks.environment_created(env, self._context(split, changes))
        return env

    def _context(self, split: str, changes: Mapping[str, Any] | None) -> EnvContext:
        """The arguments of an environment."""
        env_config = self.config.env_config
        if changes:  # as in RLlib's evaluation config
            env_config = deep_update(copy.deepcopy(env_config), dict(changes), True)
        return EnvContext(
            {**env_config, "split": split},
            worker_index=self.worker_index or 0,
            num_workers=self.num_workers or 0,
        )

    def _make_env(
        self, split: str, changes: Mapping[str, Any] | None = None
    ) -> gymnasium.Env[str, str]:
        env: gymnasium.Env[str, str] = self._env_creator(self._context(split, changes))
        if env.has_wrapper_attr("reward_by"):
            settings = self.config.settings
            lambda_ = getattr(settings, "lambda_", DEFAULT_LAMBDA)
            env.get_wrapper_attr("reward_by")(settings.budgets, lambda_)
        return env

    def _log(self, rollouts: Sequence[Rollout]) -> None:
        steps = sum(r.env_steps() for r in rollouts)
        log = self.metrics.log_value
        log(NUM_ENV_STEPS_SAMPLED, steps, reduce="sum")
        log(NUM_ENV_STEPS_SAMPLED_LIFETIME, steps, reduce="lifetime_sum", with_throughput=True)
        for agent, of_agent in (by_agent(rollouts) or {DEFAULT_AGENT_ID: []}).items():
            count = sum(r.env_steps() for r in of_agent)
            log((NUM_AGENT_STEPS_SAMPLED, agent), count, reduce="sum")
            log((NUM_AGENT_STEPS_SAMPLED_LIFETIME, agent), count, reduce="lifetime_sum")
        played = by_episode(rollouts)
        log(NUM_EPISODES, len(played), reduce="sum")
        log(NUM_EPISODES_LIFETIME, len(played), reduce="lifetime_sum")
        window = self.config.metrics_num_episodes_for_smoothing
        for of_episode in played:
            episode_return = sum(step.reward for step in of_episode[0].steps)
            log(EPISODE_RETURN_MEAN, episode_return, reduce="mean", window=window)
            length = sum(r.env_steps() for r in of_episode)
            log(EPISODE_LEN_MEAN, length, reduce="mean", window=window)

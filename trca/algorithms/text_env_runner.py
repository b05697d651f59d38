"""`TextEnvRunner`: RLlib's env runner for text environments; samples whole rollout groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.core import (
    COMPONENT_RL_MODULE,
    DEFAULT_AGENT_ID,
    DEFAULT_MODULE_ID,
)
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner import EnvRunner
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

from trca.algorithms.env_pool import find_annotation
from trca.algorithms.prompting import engine_tokenizer, make_prompter
from trca.algorithms.records import Rollout
from trca.algorithms.rollout import GroupRequest, Limits, RolloutBatch, RolloutLoop
from trca.algorithms.text_config import TextAlgorithmConfig
from trca.envs.panel import Panel
from trca.envs.responses import RESPONSE_FORMATS
from trca.envs.text_env import Gold, MissingPartError
from trca.policies.canary import Canary, ask, digest
from trca.policies.engines import ENDPOINTS, ENGINES
from trca.policies.engines.engine import Engine, EngineSpec, SamplingParams
from trca.rubric.rewards import DEFAULT_LAMBDA, EpisodeRewards


@dataclass(frozen=True)
class Operators:
    """The rubric operators of an environment.

    Attributes:
        ids: Their names, in library order.
        categories: int8 (M,), 0 Evidence, 1 Invalidity, 2 Execution.
    """

    ids: tuple[str, ...]
    categories: NDArray[np.int8]


class TextEnvRunner(EnvRunner, Checkpointable):
    """Samples rollout groups with the newest weights it was given.

    Environments, model and engine are made on first use: the local runner of an algorithm with
    remote runners holds nothing but the weights to pass on.

    Attributes:
        weights_version: RLlib's sequence number of the weights in use.
    """

    config: TextAlgorithmConfig

    def __init__(self, *, config: TextAlgorithmConfig, **kwargs: Any) -> None:
        """Takes RLlib's arguments.

        Args:
            config: The algorithm's config.
            kwargs: ``env_creator``, ``worker_index`` and what else RLlib passes.
        """
        super().__init__(config=config, **kwargs)
        torch.set_num_threads(config.torch_threads)
        self._env_creator = kwargs["env_creator"]
        self._weights: dict[str, Any] | None = None
        self.weights_version = -1

    @cached_property
    def device(self) -> torch.device:
        """Where the engine computes: a GPU if ``num_gpus_per_env_runner`` asks for one.

        The runner of the driver (``num_env_runners: 0``) takes the driver's GPU.

        Raises:
            RuntimeError: When a GPU is asked for and this process sees none.
        """
        asked = self.config.num_gpus_per_env_runner
        if asked > 0 and not torch.cuda.is_available():
            raise RuntimeError(
                f"num_gpus_per_env_runner is {asked} and this process sees no GPU: set it to 0, or"
                " start Ray where there is one"
            )
        return torch.device(get_device(self.config, asked))

    @cached_property
    def loop(self) -> RolloutLoop:
        """The rollout loop, with the engine and the weights loaded."""
        config = self.config
        tokenizer = engine_tokenizer(config.engine, config.resolved_model())
        responses = RESPONSE_FORMATS.get(config.response_format)
        limits = Limits(**{f.name: getattr(config, f.name) for f in fields(Limits)})
        return RolloutLoop(
            self._make_env,
            self._open_engine(),
            make_prompter(config, tokenizer),
            tokenizer,
            responses,
            limits,
            None if config.engine in ENDPOINTS else self._open_engine,
            keep_final_prompts=bool(config.critic_kind),
        )

    def sample(
        self,
        *,
        groups: Sequence[GroupRequest] = (),
        sampling: SamplingParams | None = None,
        **kwargs: Any,
    ) -> RolloutBatch:
        """Samples rollout groups to the end of their episodes.

        Args:
            groups: The groups.
            sampling: Temperature and limits; by default those of training.
            kwargs: Ignored arguments of RLlib's own loops.
        """
        config = self.config
        batch = self.loop.run(
            groups, sampling or SamplingParams(config.temperature, config.max_new_tokens)
        )
        self._log(batch.rollouts)
        return batch

    def canary(self) -> tuple[int, Canary]:
        """Returns the number of this runner, and what its engine makes of the fixed prompt."""
        loop = self.loop
        sent = digest(self._weights or {})
        return self.worker_index or 0, ask(
            loop.engine, loop.tokenizer, self.config.temperature, sent
        )

    def panel(self, split: str) -> Panel:
        """Returns the tasks of a split, in order."""
        env = self._make_env(split)
        try:
            found: Panel = env.get_wrapper_attr("panel")
            return found
        finally:
            env.close()

    def gold(self, split: str, task_ids: Sequence[str]) -> list[Gold]:
        """Returns the hidden truth of tasks, for credit rules that read it.

        Raises:
            MissingPartError: When the environment has none to give.
        """
        env = self._make_env(split)
        try:
            if not env.has_wrapper_attr("gold"):
                raise MissingPartError(f"{self.config.env} has no gold(task_id)")
            return [env.get_wrapper_attr("gold")(task_id) for task_id in task_ids]
        finally:
            env.close()

    def operators(self) -> Operators:
        """Returns the rubric operators of the environment; none where nothing judges."""
        env = self._make_env(self.config.train_split)
        try:
            if not env.has_wrapper_attr("judge"):
                return Operators((), np.empty(0, np.int8))
            library = env.get_wrapper_attr("judge").library
            return Operators(tuple(library.ids), library.categories)
        finally:
            env.close()

    def get_metrics(self) -> Any:
        """Returns RLlib's counters of what was sampled since the last call."""
        return self.metrics.reduce()

    def get_spaces(self) -> dict[str, Any]:
        """Returns the spaces: text in, text out."""
        spaces = (self.config.observation_space, self.config.action_space)
        return {INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

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
        """Returns the version of the weights, and the weights unless left out."""
        state: dict[str, Any] = {WEIGHTS_SEQ_NO: self.weights_version}
        if self._weights is not None and self._check_component(
            COMPONENT_RL_MODULE, components, not_components
        ):
            state[COMPONENT_RL_MODULE] = {DEFAULT_MODULE_ID: self._weights}
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes new weights, unless their version is in use."""
        if COMPONENT_RL_MODULE not in state:
            return
        version = state.get(WEIGHTS_SEQ_NO, 0)
        if version == self.weights_version:
            return
        weights = state[COMPONENT_RL_MODULE]
        if isinstance(weights, ray.ObjectRef):
            weights = ray.get(weights)
        self._weights, self.weights_version = weights[DEFAULT_MODULE_ID], version
        if "loop" in self.__dict__:
            self.loop.engine.load_weights(self._weights, version)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments that build this runner again."""
        return (), {"config": self.config, "env_creator": self._env_creator}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Returns none: the learner saves the weights."""
        return []

    def _open_engine(self) -> Engine:
        config = self.config
        spec = EngineSpec(
            config.resolved_model(),
            dtype=config.dtype,
            device=str(self.device),
            max_tokens=config.max_prompt_tokens + config.max_new_tokens,
            lora_rank=config.lora_rank,
            lora_alpha=config.lora_alpha,
            options=config.engine_config,
        )
        engine: Engine = ENGINES.get(config.engine)(spec)
        if self._weights is not None:
            engine.load_weights(self._weights, self.weights_version)
        return engine

    def _make_env(self, split: str) -> gymnasium.Env[str, str]:
        context = EnvContext(
            {**self.config.env_config, "split": split},
            worker_index=self.worker_index or 0,
            num_workers=self.num_workers or 0,
        )
        env: gymnasium.Env[str, str] = self._env_creator(context)
        annotation = find_annotation(env)
        if annotation is not None:
            annotation.rewards = EpisodeRewards(
                annotation.judge.library.categories,
                self.config.budgets,
                getattr(self.config, "lambda_", DEFAULT_LAMBDA),
            )
        return env

    def _log(self, rollouts: Sequence[Rollout]) -> None:
        steps = sum(r.env_steps() for r in rollouts)
        log = self.metrics.log_value
        log(NUM_ENV_STEPS_SAMPLED, steps, reduce="sum")
        log(NUM_ENV_STEPS_SAMPLED_LIFETIME, steps, reduce="lifetime_sum", with_throughput=True)
        log((NUM_AGENT_STEPS_SAMPLED, DEFAULT_AGENT_ID), steps, reduce="sum")
        log((NUM_AGENT_STEPS_SAMPLED_LIFETIME, DEFAULT_AGENT_ID), steps, reduce="lifetime_sum")
        log(NUM_EPISODES, len(rollouts), reduce="sum")
        log(NUM_EPISODES_LIFETIME, len(rollouts), reduce="lifetime_sum")
        window = self.config.metrics_num_episodes_for_smoothing
        for rollout in rollouts:
            episode_return = sum(step.reward for step in rollout.steps)
            log(EPISODE_RETURN_MEAN, episode_return, reduce="mean", window=window)
            log(EPISODE_LEN_MEAN, rollout.env_steps(), reduce="mean", window=window)

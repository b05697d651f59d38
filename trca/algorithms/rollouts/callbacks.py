"""RLlib's callbacks of env runners: environments, episodes and the end of a sample.

A callback gets RLlib's own episode, a `SingleAgentEpisode` or, for a team, a `MultiAgentEpisode`.
Observations and actions are text; ``extra_model_outputs`` has the tokens of prompt and response,
the response, and the sum of its log-probabilities as ``action_logp``; ``custom_data`` starts with
``task_id``, ``split``, ``group`` and ``index``. The episode is a copy of the rollout: a change of
the episode has no effect on training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list

from trca.algorithms.rollouts.batch import RolloutBatch
from trca.algorithms.rollouts.recording import Episode, Turn, View

if TYPE_CHECKING:
    from ray.rllib.env.env_runner import EnvRunner

_OF_RUNNERS: Final = (
    "on_environment_created",
    "on_episode_created",
    "on_episode_start",
    "on_episode_step",
    "on_episode_end",
    "on_sample_end",
)


class RunnerCallbacks:
    """Calls the callbacks of a config on one env runner.

    An error of a callback is raised at the end of the sample, when every environment is free again.
    """

    def __init__(self, runner: EnvRunner, calls: dict[str, list[Callable[..., Any]]]) -> None:
        """Starts without an episode; ``calls`` has the callbacks by name."""
        self._runner: Any = runner
        self._calls = calls
        self._copies: dict[Episode, Any] = {}
        self._error: Exception | None = None

    @classmethod
    def of(cls, runner: EnvRunner) -> Self | None:
        """The callbacks of a runner's config; None without a callback of env runners."""
        config: Any = runner.config
        objects = [make() for make in force_list(config.callbacks_class)]
        calls = {}
        for name in _OF_RUNNERS:
            inherited = getattr(RLlibCallback, name)
            methods = [getattr(o, name) for o in objects if getattr(type(o), name) != inherited]
            calls[name] = [*methods, *force_list(getattr(config, f"callbacks_{name}"))]
        return cls(runner, calls) if any(calls.values()) else None

    def environment_created(self, env: Any, context: Any) -> None:
        """Calls ``on_environment_created`` for an environment that plays episodes."""
        self._call("on_environment_created", env=env.unwrapped, env_context=context)

    def created(self, episode: Episode) -> None:
        """Calls ``on_episode_created``, before the environment is reset."""
        request, config = episode.request, self._runner.config
        made: Any = SingleAgentEpisode()
        if config.roles:
            modules = {role: config.module_of(role, request) for role in config.roles}
            made = MultiAgentEpisode(agent_module_ids=modules)
        names = {"task_id": request.task_id, "split": request.split, "group": request.group}
        made.custom_data.update(names, index=episode.index)
        self._copies[episode] = made
        self._call_with(episode, "on_episode_created")

    def started(self, episode: Episode) -> None:
        """Calls ``on_episode_start``, after the reset."""
        made, view = self._copies[episode], episode.recorder.view
        agent = view.rollout.agent_id
        if isinstance(made, MultiAgentEpisode):
            made.add_env_reset(observations={agent: view.observation}, infos={agent: view.info})
        else:
            made.agent_id, made.module_id = agent, view.rollout.module_id
            made.add_env_reset(view.observation, dict(view.info))
        self._call_with(episode, "on_episode_start")

    def stepped(self, episode: Episode, agent: str, turn: Turn, views: Sequence[View]) -> None:
        """Calls ``on_episode_step``, and ``on_episode_end`` after the last step.

        ``turn`` is the response of the agent with the turn; ``views`` are the views of the agents
        whose steps the response completes.
        """
        made, after = self._copies[episode], episode.recorder.view
        truncated = episode.done and after.rollout.truncated
        terminated = episode.done and not truncated
        outputs = {
            "prompt_ids": turn.prompt_ids,
            "response_ids": turn.completion.ids,
            "response": turn.response.text,
            Columns.ACTION_LOGP: float(np.sum(turn.completion.logprobs)),
        }
        rewards: dict[Any, Any] = {
            view.rollout.agent_id: view.rollout.steps[-1].reward for view in views
        }
        if isinstance(made, MultiAgentEpisode):
            seen = {v.rollout.agent_id: v for v in (views if episode.done else (*views, after))}
            made.add_env_step(
                {name: view.observation for name, view in seen.items()},
                {agent: turn.response.action},
                rewards,
                {name: view.info for name, view in seen.items()},
                terminateds={"__all__": terminated},
                truncateds={"__all__": truncated},
                extra_model_outputs={agent: outputs},
            )
        else:
            made.add_env_step(
                after.observation,
                turn.response.action,
                rewards[agent],
                dict(after.info),
                terminated=terminated,
                truncated=truncated,
                extra_model_outputs=outputs,
            )
        self._call_with(episode, "on_episode_step")
        if episode.done:
            self._call_with(episode, "on_episode_end", prev_episode_chunks=[])

    def sampled(self, batch: RolloutBatch) -> None:
        """Calls ``on_sample_end`` with a batch's episodes; raises the first error of a callback."""
        kept = {id(rollout) for rollout in batch.rollouts}
        done = sorted((e for e in self._copies if e.done), key=lambda e: e.place)
        samples = [self._copies[e] for e in done if id(e.recorder.rollouts[0]) in kept]
        self._call("on_sample_end", samples=samples)
        self._copies.clear()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _call_with(self, episode: Episode, name: str, **kwargs: Any) -> None:
        """Calls the callbacks of an episode."""
        self._call(
            name,
            episode=self._copies[episode],
            env=episode.env.env.unwrapped,
            rl_module=None,
            env_index=list(self._copies).index(episode),
            **kwargs,
        )

    def _call(self, name: str, **kwargs: Any) -> None:
        for call in self._calls[name] if self._error is None else ():
            try:
                call(env_runner=self._runner, metrics_logger=self._runner.metrics, **kwargs)
            except Exception as error:
                self._error = error
                return

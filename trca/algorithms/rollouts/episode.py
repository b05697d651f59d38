"""`Episode`: one episode of a rollout group, from its reset to its recorded end.

An episode turns views into prompts, completions into actions, and transitions into recorded steps.
The scheduler calls engine and environments in between::

    episode.reset(pool)
    episode.start(engine.version)
    while not episode.done:
        completion = engine.submit(episode.next_request(), sampling).result()
        episode.read(completion)
        episode.record(episode.env.step(episode.action))
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.env_pool import EnvPool, PooledEnv, Start, Transition
from trca.algorithms.rollouts.recording import AgentRecorder, Recorder, Turn, View
from trca.algorithms.rollouts.seeding import derive_seed
from trca.algorithms.rollouts.teacher import Teacher
from trca.algorithms.rollouts.team_recording import TeamRecorder
from trca.envs.responses import ResponseFormat
from trca.envs.teams.env import TeamEnv
from trca.policies.engines.engine import Completion, Request
from trca.policies.prompts import Conversation, Prompter
from trca.policies.prompts.control_tokens import response_ids
from trca.policies.spans import Response, read_response
from trca.records import Rollout


@dataclass(frozen=True)
class PolicyInterface:
    """How policies read states and write actions; the episodes of a loop share it.

    Attributes:
        prompter: Renders prompts.
        tokenizer: Tokenizer of the engine's model.
        response_format: Format of actions in responses.
        keep_final_prompts: Whether truncated training rollouts keep the prompt of their last state.
        module_of: Returns the id of the policy that acts for an agent of a group.
        teacher: Gives the responses of groups with a demonstration.
        callbacks: RLlib's callbacks of the env runner.
    """

    prompter: Prompter
    tokenizer: Any
    response_format: ResponseFormat
    keep_final_prompts: bool
    module_of: Callable[[str, GroupRequest], str]
    teacher: Teacher | None = None
    callbacks: Any = None


@dataclass(eq=False)
class Episode:
    """One episode.

    Attributes:
        interface: Prompts and responses.
        request: The group.
        index: Number of the rollout within the group.
        is_retry: Whether the episode replaces a failed episode of the same index.
        env: The environment; None before `reset`.
        turns: Number of actions so far.
        started: Time of the first prompt, by `time.monotonic`.
        asked: Time of the last prompt, by `time.monotonic`.
        pending: The completion or step under way; None if the episode was given up.
        done: Whether the episode has ended and is complete; a failed episode is never done.
        error: Why the episode failed, on one line; blank without a failure.
    """

    interface: PolicyInterface
    request: GroupRequest
    index: int
    is_retry: bool = False
    env: PooledEnv | None = None
    turns: int = 0
    started: float = 0.0
    asked: float = 0.0
    pending: Future[Any] | None = None
    done: bool = False
    error: str = ""
    _start: Callable[[], Start] | None = None
    _recorder: Recorder | None = None
    _prompt_ids: Any = None
    _turn: Turn | None = None
    _demonstration: str = ""
    _subgoals: dict[str, str] = field(default_factory=dict)
    _conversations: dict[str, Conversation] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, int]:
        """Group and index, by which episodes are ordered."""
        return self.request.group, self.index

    @property
    def recorder(self) -> Recorder:
        """The records of the started episode."""
        assert self._recorder is not None
        return self._recorder

    @property
    def action(self) -> str:
        """The action of the last completion."""
        assert self._turn is not None
        return self._turn.response.action

    def waits(self) -> bool:
        """Whether a completion or step is under way."""
        return self.pending is not None and not self.pending.done()

    def reset(self, pool: EnvPool) -> None:
        """Takes an environment and starts its reset; a retry takes a fresh environment."""
        request = self.request
        self.env = pool.take(request.split, request.env_config, fresh=self.is_retry)
        if self.interface.callbacks is not None:
            self.interface.callbacks.created(self)
        seed = derive_seed(*request.key, request.group, self.index, "reset") % 2**31
        self._start = pool.reset(self.env, seed, request.options())

    def start(self, policy_version: int) -> None:
        """Waits for the reset and starts the records.

        Args:
            policy_version: Version of the weights.
        """
        assert self.env is not None
        assert self._start is not None
        env, request, module_of = self.env, self.request, self.interface.module_of
        observation, info = self._start()

        def new_rollout(agent: str, instruction: str) -> Rollout:
            return Rollout(
                task_id=request.task_id,
                split=request.split,
                task_type=info["task_type"],
                group=request.group,
                index=self.index,
                policy_version=policy_version,
                agent_id=agent,
                module_id=module_of(agent, request),
                instruction=instruction,
                operators=env.operators[agent],
            )

        inner = env.env.unwrapped
        if isinstance(inner, TeamEnv):
            roles, instruction = env.operators, inner.instruction
            self._recorder = TeamRecorder(observation, info, new_rollout, roles, instruction)
        else:
            self._recorder = AgentRecorder(observation, info, new_rollout)
        if self.interface.callbacks is not None:
            self.interface.callbacks.started(self)

    def next_request(self) -> Request:
        """Renders the next prompt.

        Raises:
            ValueError: If the prompt does not fit into its limit.
        """
        view = self.recorder.view
        self._prompt_ids = self._prompt(view)
        turn = (self.request.group, self.index, self.turns)
        seed = derive_seed(*self.request.key, *turn)
        return Request(self._prompt_ids, seed, view.rollout.module_id)

    def demonstrated(self) -> Completion | None:
        """Asks the teacher for its response to the last prompt.

        Returns:
            The response if the teacher acts; None if the policy acts.

        Raises:
            ValueError: If the teacher's action cannot be read in its response.
        """
        if self.request.demonstration is None:
            return None
        interface, view = self.interface, self.recorder.view
        assert interface.teacher is not None
        subgoal = self._subgoals.get(view.rollout.agent_id, "")
        self._demonstration = interface.teacher.response(self.request, view, subgoal)
        ids = np.array(response_ids(interface.tokenizer, self._demonstration), dtype=np.int32)
        action = interface.teacher.action(view)
        if action is not None and self._response(ids).action != action.strip():
            raise ValueError(
                f"the response format reads no action {action[:60]!r} in the demonstrated response"
                f" {self._demonstration[:200]!r}: set another response_format, or turn off native"
                " thoughts (chat_template_kwargs.enable_thinking: false)"
            )
        if not interface.teacher.acts:
            return None
        unsampled = np.full(len(ids), np.nan, dtype=np.float32)
        return Completion(ids, unsampled, "stop", view.rollout.policy_version)

    def read(self, completion: Completion) -> None:
        """Reads the response to the last prompt."""
        view = self.recorder.view
        response = self._response(completion.ids)
        self._conversations[view.rollout.agent_id].add(completion.ids)
        self._turn = Turn(
            self.turns,
            view.observation,
            self._prompt_ids,
            completion,
            response,
            self._demonstration,
        )
        if response.plan is not None:
            self._subgoals[view.rollout.agent_id] = response.plan.subgoal

    def _response(self, ids: NDArray[np.int32]) -> Response:
        interface, info = self.interface, self.recorder.view.info
        return read_response(
            ids,
            interface.tokenizer,
            interface.response_format,
            interface.prompter.thought,
            info["admissible_actions"],
        )

    def record(self, transition: Transition) -> None:
        """Records the transition of the last response.

        Raises:
            ValueError: If the final prompt of a truncated training rollout does not fit into its
                limit. The episode then is not done: its critic would lack a value.
        """
        assert self._turn is not None
        views = self.recorder.add(self._turn, transition)
        self.turns += 1
        _, _, terminated, truncated, _ = transition
        ended = bool(terminated or truncated)
        if ended and self.interface.keep_final_prompts and self.request.progress is not None:
            for view in views:
                if view.rollout.truncated:
                    view.rollout.final_prompt_ids = self._prompt(view)
        self.done = ended
        if self.interface.callbacks is not None:
            self.interface.callbacks.stepped(self, self._turn, views)

    def _prompt(self, view: View) -> NDArray[np.int32]:
        """The prompt of a view."""
        assert self.env is not None
        interface, info, steps = self.interface, view.info, view.rollout.steps
        complete = interface.response_format.whole_history
        memory = self.request.memory
        brief = info.get("brief") if interface.prompter.template != "compact" else None
        return interface.prompter.encode(
            instruction=brief or info["task"],
            step=len(steps),
            max_steps=self.env.max_steps,
            history=[(s.observation, s.response if complete else s.action) for s in steps],
            observation=view.observation,
            admissible=info["admissible_actions"],
            idle=self.env.idle_actions,
            memory=info.get("memory") if memory is None else memory,
            subgoal=self._subgoals.get(view.rollout.agent_id, ""),
            conversation=self._conversations.setdefault(view.rollout.agent_id, Conversation()),
        )

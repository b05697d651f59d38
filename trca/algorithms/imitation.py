"""Imitation of a demonstrator, of recorded rollouts, or of a demonstrator's labels (DAgger).

A teacher gives the responses that imitation plays or learns in place of the policy's. The rule is
`trca.algorithms.rules.imitation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from trca.algorithms.base.crediting import CreditedRollouts, Crediting
from trca.algorithms.base.iteration_sampling import IterationSampler
from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.learner.rows import Rows, columns_of, make_rows
from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.algorithms.rollouts.recording import Teacher, View
from trca.algorithms.rules.imitation import ImitationParameters
from trca.algorithms.settings.policy_config import PolicyConfig, Training
from trca.common.files import FileVersion, find, versions
from trca.envs.demonstrations import DEMONSTRATION, Demonstration, Demonstrations
from trca.envs.panel import Panel
from trca.envs.responses import RESPONSE_FORMATS, ResponseFormat
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.models import load_tokenizer
from trca.policies.prompts.control_tokens import response_ids
from trca.records import Rollout, Step, read_rollouts

_RESULTS: Final = ("success_rate", "score", "measures")
"""Metrics of the results of episodes, which are those of the player."""


@dataclass(frozen=True)
class DemonstratorTeacher(Teacher):
    """Responses with the actions of the environment's demonstrator.

    If the demonstrator does not act, it labels the states of the policy.
    """

    response_format: ResponseFormat
    acts: bool = True

    def action(self, view: View) -> str:
        """The demonstrator's action."""
        demonstration: Demonstration = view.info[DEMONSTRATION]
        return demonstration.action

    def response(self, request: GroupRequest, view: View, subgoal: str) -> str:
        """See `trca.algorithms.rollouts.recording.Teacher`; reads ``info["demonstration"]``."""
        demonstration: Demonstration = view.info[DEMONSTRATION]
        return demonstration.respond(self.response_format, subgoal)[0]


class RecordedTeacher(Teacher):
    """The successful rollouts of a file, whose responses are played; the path is for errors."""

    def __init__(self, rollouts: Iterable[Rollout], path: Path) -> None:
        """Raises a `ValueError` without a successful rollout, or for rollouts of a team."""
        self._path = path
        rollouts = list(rollouts)
        if roles := sorted({rollout.agent_id for rollout in rollouts} - {DEFAULT_AGENT}):
            raise ValueError(
                f"{path} has rollouts of a team: {', '.join(roles)}. Name a file of single agents"
            )
        self._steps = [
            (rollout.task_id, [(step.observation, step.response) for step in rollout.steps])
            for rollout in rollouts
            if rollout.won
        ]
        if not self._steps:
            raise ValueError(f"{path} has no successful rollout: name another file")

    def __len__(self) -> int:
        return len(self._steps)

    def task_id(self, number: int) -> str:
        """The task of a recording."""
        return self._steps[number][0]

    def response(self, request: GroupRequest, view: View, subgoal: str) -> str:
        """See `trca.algorithms.rollouts.recording.Teacher`; refuses another observation."""
        assert request.demonstration is not None
        (_, steps), turn = self._steps[request.demonstration], len(view.rollout.steps)
        if turn >= len(steps) or steps[turn][0] != view.observation:
            raise ValueError(
                f"recording {request.demonstration} of {self._path} does not fit task"
                f" {request.task_id!r} at step {turn}: the environment shows another observation."
                " Use the settings of the environment that recorded it"
            )
        return steps[turn][1]


def make_teacher(settings: ImitationParameters) -> Teacher:
    """The teacher of an `ImitationConfig`; the errors are those of its file of rollouts."""
    if settings.demonstrations == "recorded":
        path = find(str(settings.recorded_rollouts))
        return _recorded(path, versions(path))
    acts = settings.demonstrations == "demonstrator"
    return DemonstratorTeacher(RESPONSE_FORMATS.get(settings.response_format), acts)


@lru_cache(4)
def _recorded(path: Path, file: tuple[FileVersion, ...]) -> RecordedTeacher:
    """The teacher of a file; a process reads a version of the file once."""
    return RecordedTeacher(read_rollouts(path), path)


class ImitationRunner(TextEnvRunner):
    """Samples training groups with a teacher, and evaluation groups with the policy."""

    config: PolicyConfig[ImitationParameters]

    def _teacher(self) -> Teacher:
        return make_teacher(self.config.settings)

    def _make_env(
        self, split: str, changes: Mapping[str, Any] | None = None
    ) -> gymnasium.Env[str, str]:
        config, env = self.config, super()._make_env(split, changes)
        if config.settings.demonstrations == "recorded" or split != config.settings.train_split:
            return env
        return Demonstrations(
            env,
            config.settings.demonstrator_randomness,
            config.settings.deliberate_actions,
            plans=RESPONSE_FORMATS.get(config.settings.response_format).write_plan is not None,
        )


class DemonstrationSampler(IterationSampler):
    """Samples groups with demonstrations.

    Recorded rollouts are replayed in epochs over the file, each in a group of one rollout.
    """

    def groups(self, iteration: int) -> list[GroupRequest]:
        """The rollout groups of an iteration."""
        settings = self._config.settings
        assert isinstance(settings, ImitationParameters)
        teacher = make_teacher(settings)
        if not isinstance(teacher, RecordedTeacher):
            return super().groups(iteration)
        numbers = tuple(map(str, range(len(teacher))))
        panel = Panel("recordings", settings.train_split, numbers)
        chosen = panel.batch(iteration, settings.tasks_per_iteration, self._config.seed or 0)
        tasks = [teacher.task_id(int(number)) for number in chosen]
        return [
            replace(request, size=1, demonstration=int(number))
            for request, number in zip(self._requests(iteration, tasks), chosen, strict=True)
        ]

    def _requests(self, iteration: int, tasks: Sequence[str], first: int = 0) -> list[GroupRequest]:
        requests = super()._requests(iteration, tasks, first)
        return [replace(request, demonstration=0) for request in requests]


class LabelCrediting(Crediting):
    """Makes the rows of the teacher's responses, all tokens of which are trained."""

    def _rows(self, credited: CreditedRollouts, taught: list[Rollout]) -> Rows:
        labelled = [replace(r, steps=[self._labelled(step) for step in r.steps]) for r in taught]
        tokens = columns_of(credited.tokens, taught, credited.rollouts)
        return make_rows(labelled, self._config.settings, tokens)

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._config.resolved_model())

    def _labelled(self, step: Step) -> Step:
        """The step with the teacher's response; no sampler gave the response a probability."""
        ids, settings = step.response_ids, self._config.settings
        assert isinstance(settings, ImitationParameters)
        if settings.demonstrations == "on_policy":  # the policy responded, not the teacher
            end = not RESPONSE_FORMATS.get(settings.response_format).stop
            ids = np.array(response_ids(self._tokenizer, step.demonstration, end), dtype=np.int32)
        return replace(
            step,
            response_ids=ids,
            action_mask=np.ones(len(ids), dtype=np.bool_),
            old_logprobs=np.full(len(ids), np.nan, dtype=np.float32),
        )


class ImitationConfig(TextAlgorithmConfig[ImitationParameters]):
    """Config of imitation."""

    training = Training(ImitationParameters)  # type: ignore[assignment]

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class)
        self.env_runner_cls = ImitationRunner

    def validate(self) -> None:
        """Checks every setting, the file of rollouts too."""
        super().validate()
        settings = self.settings
        if (settings.demonstrations == "recorded") != bool(settings.recorded_rollouts):
            raise ValueError(
                "demonstrations: recorded and recorded_rollouts: FILE belong together: set both or"
                " neither"
            )
        of_demonstrator = ("demonstrator_randomness", "deliberate_actions", "task_curriculum")
        for name in of_demonstrator if settings.demonstrations == "recorded" else ():
            if getattr(settings, name) != self.parameters_class.model_fields[name].default:
                raise ValueError(f"{name} has no effect on recorded rollouts: leave {name} out")
        if settings.demonstrations == "recorded" and self.roles:
            raise ValueError("recorded rollouts are of single agents: leave env_config.team out")
        needs = {
            "policy_loss": settings.policy_loss != "log_likelihood",
            "recompute_logprobs": settings.recompute_logprobs,
            "replay_size": settings.replay_size > 0,
        }
        for name in (name for name, sampled in needs.items() if sampled):
            raise ValueError(
                f"{name} is {getattr(settings, name)}, and needs responses that the policy sampled:"
                f" leave {name} out"
            )
        try:
            make_teacher(settings)
        except OSError as error:
            raise ValueError(
                f"recorded_rollouts is {settings.recorded_rollouts!r}: {error.strerror or error}"
            ) from None


class Imitation(TextAlgorithm, config=ImitationConfig):
    """Imitation: a causal language model learns the responses of a teacher.

    An iteration plays ``tasks_per_iteration`` groups and takes ``num_epochs`` passes over their
    steps. Evaluation, checkpoints and resume are those of every algorithm.
    """

    config: TextAlgorithmConfig[ImitationParameters]
    sampler_class = DemonstrationSampler
    crediting_class = LabelCrediting

    def _play_metrics(self, rollouts: list[Rollout]) -> dict[str, Any]:
        """The metrics of the rollouts; results of a teacher's play are below ``teacher``."""
        metrics = super()._play_metrics(rollouts)
        if self.config.settings.demonstrations == "on_policy":
            return metrics
        results = {name: metrics.pop(name) for name in _RESULTS if name in metrics}
        return {**metrics, "teacher": results}

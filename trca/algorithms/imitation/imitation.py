"""Imitation of a demonstrator, of recorded rollouts, or of a demonstrator's labels (DAgger)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.imitation.env_runner import ImitationRunner, make_teacher
from trca.algorithms.imitation.iteration import DemonstrationSampler, LabelCrediting
from trca.algorithms.rules.imitation import ImitationParameters
from trca.algorithms.settings.policy_config import Training

if TYPE_CHECKING:
    from trca.records import Rollout

_RESULTS: Final = ("success_rate", "score", "measures")
"""Metrics of the results of episodes, which are those of the player."""

__all__ = ["Imitation", "ImitationConfig", "ImitationParameters"]


class ImitationConfig(TextAlgorithmConfig[ImitationParameters]):
    """Config of imitation."""

    training = Training(ImitationParameters)  # type: ignore[assignment]

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class)
        self.env_runner_cls = ImitationRunner

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: If one of ``demonstrations: recorded`` and ``recorded_rollouts`` is set
                without the other, the file has no successful rollout, or a setting needs the
                probabilities of a sampler, which demonstrations lack.
        """
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
            make_teacher(self)
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

    def _play_metrics(self, rollouts: list[Rollout]) -> dict[str, Any]:
        """The metrics of the rollouts; results of a teacher's play are below ``teacher``."""
        metrics = super()._play_metrics(rollouts)
        if self.config.settings.demonstrations == "on_policy":
            return metrics
        results = {name: metrics.pop(name) for name in _RESULTS if name in metrics}
        return {**metrics, "teacher": results}

    @cached_property
    def sampler(self) -> DemonstrationSampler:
        """Samples the groups with demonstrations."""
        return DemonstrationSampler(
            self.config, self.env_runner_group, self.curriculum, self.crediting
        )

    @cached_property
    def crediting(self) -> LabelCrediting:
        """Makes rows of the teacher's responses."""
        return LabelCrediting(self.config, self._credit, self._operators, self._sources)

"""`RunParameters`: the settings of a run that are not hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from trca.common.names import nearest
from trca.common.registry import own_file, short_name


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("give a number, not true or false")
    return value


_NUMBER: Final = BeforeValidator(_number)
Count = Annotated[int, Field(ge=0), _NUMBER]
Positive = Annotated[int, Field(ge=1), _NUMBER]
Seed = Annotated[int, Field(ge=0, lt=2**32), _NUMBER]  # as NumPy takes it
Probability = Annotated[float, Field(ge=0.0, le=1.0), _NUMBER]
Share = Annotated[float, Field(gt=0.0, le=1.0), _NUMBER]
NonNegative = Annotated[float, Field(ge=0.0), _NUMBER]
PositiveNumber = Annotated[float, Field(gt=0.0), _NUMBER]
TRACKERS: Final = ("tensorboard", "mlflow", "wandb", "trackio")
"""Experiment trackers of `trca.runs.trackers`."""


def _none_for_zero(value: Any) -> Any:
    """RLlib takes 0 for None, too."""
    return None if value == 0 else value


class Settings(BaseModel):
    """Checked settings. The docstring of a field is its description in errors and on pages."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        use_attribute_docstrings=True,
        ser_json_inf_nan="constants",
    )


class RecordingParameters(Settings):
    """Checkpoints and experiment trackers."""

    checkpoint_interval: Positive = 1
    """Iterations between checkpoints."""
    tracking: list[str] = Field(default_factory=lambda: ["tensorboard"])
    """Experiment trackers: `tensorboard`, `mlflow`, `wandb`, `trackio`."""
    tracking_project: Annotated[str, Field(min_length=1)] = "trca"
    """MLflow's experiment; project of W&B and trackio."""
    tracked_rollouts_interval: Positive = 5
    """Iterations between samples of rollouts for the trackers."""

    @field_validator("tracking")
    @classmethod
    def _check_trackers(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in TRACKERS:
                raise ValueError(f"unknown tracker {name!r}: {nearest(name, TRACKERS)}")
        if len(set(names)) < len(names):
            raise ValueError(f"{names}: name each tracker once")
        return names


class ResourceParameters(Settings):
    """Resources and restarts of the processes."""

    num_cpus_per_env_runner: NonNegative = 1
    """CPUs of each env runner."""
    num_gpus_per_env_runner: NonNegative = 0
    """GPUs of each env runner."""
    num_cpus_per_learner: NonNegative = 1
    """CPUs of each learner."""
    num_gpus_per_learner: NonNegative = 0
    """GPUs of each learner."""
    restart_failed_env_runners: bool = True
    """Restart env runners that died."""


class RunParameters(RecordingParameters, ResourceParameters):
    """Settings of a run besides the hyperparameters: RLlib's names, and the recorder's."""

    algorithm: ClassVar[str] = ""
    """Name of the algorithm; the class of its settings has it."""

    env: str = "trca/ALFWorld-v0"
    """The environment: a Gymnasium id, module:Class or path/to/file.py:Class."""
    env_config: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, such as games and max_steps."""
    seed: Seed = 0
    """Seed of the run."""
    num_env_runners: Count = 0
    """Processes that play rollouts; 0: the driver plays them."""
    num_learners: Count = 0
    """Processes that learn; 0: the driver learns."""
    evaluation_interval: Annotated[Positive | None, BeforeValidator(_none_for_zero)] = None
    """Iterations between evaluations; none: only at the end."""

    def flat(self) -> dict[str, Any]:
        """Every setting by name, defaults included, as YAML has it.

        An object in ``env_config`` that YAML cannot express becomes text.
        """
        return {"algorithm": self.algorithm, **self.model_dump(mode="json", fallback=_plain)}

    def resources(self) -> tuple[float, float]:
        """CPUs and GPUs that env runners and learners request from Ray, at least the driver's GPUs.

        The driver requests nothing: it shares the first GPUs with the first processes.
        """
        runners, learners = self.num_env_runners, self.num_learners
        gpus = runners * self.num_gpus_per_env_runner + learners * self.num_gpus_per_learner
        return (
            runners * self.num_cpus_per_env_runner + learners * self.num_cpus_per_learner,
            max(gpus, *self.driver_gpus().values()),
        )

    def driver_gpus(self) -> dict[str, float]:
        """GPUs of the ``engine`` and of the ``learner`` in the driver; they share GPUs."""
        return {
            "engine": 0 if self.num_env_runners else self.num_gpus_per_env_runner,
            "learner": 0 if self.num_learners else self.num_gpus_per_learner,
        }

    @property
    def train_split(self) -> str:
        """Split of the training panel: ``split`` of ``env_config``, else ``train``."""
        return str(self.env_config.get("split", "train"))


def _plain(value: Any) -> Any:
    """An argument of an environment that YAML cannot express."""
    return value.item() if isinstance(value, np.generic) else str(value)


def method_name(settings: Mapping[str, Any]) -> str:
    """The algorithm of flat settings, and the credit rule if a user's file has the rule.

    For example ``GRPO`` or ``GRPO with my_rule.py:mine``.
    """
    algorithm, rule = str(settings["algorithm"]), str(settings.get("credit", ""))
    return f"{algorithm} with {short_name(rule)}" if own_file(rule) else algorithm

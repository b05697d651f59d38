"""`RunParameters`: settings of a run that are not hyperparameters; `Settings`: both kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trca.common.registry import own_file, short_name
from trca.tune_configs.files import OWN_KEYS
from trca.tune_configs.recording import RecordingParameters

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class ResourceParameters(BaseModel):
    """Resources and restarts of the processes."""

    num_cpus_per_env_runner: float = Field(1, ge=0, description="CPUs of each env runner.")
    num_gpus_per_env_runner: float = Field(0, ge=0, description="GPUs of each env runner.")
    num_cpus_per_learner: float = Field(1, ge=0, description="CPUs of each learner.")
    num_gpus_per_learner: float = Field(0, ge=0, description="GPUs of each learner.")
    restart_failed_env_runners: bool = Field(True, description="Restart env runners that died.")


class RunParameters(RecordingParameters, ResourceParameters):
    """Settings of a run besides the algorithm's parameters: RLlib's names, and the recorder's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: str = Field(
        "TRCA", description="The algorithm, one of `trca.algorithms.ALGORITHMS`."
    )
    env: str = Field(
        "trca/ALFWorld-v0",
        description="The environment: a Gymnasium id, module:Class or path/to/file.py:Class.",
    )
    env_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of the environment, such as games and max_steps.",
    )
    seed: Count = Field(0, description="Seed of the run.")
    num_env_runners: Count = Field(
        0, description="Processes that play rollouts; 0: the driver plays them."
    )
    num_learners: Count = Field(0, description="Processes that learn; 0: the driver learns.")
    evaluation_interval: Positive | None = Field(
        None, description="Iterations between evaluations; none: only at the end."
    )

    def resources(self) -> tuple[float, float]:
        """CPUs and GPUs that env runners and learners request from Ray, at least the driver's GPUs.

        The driver requests nothing: it computes on the first GPUs, beside the first processes.
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


@dataclass(frozen=True)
class Settings:
    """The settings of one run.

    Attributes:
        run: RLlib's settings and the recorder's.
        parameters: The hyperparameters of the algorithm, a `TextParameters`.
    """

    run: RunParameters
    parameters: Any

    def flat(self) -> dict[str, Any]:
        """Every setting by name, defaults included, in plain types."""
        run, parameters = (m.model_dump(mode="json") for m in (self.run, self.parameters))
        return {"algorithm": run.pop("algorithm"), **run, **parameters}

    def rllib(self) -> dict[str, Any]:
        """The settings of RLlib: a flat config, as Ray Tune takes it."""
        return {key: value for key, value in self.flat().items() if key not in OWN_KEYS}

    @property
    def train_split(self) -> str:
        """Split of the training panel: ``split`` of ``env_config``, else ``train``."""
        return str(self.run.env_config.get("split", "train"))

    @property
    def evaluation_split(self) -> str:
        """Split of the evaluation panel."""
        return str(self.parameters.evaluation_split)


def method_name(settings: Mapping[str, Any]) -> str:
    """The algorithm of flat settings, and the credit rule if a user's file has the rule.

    For example ``GRPO`` or ``GRPO with my_rule.py:mine``.
    """
    algorithm, rule = str(settings["algorithm"]), str(settings.get("credit", ""))
    return f"{algorithm} with {short_name(rule)}" if own_file(rule) else algorithm

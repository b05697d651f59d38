"""`RunParameters`: settings of a run that are not hyperparameters; `Settings`: all of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from trca.tune_configs.files import OWN_KEYS
from trca.tune_configs.recording import RecordingParameters

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class RunParameters(RecordingParameters):
    """What a run needs beside its algorithm's parameters: RLlib's names, and the recorder's."""

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
        description="Its arguments, such as games and max_steps.",
    )
    seed: Count = Field(0, description="Seed of the run.")
    num_env_runners: Count = Field(0, description="Processes that roll out; 0: the driver does.")
    num_cpus_per_env_runner: float = Field(1, ge=0, description="CPUs of each.")
    num_gpus_per_env_runner: float = Field(0, ge=0, description="GPUs of each.")
    num_learners: Count = Field(0, description="Processes that learn; 0: the driver does.")
    num_cpus_per_learner: float = Field(1, ge=0, description="CPUs of each.")
    num_gpus_per_learner: float = Field(0, ge=0, description="GPUs of each.")
    evaluation_interval: Positive | None = Field(
        None, description="Iterations between evaluations; none: only at the end."
    )
    restart_failed_env_runners: bool = Field(True, description="Restart runners that died.")

    def resources(self) -> tuple[float, float]:
        """CPUs and GPUs that its processes ask Ray for, beside the driver."""
        runners, learners = self.num_env_runners, self.num_learners
        return (
            runners * self.num_cpus_per_env_runner + learners * self.num_cpus_per_learner,
            runners * self.num_gpus_per_env_runner + learners * self.num_gpus_per_learner,
        )


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
        """The settings that are RLlib's to know: a flat config, as Ray Tune takes it."""
        return {key: value for key, value in self.flat().items() if key not in OWN_KEYS}

    @property
    def train_split(self) -> str:
        """Split of the training panel: that of ``env_config``, else ``train``."""
        return str(self.run.env_config.get("split", "train"))

    @property
    def evaluation_split(self) -> str:
        """Split of the evaluation panel."""
        return str(self.parameters.evaluation_split)

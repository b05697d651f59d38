"""`RecordingParameters`: settings of the recording of a run."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, field_validator

from trca.common.names import nearest

TRACKERS: Final = ("tensorboard", "mlflow", "wandb", "trackio")
"""Experiment trackers of `trca.runs.tracking`."""


class RecordingParameters(BaseModel):
    """Checkpoints and experiment trackers."""

    checkpoint_interval: int = Field(1, ge=1, description="Iterations between checkpoints.")
    tracking: list[str] = Field(
        default_factory=lambda: ["tensorboard"],
        description="Experiment trackers: `tensorboard`, `mlflow`, `wandb`, `trackio`.",
    )
    tracking_project: str = Field(
        "trca", min_length=1, description="MLflow's experiment; project of W&B and trackio."
    )
    tracked_rollouts_interval: int = Field(
        5, ge=1, description="Iterations between samples of rollouts for the trackers."
    )

    @field_validator("tracking")
    @classmethod
    def _check_trackers(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in TRACKERS:
                raise ValueError(f"unknown tracker {name!r}: {nearest(name, TRACKERS)}")
        if len(set(names)) < len(names):
            raise ValueError(f"{names}: name each tracker once")
        return names

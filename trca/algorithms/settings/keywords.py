"""Keyword arguments of ``evaluation()`` and ``reporting()``, for editors and type checkers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict


class EvaluationKeywords(TypedDict, total=False):
    """The ``evaluation_*`` fields of `TextParameters`, and RLlib's arguments with an effect."""

    evaluation_split: str | None
    evaluation_tasks: int | None
    evaluation_rollouts: int
    evaluation_temperature: float
    evaluation_interval: int | None
    evaluation_num_env_runners: int
    evaluation_parallel_to_training: bool
    evaluation_config: Any
    evaluation_sample_timeout_s: float | None
    evaluation_unhealthy_workers_timeout_s: float
    custom_evaluation_function: Any


class ReportingKeywords(TypedDict, total=False):
    """The fields of `RecordingParameters`, the run's folder, and RLlib's arguments."""

    checkpoint_interval: int
    tracking: list[str]
    tracking_project: str
    tracked_rollouts_interval: int
    run_folder: str | Path | Literal[False] | None
    metrics_num_episodes_for_smoothing: int
    custom_stats_cls_lookup: Any

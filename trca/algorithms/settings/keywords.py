"""Keyword arguments of the methods of configs, for editors and type checkers.

``python -m trca.algorithms.write_keywords`` writes this file from the fields of the settings. A
value is a setting, or a search space of Ray Tune.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from ray.tune.search.sample import Domain

from trca.rubric import Budgets

T = TypeVar("T")
Setting: TypeAlias = Domain | Mapping[str, Iterable[T]] | T
"""A value, a distribution of Ray Tune, or ``tune.grid_search`` of values."""


class EvaluationKeywords(TypedDict, total=False):
    """Settings of `TextParameters`."""

    evaluation_split: Setting[str | None]
    evaluation_tasks: Setting[int | None]
    evaluation_rollouts: Setting[int]
    evaluation_temperature: Setting[float]
    evaluation_interval: Any
    evaluation_sample_timeout_s: Any
    evaluation_parallel_to_training: Any
    evaluation_unhealthy_workers_timeout_s: Any
    evaluation_config: Any
    evaluation_num_env_runners: Any
    custom_evaluation_function: Any


class ReportingKeywords(TypedDict, total=False):
    """Settings of `RecordingParameters`."""

    checkpoint_interval: Setting[int]
    tracking: Setting[Sequence[str]]
    tracking_project: Setting[str]
    tracked_rollouts_interval: Setting[int]
    run_folder: str | Path | Literal[False] | None
    metrics_num_episodes_for_smoothing: Any
    custom_stats_cls_lookup: Any


class TrainingKeywords(TypedDict, total=False):
    """Settings of `TextParameters`."""

    policy_loss: Setting[Literal["clipped", "log_likelihood"]]
    ratio_level: Setting[Literal["action", "action_mean", "token"]]
    clip_low: Setting[float]
    clip_high: Setting[float]
    kl_coeff: Setting[float]
    kl_coeff_format: Setting[float]
    kl_kind: Setting[Literal["k1", "k2", "k3", "k3+"]]
    entropy_coeff: Setting[float]
    aggregation: Setting[Literal["rollout_mean", "rollout_sum", "step_mean", "token_mean"]]
    constant_steps: Setting[int]
    train_malformed: Setting[bool]
    on_zero_advantage: Setting[Literal["keep", "drop_groups", "drop_rollouts"]]
    task_curriculum: Setting[float]
    refill_groups: Setting[int]
    max_staleness: Setting[int]
    replay_size: Setting[int]
    replay_max_age: Setting[int]
    replay_weight: Setting[float]
    replay_ramp: Setting[int]
    recompute_logprobs: Setting[bool]
    importance_cap: Setting[float | None]
    token_ratio_band: Setting[Sequence[float] | None]
    action_ratio_band: Setting[Sequence[float] | None]
    role_policies: Setting[Literal["shared", "own"] | Mapping[str, str]]
    frozen_roles: Setting[Sequence[str]]
    policy_lr: Setting[Mapping[str, float]]
    max_failed_iterations: Setting[int]
    sample_timeout_s: Setting[float]
    generation_timeout_s: Setting[float]
    env_step_timeout_s: Setting[float]
    rollout_timeout_s: Setting[float]
    on_missing_rollout: Setting[Literal["drop_group", "go_on"]]
    max_learner_restarts: Setting[int]
    dtype: Setting[str]
    engine_config: Setting[Mapping[str, Any]]
    gradient_checkpointing: Setting[bool]
    lora_rank: Setting[int]
    lora_alpha: Setting[int]
    micro_batch_tokens: Setting[int]
    sharding: Setting[Literal["none", "fsdp"]]
    sync_each_pass: Setting[bool]
    torch_threads: Setting[int]
    model: Setting[str]
    engine: Setting[str]
    template: Setting[Literal["paper", "compact", "chat"]]
    chat_template_kwargs: Setting[Mapping[str, Any]]
    response_format: Setting[str]
    history_length: Setting[int]
    memory: Setting[bool]
    max_prompt_tokens: Setting[int]
    max_new_tokens: Setting[int]
    temperature: Setting[float]
    iterations: Setting[int]
    tasks_per_iteration: Setting[int]
    group_size: Setting[int]
    credit: Setting[str]
    credit_config: Setting[Mapping[str, Any]]
    gamma: Setting[float]
    budgets: Setting[Budgets | Mapping[str, Any]]
    gold_in_training: Setting[bool]
    optimizer: Setting[str]
    lr: Setting[float]
    lr_warmup_updates: Setting[int]
    adam_betas: Setting[Sequence[float]]
    weight_decay: Setting[float]
    grad_clip: Setting[float | None]
    num_epochs: Setting[int]
    minibatch_size: Setting[int]
    evaluation_split: Setting[str | None]
    evaluation_tasks: Setting[int | None]
    evaluation_rollouts: Setting[int]
    evaluation_temperature: Setting[float]
    learner_class: Any
    learner_config_dict: Any


class TRCAKeywords(TrainingKeywords, total=False):
    """Settings of `TRCAParameters`."""

    lambda_: Setting[float]
    ablation: Setting[Literal["none", "without_foundational", "without_breakthrough"]]
    outcome_scale: Setting[float]
    budget_schedule: Setting[Literal["constant", "group_success"]]
    step_group: Setting[Literal["context", "stage"]]


class ReinforcePlusPlusKeywords(TrainingKeywords, total=False):
    """Settings of `ReinforcePlusPlusParameters`."""

    group_baseline: Setting[bool]


class AnchorKeywords(TrainingKeywords, total=False):
    """Settings of `AnchorParameters`."""

    anchor: Setting[Literal["context", "observation", "similar"]]
    similarity: Setting[float]


class PenaltyKeywords(AnchorKeywords, total=False):
    """Settings of `PenaltyParameters`."""

    invalid_action_penalty: Setting[float]


class StepCreditKeywords(PenaltyKeywords, total=False):
    """Settings of `StepCreditParameters`."""

    omega: Setting[float]
    normalizer: Setting[Literal["std", "one"]]


class GiGPOKeywords(StepCreditKeywords, total=False):
    """Settings of `GiGPOParameters`."""

    baseline_over: Setting[Literal["trajectory", "step_row"]]


class HGPOKeywords(PenaltyKeywords, total=False):
    """Settings of `HGPOParameters`."""

    past_anchors: Setting[int]
    alpha: Setting[float]
    drop_zero_levels: Setting[bool]


class GraphGPOKeywords(StepCreditKeywords, total=False):
    """Settings of `GraphGPOParameters`."""

    distance_gamma: Setting[float]


class GAGPOKeywords(AnchorKeywords, total=False):
    """Settings of `GAGPOParameters`."""

    gae_lambda: Setting[float]


class IGPOKeywords(TrainingKeywords, total=False):
    """Settings of `IGPOParameters`."""

    gain: Setting[Literal["probability", "log_probability"]]
    normalization: Setting[Literal["separate", "joint"]]


class ImitationKeywords(TrainingKeywords, total=False):
    """Settings of `ImitationParameters`."""

    demonstrations: Setting[Literal["demonstrator", "recorded", "on_policy"]]
    recorded_rollouts: Setting[str | None]
    demonstrator_randomness: Setting[float]
    deliberate_actions: Setting[Sequence[str]]


class HCAPOKeywords(TrainingKeywords, total=False):
    """Settings of `HCAPOParameters`."""

    omega: Setting[float]
    hindsight_temperature: Setting[float]
    hindsight_clip: Setting[float]


class CriticKeywords(TypedDict, total=False):
    """Settings of `CriticSettings`."""

    critic: Setting[Literal["trunk", "own"]]
    critic_lr: Setting[float]
    value_coeff: Setting[float]
    value_clip: Setting[float | None]
    gae_lambda: Setting[float]


class TurnPPOKeywords(CriticKeywords, TrainingKeywords, total=False):
    """Settings of `TurnPPOParameters`."""

    gae: Setting[Literal["turn", "bi_level"]]
    token_gamma: Setting[float]


class HiPERKeywords(CriticKeywords, TrainingKeywords, total=False):
    """Settings of `HiPERParameters`."""

    keep_penalty: Setting[float]
    keep_penalty_mode: Setting[Literal["fixed", "normalized"]]
    change_penalty: Setting[float]
    invalid_action_penalty: Setting[float]


class StepSearchKeywords(TurnPPOKeywords, total=False):
    """Settings of `StepSearchParameters`."""

    search_scale: Setting[float]


class BEACONKeywords(TrainingKeywords, total=False):
    """Settings of `BEACONParameters`."""

    milestones: Setting[Literal["execution", "evidence_and_execution", "environment"]]
    omega: Setting[float]
    normalizer: Setting[Literal["std", "one"]]
    similarity: Setting[float]
    invalid_action_penalty: Setting[float]


class ShapedReturnKeywords(TrainingKeywords, total=False):
    """Settings of `ShapedReturnParameters`."""

    lambda_: Setting[float]
    return_to_go: Setting[bool]

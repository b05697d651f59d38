"""Hyperparameters: one field each, with its default, its bounds and its meaning.

`TextParameters` holds what all algorithms share; an algorithm adds its own fields in a subclass.
The fields are attributes of the algorithm's config, keys of a YAML file, names for ``--set`` and
keys of Ray Tune's ``param_space``. Functions elsewhere take their values as arguments.
"""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from trca.algorithms.settings.credit_rules import CREDIT_RULES
from trca.common.names import nearest
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.dtypes import check_dtype
from trca.policies.engines import ENGINES
from trca.policies.prompts import Template
from trca.rubric import Budgets

Positive = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]


def _rising(band: tuple[float, float]) -> tuple[float, float]:
    if band[0] >= band[1]:
        raise ValueError("give the lower bound first")
    return band


Band = Annotated[
    tuple[Annotated[float, Field(ge=0.0)], Annotated[float, Field(gt=0.0)]],
    AfterValidator(_rising),
]
RatioLevel = Literal["action", "action_mean", "token"]
KLKind = Literal["k1", "k2", "k3", "k3+"]
Aggregation = Literal["rollout_mean", "rollout_sum", "step_mean", "token_mean"]
PolicyLoss = Literal["clipped", "log_likelihood"]
OnMissingRollout = Literal["drop_group", "go_on"]
OnZeroAdvantage = Literal["keep", "drop_groups", "drop_rollouts"]
Credit = Annotated[
    str, Field(description="Credit rule: the algorithm's own, or 'file.py:function'.")
]


class LossSettings(BaseModel):
    """Constants of the objective; defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    policy_loss: PolicyLoss = Field(
        "clipped",
        description="Clipped importance ratio times advantage (PPO), or log-likelihood of the "
        "action times advantage (imitation).",
    )
    ratio_level: RatioLevel = Field(
        "action",
        description="Importance ratio rho over the whole action, its mean token, or each token.",
    )
    clip_low: Probability = Field(0.2, description="The ratio is clipped below at 1 - clip_low.")
    clip_high: float = Field(0.28, ge=0.0, description="And above at 1 + clip_high.")
    kl_coeff: float = Field(
        0.012, ge=0.0, description="Weight beta of the KL to the frozen reference, action tokens."
    )
    kl_coeff_format: float = Field(
        0.0, ge=0.0, description="The same on think and format tokens (the paper masks them out)."
    )
    kl_kind: KLKind = Field("k3", description="Estimator of the KL.")
    entropy_coeff: float = Field(
        0.001, ge=0.0, description="Weight eta of the entropy bonus, action tokens."
    )


class TextParameters(LossSettings):
    """Hyperparameters that all algorithms share; defaults are the paper's."""

    algorithm: ClassVar[str] = ""
    """Name of the algorithm; each subclass sets its own."""
    compares_rollouts: ClassVar[bool] = True
    """Whether it learns from one rollout of a task only by others of the same task."""
    needs_rubric: ClassVar[bool] = False
    """Whether the credit is made of rubric judgments."""

    # Model and prompt
    model: str = Field(
        "tiny", description="'tiny', a Hugging Face name, or a folder that from_pretrained opens."
    )
    engine: Annotated[str, AfterValidator(ENGINES.check)] = Field(
        "transformers",
        description="Generation engine of the env runners: transformers, vllm or 'file.py:NAME'.",
    )
    engine_config: dict[str, Any] = Field(
        {}, description="Settings of the engine's own, such as max_batch_rows of transformers."
    )
    dtype: Annotated[str, AfterValidator(check_dtype)] = Field(
        "float32",
        description="Precision of engine, reference and trainer's arithmetic: float32, bfloat16 "
        "or auto (as saved). Trained weights are float32 always.",
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: slower, less memory."
    )
    lora_rank: int = Field(
        0,
        ge=0,
        description="Train a LoRA adapter of this rank on every linear layer instead of all "
        "weights; 0 trains all.",
    )
    lora_alpha: Positive = Field(
        32, description="The adapter's product is multiplied by lora_alpha / lora_rank."
    )
    template: Template = Field("paper", description="Prompt template.")
    response_format: Annotated[str, AfterValidator(RESPONSE_FORMATS.check)] = Field(
        "action",
        description="Tags of an action: action; plan for a switch, a subgoal that stands in the "
        "next prompt, and an action (HiPER); search_r1 for the <search> and <answer> of "
        "verl-agent; search_r1_growing and r1_answer for Search-R1 with and without a search, each "
        "with a prompt of its own; 'file.py:FORMAT' for one of your own.",
    )
    history_length: int = Field(
        2, ge=0, description="Past (observation, action) pairs in the prompt."
    )
    memory: bool = Field(
        False,
        description="Show the adapter's one-line memory, an enriched observation: beside the"
        " observation by `paper`, in its place by `compact`.",
    )
    max_prompt_tokens: Positive = Field(2048, description="Limit on a prompt, in tokens.")
    max_new_tokens: Positive = Field(512, description="Limit on a response, in tokens.")
    temperature: float = Field(
        1.0, gt=0.0, description="Sampling temperature of training rollouts."
    )

    # Rollouts
    iterations: Positive = Field(
        25, description="Training iterations; an environment with a curriculum gets the share done."
    )
    tasks_per_iteration: Positive = Field(16, description="Rollout groups per iteration.")
    group_size: Positive = Field(8, description="Rollouts of one task, N.")
    task_curriculum: Probability = Field(
        0.0,
        description="How much an iteration prefers tasks that are solved about half of the time so "
        "far, from 0 (all alike) to 1; unplayed tasks count as such.",
    )
    max_staleness: int = Field(
        0,
        ge=0,
        description="Updates that a step's weights may lag behind when it is trained on: env "
        "runners sample so many iterations ahead while the learners update. 0 is the paper's.",
    )
    max_failed_iterations: Positive = Field(
        3, description="Iterations in a row without a single rollout before training stops."
    )
    sample_timeout_s: float = Field(
        3600.0, gt=0.0, description="Seconds one iteration may roll out."
    )
    generation_timeout_s: float = Field(
        900.0, gt=0.0, description="Seconds a generation may take; then the engine counts as stuck."
    )
    env_step_timeout_s: float = Field(
        300.0, gt=0.0, description="Seconds a step or a reset of an environment may take."
    )
    rollout_timeout_s: float = Field(
        1800.0, gt=0.0, description="Seconds a rollout may take from its first prompt on."
    )
    on_missing_rollout: OnMissingRollout = Field(
        "drop_group",
        description="What becomes of a training group when one of its rollouts failed twice: "
        "drop_group, or go_on with the others. An evaluation keeps every finished rollout.",
    )

    # Teams
    role_policies: Literal["shared", "own"] | dict[str, str] = Field(
        "shared",
        description="Policies of a team's roles: one for all (shared), one each (own), or by role "
        "the policy's name.",
    )
    frozen_roles: tuple[str, ...] = Field(
        (), description="Roles of a team whose rollouts are not learned from."
    )
    policy_lr: dict[str, Annotated[float, Field(gt=0.0)]] = Field(
        {}, description="Learning rates of policies that differ from lr, by the policy's name."
    )

    # Credit
    credit: Credit = "grpo"
    credit_config: dict[str, Any] = Field(
        {}, description="Parameters of the credit rule that are no settings, by name."
    )
    gamma: Probability = Field(0.95, description="Discount of step returns, gamma.")
    budgets: Budgets = Field(
        Budgets(), description="Budgets of the rubric categories (the paper gives none)."
    )
    gold_in_training: bool = Field(
        False,
        description="Whether the credit rule may read the right answers or passages of the tasks; "
        "results say so.",
    )

    on_zero_advantage: OnZeroAdvantage = Field(
        "keep",
        description="Leave out of the update the groups, or the rollouts, without any advantage "
        "(rewards do not decide: equal outcomes may have rubric credit).",
    )
    refill_groups: int = Field(
        0,
        ge=0,
        description="Most further groups that an iteration samples in place of groups without any "
        "advantage.",
    )

    # Replay
    replay_size: int = Field(
        0,
        ge=0,
        description="Good rollouts that are kept and, once there are so many, learned from again "
        "(self-imitation, SPEAR); 0: none.",
    )
    replay_max_age: Positive = Field(
        10, description="Iterations that a replayed rollout may lie back."
    )
    replay_weight: float = Field(
        1.0, ge=0.0, description="Weight of the replayed rollouts beside the iteration's."
    )
    replay_ramp: int = Field(
        0,
        ge=0,
        description="Iterations over which that weight rises from 0, by a cosine (SPEAR: 100 in "
        "ALFWorld, 200 in WebShop).",
    )

    # Updates
    aggregation: Aggregation = Field(
        "rollout_mean",
        description="Mean over a rollout's steps then rollouts (1/N sum 1/T_i sum), steps, tokens; "
        "rollout_sum divides by constant_steps in place of T_i.",
    )
    constant_steps: Positive = Field(
        25, description="Steps that every rollout counts as under aggregation rollout_sum."
    )
    train_malformed: bool = Field(
        False,
        description="Train a response without an action too, the whole of it as the action; the "
        "paper's action mask leaves it out.",
    )
    recompute_logprobs: bool = Field(
        False, description="Recompute the old logprobs in the trainer instead of the sampler's."
    )
    importance_cap: float | None = Field(
        None,
        gt=0.0,
        description="Multiply a step's advantage by its action's ratio of trainer to sampler, cut "
        "at this cap (2 is usual); none: do not. Needs recompute_logprobs.",
    )
    token_ratio_band: Band | None = Field(
        None,
        description="Leave out tokens whose ratio of trainer to sampler is outside of (low, high), "
        "such as (0.5, 5). Needs recompute_logprobs.",
    )
    action_ratio_band: Band | None = Field(
        None,
        description="Leave out steps whose action's mean ratio of trainer to sampler is outside of "
        "(low, high), such as (0.99, 1.01). Needs recompute_logprobs.",
    )
    lr: float = Field(8e-7, gt=0.0, description="Learning rate of AdamW.")
    lr_warmup_updates: int = Field(0, ge=0, description="Updates of linear warm-up of the lr.")
    adam_betas: tuple[Probability, Probability] = Field((0.9, 0.999), description="Betas of AdamW.")
    weight_decay: float = Field(0.0, ge=0.0, description="Weight decay of AdamW.")
    grad_clip: float | None = Field(1.0, gt=0.0, description="Clip of the global gradient norm.")
    num_epochs: Positive = Field(1, description="Passes over an iteration's steps.")
    minibatch_size: Positive = Field(256, description="Steps in one optimizer update.")
    micro_batch_tokens: Positive = Field(
        8192, description="Padded tokens in one forward pass (gradients accumulate over passes)."
    )
    sharding: Literal["none", "fsdp"] = Field(
        "none",
        description="Whether several learners split weights, gradients and AdamW's state (fsdp) "
        "or each holds all of them (none).",
    )
    sync_each_pass: bool = Field(
        False,
        description="Whether learners that split the model add gradients up after each pass, not "
        "only after the last of an update: less memory (each else keeps 4 bytes a trained "
        "parameter) for more traffic.",
    )
    max_learner_restarts: int = Field(
        3,
        ge=0,
        description="Times a run builds its learners again after one was lost; 0 keeps no copy of "
        "what they learned.",
    )
    torch_threads: Positive = Field(1, description="PyTorch threads in every process.")

    # Evaluation
    evaluation_split: str | None = Field(
        None, description="Split of the evaluation panel; none: the environment's default split."
    )
    evaluation_tasks: Positive | None = Field(
        None, description="Number of tasks, from the panel's start; none: the whole panel."
    )
    evaluation_rollouts: Positive = Field(1, description="Rollouts of each evaluated task.")
    evaluation_temperature: float = Field(
        0.4, ge=0.0, description="Sampling temperature of evaluation; 0 is greedy."
    )

    @field_validator("credit")
    @classmethod
    def _own_rule(cls, name: str) -> str:
        for other in family():
            if other is not cls and name == other.own_rule() != cls.own_rule():
                raise ValueError(
                    f"{name!r} is the rule of algorithm {other.algorithm}: set algorithm to"
                    f" {other.algorithm}, or credit to {cls.own_rule()!r} or path/to/file.py:NAME"
                )
        return CREDIT_RULES.check(name)

    def learns_nothing(self) -> str:
        """Why no rollout of a run would have an advantage; blank if rollouts can have one."""
        own_file = ":" in self.credit
        if self.group_size > 1 or not self.compares_rollouts or own_file:
            return ""
        return (
            f"group_size is 1: {self.algorithm} compares the rollouts of a task with each other and"
            " learns nothing from one: give 2 or more"
        )

    @classmethod
    def own_rule(cls) -> str:
        """The name of the algorithm's own credit rule."""
        return str(cls.model_fields["credit"].default)

    @classmethod
    def own_defaults(cls) -> set[str]:
        """The shared settings for which the algorithm has a default of its own."""
        shared, own = TextParameters.model_fields, cls.model_fields
        return {n for n in shared if own[n].default != shared[n].default and n != "credit"}


def own_default(name: str, default: Any) -> Any:
    """A shared hyperparameter with an algorithm's own default; bounds and meaning stay.

    ::

        class DrGRPOParameters(TextParameters):
            aggregation: Aggregation = own_default("aggregation", "rollout_sum")
    """
    field = copy(TextParameters.model_fields[name])
    field.default = default
    return field


def family() -> list[type[TextParameters]]:
    """The parameter models of the algorithms that are loaded."""
    models = TextParameters.__subclasses__()
    for model in models:  # grows as it goes
        models += model.__subclasses__()
    return [model for model in models if model.algorithm]


def check(parameters: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
    """Checks hyperparameters and gives them as plain dicts and tuples.

    Args:
        parameters: The model that holds the bounds.
        values: Some or all of its fields.

    Returns:
        The same keys with checked values.

    Raises:
        ValueError: Names each wrong parameter, its value and what is allowed.
    """
    try:
        checked = parameters(**values)
    except ValidationError as error:
        raise ValueError("; ".join(explain(parameters, error))) from None
    return {name: checked.model_dump()[name] for name in values}


def explain(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Says what is wrong with each value: its name, the value, what is allowed, its meaning."""
    lines = []
    for detail in error.errors(include_url=False):
        name = ".".join(map(str, detail["loc"]))
        field = model.model_fields.get(str(detail["loc"][0]))
        if detail["type"] == "extra_forbidden":
            parts = getattr(field.annotation, "model_fields", {}) if field else model.model_fields
            lines.append(f"unknown key {name!r}: {nearest(detail['loc'][-1], parts)}")
            continue
        message = detail["msg"].removeprefix("Value error, ")
        meaning = f" ({field.description})" if field else ""
        lines.append(f"{name} is {repr(detail['input'])[:80]}: {message}{meaning}")
    return lines

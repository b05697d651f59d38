"""Hyperparameters: one field each, the only place where a default, a bound or a meaning is written.

`TextParameters` holds what every algorithm here shares; an algorithm adds its own fields in a
subclass. The fields become attributes of the algorithm's config, keys of a YAML file, names for
``--set`` and keys of Ray Tune's ``param_space``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trca.common.names import nearest

Positive = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class BudgetParameters(BaseModel):
    """Category budgets: the most that one transition can earn or lose by a category."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    evidence: float = Field(1.0, ge=0.0, description="r^Evi.")
    invalidity: float = Field(1.0, ge=0.0, description="r^Inval, taken off.")
    execution: float = Field(1.0, ge=0.0, description="r^Exec.")


class TextParameters(BaseModel):
    """What every algorithm on text worlds shares; defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    # Model and prompt
    model: str = Field(
        "tiny", description="'tiny', a Hugging Face name, or a folder that from_pretrained opens."
    )
    engine: Literal["transformers"] = Field(
        "transformers", description="Generation engine of the env runners."
    )
    dtype: Literal["float32", "bfloat16", "auto"] = Field(
        "float32",
        description="Precision of engine, reference and trainer's arithmetic; auto is as saved. "
        "Trained weights are float32 always.",
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: slower, less memory."
    )
    template: Literal["paper", "compact"] = Field("paper", description="Prompt template.")
    response_format: Literal["action", "search_r1"] = Field(
        "action",
        description="Tags of a command: action, or search_r1 for the <search> and <answer> of "
        "models trained by Search-R1 and verl-agent, with a prompt of its own.",
    )
    history_length: int = Field(
        2, ge=0, description="Past (observation, command) pairs in the prompt."
    )
    memory: bool = Field(
        False, description="Add the adapter's one-line memory to the prompt (enriched observation)."
    )
    max_prompt_tokens: Positive = Field(2048, description="Limit on a prompt, in tokens.")
    max_new_tokens: Positive = Field(512, description="Limit on a response, in tokens.")
    temperature: float = Field(
        1.0, gt=0.0, description="Sampling temperature of training rollouts."
    )

    # Rollouts
    iterations: Positive = Field(
        25, description="Training iterations; a world with a curriculum is told the share done."
    )
    tasks_per_iteration: Positive = Field(16, description="Rollout groups an iteration.")
    group_size: Positive = Field(8, description="Rollouts of one task, N.")
    max_failed_iterations: Positive = Field(
        3, description="Iterations in a row without a single rollout before training stops."
    )

    # Credit
    credit: str = Field("grpo", description="Credit rule: a registered name or 'file.py:function'.")
    gamma: Probability = Field(0.95, description="Discount of step returns, gamma.")
    budgets: BudgetParameters = Field(
        BudgetParameters(), description="Budgets of the rubric categories (the paper gives none)."
    )

    # Objective
    ratio_level: Literal["action", "action_mean", "token"] = Field(
        "action",
        description="Importance ratio rho over the whole action, its mean token, or each token.",
    )
    aggregation: Literal["rollout_mean", "step_mean", "token_mean"] = Field(
        "rollout_mean",
        description="Mean over a rollout's steps then rollouts (1/N sum 1/T_i sum), steps, tokens.",
    )
    clip_low: Probability = Field(0.2, description="Lower clipping coefficient of the ratio.")
    clip_high: float = Field(0.28, ge=0.0, description="Upper clipping coefficient of the ratio.")
    kl_coeff: float = Field(
        0.012, ge=0.0, description="Weight beta of the KL to the frozen reference, action tokens."
    )
    kl_coeff_format: float = Field(
        0.0, ge=0.0, description="The same on think and format tokens (the paper masks them out)."
    )
    kl_kind: Literal["k1", "k2", "k3", "k3+"] = Field("k3", description="Estimator of the KL.")
    entropy_coeff: float = Field(0.001, ge=0.0, description="Weight of the entropy bonus.")
    train_malformed: bool = Field(
        True, description="Train a response without a command too, the whole of it as the action."
    )
    recompute_logprobs: bool = Field(
        False, description="Recompute the old logprobs in the trainer instead of the sampler's."
    )

    # Optimization
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
    torch_threads: Positive = Field(1, description="PyTorch threads in every process.")

    # Evaluation
    evaluation_split: str = Field("valid_unseen", description="Split of the evaluation panel.")
    evaluation_tasks: Positive | None = Field(
        None, description="Head of the panel that is evaluated; all of it for none."
    )
    evaluation_rollouts: Positive = Field(1, description="Rollouts of each evaluated task.")
    evaluation_temperature: float = Field(
        0.4, ge=0.0, description="Sampling temperature of evaluation; 0 is greedy."
    )


def check(parameters: type[TextParameters], values: dict[str, Any]) -> dict[str, Any]:
    """The values as the parameter model reads them, with plain dicts and tuples.

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
        lines = [_explain(parameters, detail) for detail in error.errors()]
        raise ValueError("; ".join(lines)) from None
    return {name: checked.model_dump()[name] for name in values}


def _explain(parameters: type[TextParameters], detail: Any) -> str:
    name = ".".join(map(str, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        return f"unknown parameter {name!r}: {nearest(name, parameters.model_fields)}"
    message = detail["msg"][0].lower() + detail["msg"][1:]
    field = parameters.model_fields.get(str(detail["loc"][0]))
    meaning = f" ({field.description})" if field is not None else ""
    return f"parameter {name!r} is {detail['input']!r}: {message}{meaning}"

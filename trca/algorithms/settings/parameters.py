"""Hyperparameters: one field each, with its default, its bounds and its meaning.

`TextParameters` holds the settings of every algorithm: first the settings that most runs choose,
then the groups of `trca.algorithms.settings.groups`. An algorithm adds fields in a subclass. Each
field is an attribute of the algorithm's config, an argument of ``training()``, a key of a YAML
file, a name for ``--set`` and a key of Ray Tune's ``param_space``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator

from trca.algorithms.settings.credit_rules import CREDIT_RULES
from trca.algorithms.settings.groups import (
    FailureSettings,
    HardwareSettings,
    LossSettings,
    MismatchSettings,
    ReplaySettings,
    SamplingSettings,
    TeamSettings,
    WeightingSettings,
)
from trca.algorithms.settings.types import (
    Aggregation,
    Credit,
    KLKind,
    OnMissingRollout,
    OnZeroAdvantage,
    Positive,
    Probability,
    RatioLevel,
)
from trca.common.names import nearest
from trca.common.registry import Registry
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.engines import ENGINES
from trca.policies.prompts import Template
from trca.rubric import Budgets

__all__ = [
    "Aggregation",
    "KLKind",
    "LossSettings",
    "OnMissingRollout",
    "OnZeroAdvantage",
    "RatioLevel",
    "TextParameters",
    "check",
    "explain",
    "family",
    "own_default",
]

OPTIMIZERS: Final[Registry[Callable[..., Any]]] = Registry(
    "optimizer", {"adamw": "torch.optim:AdamW"}
)
"""Optimizers by name: classes of PyTorch, or an `OptimizerFactory`."""


def _check_optimizer(name: str) -> str:
    if name == "muon":
        raise ValueError("Muon is an example: give examples/own_optimizer/muon.py:muon")
    return OPTIMIZERS.check(name)


class TextParameters(
    HardwareSettings,
    FailureSettings,
    TeamSettings,
    MismatchSettings,
    ReplaySettings,
    SamplingSettings,
    WeightingSettings,
    LossSettings,
):
    """Hyperparameters that all algorithms share; defaults are the paper's."""

    algorithm: ClassVar[str] = ""
    """Name of the algorithm; each subclass sets it."""
    compares_rollouts: ClassVar[bool] = True
    """Whether the credit rule compares the rollouts of a task with each other."""
    credit_settings: ClassVar[frozenset[str]] = frozenset({"gamma"})
    """Settings of every algorithm that the algorithm's credit rule reads."""

    if TYPE_CHECKING:  # RLlib's arguments of `training`, which are attributes of the config
        learner_class: type | None = None
        learner_config_dict: dict[str, Any] | None = None

    # Model and prompt
    model: str = Field(
        default="tiny",
        description="'tiny', 'smollm2', a GGUF file, a Hugging Face name, or a folder of a model "
        "or a LoRA adapter.",
    )
    engine: Annotated[str, AfterValidator(ENGINES.check)] = Field(
        default="transformers",
        description="Generation engine of the env runners: transformers, vllm or 'file.py:NAME'.",
    )
    template: Template = Field(default="paper", description="Prompt template.")
    chat_template_kwargs: dict[str, Any] = Field(
        default={},
        description="Options of the model's chat template, such as enable_thinking: false.",
    )
    response_format: Annotated[str, AfterValidator(RESPONSE_FORMATS.check)] = Field(
        default="action",
        description="Tags of a response: action for a thought and an action; action_only for a "
        "model that does not reason; plan for a switch, a subgoal that the next prompt shows, and "
        "an action (HiPER); search_r1 for the <search> and <answer> of verl-agent; "
        "search_r1_growing and r1_answer for Search-R1 with and without a search, each with its "
        "prompt; 'file.py:FORMAT' for your format.",
    )
    history_length: int = Field(
        default=2,
        ge=0,
        description="Past (observation, action) pairs in the prompt; with `chat`, past turns.",
    )
    memory: bool = Field(
        default=False,
        description="Show the adapter's memory line in the prompt: `paper` and `chat` show the "
        "line and the observation, `compact` the line in place of the observation.",
    )
    max_prompt_tokens: Positive = Field(default=2048, description="Limit on a prompt, in tokens.")
    max_new_tokens: Positive = Field(default=512, description="Limit on a response, in tokens.")
    temperature: float = Field(
        default=1.0, gt=0.0, description="Sampling temperature of training rollouts."
    )

    # Rollouts
    iterations: Positive = Field(
        default=25,
        description="Training iterations; an environment with a curriculum receives the finished "
        "share.",
    )
    tasks_per_iteration: Positive = Field(default=16, description="Rollout groups per iteration.")
    group_size: Positive = Field(default=8, description="Rollouts of one task, N.")

    # Credit
    credit: Credit = "grpo"
    credit_config: dict[str, Any] = Field(
        default={}, description="Arguments of the credit rule that are not settings, by name."
    )
    gamma: Probability = Field(default=0.95, description="Discount of step returns, gamma.")
    budgets: Budgets = Field(
        default=Budgets(), description="Budgets of the rubric categories (the paper gives none)."
    )
    gold_in_training: bool = Field(
        default=False,
        description="Let the credit rule read the right answers or passages of the tasks; results "
        "show the setting.",
    )

    # Updates
    optimizer: Annotated[str, AfterValidator(_check_optimizer)] = Field(
        default="adamw",
        description="Optimizer of the learners: adamw, a class such as torch.optim:Adafactor, or "
        "'file.py:NAME'.",
    )
    lr: float = Field(default=8e-7, gt=0.0, description="Learning rate.")
    lr_warmup_updates: int = Field(
        default=0, ge=0, description="Updates of linear warm-up of the lr."
    )
    adam_betas: tuple[Probability, Probability] = Field(
        default=(0.9, 0.999), description="Betas of AdamW."
    )
    weight_decay: float = Field(default=0.0, ge=0.0, description="Weight decay of the optimizer.")
    grad_clip: float | None = Field(
        default=1.0, gt=0.0, description="Clip of the global gradient norm."
    )
    num_epochs: Positive = Field(default=1, description="Passes over an iteration's steps.")
    minibatch_size: Positive = Field(default=256, description="Steps in one optimizer update.")

    # Evaluation
    evaluation_split: str | None = Field(
        default=None,
        description="Split of the evaluation panel; none: the environment's default split.",
    )
    evaluation_tasks: Positive | None = Field(
        default=None,
        description="Number of tasks, from the panel's start; none: all tasks of the panel.",
    )
    evaluation_rollouts: Positive = Field(default=1, description="Rollouts of each evaluated task.")
    evaluation_temperature: float = Field(
        default=0.4, ge=0.0, description="Sampling temperature of evaluation; 0 is greedy."
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

    def needs_rubric(self) -> bool:
        """Whether the algorithm's credit rule reads judgments, as rules with budgets do."""
        return "budgets" in self.credit_settings

    def too_small_group(self) -> str:
        """Why a group of one rollout is too small; blank for a group that is large enough."""
        own_file = ":" in self.credit
        if self.group_size > 1 or not self.compares_rollouts or own_file:
            return ""
        return (
            f"group_size is 1: {self.algorithm} compares the rollouts of a task with each other:"
            " give 2 or more"
        )

    @classmethod
    def own_rule(cls) -> str:
        """The name of the algorithm's credit rule."""
        return str(cls.model_fields["credit"].default)

    @classmethod
    def own_defaults(cls) -> set[str]:
        """The shared settings whose default the algorithm changes."""
        shared, fields = TextParameters.model_fields, cls.model_fields
        return {n for n in shared if fields[n].default != shared[n].default and n != "credit"}


def own_default(name: str, default: Any) -> Any:
    """A shared hyperparameter with the default of an algorithm; bounds and meaning stay.

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
    for model in models:  # the list grows during the loop
        models += model.__subclasses__()
    return [model for model in models if model.algorithm]


def check(parameters: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
    """Checks hyperparameters.

    Args:
        parameters: The model with the bounds.
        values: Some or all fields of the model.

    Returns:
        The same keys with checked values, as plain dicts and tuples.

    Raises:
        ValueError: Names each wrong parameter, its value and the allowed values.
    """
    try:
        checked = parameters(**values)
    except ValidationError as error:
        raise ValueError("; ".join(explain(parameters, error))) from None
    return {name: checked.model_dump()[name] for name in values}


def explain(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Describes each error: name, value, allowed values and meaning of the field."""
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

"""The settings of an algorithm: one class, with one field for each setting.

`TextParameters` holds the settings of every algorithm: first the settings that most runs choose,
then the groups of `trca.algorithms.settings.groups` and the run's settings,
`trca.tune_configs.run_parameters`. An algorithm adds fields in a subclass. Each field is an
attribute of ``config.settings``, an argument of ``training()``, a key of a YAML file, a name for
``--set`` and a key of Ray Tune's ``param_space``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator

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
from trca.algorithms.settings.setting_names import ELSEWHERE, IGNORED, SYNONYMS
from trca.algorithms.settings.types import (
    AGENT_PROGRAMS,
    CREDIT_RULES,
    Count,
    Credit,
    NonNegative,
    Positive,
    PositiveNumber,
    Probability,
    Share,
    check_optimizer,
)
from trca.common.names import nearest, nearest_name
from trca.common.registry import own_file
from trca.envs.registration import arguments, default_split, lacks_rubric, make
from trca.envs.responses import RESPONSE_FORMATS
from trca.policies.engines import ENGINES
from trca.policies.prompts import Template
from trca.rubric import Budgets
from trca.tune_configs.files import ConfigError
from trca.tune_configs.run_parameters import RunParameters

logger = logging.getLogger(__name__)
P = TypeVar("P", bound="TextParameters")
_RULES: Final = "trca.algorithms.rules"
DEFAULT_ALGORITHM: Final = "TRCA"
"""The algorithm of settings that name none."""


class TextParameters(
    HardwareSettings,
    FailureSettings,
    TeamSettings,
    MismatchSettings,
    ReplaySettings,
    SamplingSettings,
    WeightingSettings,
    LossSettings,
    RunParameters,
):
    """Settings that all algorithms share; defaults of hyperparameters are the paper's."""

    compares_rollouts: ClassVar[bool] = True
    """Whether the credit rule compares the rollouts of a task with each other."""
    credit_settings: ClassVar[frozenset[str]] = frozenset({"gamma"})
    """Settings of every algorithm that the algorithm's credit rule reads."""
    value_heads: ClassVar[int] = 1
    """Number of values of a critic for a token."""

    if TYPE_CHECKING:  # RLlib's arguments of `training`, which are attributes of the config
        learner_class: type | None = None
        learner_config_dict: dict[str, Any] | None = None

    # Model and prompt
    model: str = "tiny"
    """'tiny', 'smollm2', a GGUF file, a Hugging Face name, or a folder of a model or a LoRA
    adapter."""
    engine: Annotated[str, AfterValidator(ENGINES.check)] = "transformers"
    """Generation engine of the env runners: transformers, vllm or 'file.py:NAME'."""
    template: Template = "paper"
    """Prompt template."""
    chat_template_kwargs: dict[str, Any] = Field(default={})
    """Options of the model's chat template, such as enable_thinking: false."""
    response_format: Annotated[str, AfterValidator(RESPONSE_FORMATS.check)] = "action"
    """Tags of a response: action for a thought and an action; action_only for a model that does not
    reason; plan for a switch, a subgoal that the next prompt shows, and an action (HiPER);
    search_r1 for the <search> and <answer> of verl-agent; search_r1_growing and r1_answer for
    Search-R1 with and without a search, each with its prompt; tool_calls, tool_calls_or_text,
    llama_tool_calls and qwen3_coder_tool_calls for calls of tools (docs/tools.md);
    'file.py:FORMAT' for your format."""
    history_length: Count = 2
    """Past (observation, action) pairs in the prompt; with `chat`, past turns."""
    memory: bool = False
    """Show the adapter's memory line in the prompt: `paper` and `chat` show the line and the
    observation, `compact` the line in place of the observation."""
    agent_program: Annotated[str, AfterValidator(AGENT_PROGRAMS.check)] | None = None
    """Your agent, 'file.py:NAME', which plays the episodes and asks the policy by a base_url. The
    settings of prompts and responses then have no effect, except the limits and
    chat_template_kwargs."""
    max_prompt_tokens: Positive = 2048
    """Limit on a prompt, in tokens."""
    max_new_tokens: Positive = 512
    """Limit on a response, in tokens."""
    temperature: PositiveNumber = 1.0
    """Sampling temperature of training rollouts."""

    # Rollouts
    iterations: Positive = 25
    """Training iterations; an environment with a curriculum receives the finished share."""
    tasks_per_iteration: Positive = 16
    """Rollout groups per iteration."""
    group_size: Positive = 8
    """Rollouts of one task, N."""

    # Credit
    credit: Credit = "grpo"
    credit_config: dict[str, Any] = Field(default={})
    """Arguments of the credit rule that are not settings, by name."""
    gamma: Probability = 0.95
    """Discount of step returns, gamma."""
    budgets: Budgets = Budgets()
    """Budgets of the rubric categories (the paper gives none)."""
    gold_in_training: bool = False
    """Let the credit rule read the right answers or passages of the tasks; results show the
    setting."""

    # Updates
    optimizer: Annotated[str, AfterValidator(check_optimizer)] = "adamw"
    """Optimizer of the learners: adamw, a class such as torch.optim:Adafactor, or 'file.py:NAME'.
    """
    lr: PositiveNumber = 8e-7
    """Learning rate."""
    lr_warmup_updates: Count = 0
    """Updates of linear warm-up of the lr."""
    lr_end_factor: Share = 1.0
    """Share of lr in the last of iterations; lr falls linearly from iteration 1."""
    adam_betas: tuple[Probability, Probability] = (0.9, 0.999)
    """Betas of AdamW."""
    weight_decay: NonNegative = 0.0
    """Weight decay of the optimizer."""
    grad_clip: PositiveNumber | None = 1.0
    """Clip of the global gradient norm."""
    num_epochs: Positive = 1
    """Passes over an iteration's steps."""
    minibatch_size: Positive = 256
    """Steps in one optimizer update."""

    # Evaluation
    evaluation_split: str | None = None
    """Split of the evaluation panel; none: the environment's default split."""
    evaluation_tasks: Positive | None = None
    """Number of tasks, from the panel's start; none: all tasks of the panel."""
    evaluation_rollouts: Positive = 1
    """Rollouts of each evaluated task."""
    evaluation_temperature: NonNegative = 0.4
    """Sampling temperature of evaluation; 0 is greedy."""

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

    @staticmethod
    def resolve(
        settings: Mapping[str, Any],
        source: str = "config",
        need_data: bool = True,
        open_env: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> TextParameters:
        """Checks flat settings, and fills in the defaults of the algorithm that they name.

        ``source`` names the settings in errors. ``open_env`` makes an environment of its name and
        arguments; by default the environment is made and closed. A `ConfigError` names every wrong
        key with its value, the allowed values, and the nearest match of an unknown key.
        """
        try:
            model = parameters_class(settings.get("algorithm", DEFAULT_ALGORITHM))
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
        given = {name: value for name, value in settings.items() if name != "algorithm"}
        if given.pop("max_learner_restarts", 3) != 3:  # a setting of earlier versions
            logger.warning("%s: %s", source, model.unknown("max_learner_restarts"))
        fields = model.model_fields
        wrong = [model.unknown(name, ("algorithm",)) for name in given if name not in fields]
        checked = None
        try:
            checked = model(**{name: value for name, value in given.items() if name in fields})
        except ValidationError as error:
            wrong += explain(model, error)
        if checked is not None and not wrong:
            wrong += _env_errors(checked, need_data, open_env)
        if checked is None or wrong:
            raise ConfigError("\n".join(f"{source}: {message}" for message in wrong))
        if checked.evaluation_split is None:
            split = default_split(checked.env)
            return checked.model_copy(update={"evaluation_split": split})
        return checked

    def algorithm_config(self) -> Any:
        """The RLlib config of the settings, a `TextAlgorithmConfig`. Loads Ray and PyTorch."""
        algorithm: Any = import_module("trca.algorithms").ALGORITHMS[self.algorithm]
        return algorithm.config_class.of(self)

    @classmethod
    def unknown(cls, name: str, others: Iterable[str] = ()) -> str:
        """The error message for an unknown setting; ``others`` are more names, such as RLlib's."""
        lower = name.casefold().replace("-", "_")
        instead = IGNORED.get(lower) or ELSEWHERE.get(lower)
        if instead:
            return f"{name!r} has no effect here: {instead}"
        names = {*cls.model_fields, *others}
        meant = SYNONYMS.get(lower, name)
        owners = sorted(p.algorithm for p in family() if meant in p.model_fields)
        if owners and meant not in names:
            named = " and ".join([", ".join(owners[:-1]), owners[-1]] if owners[1:] else owners)
            return f"{meant!r} belongs to {named}, not to {cls.algorithm}"
        if lower in SYNONYMS:
            return f"unknown setting {name!r}: did you mean {meant!r}?"
        near = nearest_name(name, sorted(n for n in names if n[0] != "_"))
        hint = f"did you mean {near!r}?" if near else nearest(name, cls.model_fields)
        return f"unknown setting {name!r}: {hint}"

    @property
    def critic_kind(self) -> str:
        """Network of the critic's values; empty without a critic."""
        return str(getattr(self, "critic", ""))

    @property
    def calls_tools(self) -> bool:
        """Whether the response format calls tools, which needs a chat template that shows them."""
        return RESPONSE_FORMATS.get(self.response_format).calls_tools

    @property
    def trajectories_per_iteration(self) -> int:
        """Maximum number of rollouts in an iteration, refilled groups included."""
        return (self.tasks_per_iteration + self.refill_groups) * self.group_size

    def hyperparameters(self) -> dict[str, Any]:
        """The settings besides those of `RunParameters`, as plain dicts and tuples."""
        return self.model_dump(exclude=set(RunParameters.model_fields))

    def needs_rubric(self) -> bool:
        """Whether the algorithm's credit rule reads judgments, as rules with budgets do."""
        return "budgets" in self.credit_settings

    def conflict(self) -> str:
        """Why settings that are valid one by one exclude each other; empty if they do not."""
        for name in ("importance_cap", "token_ratio_band", "action_ratio_band"):
            if getattr(self, name) is not None and not self.recompute_logprobs:
                return f"{name} compares with the trainer: set recompute_logprobs: true"
        for name in ("refill_groups", "task_curriculum"):
            if self.max_staleness and getattr(self, name):
                return (
                    f"{name} goes by the results of the iteration before, and max_staleness"
                    " samples ahead of these results: set one of the two to 0"
                )
        if self.agent_program is not None and (other := self._prompts_itself()):
            return f"agent_program cannot be combined with {other}"
        if self.replay_size and self.recompute_logprobs:
            return (
                "replay_size compares with the policy that sampled, whose logprobs"
                " recompute_logprobs replaces: turn one of the two off"
            )
        if self.refill_groups and self.on_zero_advantage == "keep":
            return (
                f"refill_groups is {self.refill_groups}, and no group is left out: set"
                " on_zero_advantage to drop_groups or drop_rollouts"
            )
        if self.critic_kind and self.sharding != "none":
            return (
                f"sharding is {self.sharding!r}, and {self.algorithm} has a critic, which learners"
                " do not split: set sharding to none"
            )
        return ""

    def _prompts_itself(self) -> str:
        """What needs the prompts of the rollout loop, and the fix; empty without it."""
        if self.critic_kind:
            return f"the critic of {self.algorithm}: choose an algorithm without a critic"
        if getattr(self, "demonstrations", None) is not None:
            return f"the teacher of {self.algorithm}: choose an algorithm of reinforcement learning"
        if self.env_config.get("team") is not None:
            return "a team: leave env_config.team out"
        return ""

    def too_small_group(self) -> str:
        """Why a group of one rollout is too small; empty for a group that is large enough."""
        if self.group_size > 1 or not self.compares_rollouts or ":" in self.credit:
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
    """The settings classes of the algorithms that are loaded."""
    models = TextParameters.__subclasses__()
    for model in models:  # the list grows during the loop
        models += model.__subclasses__()
    return [model for model in models if model.algorithm]


def parameter_models() -> dict[str, type[TextParameters]]:
    """The settings class of each algorithm by its name."""
    for path in sorted(Path(__file__).parents[1].glob("rules/[!_]*.py")):
        import_module(f"{_RULES}.{path.stem}")
    packaged = [model for model in family() if model.__module__.startswith(f"{_RULES}.")]
    return {model.algorithm: model for model in packaged}


def parameters_class(algorithm: str) -> type[TextParameters]:
    """The settings class of an algorithm by name in any case; `ConfigError` if it is unknown."""
    models = parameter_models()
    for name, model in models.items():
        if name.casefold() == str(algorithm).casefold():
            return model
    raise ConfigError(f"algorithm is {algorithm!r}: {nearest(str(algorithm), models)}")


def switch(settings: Mapping[str, Any], algorithm: str | type[TextParameters]) -> dict[str, Any]:
    """The settings for another algorithm, given by name or settings class.

    Ignores settings that the new algorithm does not have, settings whose default it changes,
    changed defaults of the old algorithm, and its credit rule. The credit rule of a user's file is
    replaced too, by the same algorithm as well.
    """
    before = parameters_class(settings.get("algorithm", DEFAULT_ALGORITHM))
    after = parameters_class(algorithm) if isinstance(algorithm, str) else algorithm
    left_out = before.model_fields.keys() - after.model_fields.keys()
    if after is not before:
        fields = before.model_fields
        left_out |= after.own_defaults()
        left_out |= {k for k in before.own_defaults() if settings.get(k) == fields[k].default}
    if after is not before or settings.get("credit", before.own_rule()) != before.own_rule():
        left_out |= {"credit", "credit_config"}
    kept = {k: v for k, v in settings.items() if k not in left_out}
    return {**kept, "algorithm": after.algorithm}


def in_environment(settings: Mapping[str, Any], env: str) -> dict[str, Any]:
    """The settings for another environment, without arguments and splits of the old environment."""
    if own_file(env):
        env = str(Path(env).absolute())
    return {**settings, "env": env, "env_config": {}, "evaluation_split": None}


def check(parameters: type[TextParameters], values: dict[str, Any]) -> dict[str, Any]:
    """Checks some fields of a settings class; returns them as plain dicts and tuples.

    Raises:
        ValueError: Names each wrong setting, its value and the allowed values.
    """
    return build(parameters, values).model_dump(include=set(values))


def build(parameters: type[P], values: Mapping[str, Any]) -> P:
    """The settings object of values, with defaults for the rest.

    Raises:
        ValueError: Names each wrong setting, its value and the allowed values.
    """
    try:
        return parameters(**values)
    except ValidationError as error:
        raise ValueError("; ".join(explain(parameters, error))) from None


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
        meaning = f" ({' '.join(str(field.description).split())})" if field else ""
        lines.append(f"{name} is {repr(detail['input'])[:80]}: {message}{meaning}")
    return lines


def no_rubric(algorithm: str, why: str) -> str:
    """The error of an algorithm that learns from judgments; empty without a reason ``why``."""
    hint = "add one (docs/environments.md) or train with GRPO or GiGPO"
    return why and f"{algorithm} learns from rubric judgments, and {why}: {hint}"


def _env_errors(
    settings: TextParameters,
    need_data: bool,
    open_env: Callable[[str, Mapping[str, Any]], object] | None,
) -> list[str]:
    """Errors of the environment, its arguments and its splits."""
    env, env_config = settings.env, settings.env_config
    try:
        allowed = arguments(env)
    except ValueError as error:
        return [f"env is {env!r}: {error}"]
    unknown = [
        f"unknown key 'env_config.{key}': {nearest(key, allowed)}"
        for key in env_config
        if key not in allowed
    ]
    if unknown:
        return unknown
    if settings.needs_rubric():
        why = lacks_rubric(env, env_config.get("library"))
        if lack := no_rubric(settings.algorithm, why):
            return [lack]
    given = {"split": "train", **env_config}
    try:
        evaluated = settings.evaluation_split or default_split(env)
        for arguments_of_split in (given, {**given, "split": evaluated}):
            if open_env:
                open_env(env, arguments_of_split)
            else:
                make(env, **arguments_of_split).close()
    except (ValueError, TypeError, OSError, RuntimeError, ImportError) as error:
        if isinstance(error, FileNotFoundError) and not need_data:
            return []
        return [f"the environment {env} with {given}: {error}"]
    return []

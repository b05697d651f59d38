"""`TextAlgorithmConfig`: RLlib's fluent config, with checked settings.

::

    config = (
        TRCAConfig()
        .environment("trca/ALFWorld-v0", env_config={"games": "small"})
        .env_runners(num_env_runners=2)
        .training(lr=4e-4, lambda_=0.8)
        .evaluation(evaluation_interval=10, evaluation_tasks=32)
    )
    algorithm = config.build_algo()

The settings are the fields of `parameters_class`, and ``config.settings`` is an object of it, such
as ``config.settings.lambda_``. Each method checks the values it sets, and `validate` checks all
values, so a plain ``param_space`` of Ray Tune is checked too.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, Final, Generic, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.models.catalog import MODEL_DEFAULTS
from ray.rllib.utils import force_list
from ray.rllib.utils.from_config import NotProvided
from ray.tune.search.sample import Domain

from trca.algorithms.base.recorder import RunRecorder
from trca.algorithms.base.team_policies import set_up_team
from trca.algorithms.settings.parameters import TextParameters, check, parameters_class, switch
from trca.algorithms.settings.policy_config import RLLIB_OWN, PolicyConfig, S
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.algorithms.settings.setting_names import IGNORED, attributes_of
from trca.common.extras import missing_extra
from trca.common.files import FileVersion, versions
from trca.envs.text_space import AnyText
from trca.policies.engines import engine_class
from trca.tune_configs.files import read

P = ParamSpec("P")
C = TypeVar("C", bound="TextAlgorithmConfig[Any]")

_DICT_KEYS = frozenset({"class", "multiagent", "callbacks", "framework", "lambda", "input"})
"""Keys of RLlib's dictionaries that are no attribute of a config."""

_OF_EVALUATION: Final = frozenset(
    {
        *("env_config", "num_cpus_per_env_runner", "num_gpus_per_env_runner"),
        *("custom_resources_per_env_runner", "restart_failed_env_runners"),
        *("ignore_env_runner_failures", "max_num_env_runner_restarts"),
        *("delay_between_env_runner_restarts_s", "env_runner_health_probe_timeout_s"),
        *("env_runner_restore_timeout_s", "validate_env_runners_after_construction"),
    }
)
"""Settings that `evaluation_config` may change."""

ALGORITHM_OF: Final[dict[type, type]] = {}
"""The algorithm of each config class.

Not an attribute of the config class, because the algorithm has the config as an attribute: Ray
follows attributes that are classes when it exports a class, and would not end in a circle.
"""


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


class TextAlgorithmConfig(PolicyConfig[S]):
    """The config that algorithms share; an algorithm sets its `parameters_class`."""

    env_runner_cls: Any
    custom_evaluation_function: Any
    callbacks_class: Any

    def __init__(self, algo_class: type | None = None) -> None:
        from trca.algorithms.base.evaluation import evaluate_algorithm
        from trca.algorithms.rollouts.env_runner import TextEnvRunner

        super().__init__(algo_class=algo_class or _algorithm_of(type(self)))
        self.exploration_config = {}
        self.env_runner_cls = TextEnvRunner
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self.batch_mode = "complete_episodes"
        self.add_default_connectors_to_learner_pipeline = False
        self._dont_auto_sync_env_runner_states = True
        self.delay_between_env_runner_restarts_s = 1.0
        self.custom_evaluation_function = evaluate_algorithm
        self.evaluation_sample_timeout_s = None
        self.run_folder = None
        for name, value in copy.deepcopy(_defaults(self.parameters_class)).items():
            setattr(self, name, value)

    @classmethod
    def from_preset(cls, name_or_path: str | Path) -> Self:
        """Makes a config from a preset: environment, model, hyperparameters and processes.

        ::

            config = TRCAConfig.from_preset("quickstart").training(lambda_=0.5)
            tune.Tuner("TRCA", param_space=config).fit()

        The preset of another algorithm works too; the config takes over the settings that
        `trca.algorithms.settings.parameters.switch` keeps.

        Args:
            name_or_path: A file of `trca.tune_configs`, such as ``quickstart``, or the path of one.

        Raises:
            ValueError: For an unknown preset, and for wrong settings.
        """
        settings = read(name_or_path)
        if parameters_class(settings.get("algorithm", "TRCA")) is not cls.parameters_class:
            settings = switch(settings, cls.parameters_class)
        return cls().update_from_dict({k: v for k, v in settings.items() if k != "algorithm"})

    @classmethod
    def of(cls, settings: TextParameters) -> Self:
        """Makes a config of checked settings."""
        config, values = cls(), settings.model_dump()
        own = {name: values.pop(name) for name in RLLIB_OWN}
        for name, value in values.items():
            setattr(config, name, value)
        AlgorithmConfig.update_from_dict(config, own)
        return config

    def training(self, *args: Any, **settings: Any) -> Self:
        """Sets settings and RLlib's arguments of ``training``.

        `Training` types the arguments of an algorithm for editors.

        Args:
            *args: Refused, as by RLlib.
            **settings: Fields of `parameters_class`, or arguments of `AlgorithmConfig.training`.

        Raises:
            ValueError: For an unknown name (with the nearest name) or a value out of bounds.
        """
        rest = self._take({**settings})
        self.update_from_dict({name: rest.pop(name) for name in RLLIB_OWN & rest.keys()})
        self._refuse_unknown(rest)
        super().training(*args, **rest)
        return self

    def evaluation(self, **settings: Unpack[EvaluationKeywords]) -> Self:  # type: ignore[override]
        """Sets the ``evaluation_*`` hyperparameters and RLlib's arguments of ``evaluation``.

        Raises:
            ValueError: For an unknown name (with the nearest name) or a value out of bounds.
        """
        rest = self._take({**settings})
        self._refuse_unknown(rest)
        super().evaluation(**rest)
        return self

    def reporting(self, **settings: Unpack[ReportingKeywords]) -> Self:  # type: ignore[override]
        """Sets the recording of the run and RLlib's arguments of ``reporting``.

        Args:
            settings: Fields of `RecordingParameters`; arguments of `AlgorithmConfig.reporting`; and
                ``run_folder``: a path or URI to record the run there, or False to record nothing.
                By default a trial of Ray Tune is recorded in its directory, and an algorithm
                outside of Tune is not recorded.

        Raises:
            ValueError: For a value out of bounds, or a setting without effect.
        """
        rest = self._take({**settings})
        self._refuse_ignored(rest)
        if "run_folder" in rest:
            self.run_folder = rest.pop("run_folder")
        super().reporting(**rest)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The settings as a dictionary, each under the name that sets it."""
        settings: dict[str, Any] = super().to_dict()
        if "lambda" in settings:
            settings["lambda_"] = settings.pop("lambda")  # RLlib's old name
        return settings

    def update_from_dict(self, config_dict: dict[str, Any]) -> Self:
        """Sets from a flat dictionary, such as a YAML file or a ``param_space``.

        Raises:
            ValueError: For an unknown name or a value out of bounds.
        """
        settings = {self._translate_special_keys(k, False): v for k, v in config_dict.items()}
        rest = self._take(settings)
        self._refuse_unknown(rest)
        super().update_from_dict(rest)
        return self

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names the wrong setting and the allowed values.
        """
        from trca.algorithms.credit import bind_credit

        self.check_settings()
        if RunRecorder not in (callbacks := force_list(self.callbacks_class)):
            self.callbacks_class = [*callbacks, RunRecorder]
        set_up_team(self)
        settings = self.settings
        rule = bind_credit(settings.credit, settings)
        if settings.critic_kind and "values" not in rule.reads:
            raise ValueError(
                f"credit rule {rule.name!r} does not read values, and"
                f" {self.parameters_class.algorithm} has a critic: give the rule a parameter"
                " values, or set algorithm to GRPO"
            )
        if self.env is None:
            raise ValueError("no environment is set: give env, such as 'trca/ALFWorld-v0'")
        for name in self.env_config.keys() & {"budgets", "lambda_"}:
            raise ValueError(
                f"env_config.{name} has no effect: set {name} of the algorithm, which the"
                " environment's info follows"
            )
        if not self.in_evaluation:
            self._refuse_ignored(vars(self))
            self._check_evaluation_config()
        self._check_combinations()
        if settings.max_staleness:  # RLlib drops a push to a runner that holds an older push
            pushes = max(self.max_requests_in_flight_per_env_runner, settings.max_staleness + 1)
            self.max_requests_in_flight_per_env_runner = pushes
        if settings.lora_rank and (lack := missing_extra("peft", "LoRA", "lora")):
            raise ValueError(f"lora_rank is {settings.lora_rank}: {lack}")
        engine = engine_class(settings.engine)
        if lack := engine.missing():
            raise ValueError(lack)
        if not self.in_evaluation and (reason := engine.untrainable()):
            raise ValueError(f"engine {settings.engine!r} {reason}")
        if settings.lora_rank and not engine.takes_adapters:
            raise ValueError(
                f"lora_rank is {settings.lora_rank}, and engine {settings.engine!r} takes no"
                " adapters: set lora_rank to 0, or another engine"
            )
        if settings.model != "tiny" and not engine.remote:
            model = self.resolved_model()
            files = versions(Path(model))
            _check_model(model, files, settings.max_prompt_tokens, settings.max_new_tokens)
            in_driver = self.num_env_runners == 0 and self.num_learners == 0
            if in_driver and self.num_gpus_per_learner and not self.num_gpus_per_env_runner:
                raise ValueError(
                    f"num_gpus_per_learner is {self.num_gpus_per_learner:g}, and the driver would"
                    " sample on its CPU: set num_gpus_per_env_runner to"
                    f" {self.num_gpus_per_learner:g}, which is the same GPU for num_env_runners 0"
                )
            device = "cuda" if self.num_gpus_per_env_runner else "cpu"
            engine.check(self.engine_spec(model, device))
        elif settings.template == "paper" and not engine.remote:
            warnings.warn(
                "the tiny policy cannot follow the paper's prompt: set template to 'compact', or"
                f" start from {type(self).__name__}.from_preset('quickstart')",
                stacklevel=2,
            )
        if settings.template == "chat" or settings.chat_template_kwargs:
            make_prompter(settings, engine_tokenizer(settings.engine, self.resolved_model()))
        # RLlib still looks into the old stack's dictionary where our model's name is kept.
        attributes = vars(self)
        model, attributes["model"] = attributes["model"], copy.deepcopy(MODEL_DEFAULTS)
        try:
            super().validate()
        finally:
            attributes["model"] = model

    def build_learner_group(
        self,
        *,
        env: Any = None,
        spaces: Any = None,
        rl_module_spec: Any = None,
        placement_group: Any = None,
    ) -> LearnerGroup:
        """Builds the learners; takes the arguments of `AlgorithmConfig.build_learner_group`."""
        from trca.algorithms.learner.group import TextLearnerGroup

        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        return TextLearnerGroup(
            config=self.copy(), module_spec=spec, placement_group=placement_group
        )

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """The spec of the language-model module."""
        from trca.policies.llm_module import LLMModule

        return RLModuleSpec(module_class=LLMModule)

    def get_multi_rl_module_spec(self, **kwargs: Any) -> MultiRLModuleSpec:
        """The specs of all policies, each with the policy's model."""
        spec: MultiRLModuleSpec = super().get_multi_rl_module_spec(**kwargs)
        for name, each in (spec.rl_module_specs or {}).items():
            settings: Any = each.model_config
            each.model_config = {**settings, "model": self.model_of(name)}
        return spec

    def get_default_learner_class(self) -> type:
        """The learner of the clipped action-level objective, with or without a critic."""
        from trca.algorithms.learner.critic import ActorCriticLearner
        from trca.algorithms.learner.learner import TextLearner

        return ActorCriticLearner if self.settings.critic_kind else TextLearner

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "model": self.resolved_model(),
            "dtype": settings.dtype,
            "gradient_checkpointing": settings.gradient_checkpointing,
            "lora_rank": settings.lora_rank,
            "lora_alpha": settings.lora_alpha,
            "reference": settings.kl_coeff > 0 or settings.kl_coeff_format > 0,
            "critic": settings.critic_kind,
            "value_heads": self.value_heads,
        }

    def _take(self, values: dict[str, Any]) -> dict[str, Any]:
        """Checks and sets settings, except RLlib's; returns the values of further names."""
        fields = self.parameters_class.model_fields.keys() - RLLIB_OWN
        chosen = {name: value for name, value in values.items() if name in fields}
        spaces = {name: value for name, value in chosen.items() if _is_space(value)}
        checked = {name: value for name, value in chosen.items() if name not in spaces}
        if checked:
            checked = check(self.parameters_class, checked)
        for name, space in spaces.items():
            checked[name] = space
            if not isinstance(space, Domain):
                each = [check(self.parameters_class, {name: v}) for v in space["grid_search"]]
                checked[name] = {"grid_search": [alternative[name] for alternative in each]}
        for name, value in checked.items():
            setattr(self, name, value)
        return {name: value for name, value in values.items() if name not in chosen}

    def _check_combinations(self) -> None:
        """Checks settings that are valid one by one, and exclude or need each other."""
        settings = self.settings
        for name in ("importance_cap", "token_ratio_band", "action_ratio_band"):
            if getattr(settings, name) is not None and not settings.recompute_logprobs:
                raise ValueError(f"{name} compares with the trainer: set recompute_logprobs: true")
        if settings.max_staleness and not self.in_evaluation and self.num_env_runners == 0:
            raise ValueError(
                f"max_staleness is {settings.max_staleness}, and sampling ahead needs processes:"
                " set num_env_runners to 1 or more"
            )
        for name in ("refill_groups", "task_curriculum"):
            if settings.max_staleness and getattr(settings, name):
                raise ValueError(
                    f"{name} goes by the results of the iteration before, and max_staleness"
                    " samples ahead of these results: set one of the two to 0"
                )
        if settings.replay_size and settings.recompute_logprobs:
            raise ValueError(
                "replay_size compares with the policy that sampled, whose logprobs"
                " recompute_logprobs replaces: turn one of the two off"
            )
        if settings.refill_groups and settings.on_zero_advantage == "keep":
            raise ValueError(
                f"refill_groups is {settings.refill_groups}, and no group is left out: set"
                " on_zero_advantage to drop_groups or drop_rollouts"
            )
        if settings.critic_kind and settings.sharding != "none":
            raise ValueError(
                f"sharding is {settings.sharding!r}, and {type(self).__name__} has a critic, which"
                " learners do not split: set sharding to none"
            )

    def _check_evaluation_config(self) -> None:
        """Refuses changes for evaluations that training runners could not follow."""
        changes: dict[str, Any] = self.evaluation_config or {}
        for name in changes:
            if name not in _OF_EVALUATION:
                raise ValueError(
                    f"evaluation_config.{name} has no effect here: evaluations play as training"
                    " does, besides env_config, evaluation_temperature and the resources of"
                    " evaluation runners"
                )
        split = self.evaluation_env_config.get("split")
        if split is not None:
            self.evaluation_split = split

    def _refuse_unknown(self, values: dict[str, Any]) -> None:
        names = set(vars(self)) | _DICT_KEYS
        names |= {
            n for c in type(self).__mro__ for n, v in vars(c).items() if isinstance(v, property)
        }
        names |= {
            "learner_class",
            "train_batch_size_per_learner",
            "num_aggregator_actors_per_learner",
        }
        for name in values:
            if name not in names and not name.startswith("__"):  # Tune's own bookkeeping
                raise ValueError(self.parameters_class.unknown(name, names))
        self._refuse_ignored(values)

    def _refuse_ignored(self, values: Mapping[str, Any]) -> None:
        """Refuses RLlib's settings without effect here, if they differ from the default.

        Args:
            values: Values by argument of a config method, or by attribute.
        """
        default = vars(_default_config())
        for argument in IGNORED:
            for name in attributes_of(argument):
                stored = next((a for a in attributes_of(argument) if a in default), name)
                if name in values and values[name] != default.get(stored):
                    raise ValueError(self.parameters_class.unknown(argument))


class Training(Generic[P]):
    """The method ``training`` of an algorithm, with the fields of its hyperparameters as arguments.

    ::

        class TRCAConfig(TextAlgorithmConfig[TRCAParameters]):
            training = Training(TRCAParameters)

    sets `parameters_class`, and mypy refuses ``TRCAConfig().training(lamda=0.5)``.
    """

    def __init__(self, parameters: Callable[P, TextParameters]) -> None:
        """Takes the class of the hyperparameters."""
        self._parameters: Any = parameters

    def __set_name__(self, owner: type[TextAlgorithmConfig[Any]], name: str) -> None:
        owner.parameters_class = self._parameters

    def __get__(self, config: C, owner: type[C]) -> Callable[P, C]:
        return partial(TextAlgorithmConfig.training, config)


def _is_space(value: object) -> bool:
    """Whether a value is a search space of Ray Tune."""
    return isinstance(value, Domain) or (isinstance(value, dict) and set(value) == {"grid_search"})


@cache
def _defaults(parameters: type[TextParameters]) -> dict[str, Any]:
    """The defaults of a config, without those of RLlib; Ray Tune has its trackers."""
    return parameters(tracking=[]).model_dump(exclude=set(RLLIB_OWN))


def _algorithm_of(config_class: type[TextAlgorithmConfig[Any]]) -> type | None:
    """The algorithm of a config class, or of its nearest base class."""
    return next((ALGORITHM_OF[c] for c in config_class.__mro__ if c in ALGORITHM_OF), None)


def _refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    """RLlib's config method, which refuses arguments without effect here."""
    signature = inspect.signature(method)

    @wraps(method)
    def refusing(self: TextAlgorithmConfig, *args: Any, **kwargs: Any) -> Any:
        if "run_folder" in vars(self):  # RLlib's constructor calls some of its methods
            self._refuse_ignored(signature.bind_partial(self, *args, **kwargs).arguments)
        return method(self, *args, **kwargs)

    return refusing


def config_methods() -> dict[str, Callable[..., Any]]:
    """RLlib's methods of `AlgorithmConfig` that set arguments, by name."""
    return {
        name: method
        for name, method in vars(AlgorithmConfig).items()
        if inspect.isfunction(method)
        and any(p.default is NotProvided for p in inspect.signature(method).parameters.values())
    }


for _name, _method in config_methods().items():
    # RLlib's env runners call framework() with TensorFlow's arguments.
    if _name != "framework" and _name not in vars(TextAlgorithmConfig):
        setattr(TextAlgorithmConfig, _name, _refusing(_method))


@cache
def _default_config() -> TextAlgorithmConfig:
    return TextAlgorithmConfig()


@cache
def _check_model(
    model: str, files: tuple[FileVersion, ...], prompt_tokens: int, new_tokens: int
) -> None:
    from trca.policies.architectures import check_model

    check_model(model, prompt_tokens, new_tokens)

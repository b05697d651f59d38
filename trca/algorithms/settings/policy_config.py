"""`PolicyConfig`: the settings of a config, how they are set, and the policies that they describe.

Env runners, learners and credit rules read this part of a config.
"""

from __future__ import annotations

import copy
import inspect
import json
import sys
from collections.abc import Callable, Container, Mapping
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, ParamSpec, Self, TypedDict, Unpack, cast
from weakref import WeakKeyDictionary

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils.from_config import NotProvided
from ray.tune.search.sample import Domain
from typing_extensions import TypeVar

from trca.algorithms.settings.parameters import (
    DEFAULT_ALGORITHM,
    TextParameters,
    build,
    check,
    parameters_class,
    switch,
)
from trca.algorithms.settings.setting_names import IGNORED, attributes_of
from trca.common.files import FileVersion, find, versions
from trca.common.names import unknown
from trca.envs.teams.team import Team
from trca.policies.engines import engine_class
from trca.policies.engines.engine import EngineSpec
from trca.tune_configs.files import read
from trca.tune_configs.run_parameters import RecordingParameters, RunParameters

S = TypeVar("S", bound=TextParameters, default=TextParameters, covariant=True)
P = ParamSpec("P")
C = TypeVar("C", bound="PolicyConfig[Any]")

RLLIB_OWN: Final = RunParameters.model_fields.keys() - RecordingParameters.model_fields.keys()
"""Settings of RLlib's methods, which may have values of RLlib, such as None."""
_DICT_KEYS: Final = frozenset(
    {
        *("class", "multiagent", "callbacks", "framework", "lambda", "input", "learner_class"),
        *("train_batch_size_per_learner", "num_aggregator_actors_per_learner"),
    }
)
"""Keys of RLlib's dictionaries that are not an attribute of a config."""
_BUILT: Final[WeakKeyDictionary[AlgorithmConfig, TextParameters]] = WeakKeyDictionary()
"""The settings of configs. Not attributes, which RLlib would write into checkpoints."""


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


class PolicyConfig(AlgorithmConfig, Generic[S]):
    """The settings, the policies of the agents, and the models of the policies.

    RLlib and Ray Tune set, copy and pickle settings as attributes. ``config.settings`` is all of
    them as one checked object. `TextAlgorithmConfig` adds the parts of RLlib.
    """

    parameters_class: ClassVar[type[TextParameters]] = TextParameters
    env: Any
    evaluation_sample_timeout_s: Any
    observation_space: Any
    action_space: Any
    output: Any
    evaluation_config: Any
    run_folder: str | Path | Literal[False] | None

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class)
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
        named = parameters_class(settings.get("algorithm", DEFAULT_ALGORITHM))
        if named is not cls.parameters_class:
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

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; `settings` is built again at its next use."""
        super().__setattr__(name, value)  # type: ignore[no-untyped-call]
        if name in self.parameters_class.model_fields:
            _BUILT.pop(self, None)

    @property
    def settings(self) -> S:
        """All settings, checked. An environment class is ``module:Class`` here.

        Raises:
            ValueError: Names each wrong setting, its value and the allowed values.
        """
        return cast(S, _BUILT.get(self) or self.check_settings())

    def check_settings(self) -> TextParameters:
        """Builds `settings`, also after a change in place, such as in ``env_config``."""
        values = {name: getattr(self, name) for name in self.parameters_class.model_fields}
        if not isinstance(self.env, str | None):
            values["env"] = f"{self.env.__module__}:{self.env.__qualname__}"
        given = {
            name: value
            for name, value in values.items()
            if name not in RLLIB_OWN or value not in (None, "auto")  # RLlib's words for its default
        }
        _BUILT[self] = build(self.parameters_class, given)
        return _BUILT[self]

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the team; empty for one agent."""
        team = self.env_config.get("team")
        return () if team is None else tuple(Team.load(team).roles)

    @property
    def module_ids(self) -> tuple[str, ...]:
        """The ids of the policies, in order."""
        return tuple(sorted(self.policies))

    def module_of(self, agent: str, episode: Any = None) -> str:
        """The id of the policy that acts for an agent, by RLlib's ``policy_mapping_fn``.

        ``episode`` is the second argument of the function: the `GroupRequest` of the agent's group.
        """
        if len(self.policies) == 1:
            return self.module_ids[0]
        chosen: Any = self.policy_mapping_fn
        module = str(chosen(agent, episode))
        if module not in self.policies:
            raise unknown("policy", module, self.module_ids)
        return module

    def learns(self, agent: str, module: str) -> bool:
        """Whether a policy learns from the rollouts of an agent."""
        trained: Any = self.policies_to_train
        if agent in self.settings.frozen_roles:
            return False
        if callable(trained):
            return bool(trained(module, None))
        return trained is None or module in trained

    @property
    def evaluation_env_config(self) -> dict[str, Any]:
        """The changes of ``env_config`` in ``evaluation_config``."""
        changes: dict[str, Any] = self.evaluation_config or {}
        return dict(changes.get("env_config", {}))

    def resolved_model(self) -> str:
        """Folder or name of the model, also at an endpoint; builds the tiny policy on first use."""
        settings = self.settings
        if engine_class(settings.engine).remote:
            return settings.model
        env_config = json.dumps(self.env_config, sort_keys=True, default=str)
        files = versions(find(settings.model))
        return _resolve(settings.model, files, self.env, env_config, settings.response_format)

    def model_of(self, module: str) -> str:
        """Folder or name of a policy's model; a model of several has a subfolder per policy.

        A frozen copy has the model of its policy.
        """
        model = self.resolved_model()
        folder = Path(model, origin_of(module, self.policies))
        return str(folder) if (folder / "config.json").is_file() else model

    def engine_spec(self, model: str, device: str) -> EngineSpec:
        """The arguments that open a policy's engine on ``cpu`` or ``cuda``."""
        settings = self.settings
        return EngineSpec(
            model,
            dtype=settings.dtype,
            device=device,
            max_tokens=settings.max_prompt_tokens + settings.max_new_tokens,
            lora_rank=settings.lora_rank,
            lora_alpha=settings.lora_alpha,
            options=settings.engine_config,
        )

    def _take(self, values: dict[str, Any]) -> dict[str, Any]:
        """Checks and sets settings, except RLlib's; returns the values of further names."""
        fields = self.parameters_class.model_fields.keys() - RLLIB_OWN
        taken = {name: value for name, value in values.items() if name in fields}
        single = {}
        for name, value in taken.items():
            if isinstance(value, dict) and set(value) == {"grid_search"}:
                checked = [check(self.parameters_class, {name: v}) for v in value["grid_search"]]
                taken[name] = {"grid_search": [alternative[name] for alternative in checked]}
            elif not isinstance(value, Domain):
                single[name] = value
        if single:
            taken |= check(self.parameters_class, single)
        for name, value in taken.items():
            setattr(self, name, value)
        return {name: value for name, value in values.items() if name not in taken}

    def _refuse_unknown(self, values: dict[str, Any]) -> None:
        properties = inspect.getmembers(type(self), lambda member: isinstance(member, property))
        names = {*vars(self), *_DICT_KEYS, *dict(properties)}
        for name in values:
            if name not in names and not name.startswith("__"):  # Tune's own bookkeeping
                raise ValueError(self.parameters_class.unknown(name, names))
        self._refuse_ignored(values)

    def _refuse_ignored(self, values: Mapping[str, Any]) -> None:
        """Refuses RLlib's settings without effect here, if they differ from the default."""
        default = _fresh(type(self))
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

    def __set_name__(self, owner: type[PolicyConfig[Any]], name: str) -> None:
        owner.parameters_class = self._parameters
        about = str(sys.modules[self._parameters.__module__].__doc__)
        owner.__doc__ = owner.__doc__ or about.splitlines()[0]

    def __get__(self, config: C, owner: type[C]) -> Callable[P, C]:
        return partial(PolicyConfig.training, config)


@cache
def _defaults(parameters: type[TextParameters]) -> dict[str, Any]:
    """The defaults of a config, without those of RLlib; Ray Tune has its trackers."""
    return parameters(tracking=[]).model_dump(exclude=set(RLLIB_OWN))


def _refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    """RLlib's config method, which refuses arguments without effect here."""
    signature = inspect.signature(method)

    @wraps(method)
    def refusing(self: PolicyConfig, *args: Any, **kwargs: Any) -> Any:
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
    if _name != "framework" and _name not in vars(PolicyConfig):
        setattr(PolicyConfig, _name, _refusing(_method))


@cache
def _fresh(config_class: type[PolicyConfig[Any]]) -> dict[str, Any]:
    """The attributes of a new config."""
    return vars(config_class())


@cache
def _resolve(
    model: str,
    files: tuple[FileVersion, ...],
    env: str | type,
    env_config: str,
    response_format: str,
) -> str:
    from trca.policies.model_names import resolve_model

    arguments = json.loads(env_config)
    return resolve_model(model, env_id=env, env_config=arguments, response_format=response_format)


def copy_of(policy: str, number: int) -> str:
    """The id of a frozen copy of a policy."""
    return f"{policy}_frozen_{number}"


def origin_of(policy: str, policies: Container[str]) -> str:
    """The policy whose frozen copy a policy is; a policy that is no copy itself."""
    origin, _, number = policy.rpartition("_frozen_")
    return origin if number.isdecimal() and origin in policies else policy

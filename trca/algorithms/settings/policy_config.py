"""`PolicyConfig`: the part of a config that env runners, learners and credit rules read."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, cast
from weakref import WeakKeyDictionary

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from typing_extensions import TypeVar

from trca.algorithms.settings.parameters import TextParameters, build
from trca.common.files import FileVersion, find, versions
from trca.common.names import unknown
from trca.envs.teams.team import Team
from trca.policies.engines import engine_class
from trca.policies.engines.engine import EngineSpec
from trca.tune_configs.run_parameters import RecordingParameters, RunParameters

S = TypeVar("S", bound=TextParameters, default=TextParameters, covariant=True)

RLLIB_OWN: Final = RunParameters.model_fields.keys() - RecordingParameters.model_fields.keys()
"""Settings of RLlib's methods, which may have values of RLlib, such as None."""
_BUILT: Final[WeakKeyDictionary[AlgorithmConfig, TextParameters]] = WeakKeyDictionary()
"""The settings of configs. Not attributes, which RLlib would write into checkpoints."""


class PolicyConfig(AlgorithmConfig, Generic[S]):
    """The settings, the policies of the agents, and the models of the policies.

    RLlib and Ray Tune set, copy and pickle settings as attributes. ``config.settings`` is all of
    them as one checked object. `TextAlgorithmConfig` adds how settings are set and checked.

    Attributes:
        parameters_class: Class of the settings.
        value_heads: Number of values of a critic for a token.
        evaluation_sample_timeout_s: RLlib's setting; None, the default, means ``sample_timeout_s``.
        run_folder: Folder that the run is recorded in, a path or URI; ``reporting`` sets it.
    """

    parameters_class: ClassVar[type[TextParameters]] = TextParameters
    value_heads: ClassVar[int] = 1
    env: Any
    evaluation_sample_timeout_s: Any
    observation_space: Any
    action_space: Any
    output: Any
    evaluation_config: Any
    run_folder: str | Path | Literal[False] | None

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

        Args:
            agent: The agent.
            episode: The second argument of the function: the `GroupRequest` of the agent's group.

        Raises:
            ValueError: For a policy that the config does not have.
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
        """Folder or Hugging Face name of the model; builds the embedded policy on first use.

        For an engine of an endpoint: the model's name at the endpoint.
        """
        settings = self.settings
        if engine_class(settings.engine).remote:
            return settings.model
        env_config = json.dumps(self.env_config, sort_keys=True, default=str)
        files = versions(find(settings.model))
        return _resolve(settings.model, files, self.env, env_config, settings.response_format)

    def model_of(self, module: str) -> str:
        """Folder or Hugging Face name of a policy's model.

        The model of several policies is a folder with a subfolder per policy.

        Args:
            module: The policy's id.
        """
        model = self.resolved_model()
        folder = Path(model, module)
        return str(folder) if (folder / "config.json").is_file() else model

    def engine_spec(self, model: str, device: str) -> EngineSpec:
        """The arguments that open a policy's engine.

        Args:
            model: Folder or Hugging Face name of the policy's model.
            device: ``cpu`` or ``cuda``.
        """
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

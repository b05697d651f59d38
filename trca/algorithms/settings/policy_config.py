"""`PolicyConfig`: the part of a config that env runners, learners and credit rules read."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from trca.algorithms.settings.parameters import TextParameters
from trca.common.files import FileVersion, find, versions
from trca.common.names import unknown
from trca.envs.teams.team import Team
from trca.policies.engines import engine_class
from trca.policies.engines.engine import EngineSpec


class PolicyConfig(AlgorithmConfig):
    """The hyperparameters, the policies of the agents, and the models of the policies.

    `TextAlgorithmConfig` adds how settings are set and checked.

    Attributes:
        parameters_class: Model of the hyperparameters; each field is an attribute of the config.
        value_heads: Number of values of a critic for a token.
        evaluation_sample_timeout_s: RLlib's setting; None, the default, means ``sample_timeout_s``.
    """

    parameters_class: ClassVar[type[TextParameters]] = TextParameters
    value_heads: ClassVar[int] = 1
    env: Any
    evaluation_sample_timeout_s: Any
    observation_space: Any
    action_space: Any
    minibatch_size: Any
    optimizer: Any
    output: Any
    evaluation_config: Any

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The hyperparameters are attributes."""

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
        if agent in self.frozen_roles:
            return False
        if callable(trained):
            return bool(trained(module, None))
        return trained is None or module in trained

    def parameters(self) -> dict[str, Any]:
        """The current hyperparameters, by name."""
        return {name: getattr(self, name) for name in self.parameters_class.model_fields}

    @property
    def train_split(self) -> str:
        """The split of the training panel: ``split`` of env_config, else ``train``."""
        return str(self.env_config.get("split", "train"))

    @property
    def evaluation_env_config(self) -> dict[str, Any]:
        """The changes of ``env_config`` in ``evaluation_config``."""
        changes: dict[str, Any] = self.evaluation_config or {}
        return dict(changes.get("env_config", {}))

    def resolved_model(self) -> str:
        """Folder or Hugging Face name of the model; builds the embedded policy on first use.

        For an engine of an endpoint: the model's name at the endpoint.
        """
        if engine_class(self.engine).remote:
            return str(self.model)
        env_config = json.dumps(self.env_config, sort_keys=True, default=str)
        files = versions(find(str(self.model)))
        return _resolve(str(self.model), files, self.env, env_config, self.response_format)

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
        return EngineSpec(
            model,
            dtype=self.dtype,
            device=device,
            max_tokens=self.max_prompt_tokens + self.max_new_tokens,
            lora_rank=self.lora_rank,
            lora_alpha=self.lora_alpha,
            options=self.engine_config,
        )

    @property
    def critic_kind(self) -> str:
        """Network of the critic's values; blank without a critic."""
        return str(vars(self).get("critic", ""))


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

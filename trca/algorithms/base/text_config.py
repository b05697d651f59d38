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
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Final

from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.models.catalog import MODEL_DEFAULTS
from ray.rllib.utils import force_list

from trca.algorithms.base.evaluation import evaluate_algorithm
from trca.algorithms.base.recorder import RunRecorder
from trca.algorithms.base.team_policies import set_up_team
from trca.algorithms.credit import bind_credit
from trca.algorithms.learner.critic import ActorCriticLearner
from trca.algorithms.learner.group import TextLearnerGroup
from trca.algorithms.learner.learner import TextLearner
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.algorithms.settings.policy_config import PolicyConfig, S
from trca.algorithms.settings.prompting import engine_tokenizer, make_prompter
from trca.common.extras import missing_extra
from trca.common.files import FileVersion, versions
from trca.envs.text_space import AnyText
from trca.policies.engines import engine_class
from trca.policies.llm_module import LLMModule

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
follows attributes that are classes when it exports a class, and would loop forever on a circle.
"""


class TextAlgorithmConfig(PolicyConfig[S]):
    """The config that algorithms share; an algorithm sets its `parameters_class`."""

    env_runner_cls: Any
    custom_evaluation_function: Any
    callbacks_class: Any

    def __init__(self, algo_class: type | None = None) -> None:
        algorithms = (ALGORITHM_OF[c] for c in type(self).__mro__ if c in ALGORITHM_OF)
        super().__init__(algo_class=algo_class or next(algorithms, None))
        self.exploration_config = {}
        self.env_runner_cls = TextEnvRunner
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self.batch_mode = "complete_episodes"
        self.add_default_connectors_to_learner_pipeline = False
        self._dont_auto_sync_env_runner_states = True
        self.delay_between_env_runner_restarts_s = 1.0
        self.custom_evaluation_function = evaluate_algorithm

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names the wrong setting and the allowed values.
        """
        settings = self.check_settings()
        if RunRecorder not in (callbacks := force_list(self.callbacks_class)):
            self.callbacks_class = [*callbacks, RunRecorder]
        set_up_team(self)
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
        if conflict := settings.conflict():
            raise ValueError(conflict)
        if settings.max_staleness and not self.in_evaluation and self.num_env_runners == 0:
            raise ValueError(
                f"max_staleness is {settings.max_staleness}, and sampling ahead needs processes:"
                " set num_env_runners to 1 or more"
            )
        if settings.max_staleness:  # RLlib drops a push to a runner that holds an older push
            pushes = max(self.max_requests_in_flight_per_env_runner, settings.max_staleness + 1)
            self.max_requests_in_flight_per_env_runner = pushes
        if settings.agent_program and (lack := missing_extra("fastapi", "agent_program", "serve")):
            raise ValueError(lack)
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
        if settings.template == "chat" or settings.chat_template_kwargs or settings.calls_tools:
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
    ) -> TextLearnerGroup:
        """Builds the learners; takes the arguments of `AlgorithmConfig.build_learner_group`."""
        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        return TextLearnerGroup(
            config=self.copy(), module_spec=spec, placement_group=placement_group
        )

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """The spec of the language-model module."""
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
            "value_heads": settings.value_heads,
        }

    def _check_evaluation_config(self) -> None:
        """Refuses changes for evaluations that training runners could not follow."""
        for name in self.evaluation_config or {}:
            if name not in _OF_EVALUATION:
                raise ValueError(
                    f"evaluation_config.{name} has no effect here: evaluations play as training"
                    " does, besides env_config, evaluation_temperature and the resources of"
                    " evaluation runners"
                )
        if (split := self.evaluation_env_config.get("split")) is not None:
            self.evaluation_split = split


@cache
def _check_model(
    model: str, files: tuple[FileVersion, ...], prompt_tokens: int, new_tokens: int
) -> None:
    from trca.policies.architectures import check_model

    check_model(model, prompt_tokens, new_tokens)

"""Replacements of settings that do not exist or have no effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trca.algorithms.settings.parameters import TextParameters, family
from trca.common.names import nearest, nearest_name

_BATCH: Final = (
    "an iteration plays tasks_per_iteration x group_size rollouts and trains on all their steps,"
    " minibatch_size of them an update"
)
_WHOLE: Final = "rollouts are whole episodes: set env_config.max_steps"
_SIDE_BY_SIDE: Final = (
    "an env runner steps all its rollouts side by side: set tasks_per_iteration and group_size"
)
_DRAWN: Final = "actions are always sampled: set temperature and evaluation_temperature"
_PANEL: Final = "the panel decides: set evaluation_tasks and evaluation_rollouts"
_GROUPS: Final = "an iteration is tasks_per_iteration groups"
_WHOLE_DISTRIBUTION: Final = (
    "training samples from the whole distribution: cutting its tail biases the importance ratio"
)
_CRITIC: Final = (
    "algorithm TurnPPO has a critic: set its critic, critic_lr, value_coeff, value_clip and"
    " gae_lambda"
)

IGNORED: Final = {
    "train_batch_size": _BATCH,
    "train_batch_size_per_learner": _BATCH,
    "shuffle_batch_per_epoch": "mini-batches are shuffled every epoch",
    "grad_clip_by": "the global norm is clipped: set grad_clip",
    "torch_skip_nan_gradients": "updates that are not finite are always skipped, and counted",
    "rollout_fragment_length": _WHOLE,
    "batch_mode": _WHOLE,
    "num_envs_per_env_runner": _SIDE_BY_SIDE,
    "gym_env_vectorize_mode": _SIDE_BY_SIDE,
    "explore": _DRAWN,
    "exploration_config": _DRAWN,
    "observation_filter": "observations are text",
    "clip_rewards": "rewards are normalised by the credit rule",
    "evaluation_duration": _PANEL,
    "evaluation_duration_unit": _PANEL,
    "evaluation_force_reset_envs_before_iteration": "every rollout begins with a reset",
    "min_time_s_per_iteration": _GROUPS,
    "min_train_timesteps_per_iteration": _GROUPS,
    "min_sample_timesteps_per_iteration": _GROUPS,
    "compress_observations": "observations are text",
    "episode_lookback_horizon": "history_length turns of an episode are in the prompt",
    "algorithm_config_overrides_per_module": "policies share their settings: set policy_lr",
    "num_aggregator_actors_per_learner": "the driver makes the rows of all learners",
}
"""Settings of RLlib that this suite does not read -> settings to use instead."""

_ELSEWHERE: Final = {
    "vf_loss_coeff": _CRITIC,
    "vf_clip_param": _CRITIC,
    "use_critic": _CRITIC,
    "use_gae": _CRITIC,
    "top_p": _WHOLE_DISTRIBUTION,
    "top_k": _WHOLE_DISTRIBUTION,
}
_SYNONYMS: Final = {
    "learning_rate": "lr",
    "warmup_steps": "lr_warmup_updates",
    "betas": "adam_betas",
    "max_grad_norm": "grad_clip",
    "lambda": "lambda_",
    "lam": "lambda_",
    "discount": "gamma",
    "beta": "kl_coeff",
    "kl_loss_coef": "kl_coeff",
    "kl_type": "kl_kind",
    "entropy_coef": "entropy_coeff",
    "clip_param": "clip_low and clip_high",
    "clip_ratio": "clip_low and clip_high",
    "clip_ratio_low": "clip_low",
    "clip_ratio_high": "clip_high",
    "num_generations": "group_size",
    "rollout_n": "group_size",
    "batch_size": "tasks_per_iteration or minibatch_size",
    "mini_batch_size": "minibatch_size",
    "ppo_mini_batch_size": "minibatch_size",
    "sgd_minibatch_size": "minibatch_size",
    "num_sgd_iter": "num_epochs",
    "epochs": "num_epochs",
    "max_tokens": "max_new_tokens",
    "max_response_length": "max_new_tokens",
    "max_prompt_length": "max_prompt_tokens",
    "training_iterations": "iterations",
    "training_iteration": "iterations",
    "max_steps": "env_config.max_steps",
    "games": "env_config.games",
    "split": "env_config.split",
    "library": "env_config.library",
    "num_workers": "num_env_runners",
    "num_rollout_workers": "num_env_runners",
    "credit_rule": "credit",
    "read_gold": "gold_in_training",
    "algo": "algorithm",
    "environment": "env",
    "model_name": "model",
    "model_name_or_path": "model",
}


def unknown_setting(name: str, parameters: type[TextParameters], others: Iterable[str]) -> str:
    """The error message for an unknown setting, with the replacement.

    Args:
        name: The unknown name.
        parameters: The algorithm's hyperparameters.
        others: Names of further settings, such as RLlib's.
    """
    plain = name.casefold().replace("-", "_")
    instead = IGNORED.get(plain) or _ELSEWHERE.get(plain)
    if instead:
        return f"{name!r} has no effect here: {instead}"
    names = {*parameters.model_fields, *others}
    meant = _SYNONYMS.get(plain, name)
    owners = sorted(p.algorithm for p in family() if meant in p.model_fields)
    if owners and meant not in names:
        named = " and ".join([", ".join(owners[:-1]), owners[-1]] if owners[1:] else owners)
        return f"{meant!r} belongs to {named}, not to {parameters.algorithm}"
    if plain in _SYNONYMS:
        return f"unknown setting {name!r}: did you mean {meant!r}?"
    near = nearest_name(name, sorted(n for n in names if n[0] != "_"))
    hint = f"did you mean {near!r}?" if near else nearest(name, parameters.model_fields)
    return f"unknown setting {name!r}: {hint}"

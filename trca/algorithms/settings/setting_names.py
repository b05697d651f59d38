"""Replacements of settings that do not exist or have no effect."""

from __future__ import annotations

from typing import Final

_WHOLE_DISTRIBUTION: Final = (
    "training samples from the whole distribution: cutting its tail biases the importance ratio"
)
_CRITIC: Final = (
    "algorithm TurnPPO has a critic: set its critic, critic_lr, value_coeff, value_clip and"
    " gae_lambda"
)

_REFUSED: Final = {
    "an iteration plays tasks_per_iteration x group_size rollouts and trains on all their steps,"
    " minibatch_size of them an update": "train_batch_size train_batch_size_per_learner",
    "rollouts are whole episodes: set env_config.max_steps": "rollout_fragment_length batch_mode",
    "an env runner steps all its rollouts side by side: set tasks_per_iteration and group_size": """
        num_envs_per_env_runner gym_env_vectorize_mode remote_worker_envs remote_env_batch_wait_ms
    """,
    "actions are always sampled: set temperature and evaluation_temperature": """
        explore exploration_config
    """,
    "the panel decides: set evaluation_tasks and evaluation_rollouts": """
        evaluation_duration evaluation_duration_unit
        evaluation_auto_duration_min_env_steps_per_sample
        evaluation_auto_duration_max_env_steps_per_sample
    """,
    "an iteration is tasks_per_iteration groups": """
        min_time_s_per_iteration min_train_timesteps_per_iteration
        min_sample_timesteps_per_iteration
    """,
    "mini-batches are shuffled every epoch": "shuffle_batch_per_epoch",
    "the global norm is clipped: set grad_clip": "grad_clip_by",
    "metrics of every update have the gradient's norm": "log_gradients",
    "updates that are not finite are always skipped, and counted": "torch_skip_nan_gradients",
    "observations and actions are text": """
        observation_space action_space normalize_actions clip_actions is_atari preprocessor_pref
        observation_filter observation_fn use_worker_filter_stats update_worker_filter_stats
        compress_observations episodes_to_numpy _disable_preprocessor_api
        _disable_action_flattening
    """,
    "the prompt lists the admissible actions": "action_mask_key",
    "rewards are normalised by the credit rule": "clip_rewards",
    "every rollout begins with a reset": "evaluation_force_reset_envs_before_iteration",
    "an evaluation without its runners has missing_rollouts": """
        evaluation_error_after_n_consecutive_skips
    """,
    "history_length turns of an episode are in the prompt": "episode_lookback_horizon",
    "policies share their settings: set policy_lr": "algorithm_config_overrides_per_module",
    "the driver makes the rows of all learners": """
        num_aggregator_actors_per_learner max_requests_in_flight_per_aggregator_actor
        max_requests_in_flight_per_learner
    """,
    "the algorithms use RLlib's new API stack": """
        enable_rl_module_and_learner enable_env_runner_and_connector_v2 enable_connectors
        sample_collector fake_sampler sampler_perf_stats_ema_coef policy_map_capacity
        policy_states_are_swappable count_steps_by keep_per_episode_custom_metrics
        metrics_episode_collection_timeout_s _disable_initialize_loss_from_dummy_batch
    """,
    "the algorithms use PyTorch": """
        framework eager_tracing eager_max_retraces tf_session_args local_tf_session_args
        enable_tf1_exec_eagerly _tf_policy_handles_more_than_one_loss
    """,
    "models are not compiled; engine: vllm compiles its own": """
        torch_compile_learner torch_compile_learner_what_to_compile
        torch_compile_learner_dynamo_mode torch_compile_learner_dynamo_backend
        torch_compile_worker torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode
    """,
    "learners add their gradients up without DDP": "torch_ddp_kwargs",
    "bfloat16 needs no scaling of the loss: set dtype": "_torch_grad_scaler_class",
    "set lr_warmup_updates, or optimizer to file.py:NAME": "_torch_lr_scheduler_classes",
    "set num_gpus_per_learner and num_gpus_per_env_runner": "num_gpus _fake_gpus",
    "set the variables before ray.init, or in its runtime_env": """
        extra_python_environs_for_driver extra_python_environs_for_worker
    """,
    "prompts pass the environment's text to the model: set template, or wrap env": """
        env_to_module_connector add_default_connectors_to_env_to_module_pipeline
    """,
    "a response becomes an action by its format: set response_format to file.py:FORMAT": """
        module_to_env_connector add_default_connectors_to_module_to_env_pipeline
    """,
    "a credit rule makes the advantages: set credit to file.py:NAME": """
        learner_connector add_default_connectors_to_learner_pipeline
    """,
    "the driver needs its env runner, which is empty if there are remote ones": """
        create_local_env_runner create_env_on_local_worker
    """,
    "env runners have no state besides the weights": """
        merge_env_runner_states broadcast_env_runner_states use_env_runner_state_server
        env_runner_state_server_max_concurrency
    """,
    "a failed rollout is played again: set on_missing_rollout": "restart_failed_sub_environments",
    "env.render() returns text: see trca play and trca view": "render_env",
    "RLlib does not check text environments: trca play ENV --check does": "disable_env_checking",
    "set model, dtype and lora_rank": "model_config rl_module_spec",
    "the result of an iteration always has perf": "log_sys_usage",
    "trca export writes a model": "export_native_model_files",
    "a checkpoint has all policies": "checkpoint_trainable_policies_only _use_msgpack_checkpoints",
    "an evaluation plays tasks": """
        off_policy_estimation_methods ope_split_batch_by_episode offline_evaluation_interval
        num_offline_eval_runners offline_evaluation_type offline_eval_runner_class
        offline_loss_for_module_fn offline_eval_batch_size_per_runner
        dataset_num_iters_per_offline_eval_runner offline_eval_rl_module_inference_only
        num_cpus_per_offline_eval_runner num_gpus_per_offline_eval_runner
        custom_resources_per_offline_eval_runner offline_evaluation_timeout_s
        max_requests_in_flight_per_offline_eval_runner broadcast_offline_eval_runner_states
        validate_offline_eval_runners_after_construction restart_failed_offline_eval_runners
        ignore_offline_eval_runner_failures max_num_offline_eval_runner_restarts
        offline_eval_runner_health_probe_timeout_s offline_eval_runner_restore_timeout_s
        on_evaluate_offline_start on_evaluate_offline_end on_offline_eval_runners_recreated
    """,
    "algorithms learn from their own rollouts: Imitation reads recorded_rollouts": """
        input_ offline_data_class input_read_method input_read_method_kwargs input_read_schema
        input_read_episodes input_read_sample_batches input_read_batch_size input_filesystem
        input_filesystem_kwargs input_compress_columns materialize_data materialize_mapped_data
        map_batches_kwargs iter_batches_kwargs ignore_final_observation prelearner_class
        prelearner_buffer_class prelearner_buffer_kwargs prelearner_module_synch_period
        prelearner_use_recorded_module_states dataset_num_iters_per_learner input_config
        actions_in_input_normalized postprocess_inputs shuffle_buffer_size offline_sampling
    """,
    "output is a folder or a URI of Parquet files, one an iteration and env runner": """
        output_config output_compress_columns output_max_file_size output_max_rows_per_file
        output_write_remaining_data output_write_method output_write_method_kwargs
        output_filesystem output_filesystem_kwargs output_write_episodes
    """,
}
IGNORED: Final = {name: reason for reason, names in _REFUSED.items() for name in names.split()}
"""Arguments of RLlib's config methods without an effect here, and what to use instead."""

_ATTRIBUTES: Final = {
    "framework": "framework_str",
    "dataset_num_iters_per_offline_eval_runner": "dataset_num_iters_per_eval_runner",
}
"""Arguments of RLlib whose attribute has an unlike name."""

_RESUMED: Final = (
    "a lost learner ends the run, which resumes from its last checkpoint: trca train and sweeps do"
    " so by themselves, Ray Tune with FailureConfig(max_failures=1)"
)
ELSEWHERE: Final = {
    "max_learner_restarts": _RESUMED,
    "vf_loss_coeff": _CRITIC,
    "vf_clip_param": _CRITIC,
    "use_critic": _CRITIC,
    "use_gae": _CRITIC,
    "top_p": _WHOLE_DISTRIBUTION,
    "top_k": _WHOLE_DISTRIBUTION,
}
_SYNONYMS: Final = {
    "lr": "learning_rate",
    "lr_warmup_updates": "warmup_steps",
    "adam_betas": "betas",
    "grad_clip": "max_grad_norm",
    "lambda_": "lambda lam",
    "gamma": "discount",
    "kl_coeff": "beta kl_loss_coef",
    "kl_kind": "kl_type",
    "entropy_coeff": "entropy_coef",
    "clip_low and clip_high": "clip_param clip_ratio",
    "clip_low": "clip_ratio_low",
    "clip_high": "clip_ratio_high",
    "group_size": "num_generations rollout_n",
    "tasks_per_iteration or minibatch_size": "batch_size",
    "minibatch_size": "mini_batch_size ppo_mini_batch_size sgd_minibatch_size",
    "num_epochs": "num_sgd_iter epochs",
    "max_new_tokens": "max_tokens max_response_length",
    "max_prompt_tokens": "max_prompt_length",
    "iterations": "training_iterations training_iteration",
    "env_config.max_steps": "max_steps",
    "env_config.games": "games",
    "env_config.split": "split",
    "env_config.library": "library",
    "num_env_runners": "num_workers num_rollout_workers",
    "credit": "credit_rule",
    "gold_in_training": "read_gold",
    "algorithm": "algo",
    "env": "environment",
    "model": "model_name model_name_or_path",
}
SYNONYMS: Final = {name: own for own, names in _SYNONYMS.items() for name in names.split()}
"""Names of settings in other libraries, and the names here."""


def attributes_of(argument: str) -> tuple[str, ...]:
    """The names under which RLlib may store an argument of a config method."""
    stored = _ATTRIBUTES.get(argument, argument)
    return argument, stored, f"_{stored}", f"callbacks_{stored}"

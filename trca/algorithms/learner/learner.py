"""`TextLearner`: the clipped objective on action tokens, for any number of learners.

A `PolicyUpdater` updates each policy. The learner builds the updaters, calls them in turn, logs
their metrics, and saves and restores what updates change.

Where this differs from RLlib's and the usual loops:

=======================  ===========================================================================
Batches                  Ragged `Rows`, not padded `MultiAgentBatch`es: rows of similar length share
                         a forward pass, and gradients accumulate over passes.
Several learners         Each learner takes its rows of every mini-batch, sometimes no row, and the
                         learners add the gradients up. Row weights come from the driver,
                         so the sum is that of one learner (DDP averages, and hangs without rows).
Sharded learners         With ``sharding: fsdp`` each learner holds a share of the model; see
                         `trca.policies.sharding`.
Logits                   Only at the tokens that enter the objective.
Reference                Scored once an iteration, before the epochs.
Not-finite steps         A loss or gradient norm that is not finite skips the update, and a metric
                         counts the skipped updates (RLlib's ``torch_skip_nan_gradients`` takes such
                         steps).
Empty mini-batches       A mini-batch without a counted token moves no weight and enters no metric.
Mismatch                 Before the first update a learner compares its log-probabilities with the
                         sampler's, and stops when the difference is too large. Replayed rows do not
                         enter the comparison.
Checkpoints              Sharded learners write one checkpoint together, each its shares; see
                         `trca.algorithms.learner.checkpoint`. A checkpoint names the start weights
                         by hash, and the optimizer by class. A restored state takes a new sequence
                         number, so that env runners take its weights.
=======================  ===========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import ray
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import NUM_MODULE_STEPS_TRAINED, NUM_MODULE_STEPS_TRAINED_LIFETIME
from ray.tune.utils.file_transfer import sync_dir_between_nodes
from torch import Tensor

from trca.algorithms.learner.checkpoint import (
    load_shards,
    make_state,
    save_shards,
    shapes_in,
    split_state,
    training_tensors,
)
from trca.algorithms.learner.losses import LossInputs
from trca.algorithms.learner.optimizers import (
    groups_of,
    optimizer_entry,
    refuse_other_optimizer,
)
from trca.algorithms.learner.passes import Reduction
from trca.algorithms.learner.policy_updater import PolicyUpdater
from trca.algorithms.learner.rows import Rows, scored_rows
from trca.algorithms.learner.start_weights import START_WEIGHTS, StartWeights, from_metadata
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.policies.canary import Sent
from trca.policies.lora import share_bases

SHARDS: Final = "shards"
"""Folder of a learner's checkpoint where sharded learners write."""


class TextLearner(TorchLearner):
    """Updates language models on credited steps, one policy after the other.

    Attributes:
        updaters: The updater of each policy, by the policy's id.
    """

    config: PolicyConfig
    updater_class: ClassVar[type[PolicyUpdater]] = PolicyUpdater

    def __init__(self, **kwargs: Any) -> None:
        """Takes the arguments of RLlib's `Learner`."""
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.updaters: dict[str, PolicyUpdater] = {}

    def build(self) -> None:
        """Builds modules and optimizers; every learner starts from the first one's weights."""
        torch.set_num_threads(self.config.settings.torch_threads)
        super().build()
        modules: dict[str, Any] = dict(self.module.items())
        self._started_from = {
            module_id: StartWeights.of(module.model_config["model"], module.frozen)
            for module_id, module in modules.items()
        }
        if self.distributed and not self._sharded:
            for parameter in self._params.values():
                torch.distributed.broadcast(parameter.data, src=0)

    def configure_optimizers_for_module(
        self, module_id: str, config: AlgorithmConfig | None = None
    ) -> None:
        """Makes the updater of a policy and registers its optimizers."""

        def compute_loss(inputs: LossInputs, out: dict[str, Tensor]) -> Tensor:
            return self.compute_loss_for_module(
                module_id=module_id, config=self.config, batch=inputs, fwd_out=out
            )

        module: Any = self.module[module_id]
        reduction = Reduction(self.distributed, self._sharded, self._device)
        updater = self.updater_class(module_id, module, self.config, reduction, compute_loss)
        self.updaters[module_id] = updater
        for name, optimizer in updater.optimizers.items():
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self.register_optimizer(
                module_id=module_id, optimizer_name=name, optimizer=optimizer, params=parameters
            )

    def compute_loss_for_module(  # type: ignore[override]
        self,
        *,
        module_id: str,
        config: AlgorithmConfig,
        batch: LossInputs,
        fwd_out: dict[str, Tensor],
    ) -> Tensor:
        """The objective of a micro-batch, from ``logprobs`` and ``entropy`` of K tokens."""
        return self.updaters[module_id].loss(batch, fwd_out)

    def update(  # type: ignore[override]
        self,
        *,
        training_data: TrainingData,
        timesteps: dict[str, Any] | None = None,
        shuffle_key: Sequence[int] = (),
        iteration: int = 1,
        **kwargs: Any,
    ) -> Any:
        """Trains ``num_epochs`` over this learner's rows, and returns RLlib's reduced metrics.

        Args:
            training_data: Its ``batch`` is this learner's `Rows`, or the `Rows` of each policy by
                its id, in the same order on all learners.
            timesteps: RLlib's counters.
            shuffle_key: Seed of the mini-batches; the same on all learners.
            iteration: Number of the iteration, from 1; sets the learning rate.
            kwargs: Ignored arguments of `LearnerGroup.update`.
        """
        self._check_is_built()
        self.before_gradient_based_update(timesteps=timesteps or {})
        self._weights_seq_no += 1
        batch: Any = training_data.batch
        if not isinstance(batch, dict):
            batch = {self._only_module(): batch}
        for module_id, rows in batch.items():
            metrics = self.updaters[module_id].update(rows, shuffle_key, iteration)
            self.metrics.log_dict(metrics, key=module_id, reduce="mean", window=1)
            steps = len(rows) * self.config.settings.num_epochs
            self.metrics.log_value((module_id, NUM_MODULE_STEPS_TRAINED), steps, reduce="sum")
            lifetime = (module_id, NUM_MODULE_STEPS_TRAINED_LIFETIME)
            self.metrics.log_value(lifetime, steps, reduce="lifetime_sum")
        self.after_gradient_based_update(timesteps=timesteps or {})
        if self.config.settings.engine_config.get("sleep") and torch.cuda.is_available():
            torch.cuda.empty_cache()  # for the engine, which wakes up at the push
        return self.metrics.reduce()

    def copy_policies(self, copies: Mapping[str, str]) -> None:
        """Gives policies the weights of others, by the ids of both."""
        for target, source in copies.items():
            self.module[target].set_state(self.module[source].get_state())

    def score_canary(self, prompt_ids: Any, ids: Any, module_id: str | None = None) -> Sent:
        """Scores the response that an engine sampled after a push; all learners take part."""
        updater = self._updater(module_id)
        logprobs = updater.passes.score(scored_rows([prompt_ids], [ids]))
        return Sent(self._weights_seq_no, updater.module.sent, updater.module.dtype, logprobs)

    def score_rows(
        self, rows: Rows, reference: bool = False, module_id: str | None = None
    ) -> NDArray[Any]:
        """Log-probabilities of response tokens, float32 (sum of R,); 0 outside of the action.

        Without a gradient; all learners take part. Without ``module_id`` the only policy scores.
        """
        return self._updater(module_id).passes.score(rows, reference)

    def _make_modules_ddp_if_necessary(self) -> None:
        """Adds no wrapper: `PolicyUpdater` adds the gradients up."""

    def _map_module_to_device(self, module: Any) -> None:
        """Splits a sharded model before the move, so that no device holds all weights.

        Policies with adapters on one base share the base in memory afterwards.
        """
        if self._sharded:
            (policy,) = module.values()
            policy.shard(torch.device(self.device or "cpu").type)
        super()._map_module_to_device(module)
        share_bases([policy.model for policy in module.values()])

    def start_weights(self) -> dict[str, StartWeights]:
        """The weights that each policy starts from, by its id."""
        return self._started_from

    def get_metadata(self) -> dict[str, Any]:
        """RLlib's metadata of a checkpoint, the start weights, and the optimizer."""
        metadata: dict[str, Any] = super().get_metadata()
        origin = {module_id: asdict(each) for module_id, each in self._started_from.items()}
        return {**metadata, START_WEIGHTS: origin, **self._optimizer}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, the number of updates that the warm-up reads, and the optimizer."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        updates = {module_id: updater.updates for module_id, updater in self.updaters.items()}
        return {**state, "updates": updates, **self._optimizer}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state, also the state of an earlier iteration.

        RLlib ignores weights whose sequence number is not above the present number, here and on the
        env runners. So a learner with a higher number takes the next number for the restored
        weights.
        """
        if COMPONENT_OPTIMIZER in state:
            refuse_other_optimizer(self._optimizer, state, "the state")
        present, self._weights_seq_no = self._weights_seq_no, -1
        super().set_state(state)
        self._weights_seq_no = max(0, self._weights_seq_no)
        if present > 0:
            self._weights_seq_no = max(present, self._weights_seq_no) + 1
        for module_id, number in state.get("updates", {}).items():
            self.updaters[module_id].updates = number

    def save_shards(self, path: str) -> None:
        """Saves this learner's shares to a folder that all learners see; all call this together."""
        folder = Path(path)
        if torch.distributed.get_rank() == 0:
            left_out = [COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER]
            self.save_to_path(folder, state=self.get_state(not_components=left_out))
        save_shards(self._training_tensors(), folder / SHARDS)

    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Restores a checkpoint of weights or of shards; all learners call this together.

        The path may be that of the component ``rl_module`` in the checkpoint of a learner.

        Raises:
            OtherStartError: When frozen weights differ from the start weights in the checkpoint.
            OtherOptimizerError: When the checkpoint is that of another optimizer.
        """
        self._refuse_other_origin(str(path), kwargs.get("component"))
        shards = Path(path) / SHARDS
        if shards.is_dir():
            updater = self._updater(None)
            make_state(updater.trained, updater.optimizers.values(), shapes_in(shards))
            load_shards(self._training_tensors(), shards)
        super().restore_from_path(path, *args, **kwargs)

    def _refuse_other_origin(self, path: str, component: str | None) -> None:
        """Compares start weights and optimizer with the metadata of a checkpoint."""
        metadata = Path(path.removesuffix(f"/{component}")) / self.METADATA_FILE_NAME
        if not metadata.is_file():
            return
        entries = json.loads(metadata.read_text("utf-8"))
        saved = from_metadata(entries)
        for module_id in saved.keys() & self._started_from.keys():
            now, then = self._started_from[module_id], "set model: FOLDER in the config"
            now.refuse_other(saved[module_id], module_id, path, then)
        if not component:
            refuse_other_optimizer(self._optimizer, entries, path)

    def restore_from_node(self, path: str, node: str, **kwargs: Any) -> None:
        """Restores a checkpoint that lies on another node."""
        if node == ray.util.get_node_ip_address() or Path(path).is_dir():
            self.restore_from_path(path, **kwargs)
            return
        with TemporaryDirectory() as folder:
            sync_dir_between_nodes(node, path, ray.util.get_node_ip_address(), folder)
            kwargs.pop("filesystem", None)
            self.restore_from_path(folder, **kwargs)

    def _get_optimizer_state(self) -> dict[str, Any]:
        if self._sharded:
            raise RuntimeError(
                "no sharded learner holds the complete optimizer state: save the state with"
                " algorithm.save_to_path"
            )
        state: dict[str, Any] = super()._get_optimizer_state()
        return state

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        if not self._sharded:
            before = groups_of(self._named_optimizers)
            super()._set_optimizer_state(state)
            for group, of_config in zip(groups_of(self._named_optimizers), before, strict=True):
                # The state brings the settings of the saved run.
                group |= {k: v for k, v in of_config.items() if k != "params"}
            return
        for name, entry in state.items():
            split_state(self._named_optimizers[name], entry["state"]["state"])

    def _training_tensors(self) -> dict[str, Tensor]:
        """Weights and optimizer state of the only policy, which sharded learners have."""
        updater = self._updater(None)
        return training_tensors(updater.trained, updater.optimizers.values())

    def _updater(self, module_id: str | None) -> PolicyUpdater:
        return self.updaters[module_id or self._only_module()]

    def _only_module(self) -> str:
        if len(self.updaters) > 1:
            raise ValueError(f"there are several policies: name one of {', '.join(self.updaters)}")
        return next(iter(self.updaters))

    @property
    def _optimizer(self) -> dict[str, Any]:
        return optimizer_entry(self.config.settings.optimizer, self._named_optimizers)

    @property
    def _sharded(self) -> bool:
        return bool(self.config.settings.sharding == "fsdp" and self.distributed)

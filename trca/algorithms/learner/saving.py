"""`SavingLearner`: RLlib's learner with checkpoints of several policies.

Where this differs from RLlib's learner:

=======================  ===========================================================================
Sharded learners         All learners write one checkpoint together, each its shares; see
                         `trca.algorithms.learner.checkpoint`.
Start weights            A checkpoint names the start weights by hash, and the optimizer by class.
Sequence numbers         A restored state takes a new number, so that env runners take its weights.
=======================  ===========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import ray
import torch
from ray.rllib.core import COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.tune.utils.file_transfer import sync_dir_between_nodes
from torch import Tensor

from trca.algorithms.learner.checkpoint import (
    Shapes,
    load_shards,
    make_state,
    save_shards,
    shapes_in,
    split_state,
    training_tensors,
)
from trca.algorithms.learner.optimizers import SavedOptimizer, groups_of
from trca.algorithms.learner.policy_updater import PolicyUpdater
from trca.algorithms.learner.start_weights import StartWeights, as_metadata, from_metadata
from trca.algorithms.settings.policy_config import PolicyConfig

SHARDS: Final = "shards"
"""Folder of a learner's checkpoint where sharded learners write."""


class SavingLearner(TorchLearner):
    """Saves and restores what updates change.

    Attributes:
        updaters: The updater of each policy, by the policy's id.
    """

    config: PolicyConfig

    def __init__(self, **kwargs: Any) -> None:
        """Takes the arguments of RLlib's `Learner`."""
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.updaters: dict[str, PolicyUpdater] = {}

    def build(self) -> None:
        """Builds modules and optimizers, and hashes the start weights."""
        super().build()
        modules: dict[str, Any] = dict(self.module.items())
        self._started_from = {
            module_id: StartWeights.of(module.model_config["model"], module.frozen)
            for module_id, module in modules.items()
        }

    def start_weights(self) -> dict[str, StartWeights]:
        """The weights that each policy starts from, by its id."""
        return self._started_from

    def get_metadata(self) -> dict[str, Any]:
        """RLlib's metadata of a checkpoint, the start weights, and the optimizer."""
        metadata: dict[str, Any] = super().get_metadata()
        return metadata | as_metadata(self._started_from) | self._optimizer.entry()

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, the number of updates that the warm-up reads, and the optimizer."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        updates = {module_id: updater.updates for module_id, updater in self.updaters.items()}
        return {**state, "updates": updates, **self._optimizer.entry()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state, also the state of an earlier iteration.

        RLlib ignores weights whose sequence number is not above the present number, here and on
        the env runners. So a learner with a higher number takes the next number for the restored
        weights.

        Raises:
            OtherOptimizerError: When the state is that of another optimizer.
        """
        if COMPONENT_OPTIMIZER in state:
            self._optimizer.refuse_other(state, "the state")
        present, self._weights_seq_no = self._weights_seq_no, -1
        super().set_state(state)
        self._weights_seq_no = max(0, self._weights_seq_no)
        if present > 0:
            self._weights_seq_no = max(present, self._weights_seq_no) + 1
        for module_id, number in state.get("updates", {}).items():
            self.updaters[module_id].updates = number

    def save_shards(self, path: str) -> None:
        """Saves this learner's shares; all learners call this together.

        Args:
            path: A folder that all learners see.
        """
        folder = Path(path)
        if torch.distributed.get_rank() == 0:
            left_out = [COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER]
            self.save_to_path(folder, state=self.get_state(not_components=left_out))
        save_shards(self._training_tensors(), folder / SHARDS)

    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Restores a checkpoint of weights or of shards; all learners call this together.

        Args:
            path: The checkpoint of a learner, or the component ``rl_module`` in it.
            args: More arguments of RLlib's method.
            kwargs: More arguments of RLlib's method.

        Raises:
            OtherStartError: When a policy has frozen weights that differ from the start weights
                in the checkpoint.
            OtherOptimizerError: When the checkpoint is that of another optimizer.
        """
        self._refuse_other_origin(str(path), kwargs.get("component"))
        shards = Path(path) / SHARDS
        if shards.is_dir():
            self._make_state(shapes_in(shards))
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
            self._optimizer.refuse_other(entries, path)

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
        """Weights and optimizer state of all policies; with several, ``MODULE/NAME``."""
        return {
            prefix + name: tensor
            for prefix, updater in self._prefixes()
            for name, tensor in training_tensors(
                updater.trained, updater.optimizers.values()
            ).items()
        }

    def _make_state(self, shapes: Shapes) -> None:
        """Gives the optimizers the state that `_training_tensors` of these shapes come from."""
        for prefix, updater in self._prefixes():
            names = {
                name.removeprefix(prefix): shape
                for name, shape in shapes.items()
                if name.startswith(prefix)
            }
            make_state(updater.trained, updater.optimizers.values(), names)

    def _prefixes(self) -> Iterator[tuple[str, PolicyUpdater]]:
        """The updaters by id, each with the prefix of its tensors; blank for the only policy."""
        for module_id, updater in sorted(self.updaters.items()):
            yield f"{module_id}/" if len(self.updaters) > 1 else "", updater

    def _updater(self, module_id: str | None) -> PolicyUpdater:
        return self.updaters[module_id or self._only_module()]

    def _only_module(self) -> str:
        """The id of the only policy.

        Raises:
            ValueError: When there are several policies.
        """
        if len(self.updaters) > 1:
            raise ValueError(f"there are several policies: name one of {', '.join(self.updaters)}")
        return next(iter(self.updaters))

    @property
    def _optimizer(self) -> SavedOptimizer:
        return SavedOptimizer.of(self.config.optimizer, self._named_optimizers)

    @property
    def _sharded(self) -> bool:
        return bool(self.config.sharding == "fsdp" and self.distributed)

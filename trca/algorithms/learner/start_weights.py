"""Start weights: their hash in a checkpoint, and the refusal of a changed start model.

A checkpoint holds the trained weights. Frozen weights come from the start model: the reference of
the KL term, or the model below a LoRA adapter. So a checkpoint names the start model of each policy
by the hash of its weight files, in ``learner_group/learner/metadata.json``::

    "start_weights": {
      "default_policy": {
        "model": "Qwen/Qwen2.5-1.5B-Instruct", "sha256": "4f...", "revision": "98...",
        "frozen": "reference"
      }
    }

The hash decides, not the name: a folder may move. Full fine-tuning without a KL term has no frozen
weights, and accepts any start model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pyarrow.fs import FileSystem, LocalFileSystem
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_LEARNER_GROUP
from ray.rllib.utils.checkpoints import Checkpointable

from trca.policies.weight_files import weights_folder, weights_hash

Frozen = Literal["", "reference", "base"]

START_WEIGHTS: Final = "start_weights"
"""The entry of a checkpoint's metadata with the start weights by policy."""
_FROZEN: Final = {
    "reference": "The reference of the KL term",
    "base": "The model below the LoRA adapter",
}


class OtherStartError(ValueError):
    """The weights of the start model are not the weights that a checkpoint names."""


@dataclass(frozen=True)
class StartWeights:
    """The weights that a policy starts from."""

    model: str  # folder or Hugging Face name
    sha256: str  # hash of the weight files; empty without a known weight file
    revision: str  # the hub's commit of a Hugging Face name; empty for a folder
    # the frozen use of the weights: reference of the KL term, base of an adapter, or empty for
    # none
    frozen: Frozen

    @classmethod
    def of(cls, model: str, frozen: Frozen) -> StartWeights:
        """Hashes the weights of a model; for the cost see `weights_hash`."""
        folder = weights_folder(model)
        revision = folder.name if folder.parent.name == "snapshots" else ""
        return cls(model, weights_hash(model), revision, frozen)

    def refuse_other(self, saved: StartWeights, policy: str, place: object, then: str) -> None:
        """Compares these weights with the start weights that a checkpoint names for a policy.

        ``place`` is the checkpoint, and ``then`` the use of another folder, for the message.

        Raises:
            OtherStartError: When this policy has frozen weights that differ from the saved weights.
        """
        if not self.frozen or self.sha256 == saved.sha256:
            return
        fix = f"put the original weights back into {saved.model}"
        if saved.revision:
            fix = f"hf download {saved.model} --revision {saved.revision} --local-dir FOLDER"
        raise OtherStartError(
            f"{place}: the run of {policy} started from {saved.model} with weights of SHA-256"
            f" {saved.sha256[:12]}, and {self.model} now has weights of SHA-256"
            f" {self.sha256[:12] or 'none'}. {_FROZEN[self.frozen]} would be another model."
            f" Fix: {fix}. If the original weights are in another FOLDER: {then}"
        )


def from_metadata(metadata: Mapping[str, Any]) -> dict[str, StartWeights]:
    """The start weights in the metadata of a learner's checkpoint, by policy.

    A model without a known weight file has none, and so has a checkpoint of another package.
    """
    saved = {
        policy: StartWeights(**each) for policy, each in metadata.get(START_WEIGHTS, {}).items()
    }
    return {policy: each for policy, each in saved.items() if each.sha256}


def read_start_weights(
    checkpoint: str | Path, filesystem: FileSystem | None = None
) -> dict[str, StartWeights]:
    """The start weights that a checkpoint of an algorithm names, by policy.

    Args:
        checkpoint: Its folder; a path, or a URI without ``filesystem``.
        filesystem: Arrow's file system that holds the path.

    Returns:
        Empty for a folder that is not a checkpoint and for models without a known weight file.
    """
    place = str(checkpoint)
    if filesystem is None:
        if "://" in place:
            filesystem, place = FileSystem.from_uri(place)
        else:
            filesystem = LocalFileSystem()
    learner = Path(place, COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER)
    try:
        with filesystem.open_input_stream(
            (learner / Checkpointable.METADATA_FILE_NAME).as_posix()
        ) as file:
            return from_metadata(json.loads(file.read()))
    except FileNotFoundError:
        return {}

"""The name of the optimizer in a checkpoint, and the refusal of another optimizer.

The state of one optimizer means nothing to another. So a checkpoint names its optimizer, in
``learner_group/learner/metadata.json``::

    "optimizer_classes": {
      "setting": "muon",
      "classes": {"default_policy_muon": "Muon", "default_policy_adamw": "AdamW"}
    }

The classes decide, not the setting: a file of a user may move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from torch.optim import Optimizer

_KEY: Final = "optimizer_classes"


class OtherOptimizerError(ValueError):
    """The optimizer of a checkpoint is not the configured optimizer."""


@dataclass(frozen=True)
class SavedOptimizer:
    """The optimizer of a learner.

    Attributes:
        setting: The setting ``optimizer``.
        classes: Names of the optimizers' classes, by RLlib's names of the optimizers.
    """

    setting: str
    classes: dict[str, str]

    @classmethod
    def of(cls, setting: str, optimizers: Mapping[str, Optimizer]) -> SavedOptimizer:
        """Names the optimizers of a learner."""
        return cls(setting, {name: type(each).__qualname__ for name, each in optimizers.items()})

    def refuse_other(self, entries: Mapping[str, Any], place: str) -> None:
        """Compares the configured optimizer with the optimizer of a checkpoint or a state.

        Args:
            entries: Metadata of the checkpoint, or the state.
            place: The checkpoint or the state, for the message.

        Raises:
            OtherOptimizerError: When the classes differ, or no optimizer is named.
        """
        if _KEY not in entries:
            raise OtherOptimizerError(f"{place} names no optimizer: no learner of trca wrote it")
        saved = SavedOptimizer(**entries[_KEY])
        if self.classes == saved.classes:
            return
        ours, theirs = (", ".join(each.classes.values()) for each in (self, saved))
        raise OtherOptimizerError(
            f"{place} has the state of optimizer {saved.setting!r} ({theirs}), and the config has"
            f" optimizer {self.setting!r} ({ours}): set optimizer: {saved.setting}, or start a new"
            " run from the weights alone, with model: FOLDER after trca export RUN --to FOLDER"
        )


def as_entry(optimizer: SavedOptimizer) -> dict[str, Any]:
    """The optimizer, as an entry of a checkpoint's metadata or state."""
    return {_KEY: asdict(optimizer)}

"""Policies by name: a run's best or last checkpoint, a model folder, or a hub name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from trca.cli.console import noise_to
from trca.cli.run_folder import DEFAULT_ROOT, RunFolder
from trca.common.names import nearest
from trca.tune_configs.files import ConfigError, assign, read
from trca.tune_configs.settings import RunSettings

if TYPE_CHECKING:
    from trca.algorithms.text_config import TextAlgorithmConfig

Which = Literal["best", "last"]


@dataclass(frozen=True)
class Policy:
    """A policy to evaluate.

    Attributes:
        name: What it is called.
        label: The same, fit for a file name.
        settings: World, prompt and sampling.
        model: Model folder or hub name.
        folder: Where reports about it go.
    """

    name: str
    label: str
    settings: RunSettings
    model: str
    folder: Path

    def algorithm_config(self) -> TextAlgorithmConfig:
        """The config that plays this policy."""
        return self.settings.algorithm_config().training(model=self.model)


def find_checkpoint(name: str) -> tuple[RunFolder, Which]:
    """The run and the checkpoint that ``RUN``, ``RUN@best`` or ``RUN@last`` means.

    Raises:
        ConfigError: When there is no such run, or nothing else is known after the ``@``.
    """
    run, at, which = name.rpartition("@")
    if not at:
        run, which = name, "best"
    if which not in ("best", "last"):
        raise ConfigError(f"{name!r}: {nearest(which, ('best', 'last'))}")
    return RunFolder.open(run, DEFAULT_ROOT), cast("Which", which)


def export_checkpoint(run: RunFolder, which: Which, to: Path) -> None:
    """Writes a checkpoint's policy as a Hugging Face folder.

    Raises:
        ConfigError: When the run has no checkpoint yet.
    """
    with noise_to(run.path / "logs" / "export.log"):
        from trca.algorithms import export

        export(run.checkpoint(which), to)


def policy(name: str, config: str, given: Mapping[str, Any]) -> Policy:
    """The policy of a name.

    A run brings its own settings; for anything else they come from a config.

    Args:
        name: ``RUN``, ``RUN@best``, ``RUN@last``, a model folder, ``tiny``, or a hub name.
        config: Config of a model without a run.
        given: Settings on top.

    Raises:
        ConfigError: When the name means nothing here, or the settings are wrong.
    """
    if name == "tiny" or _is_model(Path(name).expanduser()) or _is_hub_name(name):
        settings = RunSettings.resolve(assign(read(config), given), Path(config).stem)
        model = str(Path(name).expanduser()) if Path(name).expanduser().exists() else name
        return Policy(name, Path(name).name, settings, model, DEFAULT_ROOT)
    run, which = find_checkpoint(name)
    settings = RunSettings.resolve(assign(run.read_config(), given), f"{run.name}/config.yaml")
    checkpoint = run.checkpoint(which)
    exported = checkpoint / "model"
    if not _is_model(exported):
        draft = checkpoint / ".model.part"
        shutil.rmtree(draft, ignore_errors=True)
        export_checkpoint(run, which, draft)
        draft.rename(exported)
    label = f"{which}_{checkpoint.name}"
    return Policy(
        f"{run.path}@{which} ({checkpoint.name})", label, settings, str(exported), run.path
    )


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file()


def _is_hub_name(name: str) -> bool:
    """Whether a name looks like ``owner/model`` and is nothing on this disk."""
    owner, slash, model = name.partition("/")
    plain = slash and owner and model and "/" not in model and "@" not in name
    return bool(plain) and not Path(name).exists() and not (DEFAULT_ROOT / name).exists()

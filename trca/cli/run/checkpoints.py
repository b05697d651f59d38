"""Policies by name: a run's best or last checkpoint, a model folder, or a hub name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trca.algorithms.settings.parameters import TextParameters
from trca.cli.show.console import noise_to, tracing_to
from trca.common.cache import build_once, cache_folder, digest
from trca.common.names import nearest
from trca.policies.model_names import is_gguf, is_packaged
from trca.policies.weight_files import is_adapter
from trca.runs.folder import DEFAULT_ROOT, RunFolder, Which, run_name
from trca.runs.selection import Selection
from trca.tune_configs.files import ConfigError, assign, read

if TYPE_CHECKING:
    from trca.algorithms.base.text_config import TextAlgorithmConfig
    from trca.envs.panel import CanonicalPanel


@dataclass(frozen=True)
class Policy:
    """A policy to evaluate.

    Attributes:
        label: The name as part of a file name.
        settings: Environment, prompt and sampling parameters.
        model: Model folder or hub name.
        folder: The folder of reports: the run's folder, or `DEFAULT_ROOT` for shared storage.
        selection: The choice of the run's checkpoint; `None` for a policy without a run.
        checkpoint: The run's checkpoint; `None` for a policy without a run.
    """

    name: str
    label: str
    settings: TextParameters
    model: str
    folder: Path
    selection: Selection | None = None
    checkpoint: Path | None = None

    def on(self, panel: CanonicalPanel, given: Mapping[str, Any]) -> Policy:
        """The policy on the data of a canonical panel, with further settings.

        Raises a `ConfigError` for a panel of another environment.
        """
        if self.settings.env != panel.environment:
            raise ConfigError(
                f"panel {panel.name} is of {panel.environment} and {self.name} plays"
                f" {self.settings.env}: choose a panel of its environment"
            )
        data = {f"env_config.{key}": value for key, value in panel.env_config.items()}
        changed = {**data, **given, "evaluation_split": panel.split}
        settings = TextParameters.resolve(assign(self.settings.flat(), changed), panel.name)
        return replace(self, settings=settings)

    def algorithm_config(self) -> TextAlgorithmConfig:
        """The config that plays this policy."""
        config: TextAlgorithmConfig = self.settings.algorithm_config()
        return config.training(model=self.model)


def find_checkpoint(name: str) -> tuple[RunFolder, Which]:
    """The run and the checkpoint of ``RUN``, ``RUN@best`` or ``RUN@last``; ``RUN`` is ``RUN@last``.

    Raises a `ConfigError` for an unknown run, or an unknown word after the ``@``.
    """
    run, at, which = name.rpartition("@")
    if not at or "/" in which:  # a folder may have an @ in its name
        run, which = name, "last"
    if which not in ("best", "last"):
        raise ConfigError(f"{name!r}: {nearest(which, ('best', 'last'))}")
    folder = RunFolder.open_run(run, DEFAULT_ROOT)
    return folder, cast("Which", which)


def export_checkpoint(run: RunFolder, which: Which, to: Path) -> None:
    """Writes a checkpoint's policy as a Hugging Face folder.

    The log is in the folder of the run; in `DEFAULT_ROOT` if the run is read-only.

    Raises:
        ConfigError: If the run has no checkpoint yet.
        ValueError: If the model below an adapter has changed since the run started.
    """
    place = run.path if os.access(run.path, os.W_OK) else DEFAULT_ROOT
    log = place / "logs" / "export.log"
    with noise_to(log), tracing_to(log):
        from trca.algorithms import export

        export(run.checkpoint(which), to)


def policy(name: str, config: str | None, given: Mapping[str, Any]) -> Policy:
    """The policy of a run (``RUN``, ``RUN@best``, ``RUN@last``) or of a model.

    A run has its settings; the settings of any other model come from a config, by default
    ``quickstart``. ``given`` are further settings. The first call exports the model into the
    checkpoint, or into the cache if the checkpoint is read-only.

    Raises a `ConfigError` for an unknown name, or wrong settings.
    """
    path = Path(name).expanduser()
    if is_model_name(name):
        config = config or "quickstart"
        settings = TextParameters.resolve(assign(read(config), given), run_name(config))
        model = str(path.resolve()) if path.exists() else name
        return Policy(name, _label(name), settings, model, DEFAULT_ROOT)
    run, which = find_checkpoint(name)
    if config is not None:
        raise ConfigError(
            f"--config {config} with a run: {run.path} brings its own settings; change one with"
            " --set"
        )
    settings = TextParameters.resolve(assign(run.read_config(), given), f"{run.name}/config.yaml")
    checkpoint, selection = run.checkpoint(which), Selection.of(run, which)
    exported = checkpoint / "model"
    if not (_is_model(exported) or os.access(checkpoint, os.W_OK)):
        key = digest(str(checkpoint), checkpoint.stat().st_mtime_ns)
        exported = cache_folder() / "exports" / key
    build_once(exported, lambda folder: export_checkpoint(run, which, folder), _is_model)
    return Policy(
        f"{run.address}@{which} ({checkpoint.name})",
        f"{which}_{checkpoint.name}",
        settings,
        str(exported),
        DEFAULT_ROOT if run.storage else run.path,
        selection=selection,
        checkpoint=checkpoint,
    )


def endpoint_policy(model: str, url: str, config: str | None, given: Mapping[str, Any]) -> Policy:
    """A model at an OpenAI-compatible endpoint; see `policy` for config and settings.

    Raises a `ConfigError` for wrong settings, a `ValueError` for a URL that no endpoint can have.
    """
    from trca.common.chat_endpoint import check_url

    check_url(url)
    config = config or "quickstart"
    engine = {"engine": "openai", "engine_config": {"base_url": url}, "model": model}
    here = {"num_gpus_per_env_runner": 0}
    settings = TextParameters.resolve(
        assign(read(config), {**engine, **here, **given}), run_name(config)
    )
    return Policy(f"{model} at {url}", _label(model), settings, model, DEFAULT_ROOT)


def is_model_name(name: str) -> bool:
    """Whether a name means a model without a run: a name of `resolve_model`."""
    if is_packaged(name) or is_gguf(name) or _is_model(Path(name).expanduser()):
        return True
    owner, _, model = name.partition("/")
    hub_name = re.fullmatch(r"[\w-][\w.-]*", owner) and re.fullmatch(r"[\w-][\w.-]*", model)
    # `outputs/typo` is a missing run, even without any run.
    here = owner == DEFAULT_ROOT.name or Path(owner).exists() or (DEFAULT_ROOT / owner).exists()
    return bool(hub_name) and not here


def _label(name: str) -> str:
    """A model's name for a file name: ``owner--model``, or the name of a folder."""
    path = Path(name).expanduser()
    return path.resolve().name if path.exists() else re.sub(r"[^\w.@+-]", "--", name)


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file() or is_adapter(path)

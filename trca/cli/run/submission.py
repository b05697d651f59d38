"""Jobs for clusters: a folder with everything that a run needs, and the file of a scheduler.

job/
    config.yaml, files/   the settings and the user's files
    trca/                 this package, from a checkout or a wheel
    requirements.txt      the packages that the run needs
    run.sh                sets the environment variables and starts the run
    job.sbatch, rayjob.yaml or sky.yaml

The last two lines come from the Jinja templates in the folder ``templates``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
import yaml
from packaging.requirements import Requirement

import trca
from trca.cli.show.console import ONE_THREAD
from trca.runs.folder import RunFolder
from trca.runs.provenance import COMMIT_VARIABLE, git_commit

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters
    from trca.algorithms.settings.sweeps import SweepSettings

_DRIVER_CPUS: Final = 1
_LONGEST_LABEL: Final = 47
_HASH: Final = 6
_OBJECT_STORE: Final = 0.3
"""Ray's default share of a node's memory for its object store."""


@dataclass(frozen=True)
class Cluster:
    """The machines of a job.

    Attributes:
        nodes: Their number.
        cpus: CPUs of each.
        gpus: GPUs of each.
        memory: Gigabytes of each.
        image: Container image with the requirements, for Kubernetes.
        accelerator: Kind of GPU, for SkyPilot.
        hours: The time limit.
    """

    nodes: int
    cpus: int
    gpus: int
    memory: int
    image: str
    accelerator: str
    hours: int

    @classmethod
    def of(cls, settings: TextParameters, nodes: int, trials: int = 1, **given: Any) -> Cluster:
        """The machines that runs ask for, spread evenly.

        Args:
            settings: The settings of a run.
            nodes: Number of machines.
            trials: Number of parallel runs.
            given: Other attributes; `None` for the amount that the runs ask for.
        """
        cpus, gpus = settings.resources()
        least = {
            "cpus": math.ceil(trials * (cpus + _DRIVER_CPUS) / nodes),
            "gpus": math.ceil(trials * gpus / nodes),
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        return cls(nodes=nodes, **{**least, **chosen})

    def lacks(self, settings: TextParameters) -> str:
        """CPUs or GPUs that the run asks for and the machines lack; empty if they have all."""
        cpus, gpus = settings.resources()
        for what, asked, there in (
            ("CPUs", cpus + _DRIVER_CPUS, self.nodes * self.cpus),
            ("GPUs", gpus, self.nodes * self.gpus),
        ):
            if asked > there:
                return f"the run asks for {asked:g} {what} and {self.nodes} nodes have {there}"
        return ""


def pack(
    settings: TextParameters,
    folder: Path,
    name: str,
    storage: str,
    sweep: SweepSettings | None = None,
) -> list[str]:
    """Writes the job's folder; returns the command that starts the run in it.

    Args:
        settings: The run's settings.
        folder: The folder to write; must not exist.
        name: The run's name; a job that starts again continues the run of this name.
        storage: Where the run is kept, as the machines of the job see it.
        sweep: The sweep that the job runs in place of the run.
    """
    folder.mkdir(parents=True)
    RunFolder(folder).write_settings(sweep.with_base().model_dump() if sweep else settings.flat())
    package = Path(trca.__file__).parent
    shutil.copytree(package, folder / "trca", ignore=shutil.ignore_patterns("__pycache__"))
    needed = requirements(requires("trca") or (), _extras(settings, sweep))
    (folder / "requirements.txt").write_text("\n".join(needed) + "\n", "utf-8")
    command = [
        *("python", "-m", "trca", "sweep" if sweep else "train", "config.yaml"),
        *("--name", name, "--storage-path", storage, "--auto-resume"),
    ]
    _write(folder / "run.sh", environment=environment(), command=map(shlex.quote, command))
    return command


def _extras(settings: TextParameters, sweep: SweepSettings | None) -> list[str]:
    """The extras of this package that a run needs."""
    from trca.policies.engines import engine_class

    return [
        "train",
        *filter(None, [engine_class(settings.engine).extra]),
        *["lora"] * (settings.lora_rank > 0),
        *["optuna"] * (sweep is not None and sweep.search is not None),
    ]


def data_commands(runs: Iterable[TextParameters]) -> list[str]:
    """The commands that fetch the data that runs need and a new machine lacks."""
    from trca.envs.alfworld.env import ENV_ID
    from trca.envs.registration import canonical
    from trca.policies.smollm2 import SMOLLM2

    commands = set()
    for settings in runs:
        if canonical(settings.env) == ENV_ID and (settings.env_config.get("games") == "official"):
            commands.add("python -m trca data alfworld")
        if settings.model == SMOLLM2:
            commands.add("python -m trca data smollm2")
    return sorted(commands)


def requirements(declared: Iterable[str], extras: Iterable[str]) -> list[str]:
    """The lines of ``requirements.txt``: the base and some extras, without this package itself.

    Args:
        declared: The requirements in the metadata of this package.
        extras: Names of the extras.
    """
    lines = []
    for each in map(Requirement, declared):
        marker, each.marker = each.marker, None
        wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        if wanted and each.name != "trca":
            lines.append(str(each))
    return lines


def environment() -> dict[str, str]:
    """The environment variables of a run: threads, and the commit of this package."""
    about = git_commit(Path(trca.__file__).parent)
    commit = about.get("commit", "") + ("+modified" if about.get("modified") else "")
    return {**ONE_THREAD, **({COMMIT_VARIABLE: commit} if commit else {})}


def render(
    file_name: str,
    name: str,
    cluster: Cluster,
    folder: Path,
    command: list[str],
    data: Sequence[str] = (),
) -> None:
    """Writes the file that a scheduler takes into the job's folder.

    Args:
        file_name: A file of ``templates``: ``job.sbatch``, ``rayjob.yaml`` or ``sky.yaml``.
        name: The run's name.
        cluster: The machines.
        folder: The job's folder, as `pack` writes it.
        command: The command that `pack` returns.
        data: Commands that each machine runs first, as `data_commands` returns them. A Slurm job
            does not run them: its nodes share a disk.
    """
    files = {"config.yaml": folder / "config.yaml"}
    files |= {name.replace("/", "__"): path for name, path in job_files(folder).items()}
    started = [part if part != "config.yaml" else "/job/config.yaml" for part in command]
    _write(
        folder / file_name,
        name=name,
        label=dns_label(name),
        cluster=cluster,
        environment=environment(),
        files={key: path.read_text("utf-8") for key, path in files.items()},
        paths={key: path.relative_to(folder).as_posix() for key, path in files.items()},
        entrypoint=shlex.join(started),
        data=list(data),
        ray_version=version("ray"),
        shared_memory=max(1, int(cluster.memory * _OBJECT_STORE)),
    )


def job_files(folder: Path) -> dict[str, Path]:
    """The user's files in a job's folder, by their path below ``files``."""
    inner = folder / "files"
    paths = (path for path in sorted(inner.rglob("*")) if path.is_file())
    return {path.relative_to(inner).as_posix(): path for path in paths}


def dns_label(name: str) -> str:
    """The name as a DNS-1035 label: ``[a-z0-9-]``, a letter first, no hyphen last.

    KubeRay allows 47 characters, because it appends suffixes to the name of a job. A name that is
    cut ends with a hash, so that names with the same beginning stay different.
    """
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    label = label if label[:1].isalpha() else f"run-{label}".rstrip("-")
    if len(label) <= _LONGEST_LABEL:
        return label
    hashed = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{label[: _LONGEST_LABEL - _HASH - 1].rstrip('-')}-{hashed}"


def _write(path: Path, **values: Any) -> None:
    """Writes a file from the template of the same name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates", "utf-8"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"shell": shlex.quote, "yaml": _yaml, "tojson": json.dumps}
    path.write_text(environment.get_template(path.name).render(values), "utf-8")


def _yaml(mapping: Mapping[str, str]) -> str:
    """A mapping in YAML, without the last newline; texts of several lines are blocks."""
    return yaml.dump(dict(mapping), Dumper=_Blocks, sort_keys=False).removesuffix("\n")


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Blocks.add_representer(str, _text)

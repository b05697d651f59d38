"""Jobs for clusters: a folder that holds all a run needs, and the file that a scheduler takes.

job/
    config.yaml, files/   the settings and the user's own files
    trca/                 this package, from a checkout or a wheel alike
    requirements.txt      what it needs
    run.sh                sets up the environment variables and starts the run
    job.sbatch, rayjob.yaml or sky.yaml
"""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from packaging.requirements import Requirement

import trca
from trca.cli.show.console import ONE_THREAD
from trca.runs.folder import RunFolder
from trca.runs.provenance import COMMIT_VARIABLE, git_commit

if TYPE_CHECKING:
    from trca.tune_configs.settings import RunSettings
    from trca.tune_configs.sweeps import SweepSettings

_DRIVER_CPUS: Final = 1


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
    def of(cls, settings: RunSettings, nodes: int, trials: int = 1, **given: Any) -> Cluster:
        """The machines that runs ask for, spread evenly; options that are not `None` stay.

        Args:
            settings: The settings of a run.
            nodes: The number of machines.
            trials: The runs at a time.
            given: Values of other attributes, or `None`.
        """
        cpus, gpus = settings.run.resources()
        least = {
            "cpus": math.ceil(trials * (cpus + _DRIVER_CPUS) / nodes),
            "gpus": math.ceil(trials * gpus / nodes),
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        return cls(nodes=nodes, **{**least, **chosen})

    def lacks(self, settings: RunSettings) -> str:
        """What a run asks for and the machines do not have; empty where they have it all."""
        cpus, gpus = settings.run.resources()
        for what, asked, there in (
            ("CPUs", cpus + _DRIVER_CPUS, self.nodes * self.cpus),
            ("GPUs", gpus, self.nodes * self.gpus),
        ):
            if asked > there:
                return f"the run asks for {asked:g} {what} and {self.nodes} nodes have {there}"
        return ""


def pack(
    settings: RunSettings,
    folder: Path,
    name: str,
    storage: str,
    sweep: SweepSettings | None = None,
) -> list[str]:
    """Writes the job's folder; returns the command that starts the run in it.

    Args:
        settings: The run's settings.
        folder: The folder to write; must not exist.
        name: The run's name; a job that starts again goes on with the run of this name.
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
        *("python", "-m", "trca.cli", "sweep" if sweep else "train", "config.yaml"),
        *("--name", name, "--storage-path", storage, "--auto-resume"),
    ]
    (folder / "run.sh").write_text(
        "#!/usr/bin/env bash\n"
        'set -euo pipefail\ncd "$(dirname "${BASH_SOURCE[0]}")"\n'
        + "".join(f"export {key}={shlex.quote(value)}\n" for key, value in environment().items())
        + f"exec {shlex.join(command)}\n",
        "utf-8",
    )
    return command


def _extras(settings: RunSettings, sweep: SweepSettings | None) -> list[str]:
    """The extras of this package that a run needs."""
    from trca.policies.engines import engine_class

    parameters = settings.parameters
    return [
        "train",
        *filter(None, [engine_class(parameters.engine).extra]),
        *["lora"] * (parameters.lora_rank > 0),
        *["optuna"] * (sweep is not None and sweep.search is not None),
    ]


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


def slurm(name: str, cluster: Cluster) -> str:
    """A batch script: Ray's head on the first node, a worker on each other, the run on the head."""
    gpus = f"#SBATCH --gpus-per-node={cluster.gpus}\n" if cluster.gpus else ""
    return f"""#!/usr/bin/env bash
#SBATCH --job-name={name}
#SBATCH --nodes={cluster.nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={cluster.cpus}
{gpus}#SBATCH --mem={cluster.memory}G
#SBATCH --time={cluster.hours}:00:00
#SBATCH --output=%x-%j.log
#SBATCH --requeue
set -euo pipefail
cd "${{SLURM_SUBMIT_DIR:?}}"
# Activate the environment that has requirements.txt here, unless sbatch was called from it.

on=(srun --overlap --nodes=1 --ntasks=1 -w)  # "${{on[@]}}" NODE COMMAND ...
ray_on() {{  # ray_on NODE ARGUMENT ...: keeps Ray up on a node as long as the job lasts
    local node=$1
    shift
    "${{on[@]}}" "$node" env -u RAY_ADDRESS ray start --block --disable-usage-stats \\
        --num-cpus={cluster.cpus} --num-gpus={cluster.gpus} "$@" &
}}
joined() {{
    python -c "import ray; ray.init(logging_level='ERROR'); print(len(ray.nodes()))" || echo 0
}}

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=$("${{on[@]}}" "${{nodes[0]}}" hostname --ip-address | cut -d' ' -f1)
port=$((20000 + SLURM_JOB_ID % 20000))
export RAY_ADDRESS="$address:$port" RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c "import secrets; print(secrets.token_hex(32))")
export RAY_AUTH_TOKEN

trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
ray_on "${{nodes[0]}}" --head --node-ip-address="$address" --port="$port" \\
    --include-dashboard=false --temp-dir="/tmp/ray-$SLURM_JOB_ID"
for node in "${{nodes[@]:1}}"; do
    ray_on "$node" --address="$RAY_ADDRESS"
done
until [ "$(joined 2>/dev/null)" -ge {cluster.nodes} ]; do
    sleep 2
done
"${{on[@]}}" "${{nodes[0]}}" bash run.sh
"""


def kuberay(name: str, cluster: Cluster, folder: Path, command: list[str]) -> str:
    """A ConfigMap with the settings and a RayJob that reads them, for KubeRay 1.1 or newer."""
    files = {"config.yaml": folder / "config.yaml"}
    files |= {path.name: path for path in sorted((folder / "files").glob("*"))}
    items = [{"key": key, "path": key if key == "config.yaml" else f"files/{key}"} for key in files]
    label = name.lower().replace("_", "-").replace("=", "-").replace("+", "-").strip("-.")
    limits: dict[str, Any] = {"cpu": str(cluster.cpus), "memory": f"{cluster.memory}Gi"}
    if cluster.gpus:
        limits["nvidia.com/gpu"] = str(cluster.gpus)
    container = {
        "image": cluster.image,
        "resources": {"limits": limits, "requests": limits},
        "env": [{"name": key, "value": value} for key, value in environment().items()],
        "volumeMounts": [{"name": "job", "mountPath": "/job"}],
    }
    volumes = [{"name": "job", "configMap": {"name": label, "items": items}}]

    def pod(role: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": role, **container}], "volumes": volumes}}

    spec: dict[str, Any] = {
        "rayVersion": _ray_version(),
        "headGroupSpec": {"rayStartParams": {}, "template": pod("ray-head")},
    }
    if cluster.nodes > 1:
        spec["workerGroupSpecs"] = [
            {
                "groupName": "workers",
                "replicas": cluster.nodes - 1,
                "minReplicas": cluster.nodes - 1,
                "maxReplicas": cluster.nodes - 1,
                "rayStartParams": {},
                "template": pod("ray-worker"),
            }
        ]
    started = [part if part != "config.yaml" else "/job/config.yaml" for part in command]
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": label},
        "spec": {
            "entrypoint": shlex.join(started),
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 600,
            "activeDeadlineSeconds": cluster.hours * 3600,
            "backoffLimit": 2,
            "rayClusterSpec": spec,
        },
    }
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": label},
        "data": {key: path.read_text("utf-8") for key, path in files.items()},
    }
    return _yaml(settings, job)


def skypilot(name: str, cluster: Cluster) -> str:
    """A SkyPilot task: installs the requirements, starts Ray on all nodes, runs on the first."""
    resources: dict[str, Any] = {"cpus": f"{cluster.cpus}+", "memory": f"{cluster.memory}+"}
    if cluster.gpus:
        resources["accelerators"] = f"{cluster.accelerator}:{cluster.gpus}"
    task = {
        "name": name,
        "workdir": ".",
        "num_nodes": cluster.nodes,
        "resources": resources,
        "setup": "pip install -r requirements.txt\n",
        "run": (
            "~/sky_templates/ray/start_cluster\n"
            'if [ "$SKYPILOT_NODE_RANK" = 0 ]; then\n'
            "    export RAY_ADDRESS=auto\n"
            "    bash run.sh\n"
            "fi\n"
        ),
    }
    return _yaml(task)


def _ray_version() -> str:
    import ray

    return str(ray.__version__)


def _yaml(*documents: Mapping[str, Any]) -> str:
    return yaml.dump_all(documents, Dumper=_Blocks, sort_keys=False)


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and everything in full where it repeats."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Blocks.add_representer(str, _text)

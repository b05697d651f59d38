"""``trca submit`` and ``trca jobs``: runs on a Ray cluster."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from trca.cli.run.new_settings import SetOption
from trca.cli.show.console import (
    ONE_THREAD,
    console,
    fail,
    print_folded,
    refusing,
    use_one_thread,
    what_next,
)
from trca.common.errors import first_line, words
from trca.common.extras import install

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 2.0
_CONNECT_S: Final = 10.0
_AGENT_LOG: Final = "/tmp/ray/session_latest/logs/dashboard_agent.log"


class Target(StrEnum):
    """Who starts the job."""

    ray = "ray"
    slurm = "slurm"
    kuberay = "kuberay"
    skypilot = "skypilot"


_EXAMPLES: Final = {
    Target.slurm: "slurm.sbatch",
    Target.kuberay: "kuberay.yaml",
    Target.skypilot: "skypilot.yaml",
}
"""The file in ``examples/cluster`` for each other scheduler."""

_Address = Annotated[
    str | None,
    typer.Option(
        help="Dashboard of the Ray cluster, such as http://head:8265. [default: $RAY_ADDRESS]"
    ),
]


def submit(
    config: Annotated[
        str, typer.Argument(help="A config or sweep that comes with the package, or a YAML file.")
    ],
    to: Annotated[
        Target, typer.Option(help="Who starts the job. examples/cluster has files for the others.")
    ] = Target.ray,
    set_: SetOption = None,
    name: Annotated[str | None, typer.Option(help="Name of the run. [default: the config's]")] = (
        None
    ),
    storage_path: Annotated[
        str | None,
        typer.Option(
            help="Where every node reaches the run: a URI such as s3://bucket/runs, or a shared "
            "folder."
        ),
    ] = None,
    address: _Address = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the job; submit nothing.")
    ] = False,
) -> None:
    """Run a config or a sweep on a Ray cluster that is up.

    The job has the settings, your own files and this package, so that the cluster runs this
    version; the cluster needs only the requirements. A job that starts again continues its run.

    - `trca submit quickstart --address http://head:8265 --storage-path /shared/runs` submits a
      run; follow it with `trca jobs logs`
    - `trca submit sweeps/lambda --storage-path /shared/runs` is one job: `trca sweep`
    - `trca submit my.yaml --storage-path s3://bucket/runs --dry-run` shows the job

    Slurm, Kubernetes and SkyPilot start Ray themselves: edit a file of `examples/cluster`.
    """
    use_one_thread()
    from trca.cli.preflight.preflight import Preflight
    from trca.cli.sweep.trials import is_sweep, sweep_of
    from trca.runs.folder import RunFolder, is_uri, run_name
    from trca.tune_configs.files import ConfigError, assign, assignments, read

    with refusing(ConfigError), tempfile.TemporaryDirectory() as scratch:
        if to in _EXAMPLES:
            raise ConfigError(
                f"{to} starts a job from a file: copy examples/cluster/{_EXAMPLES[to]} of TRCA, and"
                " edit the lines that README.md in the same folder names"
            )
        given = read(config)
        sweep = sweep_of(config, set_, need_data=False) if is_sweep(given) else None
        if not (storage_path and (is_uri(storage_path) or Path(storage_path).is_absolute())):
            raise ConfigError(
                f"--storage-path is {storage_path or 'missing'}: name what every node reaches, such"
                " as s3://bucket/runs or a shared folder with its whole path"
            )
        if sweep:
            preflight = Preflight(sweep.largest(), here=False)
        else:
            flat = assign(given, assignments(set_ or []))
            preflight = Preflight(flat, run_name(config), here=False)
        with preflight:
            preflight.check()
            settings = preflight.settings.flat()
        name = name or run_name(config)
        command = shlex.join(
            [
                *("python", "-m", "trca", "sweep" if sweep else "train", "config.yaml"),
                *("--name", name, "--storage-path", storage_path, "--auto-resume"),
            ]
        )
        folder = Path(scratch) / "job"
        folder.mkdir()
        RunFolder(folder).write_settings(sweep.with_base().model_dump() if sweep else settings)
        if dry_run:
            console.print(command, markup=False)
            console.rule("config.yaml", align="left")
            console.print((folder / "config.yaml").read_text("utf-8").rstrip(), markup=False)
            inner = folder / "files"
            own = [p.relative_to(inner).as_posix() for p in sorted(inner.rglob("*")) if p.is_file()]
            print_folded(f"In the same folder: {', '.join(['trca/', *own])}", indent=0)
            return
        caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).parents[2], folder / "trca", ignore=caches)
        _submit(folder, command, name, address)


def _submit(folder: Path, command: str, name: str, address: str | None) -> None:
    from trca.runs.provenance import COMMIT_VARIABLE, git_commit

    about = git_commit(Path(__file__).parents[2])
    commit = about.get("commit", "") + ("+modified" if about.get("modified") else "")
    variables = {**ONE_THREAD, **({COMMIT_VARIABLE: commit} if commit else {})}
    with _client(address) as client:
        first = time.monotonic()
        while True:
            try:
                job = client.submit_job(
                    entrypoint=command,
                    runtime_env={"working_dir": str(folder), "env_vars": variables},
                    metadata={"run": name},
                )
                break
            except RuntimeError as error:  # the cluster has only just started, or the agent ended
                seconds = time.monotonic() - first
                if "No available agent" not in str(error):
                    raise
                console.print(
                    f"No agent of the Ray cluster takes the job yet ({seconds:.0f} of"
                    f" {_PATIENCE_S:.0f} s). Log on the head node: {_AGENT_LOG}",
                    markup=False,
                )
                if seconds > _PATIENCE_S:
                    raise RuntimeError(
                        f"no agent of the Ray cluster took the job in {seconds:.0f} s. The agent's"
                        f" log is {_AGENT_LOG} on the head node: {first_line(error)}"
                    ) from None
            time.sleep(_PAUSE_S)
    at = f" --address {address}" if address else ""
    console.print(f"submitted {job}. ", markup=False, end="")
    what_next(
        [
            (f"trca jobs logs {job} --follow{at}", "its output"),
            (f"trca jobs list{at}", "all jobs"),
            (f"trca jobs stop {job}{at}", "ends the job; submit again to continue"),
        ]
    )


@contextmanager
def _client(address: str | None) -> Iterator[JobSubmissionClient]:
    """The client of a cluster's jobs; turns its errors into one line."""
    at = address or os.environ.get("RAY_ADDRESS", "")
    silent = f"no Ray cluster answers at {at}"
    if not at:
        silent = "no Ray cluster runs on this machine, and RAY_ADDRESS is not set"
    silent += ": name the dashboard of a cluster, such as --address http://head:8265"
    if not _answers(at):
        fail(silent, code=2)
    from ray.exceptions import AuthenticationError

    try:
        from ray.job_submission import JobSubmissionClient

        yield JobSubmissionClient(address)
    except ImportError as error:
        lack = f"jobs need what Ray's dashboard needs: {install('clusters')}"
        fail(f"{error}: {lack}", code=2)
    except AuthenticationError as error:
        fail(
            f"the cluster {at or 'of this machine'} wants its token: set RAY_AUTH_MODE=token, and"
            f" RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH. {words(error).partition('. ')[0]}",
            code=2,
        )
    except ConnectionError:
        fail(silent, code=2)
    except (RuntimeError, ValueError) as error:
        fail(words(error), code=2)


def _answers(address: str) -> bool:
    """Whether a Ray cluster can be at a URL, or on this machine; asks without the import of Ray."""
    if not address:
        place = "/tmp" if sys.platform == "darwin" else tempfile.gettempdir()
        folder = Path(os.environ.get("RAY_TMPDIR", place), "ray")
        return (folder / "ray_current_cluster").exists()
    url = urlsplit(address)
    if url.scheme not in ("http", "https"):
        return True  # an address that only Ray can read
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        socket.create_connection((url.hostname or "", port), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True


jobs = typer.Typer(no_args_is_help=True, help="The jobs of a Ray cluster: list, follow, stop.")
_Job = Annotated[str, typer.Argument(metavar="JOB", help="Its id, as `trca jobs list` shows it.")]


@jobs.command("list")
def list_jobs(address: _Address = None) -> None:
    """List the jobs, the newest first."""
    from datetime import datetime

    from rich import box
    from rich.table import Table

    table = Table("job", "run", "state", "started", box=box.SIMPLE_HEAD)
    with _client(address) as client:
        submitted = [each for each in client.list_jobs() if each.submission_id]
    for each in sorted(submitted, key=lambda each: each.start_time or 0, reverse=True):
        began = datetime.fromtimestamp((each.start_time or 0) / 1000)
        run = (each.metadata or {}).get("run", "")
        table.add_row(each.submission_id, run, each.status.value, f"{began:%Y-%m-%d %H:%M}")
    if submitted:
        console.print(table, soft_wrap=False)
    else:
        console.print("There are no jobs.")


@jobs.command("status")
def status(job: _Job, address: _Address = None) -> None:
    """Show a job's state, and why it failed."""
    with _client(address) as client:
        about = client.get_job_info(job)
    console.print(f"{job}: {about.status.value}", markup=False)
    if about.message:
        print_folded(about.message)


@jobs.command("logs")
def logs(
    job: _Job,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the job ends.")] = False,
    address: _Address = None,
) -> None:
    """Print the output of a job; with --follow until the job ends."""
    import asyncio

    async def tail(client: JobSubmissionClient) -> None:
        async for text in client.tail_job_logs(job):
            console.print(text, markup=False, end="")

    with _client(address) as client:
        if follow:
            asyncio.run(tail(client))
        else:
            console.print(client.get_job_logs(job), markup=False, end="")
        state = client.get_job_status(job)
    if follow and state.value != "SUCCEEDED":
        raise typer.Exit(1)


@jobs.command("stop")
def stop(job: _Job, address: _Address = None) -> None:
    """Stop a job. Submitted again, its run continues from the last checkpoint."""
    with _client(address) as client:
        stopped = client.stop_job(job)
    console.print(f"{job}: {'stopping' if stopped else 'had ended already'}", markup=False)

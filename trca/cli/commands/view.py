"""``trca view``: recorded rollouts in a browser, or as one HTML file."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trca.cli.run.new_settings import RunsOption
from trca.cli.show.console import console, errors, need_server, refusing, use_one_thread

if TYPE_CHECKING:
    from trca.cli.view.runs import RecordedRun
    from trca.runs.rollout_files import Kind


def view(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or its name.")],
    other: Annotated[
        str | None, typer.Argument(metavar="[RUN2]", help="A second run, for comparison.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = 8100,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write one iteration to a file.")
    ] = None,
    iteration: Annotated[
        int | None, typer.Option(min=1, help="That iteration. [default: the last recorded]")
    ] = None,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="Export rollouts of the held-out evaluation.")
    ] = False,
    storage_path: RunsOption = "outputs",
) -> None:
    """Show recorded rollouts in a browser: why operators fired, and where credit went.

    Serves only at the local address of this machine, until Ctrl-C.

    - `trca view outputs/quickstart`
    - `trca view outputs/quickstart outputs/grpo` sets two runs side by side, task by task
    - `trca view outputs/quickstart --iteration 25 --export rollouts.html` writes a file to send
    """
    use_one_thread()
    from trca.cli.view.runs import RecordedRun
    from trca.runs.folder import RunFolder

    with refusing():
        runs = [RecordedRun(RunFolder.open_run(r, storage_path)) for r in (run, other) if r]
        if not export and (iteration or evaluation):
            raise ValueError("--iteration and --evaluation go with --export: the page shows all")
        for each in runs:
            if not any(each.about()["iterations"].values()):
                raise ValueError(f"{each.folder.path} has no recorded rollouts yet")
        if export:
            _export(runs, export, "eval" if evaluation else "train", iteration)
            return
    _serve(runs, port)


def _export(runs: list[RecordedRun], path: Path, kind: Kind, iteration: int | None) -> None:
    from trca.cli.view.bundle import single_file
    from trca.cli.view.runs import stops
    from trca.common.files import write_text
    from trca.runs.rollout_files import recorded

    for run in runs:
        recorded(run.folder, kind, None if iteration is None else [iteration])
    (start,) = (stop for stop in stops(runs, kind) if stop["start"])
    if iteration is not None:
        reached = [run.reached(kind)[iteration] for run in runs]
        start |= {"at": [iteration] * len(runs), "reached": reached}
    data: dict[str, Any] = {"kind": kind, "runs": [], "stops": {kind: [start]}}
    for run, number in zip(runs, start["at"], strict=True):
        listed = run.groups(kind, number)
        played = [group["group"] for group in listed["groups"] if group["rollouts"]]
        whole = {group: run.group(kind, number, group) for group in played}
        about = run.about() | {"iterations": {kind: [number]}}
        data["runs"].append({"about": about, "list": listed, "groups": whole})
    write_text(path, single_file(data))
    console.print(f"Written to {path}", markup=False)


def _serve(runs: list[RecordedRun], port: int) -> None:
    need_server()
    from threading import Thread

    import uvicorn

    from trca.cli.view.server import HOST, create_app

    with refusing(OSError):
        try:
            opened = socket.create_server((HOST, port))
        except OSError as error:
            raise OSError(f"port {port}: {error.strerror}: choose another --port") from None
    server = uvicorn.Server(uvicorn.Config(create_app(runs), log_level="warning"))
    console.print(f"http://{HOST}:{opened.getsockname()[1]}/", markup=False)
    errors.print("Ctrl-C stops the server")
    for run in runs:
        Thread(target=run.load, daemon=True).start()
    with opened, suppress(KeyboardInterrupt):
        server.run(sockets=[opened])

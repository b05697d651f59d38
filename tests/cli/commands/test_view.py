"""`trca view` refuses runs that it cannot show, and names the fix."""

import socket

from tests.cli.calls import refused
from trca.runs.folder import RunFolder


def test_what_cannot_be_shown_is_refused_with_the_mend(recorded_run, tmp_path):
    empty = RunFolder.create(tmp_path, "empty")
    empty.write_config(RunFolder(recorded_run).read_config())
    export = f"--export={tmp_path / 'a.html'}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, message in (
            ([empty.path], "has no recorded rollouts yet"),
            ([recorded_run, "--iteration=1"], "go with --export"),
            ([recorded_run, export, "--iteration=2"], "of iteration 2: choose 1, 3"),
            ([recorded_run, export, "--evaluation"], "no evaluation rollouts of any iteration"),
            ([recorded_run, f"--port={port}"], "choose another --port"),
        ):
            assert message in refused("view", *arguments)
    assert not (tmp_path / "a.html").exists()

"""The official release is downloaded, resumed after a break, and refused if its content differs."""

import hashlib
import json
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trca.envs.alfworld.data.generate import draw
from trca.envs.alfworld.data.official import (
    GAME_FILE,
    DownloadError,
    Release,
    download,
    fetch_games,
)
from trca.envs.alfworld.data.sources import OfficialGames

TASK = "pick_heat_then_place_in_recep-Egg-None-CounterTop-1"


class Server(ThreadingHTTPServer):
    """Serves one body with ranges; each entry of ``faults`` spoils one reply."""

    daemon_threads = True

    def __init__(self, body: bytes):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = body
        self.faults: list[str | int] = []
        self.ranges: list[str | None] = []
        self.honours_ranges = True

    def release(self, **changes) -> Release:
        defaults = {"sha256": hashlib.sha256(self.body).hexdigest(), "size": len(self.body)}
        return Release(f"http://127.0.0.1:{self.server_port}/games.zip", **{**defaults, **changes})


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.ranges.append(self.headers["Range"])
        fault = self.server.faults.pop(0) if self.server.faults else None
        if isinstance(fault, int):
            self.send_error(fault)
            return
        start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if not self.server.honours_ranges:
            start = 0
        body = self.server.body[start:]
        self.send_response(206 if self.server.honours_ranges else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "break":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif fault == "spoil":
            self.wfile.write(b"\0" * len(body))
        else:
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    packed = tmp_path / "made.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for n in range(3):
            game = json.dumps(draw("small", "train", "Heat", n).game())
            out.writestr(f"json_2.1.1/train/{TASK}/trial_{n}/{GAME_FILE}", game)
    server = Server(packed.read_bytes())
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_broken_connection_is_resumed_where_it_broke(server, tmp_path):
    server.faults = ["break", "break"]
    path = download(server.release(), tmp_path, wait=0)
    assert path.read_bytes() == server.body
    starts = [int(r.removeprefix("bytes=").removesuffix("-")) for r in server.ranges]
    assert starts == sorted(set(starts))
    assert starts[1] == len(server.body) // 2


def test_a_later_call_continues_what_an_earlier_one_left(server, tmp_path):
    server.faults = ["break", 503]
    with pytest.raises(DownloadError, match="503"):
        download(server.release(), tmp_path, attempts=1, wait=0)
    download(server.release(), tmp_path)
    assert server.ranges[-1] == f"bytes={len(server.body) // 2}-"


@pytest.mark.parametrize(
    ("faults", "ranges"),
    [([], True), ([503, 429], True), (["break"], False), (["break", "spoil"], True)],
)
def test_a_file_is_complete_whatever_the_server_does(server, tmp_path, faults, ranges):
    server.faults, server.honours_ranges = list(faults), ranges
    path = download(server.release(), tmp_path, wait=0)
    assert (path, path.read_bytes()) == (tmp_path / "games.zip", server.body)
    assert len(server.ranges) == len(faults) + 1
    assert "spoil" not in faults or server.ranges[-1] == "bytes=0-"
    download(server.release(), tmp_path)
    assert len(server.ranges) == len(faults) + 1


def test_a_refusal_is_final(server, tmp_path):
    server.faults = [404]
    with pytest.raises(DownloadError, match="404"):
        download(server.release(), tmp_path)
    assert len(server.ranges) == 1


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, tmp_path):
    wrong = server.release(sha256="0" * 64)
    with pytest.raises(DownloadError, match="checksum"):
        download(wrong, tmp_path, wait=0)
    assert [p.name for p in tmp_path.iterdir()] == ["made.zip"]


def test_no_server_is_named_after_the_attempts(tmp_path):
    nowhere = Release("http://127.0.0.1:9/games.zip", "0" * 64, 10)
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9.*--from"):
        download(nowhere, tmp_path, attempts=2, wait=0)


def test_fetched_games_can_be_played_and_are_fetched_once(server, tmp_path):
    for _ in range(2):
        games = OfficialGames(fetch_games(tmp_path / "data", release=server.release()))
        assert games.task_ids("train") == tuple(f"train/{TASK}/trial_{n}" for n in range(3))
    assert len(server.ranges) == 1
    assert not (tmp_path / "data" / "games.zip").exists()


def test_a_local_archive_is_accepted_in_place_of_the_release(server, tmp_path):
    games = OfficialGames(fetch_games(tmp_path / "data", archive=tmp_path / "made.zip"))
    assert len(games.task_ids("train")) == 3
    assert (tmp_path / "made.zip").exists()
    assert not server.ranges

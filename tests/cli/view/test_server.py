"""The server answers only this machine, and returns the recorded rollouts."""

import shutil

import pytest
from starlette.testclient import TestClient

from trca.cli.view.runs import RecordedRun
from trca.cli.view.server import create_app
from trca.records import write_rollouts
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file


@pytest.fixture
def client(run):
    return TestClient(create_app([run]), base_url="http://127.0.0.1:8100")


def test_the_list_has_all_groups_and_the_run_its_operators(client):
    listed = client.get("/api/runs/0/train/3/groups").json()
    assert [group["group"] for group in listed["groups"]] == [0, 1]
    about = client.get("/api/runs").json()["runs"][0]
    assert about["iterations"] == {"train": [1, 3], "eval": []}
    assert {each["category"] for each in about["operators"]} == {
        "evidence", "invalidity", "execution",
    }  # fmt: skip


def test_runs_are_sent_again_only_after_a_change(recorded_run, tmp_path):
    folder = RunFolder(shutil.copytree(recorded_run, tmp_path / "run"))
    client = TestClient(create_app([RecordedRun(folder)]), base_url="http://127.0.0.1:8100")
    tag = client.get("/api/runs").headers["ETag"]
    for change in (
        lambda: folder.append_metrics({"iteration": 1, "trajectories": 6}),
        lambda: write_rollouts(rollout_file(folder, "train", 4), []),
    ):
        unchanged = client.get("/api/runs", headers={"If-None-Match": tag})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        change()
        changed = client.get("/api/runs", headers={"If-None-Match": tag})
        assert changed.status_code == 200
        tag = changed.headers["ETag"]
    assert changed.json()["runs"][0]["iterations"]["train"] == [1, 3, 4]


def test_what_is_not_recorded_is_not_found(client):
    for path in ("1/train/1/groups", "0/train/2/groups", "0/eval/1/groups", "0/train/1/groups/9"):
        assert client.get(f"/api/runs/{path}").status_code == 404
    assert client.get("/api/runs/0/..%2F..%2Fconfig/1/groups").status_code in (404, 422)


def test_another_site_that_points_its_name_here_is_refused(client):
    for host in ("evil.example", "evil.example:8100", "127.0.0.1.evil.example"):
        assert client.get("/api/runs", headers={"Host": host}).status_code == 400
    for host in ("localhost:8100", "127.0.0.1:8100"):
        assert client.get("/api/runs", headers={"Host": host}).status_code == 200


def test_every_answer_forbids_foreign_scripts(client):
    for path in ("/", "/view.js", "/api/runs", "/none"):
        headers = client.get(path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers

"""The page that ranks evaluations has one table for each panel."""

import json
import re

import yaml

from tests.cli.calls import done, refused

PANEL = {"hash": "ab12cd34ef", "environment": "trca/ALFWorld-v0", "split": "valid_unseen"}

RATES = {
    9: ("90.0% (70.0 to 100.0)", ""),
    4: ("40.0% (20.0 to 60.0)", ""),
    2: ("20.0% (0.0 to 40.0)", ""),
}


def write(path, wins, panel=PANEL, rows=True, **about):
    path.parent.mkdir(exist_ok=True, parents=True)
    mean = wins / 10 if rows else None
    row = {"task_type": "All", "n": 10, "won": wins, "mean": mean, "steps": 3.0}
    row |= {"low": max(0.0, wins / 10 - 0.2), "high": min(1.0, wins / 10 + 0.2), "missing": 0}
    report = {"panel": panel, "tasks": 10, "rows": [row], "outcomes": [], **about}
    path.write_text(json.dumps(report))
    return path


def test_evaluations_are_ranked_within_their_panel_alone(tmp_path):
    run = tmp_path / "grpo"
    write(run / "evaluation.json", 4, iteration=8)
    (run / "config.yaml").write_text(
        yaml.safe_dump({"algorithm": "GRPO", "credit": "grpo", "iterations": 8})
    )
    (run / "metrics.jsonl").write_text('{"iteration": 8, "trajectories": 1280}\n')
    (run / "status.json").write_text('{"state": "finished", "iteration": 8}')
    settings = {"algorithm": "TRCA", "credit": "/x/mine.py:own"}
    best = write(
        tmp_path / "a.json",
        9,
        policy="<b>best</b>",
        selection={"which": "last", "iteration": 2},
        settings=settings,
    )
    plain = write(tmp_path / "b.json", 2, policy="a model", settings=settings)
    other = write(tmp_path / "c.json", 10, {**PANEL, "hash": "ff00"}, policy="elsewhere")
    done("report", plain, other, run, best, best, "--leaderboard", f"--output={tmp_path}/out")
    page = (tmp_path / "out/leaderboard.html").read_text()
    rows = [
        [re.sub(r"<svg.*?</svg>|</?code>", "", cell) for cell in line.split("<td>")[1:]]
        for line in page.splitlines()
        if line.startswith("<tr><td>")
    ]
    assert rows[:3] == [
        ["1", "&lt;b&gt;best&lt;/b&gt;", "TRCA with mine.py:own", *RATES[9], "10", "-", "ab12cd34"],
        ["2", "grpo", "GRPO", *RATES[4], "10", "1,280", "ab12cd34"],
        ["3", "a model", "-", *RATES[2], "10", "-", "ab12cd34"],
    ]
    assert [row[:2] for row in rows[3:]] == [["1", "elsewhere"]]
    assert page.count("<table>") == 2


def test_an_evaluation_without_a_finished_episode_is_named(tmp_path):
    none = write(tmp_path / "none.json", 0, rows=False)
    empty = write(tmp_path / "empty.json", 0)
    empty.write_text(json.dumps(json.loads(empty.read_text()) | {"rows": []}))
    for report in (none, empty):
        said = refused("report", report, "--leaderboard", f"--output={tmp_path}/out")
        assert "has no finished episode: leave it out" in said
        assert not (tmp_path / "out").exists()


def test_a_copied_evaluation_of_a_run_is_ranked_without_its_rule(tmp_path):
    copy = write(tmp_path / "alone" / "evaluation.json", 4, iteration=8)
    done("report", copy, "--leaderboard", f"--output={tmp_path}/out")
    assert "<td>alone<td>-<td>" in (tmp_path / "out/leaderboard.html").read_text()

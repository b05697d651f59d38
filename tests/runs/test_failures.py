"""The log of failures."""

import io

from rich.console import Console

from trca.common.json_lines import read_lines
from trca.records.failures import Incident
from trca.runs.failures import append_failures, failure_table

STUCK = "StuckError: environment Rooms: step('go') has not returned for 300 s"


def test_a_ledger_holds_every_failure_and_its_table_their_numbers(tmp_path):
    path = tmp_path / "failures.jsonl"
    append_failures(path, 1, [])
    assert not path.exists()
    stuck = [Incident(0.0, "rollout", f"{k} of group 0", "t", STUCK, "retried") for k in range(2)]
    append_failures(path, 1, stuck)
    append_failures(path, 2, [Incident(60.0, "env runner", "2", "", "it was lost", "retried")])
    lines = read_lines(path)
    assert lines[2] == {
        "time": "1970-01-01T00:01:00+00:00",
        "kind": "env runner",
        "which": "2",
        "task_id": "",
        "reason": "it was lost",
        "action": "retried",
        "iteration": 2,
    }
    out = io.StringIO()
    Console(file=out, width=120).print(failure_table(lines))
    runner, rollouts = out.getvalue().splitlines()[4:6]
    assert runner.split() == ["env", "runner", "1", "retried", "it", "was", "lost"]
    assert rollouts.split() == ["rollout", "2", "retried", *STUCK.split()]

"""Runs for the page. The texts of one run attack the page."""

import json

import pytest

from trca.cli.view.runs import RecordedRun
from trca.runs.folder import RunFolder

ATTACKS = (
    "</script><script>window.ran = 1</script>",
    "</pre></style><img src=x onerror='window.ran = 1'>",
    '--><!--<script>"\\"<svg onload=window.ran=1>\u2028',
    '"judgments": [1], "last_observation": "',
)


@pytest.fixture
def run(recorded_run):
    return RecordedRun(RunFolder(recorded_run))


@pytest.fixture(scope="session")
def hostile_run(recorded_run, tmp_path_factory):
    """The recorded run with attacks in its texts."""
    folder = RunFolder.create(tmp_path_factory.mktemp("hostile"), "hostile")
    folder.write_config(RunFolder(recorded_run).read_config())
    attack = " ".join(ATTACKS)
    source = recorded_run / "rollouts/iteration_000001/train.jsonl"
    lines = []
    for line in source.read_text().splitlines():
        record = json.loads(line)
        for name in ("task_id", "task_type", "last_observation", "agent_id"):
            record[name] += attack
        if record["group"]:  # an unreadable and a readable instruction
            record["instruction"] += attack
        for step in record["steps"]:
            for name in ("observation", "response", "action", "context"):
                step[name] += attack
            step["response"] = f"<think>{attack}</think>{step['response']}"
        lines.append(json.dumps(record) + "\n")
    (folder.rollouts(1) / "train.jsonl").write_text("".join(lines))
    folder.append_metrics({"iteration": 1, "trajectories": 6, f"operators/{ATTACKS[1]}": 0.5})
    return folder.path

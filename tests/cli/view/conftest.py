"""Runs for the page. The texts of one run attack the page."""

from dataclasses import replace

import pytest

from trca.cli.view.runs import RecordedRun
from trca.records import read_rollouts, write_rollouts
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file

ATTACKS = (
    "</script><script>window.ran = 1</script>",
    "</pre></style><img src=x onerror='window.ran = 1'>",
    '--><!--<script>"\\"<svg onload=window.ran=1>\u2028',
    '"judgments": [1], "last_observation": "',
)
HOSTILE = """
from trca.envs.alfworld.env import ALFWorldEnv


class Hostile(ALFWorldEnv):
    @classmethod
    def draw_turns(cls, instruction, turns):
        return [
            [{"name": t, "note": t, "lines": [t], "items": [t], "chosen": [t]}] for _, t in turns
        ]
"""


@pytest.fixture
def run(recorded_run):
    return RecordedRun(RunFolder(recorded_run))


@pytest.fixture(scope="session")
def hostile_run(recorded_run, tmp_path_factory):
    """The recorded run with attacks in its texts."""
    folder = RunFolder.create(tmp_path_factory.mktemp("hostile"), "hostile")
    (folder.path / "hostile.py").write_text(HOSTILE)
    env = {"env": f"{folder.path}/hostile.py:Hostile"}
    folder.write_config(RunFolder(recorded_run).read_config() | env)
    attack = " ".join(ATTACKS)
    rollouts = list(read_rollouts(recorded_run / "rollouts/iteration_000001/train.parquet"))
    for rollout in rollouts:
        for name in ("task_id", "task_type", "last_observation", "agent_id"):
            setattr(rollout, name, getattr(rollout, name) + attack)
        if rollout.group:  # an unreadable and a readable instruction
            rollout.instruction += attack
        rollout.steps = [
            replace(
                step,
                **{n: getattr(step, n) + attack for n in ("observation", "action", "context")},
                response=f"<think>{attack}</think>{step.response}{attack}",
            )
            for step in rollout.steps
        ]
    write_rollouts(rollout_file(folder, "train", 1), rollouts)
    folder.append_metrics({"iteration": 1, "trajectories": 6, f"operators/{ATTACKS[1]}": 0.5})
    return folder.path

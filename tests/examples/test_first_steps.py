"""The notebook runs, and its advantages are the advantages of the rule."""

import json
from pathlib import Path

import matplotlib
import numpy as np

from trca.algorithms import TRCAConfig
from trca.algorithms.rules.trca import trca
from trca.records import StepBatch

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"


def test_the_notebook_credits_its_rollouts_as_the_rule_does():
    matplotlib.use("Agg")
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert 0 < names["outcomes"].sum() < 8

    steps = len(names["rewards"])
    zeros, flags = np.zeros(steps, dtype=np.int64), np.zeros(steps, dtype=bool)
    last = np.append(np.diff(names["rollouts"]) > 0, True)
    batch = StepBatch(
        group=zeros,
        rollout=names["rollouts"],
        agent=zeros,
        reward=names["rewards"],
        observation=zeros,
        next_observation=zeros,
        context=names["same_context"],
        next_context=zeros,
        judgments=names["judgments"],
        categories=names["categories"],
        parsed=flags,
        accepted=flags,
        terminated=last,
        truncated=flags,
        won=last & (names["outcomes"][names["rollouts"]] > 0),
    )
    settings = TRCAConfig.from_preset("quickstart").settings
    np.testing.assert_allclose(names["advantage"], trca(batch, settings), atol=1e-12)

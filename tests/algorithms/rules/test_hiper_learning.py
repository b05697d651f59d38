"""HiPER learns: on the toy environment success rises with plans that nobody taught."""

import numpy as np
import pytest

from trca.algorithms import HiPERConfig

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.slow
def test_success_rises(make_config, planner):
    algorithm = make_config(
        HiPERConfig,
        model=str(planner),
        max_new_tokens=40,
        tasks_per_iteration=16,
        group_size=4,
        minibatch_size=48,
        micro_batch_tokens=4096,
        lr=2e-3,
        critic_lr=5e-3,
        lr_warmup_updates=8,
        entropy_coeff=0.0,  # a bonus of 0.01 makes the end of the curve depend on rounding
        change_penalty=0.01,  # with the default of 0.03 success ends lower
    ).build_algo()
    success = [algorithm.train()["success_rate"] for _ in range(16)]
    algorithm.stop()
    assert np.mean(success[-8:]) > np.mean(success[:3]) + 0.15, np.round(success, 2)

"""Sampling ahead: whole groups, none left out, and no step older than allowed."""

import pytest


def test_steps_are_as_old_as_allowed_and_no_group_is_lost_or_cut(cluster, make_config):
    config = make_config(num_env_runners=2, max_staleness=1, recompute_logprobs=True)
    algorithm = config.build_algo()
    tasks, ages = [], []
    for iteration in range(4):
        result = algorithm.train()
        assert result["missing_rollouts"] == 0
        rollouts = algorithm.rollouts
        assert [(r.group, r.index) for r in rollouts] == [
            (g, k) for g in range(4) for k in range(4)
        ]
        ages.append(result["staleness_max"])
        assert result["staleness"] <= result["staleness_max"] <= 1
        panel = algorithm.panel("train")
        assert [r.task_id for r in rollouts[::4]] == list(panel.batch(iteration, 4, 7))
        tasks.append(tuple(r.task_id for r in rollouts))
    assert ages[0] == 0
    assert max(ages) == 1
    assert len(set(tasks)) > 1
    algorithm.stop()


def test_sampling_ahead_needs_processes_of_its_own(make_config):
    with pytest.raises(ValueError, match="set num_env_runners to 1 or more"):
        make_config(num_env_runners=0, max_staleness=1).validate()

import io

import pytest
from rich.console import Console

from trca.cli.show.progress import Progress


def row(iteration, **others):
    return {
        "iteration": iteration,
        "seconds": 2.0,
        "success_rate": 0.25,
        "parsed_ratio": 0.98,
        "ratio_mean": 1.0,
        "score": 0.25,
        "foundational_reward": -0.1,
        "breakthrough_reward": 0.2,
        **others,
    }


def test_without_a_terminal_every_iteration_is_one_row_under_one_head():
    out = io.StringIO()
    with Progress(Console(file=out, soft_wrap=True), "run", 10) as progress:
        progress.stage("building")
        progress.earlier([])
        progress.show(row(1))
        progress.show(row(2, **{"evaluation/success_rate": 0.5}))
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["building ...", "iteration 1 ..."]
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "iteration success held out readable score r^F r^B seconds left",
        "1/10 25.0% - 98.0% 0.25 -0.100 0.200 2.0 0:18",
        "2/10 25.0% 50.0% 98.0% 0.25 -0.100 0.200 2.0 0:16",
    ]
    assert len({len(line) for line in lines[2:]}) == 1
    assert len(lines[2]) <= 80
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_panel_shows_where_the_run_stands():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with Progress(console, "my run", 10) as progress:
        progress.earlier([row(1), row(2)])
        progress.show(row(3, **{"evaluation/success_rate": 0.5}))
    text = out.getvalue()
    for part in ("my run", "iteration 3/10", "0:14 left", "25.0%", "50.0%", "r^B", "▃"):
        assert part in text


def test_time_left_is_unknown_before_the_first_iteration():
    progress = Progress(Console(file=io.StringIO()), "run", 10)
    assert progress.seconds_left() != progress.seconds_left()
    progress.show(row(4))
    assert progress.seconds_left() == pytest.approx(12.0)


def shown(rows):
    out = io.StringIO()
    with Progress(Console(file=out, soft_wrap=True), "run", 30) as progress:
        for each in rows:
            progress.show(each)
    return out.getvalue()


def test_a_run_that_learns_gets_no_warning():
    assert "warning" not in shown([row(k) for k in range(1, 13)])
    imitated = row(1, grad_norm=9.4)
    del imitated["ratio_mean"]  # imitation has no ratio
    assert "warning" not in shown([imitated])


def test_an_iteration_without_a_trained_action_is_named_with_its_reason():
    unread = row(1, parsed_ratio=0.0, ratio_mean=0.0)
    text = shown([unread, unread | {"iteration": 2}])
    assert text.count("iteration 1 trained no action: no response contains a readable action") == 1
    assert "only 0% of the responses" in text
    equal = row(3, frac_zero_advantage=1.0)
    del equal["ratio_mean"]  # no update: RLlib's result has no such metric
    assert "iteration 3 trained no action: every advantage is 0" in shown([equal])


def test_an_iteration_without_a_rollout_is_named():
    empty = {"iteration": 1, "seconds": 0.2, "trajectories": 0, "missing_rollouts": 4.0}
    text = shown([empty, empty | {"iteration": 2}])
    assert text.count("iteration 1 has no rollout: all 4 are missing") == 1
    assert "no rollout" not in shown([row(1, missing_rollouts=1.0)])


def test_a_low_share_of_readable_responses_is_named_once():
    rows = [row(k, parsed_ratio=0.25) for k in range(1, 4)]
    assert shown(rows).count("only 25% of the responses contain a readable action") == 1


def test_ten_iterations_without_success_are_named():
    lost = [row(k, success_rate=0.0) for k in range(1, 11)]
    assert "no training rollout succeeded" not in shown(lost[:9])
    assert "no training rollout succeeded in the last 10 iterations" in shown(lost)
    assert "no training rollout succeeded" not in shown([*lost[:9], row(10)])


def test_a_small_negative_reward_has_no_minus_sign():
    assert shown([row(1, foundational_reward=-0.0001)]).splitlines()[-1].split()[5] == "0.000"

import numpy as np
import pytest

from trca.cli.curve import draw_curve, moving_mean, sparkline


def test_a_moving_mean_looks_back_and_skips_what_is_missing():
    values = np.array([1.0, np.nan, 3.0, 5.0])
    assert moving_mean(values, 2) == pytest.approx([1.0, 1.0, 3.0, 4.0])


def test_a_sparkline_squeezes_values_into_its_width():
    assert sparkline(np.array([0.0, 0.5, 1.0])) == "▁▅█"
    assert len(sparkline(np.linspace(0, 1, 400), width=40)) == 40
    assert sparkline(np.array([])) == ""


@pytest.mark.parametrize("iterations", [0, 1, 12])
def test_a_curve_is_drawn_for_any_number_of_iterations(tmp_path, iterations):
    rows = [
        {
            "iteration": i + 1,
            "trajectories": 64 * (i + 1),
            "success_rate": i / 12,
            "foundational_reward": -0.1,
            "breakthrough_reward": 0.2,
            **({"evaluation/success_rate": i / 14} if i % 4 == 0 else {}),
        }
        for i in range(iterations)
    ]
    path = tmp_path / "curve.png"
    draw_curve(rows, path, "quickstart")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curve.png"]

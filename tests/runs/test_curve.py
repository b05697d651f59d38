import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from trca.cli.show.figures import draw_comparison, label_names, plot_comparison
from trca.runs.curve import (
    FOUNDATION,
    HELD_OUT,
    TRAIN,
    draw_curve,
    moving_mean,
    panel_words,
    percent,
    plot_curve,
    sparkline,
)


def metrics(iterations, start=0.0, n=16):
    return [
        {
            "iteration": i + 1,
            "trajectories": 64 * (i + 1),
            "success_rate": min(1.0, start + i / 12),
            "foundational_reward": -0.1,
            "breakthrough_reward": 0.2,
            **(held_out(i / 16, n) if i % 4 == 0 else {}),
        }
        for i in range(iterations)
    ]


def held_out(success, n):
    low, high = max(0.0, success - 0.2), min(1.0, success + 0.3)
    ends = {"evaluation/success_low": low, "evaluation/success_high": high}
    return {"evaluation/success_rate": success, "evaluation/n": n, **ends}


def explained(figure):
    """The texts of the legend of a curve."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def curve(rows, panel=""):
    figure = Figure()
    plot_curve(figure, rows, "quickstart: TRCA on trca/ALFWorld-v0", panel)
    return figure


def comparison(runs):
    figure = Figure()
    plot_comparison(figure, runs, "lambda: TRCA on trca/ALFWorld-v0", "games=small")
    return figure


def legend(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_a_moving_mean_ignores_missing_values_and_a_sparkline_has_its_width():
    values = np.array([1.0, np.nan, 3.0, 5.0])
    assert moving_mean(values, 2) == pytest.approx([1.0, 1.0, 3.0, 4.0])
    assert sparkline(np.array([0.0, 0.5, 1.0])) == "▁▅█"
    assert len(sparkline(np.linspace(0, 1, 400), width=40)) == 40
    assert sparkline(np.array([])) == ""


@pytest.mark.parametrize("iterations", [0, 1, 12])
def test_pictures_are_drawn_for_any_number_of_iterations(tmp_path, iterations):
    draw_curve(metrics(iterations), tmp_path / "curve.png", "quickstart")
    draw_comparison(
        {"a": [metrics(iterations)] * 2}, tmp_path / "both.png", "lambda", "games=small"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.png", "curve.png"]
    for path in tmp_path.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_curve_has_labels_and_the_interval_and_number_of_its_rollouts():
    figure = curve(metrics(9, start=0.25), "games=small")
    upper, lower = figure.axes
    assert explained(figure) == [
        "training, one iteration",
        "training, mean of the last 5 iterations",
        "training at the start, 25%",
        "held out, 95% interval",
    ]
    assert lower.get_ylabel() == "rubric reward per step"
    note = upper.texts[0].get_text()
    assert note == "games=small; 64 rollouts per iteration; 16 rollouts held out"
    (bars,) = upper.collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(np.array([[0, 0.3], [0.05, 0.55], [0.3, 0.8]]))
    assert FOUNDATION not in (HELD_OUT, TRAIN)
    assert {line.get_color() for line in lower.lines}.isdisjoint({HELD_OUT, TRAIN})


def test_held_out_success_without_an_interval_has_no_error_bars():
    ends = ("evaluation/success_low", "evaluation/success_high")
    rows = [{k: v for k, v in row.items() if k not in ends} for row in metrics(5)]
    figure = curve(rows)
    upper, _ = figure.axes
    assert "held out" in explained(figure)
    (bars,) = upper.collections
    assert all(low == high for low, high in (s[:, 1] for s in bars.get_segments()))


def test_a_comparison_shows_means_with_ranges_at_their_ends_on_one_scale():
    figure = comparison({"0.2": [metrics(9), metrics(9, start=0.3)], "0.8": [metrics(9, 0.1)]})
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    assert legend(right) == ["0.2", "0.8"]
    (whisker,) = left.collections
    ends = whisker.get_segments()[0]
    assert ends[:, 0] == pytest.approx([1.03 * 9 * 64] * 2)  # next to the axis
    assert ends[:, 1] == pytest.approx([6 / 12, 6 / 12 + 0.3])
    assert left.lines[0].get_ydata()[0] == pytest.approx(0.15)
    assert max(left.get_xticks()) <= 9 * 64
    note = figure.get_supxlabel()
    assert note.startswith("games=small; mean of 1 to 2 runs; whiskers: lowest to highest")


def test_names_of_one_setting_lose_its_key_and_lambda_has_its_symbol():
    _, right = comparison({f"lambda_={k}": [metrics(1)] for k in (0.2, 0.8)}).axes
    assert [label.get_text() for label in right.get_xticklabels()] == ["0.2", "0.8"]
    assert right.get_xlabel() == "λ; after 64 trajectories"
    _, right = comparison({f"lambda_={k}": [metrics(6)] for k in (0.2, 0.8)}).axes
    assert legend(right) == ["0.2", "0.8"]
    assert right.get_legend().get_title().get_text() == "λ"
    assert label_names(["TRCA lambda_=0.2", "GRPO"]) == ("", ["TRCA λ 0.2", "GRPO"])
    assert label_names(["lr=1  anchor=a", "lr=2  anchor=a"]) == ("lr", ["1", "2"])
    assert label_names(["TRCA lr=1 n=4", "TRCA lr=2 n=8"]) == ("", ["lr 1; n 4", "lr 2; n 8"])


def test_long_names_are_folded_and_stand_in_the_legend_only():
    long = [f"budgets=evidence 0.{k}, invalidity 0.{k}, execution 0.{k}" for k in (1, 2)]
    words = legend(comparison({name: [metrics(9)] for name in long}).axes[1])
    assert words[0] == "evidence 0.1, invalidity 0.1,\nexecution 0.1"
    _, right = comparison({name: [metrics(1)] for name in long}).axes
    assert [label.get_text() for label in right.get_xticklabels()] == ["", ""]
    assert legend(right) == words


def test_low_success_has_a_separate_scale():
    low = [{**row, "success_rate": 0.2} for row in metrics(9)]
    low = [{**row, "evaluation/success_rate": 0.1} for row in low]
    figure = comparison({"0.2": [low]})
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim() == pytest.approx((-0.004, 0.25))
    assert "the axis ends at 25%" in figure.get_supxlabel()


def test_a_method_has_the_same_colour_in_every_picture():
    def colors(*names):
        shown = comparison({name: [metrics(4)] for name in names}).axes[1].get_legend()
        texts, lines = shown.get_texts(), shown.get_lines()
        return {t.get_text(): line.get_color() for t, line in zip(texts, lines, strict=True)}

    first, second = colors("TRCA", "GRPO", "GiGPO"), colors("RLOO", "GiGPO-plan", "GRPO")
    assert first["GRPO"] == second["GRPO"]
    assert first["GiGPO"] == second["GiGPO-plan"]
    assert len({*first.values(), second["RLOO"]}) == 4
    third = colors("TRCA-stages", "TRCA", "BEACON")
    assert third["TRCA"] == first["TRCA"]
    assert third["TRCA-stages"] not in (third["TRCA"], third["BEACON"])
    assert colors("TRCA-stages", "GRPO")["TRCA-stages"] == first["TRCA"]
    assert len(set(colors(*(f"TRCA lambda_=0.{k}" for k in range(6))).values())) == 6


def test_single_points_have_a_column_a_setting_with_their_ranges():
    figure = comparison({"0.2": [metrics(1), metrics(1, start=0.5)], "0.8": [metrics(1)] * 2})
    left, _ = figure.axes
    assert [line.get_xdata()[0] for line in left.lines] == [0, 1]
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.2", "0.8"]
    assert left.get_xlabel() == "after 64 trajectories"
    ranges = [bar.get_segments()[0][:, 1] for bar in left.collections]
    assert [list(each) for each in ranges] == [[0, 0.5], [0, 0]]


def test_a_single_evaluation_and_runs_that_stopped_early_are_drawn_as_far_as_all_got():
    left, right = comparison({"0.2": [metrics(4)], "0.8": [metrics(4)]}).axes
    assert left.get_xlim() == pytest.approx((0, 256 * 1.048))
    assert left.get_xlabel() == "trajectories"
    assert right.get_xlabel() == "after 64 trajectories"
    figure = comparison({"0.2": [metrics(9), metrics(4)]})
    assert len(figure.axes[0].lines[0].get_xdata()) == 4


def test_a_long_title_and_the_words_of_a_panel_stay_inside_the_picture():
    words = panel_words({"games": "small", "max_steps": 16}, "train", "valid_seen")
    assert words == "games=small; trained on train, held out valid_seen"
    name = "scienceworld: TRCA on trca_scienceworld:scienceworld/ScienceWorld-v0"
    panel = "types=['find-animal', 'find-non-living-thing']; trained on train, held out dev"
    figure = Figure(figsize=(7.2, 5.8), layout="constrained")
    plot_curve(figure, metrics(9), name, panel)
    FigureCanvasAgg(figure).draw()
    upper = figure.axes[0]
    places = [text.get_window_extent() for text in (*upper.texts, upper._left_title)]
    assert max(place.x1 for place in places) <= figure.bbox.x1
    assert upper.get_window_extent().width > 0.8 * figure.bbox.width


def test_values_of_a_number_are_shades_of_one_colour_and_equal_lines_are_named():
    runs = {f"lambda_={k}": [metrics(6, start=k / 2)] for k in (0.8, 0.2, 0.5)}
    colors = [line.get_color() for line in comparison(runs).axes[0].lines]
    light = [sum(matplotlib.colors.to_rgb(color)) for color in colors]
    assert light[0] < light[2] < light[1]  # the largest value is the darkest
    figure = comparison({name: [metrics(6)] for name in ("GRPO", "RLOO")})
    assert "GRPO and RLOO are the same line" in figure.get_supxlabel()


def test_two_points_are_columns():
    left, _ = comparison({"GRPO": [metrics(2)], "TRCA": [metrics(2, start=0.5)]}).axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["GRPO", "TRCA"]
    assert left.get_xlabel() == "after 128 trajectories"


def test_small_shares_have_different_labels():
    rows = [{**row, "success_rate": row["success_rate"] / 50} for row in metrics(6)]
    left, _ = comparison({"GRPO": [rows]}).axes
    left.figure.canvas.draw()
    labels = [label.get_text() for label in left.get_yticklabels()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(("share", "label"), [(0.05, "5%"), (0.025, "2.5%"), (0.15, "15%")])
def test_a_tick_has_the_decimals_that_it_needs(share: float, label: str) -> None:
    assert percent(share) == label

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.page_pictures import rows_of
from trca.analysis.diagnosis import Diagnosis
from trca.cli.show.diagnosis import plot_diagnosis
from trca.cli.show.figures import draw_budgets, draw_setting, label_names, plot_comparison
from trca.runs.curve import plot_curve


def run(success):
    return [{"trajectories": 64 * (k + 1), "success_rate": success} for k in range(10)]


def test_bars_at_zero_carry_a_number(tmp_path):
    draw_budgets({"GRPO": [run(0.0)], "RLOO": [run(0.5)]}, tmp_path / "bars.png", "no success")
    drawn = (tmp_path / "bars.svg").read_text()
    assert drawn.count("<!-- 0% -->") == 3 + 1, "three bars of GRPO, and the tick of the axis"


def test_a_run_without_training_success_is_drawn_and_named_where_it_is_measured():
    curves = {
        "TRCA": [{**row, "evaluation/success_rate": 0.5} for row in run(0.4)],
        "Imitation": [{**row, "evaluation/success_rate": 0.7} for row in run(None)],
    }
    figure = Figure()
    plot_comparison(figure, {name: [rows] for name, rows in curves.items()}, "", "")
    left, right = figure.axes
    legend = right.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["TRCA", "Imitation"]
    colors = [line.get_color() for line in legend.get_lines()]
    assert [line.get_color() for line in left.lines] == colors[:1]
    assert [(line.get_color(), line.get_ydata()[-1]) for line in right.lines] == [
        (colors[0], 0.5),
        (colors[1], 0.7),
    ]


def test_a_long_note_is_broken_into_lines():
    figure = Figure()
    plot_comparison(figure, {"a": [run(0.4)]}, "", "a panel of tasks, " * 20)
    lines = figure.get_supxlabel().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 150


def test_a_curve_without_training_success_has_no_line_of_training():
    figure = Figure()
    plot_curve(figure, [{**row, "evaluation/success_rate": 0.5} for row in run(None)], "")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["held out"]


def test_lines_over_a_setting_have_the_names_of_the_types(tmp_path):
    shares = {"Pick": {0.2: [0.5], 0.8: [0.6]}, "All": {0.2: [0.4], 0.8: [0.5]}}
    draw_setting(shares, "lambda_", tmp_path / "over.png", "ALFWorld")
    drawn = (tmp_path / "over.svg").read_text()
    assert all(f"<!-- {words} -->" in drawn for words in ("λ", "Pick", "All"))
    assert "lambda_" not in drawn


def test_an_operator_that_never_fires_is_shown_as_zero():
    classes = dict.fromkeys(("Execution", "Evidence", "Validity", "Other"), 0.25)
    categories = {"seen": "evidence", "unparsed": "invalidity", "taken": "execution"}
    figure = Figure()
    study = Diagnosis(
        rollouts=64,
        groups=8,
        steps=640,
        failure_rate=0.9,
        success_free_groups=0.5,
        useful_transitions=0.75,
        classes=classes,
        parsed=1.0,
        accepted=0.9,
        fired={"seen": 0.2, "taken": 0.1},
    )
    plot_diagnosis(figure, {"iterations 1-5": study}, categories, "quickstart")
    _, right = figure.axes
    words = [(text.get_text(), text.get_position()[1]) for text in right.texts]
    assert ("0%", 1) in words
    assert [word for word, _ in words if word != "0%"] == ["Evidence", "Invalidity", "Execution"]


def test_names_of_several_settings_keep_their_keys():
    names = ["budgets=evidence 1  budget_schedule=constant", "budgets=evidence 2  lambda_=0.2"]
    words = ["budgets evidence 1; budget_schedule constant", "budgets evidence 2; λ 0.2"]
    assert label_names(names) == ("", words)


def test_the_tables_of_the_page_have_the_points_of_each_sweep():
    page = """
$ trca sweep sweeps/budgets
 budgets            schedule       runs       held out         last 5
 ──────────────────────────────────────────────────────────────────
 evidence 0.05,     constant          4  47.8% ± 22.8%  69.8% ± 13.7%             -
 execution 0.25
 evidence 0.05,     group_success     4  48.4% ± 14.2%  64.0% ± 20.9%   +0.7 ± 23.9
 execution 0.25
```
"""
    (first, numbers), (second, _) = rows_of(page, "budgets")
    assert (first, second) == (
        "evidence 0.05, execution 0.25, constant",
        "evidence 0.05, execution 0.25, group_success",
    )
    assert np.array(numbers) == pytest.approx(np.array([[0.478, 0.228], [0.698, 0.137]]))

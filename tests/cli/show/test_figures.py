import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.page_pictures import rows_of
from trca.analysis.diagnosis import Diagnosis
from trca.cli.show.diagnosis_figure import plot_diagnosis
from trca.cli.show.figure_labels import coinciding, label_names, spread
from trca.cli.show.figures import draw_budgets, draw_setting, plot_comparison
from trca.runs.curve import plot_curve


def run(success):
    return [{"trajectories": 64 * (k + 1), "success_rate": success} for k in range(10)]


def test_bars_at_zero_carry_a_number(tmp_path):
    draw_budgets({"GRPO": [run(0.0)], "RLOO": [run(0.5)]}, tmp_path / "bars.png", "no success")
    drawn = (tmp_path / "bars.svg").read_text()
    assert drawn.count("<!-- 0% -->") == 3 + 1, "three bars of GRPO, and the tick of the axis"


def test_a_run_without_training_success_is_named_at_its_held_out_line():
    curves = {
        "TRCA": [{**row, "evaluation/success_rate": 0.5} for row in run(0.4)],
        "Imitation": [{**row, "evaluation/success_rate": 0.7} for row in run(None)],
    }
    figure = Figure()
    plot_comparison(figure, {name: [rows] for name, rows in curves.items()}, "", "")
    left, right = figure.axes
    assert [text.get_text() for text in left.texts] == ["TRCA"]
    (label,) = right.texts
    assert (label.get_text(), round(label.get_position()[1], 6)) == ("Imitation", 0.7)


def test_a_long_note_is_broken_into_lines():
    names = [f"method {k} with some longer words" for k in range(8)]
    figure = Figure()
    plot_comparison(figure, {name: [run(0.4)] for name in names}, "", "a panel")
    lines = figure.get_supxlabel().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 150


def test_a_curve_without_training_success_has_no_line_of_training():
    figure = Figure()
    plot_curve(figure, [{**row, "evaluation/success_rate": 0.5} for row in run(None)], "")
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert words == ["held out"]


def test_runs_without_training_success_are_named_though_no_run_has_it():
    held_out = [
        [{**row, "evaluation/success_rate": share} for row in run(None)] for share in (0.2, 0.6)
    ]
    figure = Figure()
    plot_comparison(figure, {"Imitation": [held_out[0]], "Longer": [held_out[1]]}, "", "")
    left, right = figure.axes
    assert not left.texts
    assert [text.get_text() for text in right.texts] == ["Imitation", "Longer"]


def test_lines_over_a_setting_are_labelled_at_their_ends(tmp_path):
    shares = {"Pick": {0.2: [0.5], 0.8: [0.6]}, "All": {0.2: [0.4], 0.8: [0.5]}}
    draw_setting(shares, "lambda_", tmp_path / "over.png", "ALFWorld")
    drawn = (tmp_path / "over.svg").read_text()
    assert all(f"<!-- {words} -->" in drawn for words in ("λ", "Pick", "All"))
    assert "lambda_" not in drawn
    assert "legend" not in drawn


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


@pytest.mark.parametrize("values", [[0.5, 0.5, 0.5], [0.1, 0.9, 0.5], [0.98, 0.99], [0.4]])
def test_labels_move_apart_and_keep_their_order(values):
    places = spread(values, 0.05, 1.0)
    order = np.argsort(values, kind="stable")
    assert max(places) <= 1.0 + 1e-9
    assert (np.diff(np.array(places)[order]) > 0.0499).all()


def test_curves_coincide_within_a_share_of_the_axis():
    line = np.linspace(0, 0.5, 9)
    curves = {"a": line, "b": line + 0.01, "c": line + 0.04, "d": line[:1]}
    assert coinciding(curves) == ["lines of a, b coincide"]


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

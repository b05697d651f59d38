"""Markdown tables: alignment, escaped cells and zeros without a sign."""

import pytest

from trca.common.markdown import markdown_table


def test_text_columns_are_aligned_left_and_numbers_right():
    assert markdown_table(["method", "runs", "score"], [["TRCA", 3, 0.5], ["GRPO", "", "-"]]) == (
        "| method | runs | score |\n|---|---:|---:|\n| TRCA | 3 | 0.5 |\n| GRPO | | - |\n"
    )
    assert markdown_table(["n"], [[1]], text_columns=0) == "| n |\n|---:|\n| 1 |\n"


def test_bars_and_line_breaks_do_not_break_a_cell():
    table = markdown_table(["a|b"], [["x|y\nz"]])
    assert table == "| a\\|b |\n|---|\n| x\\|y z |\n"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("-0.00", "0.00"),
        ("-0.0%", "0.0%"),
        ("**-0.0 (0.1)**", "**0.0 (0.1)**"),
        ("-0.01", "-0.01"),
        ("-0.0010", "-0.0010"),
        ("1e-0", "1e-0"),
    ],
)
def test_a_zero_has_no_sign(cell, shown):
    assert markdown_table(["x"], [[cell]]).splitlines()[2] == f"| {shown} |"


def test_a_row_with_a_missing_cell_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells, the head has 2"):
        markdown_table(["a", "b"], [["x"]])

"""Any value becomes one line with a limited number of characters."""

import pytest

from trca.common.errors import short_line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a  b\n\tc\u2028d\x1ee\x85f", "a b c d e f"),
        (ValueError("no\nway"), "no way"),
        ("", ""),
        ("x" * 12, "x" * 12),
        ("x" * 13, "x" * 9 + "..."),
    ],
)
def test_lines(value, line):
    assert short_line(value, 12) == line
    assert len(line.splitlines()) <= 1

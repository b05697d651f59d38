"""JSON lines: a kill or a full disk costs at most one line."""

import json

import pytest

from trca.common.json_lines import append_lines, read_lines

ROWS = [{"reason": "a\u2028b\x85c\nd"}, {"n": 1.5}, {"é": None}]


def test_rows_come_back_whatever_is_in_them(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert read_lines(path) == []
    append_lines(path, ROWS[:1])
    append_lines(path, ROWS[1:])
    assert read_lines(path) == ROWS


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    append_lines(path, [{"n": 1}, {"word": "é" * 9}])
    path.write_bytes(path.read_bytes()[:-cut])
    append_lines(path, [{"n": 3}])
    whole = [{"n": 1}, {"word": "é" * 9}, {"n": 3}] if cut == 1 else [{"n": 1}, {"n": 3}]
    assert read_lines(path) == whole


def test_half_a_letter_and_lines_without_names_are_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(json.dumps({"n": 1}).encode() + b'\n[2]\n"n"\n{"word": "\xc3')
    assert read_lines(path) == [{"n": 1}]

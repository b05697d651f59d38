"""Processes of a group that are stuck begin again, and then say where."""

import time

import pytest

from tests import processes

pytestmark = pytest.mark.slow


def test_a_process_that_is_stuck_once_begins_again_with_all_others(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "STUCK_S", 8)

    def stuck_once(rank):
        if rank and not (tmp_path / "was").exists():
            (tmp_path / "was").touch()
            time.sleep(60)
        return rank

    assert processes.together(stuck_once, 2, tmp_path) == [0, 1]


def test_a_process_that_is_always_stuck_is_an_error_with_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "STUCK_S", 8)
    with pytest.raises(RuntimeError, match=r"(?s)process 1 ended with -6: .*most recent call"):
        processes.together(lambda rank: time.sleep(60 * rank), 2, tmp_path)

"""Text files are written atomically, and checksums equal those of sha256sum."""

import json
import os
from math import inf
from pathlib import Path

import pytest

from trca.common.files import sha256, versions, write_json, write_text


def test_a_text_replaces_another_text(tmp_path):
    path = tmp_path / "notes.txt"
    write_text(path, "first")
    write_text(path, "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_failed_write_leaves_the_old_text(tmp_path):
    path = tmp_path / "notes.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_number_that_is_not_finite_is_null_in_json(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": [1.5, float("nan")], "b": {"c": (-inf, 2, "NaN")}})
    assert json.loads(path.read_text()) == {"a": [1.5, None], "b": {"c": [None, 2, "NaN"]}}


def test_a_checksum(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_versions_of_files_are_absolute_path_size_and_time(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    for name in ("a", "folder/b"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(0, 7))
    monkeypatch.chdir(tmp_path)
    assert versions(Path("a")) == ((str(tmp_path / "a"), 1, 7),)
    both = versions(tmp_path)
    assert [row for row in both if "b" in Path(row[0]).name] == [(f"{tmp_path}/folder/b", 8, 7)]
    os.utime(tmp_path / "folder" / "b", ns=(0, 8))
    assert versions(tmp_path) != both
    assert versions(tmp_path / "nothing") == ()

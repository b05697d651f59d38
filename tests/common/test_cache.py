"""The cache builds a folder once, atomically, under one root; a cache of texts is bounded."""

import os

import pytest

from trca.common.cache import build_once, cache_folder, remembered


def write(text):
    def build(folder):
        (folder / "text").write_text(text)

    return build


def die(folder):
    (folder / "half").touch()
    raise KeyboardInterrupt


def is_whole(folder):
    return (folder / "text").exists()


def test_a_folder_is_built_once(tmp_path):
    folder = build_once(tmp_path / "deep" / "made", write("first"))
    assert build_once(folder, write("second")) == folder
    assert (folder / "text").read_text() == "first"


def test_a_build_that_dies_leaves_nothing_but_the_lock(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "made", die)
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]


def test_the_draft_of_a_killed_build_is_discarded(tmp_path):
    (tmp_path / ".made.part").mkdir()
    (tmp_path / ".made.part" / "half").touch()
    folder = build_once(tmp_path / "made", write("whole"))
    assert [path.name for path in folder.iterdir()] == ["text"]


def test_a_damaged_folder_is_built_again(tmp_path):
    folder = build_once(tmp_path / "made", write("whole"), is_whole)
    (folder / "text").rename(folder / "other")
    build_once(folder, write("again"), is_whole)
    assert [path.name for path in folder.iterdir()] == ["text"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the superuser")
def test_the_error_of_an_unwritable_cache_names_the_variable(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="TRCA_CACHE"):
        build_once(tmp_path / "made", write(""))


def test_all_environments_store_their_data_under_the_same_root(tmp_path, monkeypatch):
    from trca.envs.alfworld.data.official import data_folder
    from trca.envs.searchqa.data.corpora import indexed

    monkeypatch.delenv("ALFWORLD_DATA", raising=False)  # importing alfworld sets it
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    assert data_folder() == tmp_path / "alfworld"
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "contents": "\\"T\\"\\ntext"}\n')
    assert indexed(corpus).parent == tmp_path / "searchqa"


def counting(entries, longest):
    """A cached function and the texts of its calls."""
    calls = []

    @remembered(entries, longest)
    def size(text):
        calls.append(text)
        return len(text)

    return size, calls


def test_a_short_text_is_computed_once_and_a_long_text_every_time():
    size, calls = counting(entries=10, longest=3)
    assert [size("abc"), size("abc"), size("abcd"), size("abcd")] == [3, 3, 4, 4]
    assert calls == ["abc", "abcd", "abcd"]


def test_the_texts_used_last_are_kept():
    size, calls = counting(entries=2, longest=3)
    for text in ("a", "b", "a", "c", "a", "b"):
        size(text)
    assert calls == ["a", "b", "c", "b"]

"""The cache builds a folder once, atomically, under one root."""

import os

import pytest

from trca.common.cache import build_once, cache_folder


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
    (tmp_path / "made.draft").mkdir()
    (tmp_path / "made.draft" / "half").touch()
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

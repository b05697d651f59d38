"""The hash of a model's weight files: the hashed files, and the time of reading."""

import os
from pathlib import Path

from trca.policies import weight_files
from trca.policies.weight_files import weights_folder, weights_hash


def written(folder, **files):
    for name, text in files.items():
        path = folder / name / "model.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def alone(folder, text, name="model.safetensors"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return str(folder)


def test_the_hash_depends_on_the_content_and_not_on_the_folder(tmp_path):
    one = weights_hash(alone(tmp_path / "one", "a"))
    assert len(one) == 64
    assert one == weights_hash(alone(tmp_path / "same", "a"))
    assert one != weights_hash(alone(tmp_path / "other", "b"))
    assert one != weights_hash(alone(tmp_path / "renamed", "a", "other.safetensors"))


def test_the_weights_of_a_team_are_those_of_all_roles(tmp_path):
    team = weights_hash(written(tmp_path / "team", planner="a", executor="b"))
    assert team == weights_hash(written(tmp_path / "same", planner="a", executor="b"))
    assert team != weights_hash(written(tmp_path / "swapped", planner="b", executor="a"))


def test_other_files_of_a_model_do_not_count(tmp_path):
    model = alone(tmp_path / "model", "a")
    before = weights_hash(model)
    written(tmp_path / "model", **{"checkpoint-500": "b"})
    alone(tmp_path / "model", "{}", "config.json")
    alone(tmp_path / "model", "c", "pytorch_model.bin")
    assert weights_hash(model) == before


def test_an_older_model_has_other_files_and_an_empty_folder_no_hash(tmp_path):
    older = weights_hash(alone(tmp_path / "older", "a", "pytorch_model.bin"))
    assert len(older) == 64
    (tmp_path / "none").mkdir()
    assert weights_hash(str(tmp_path / "none")) == ""


def test_a_process_reads_a_file_once_until_it_changes(tmp_path, monkeypatch):
    model, reads = alone(tmp_path / "model", "a"), list[Path]()
    read = weight_files.sha256
    monkeypatch.setattr(weight_files, "sha256", lambda path: reads.append(path) or read(path))
    before = weights_hash(model)
    assert weights_hash(model) == before
    assert len(reads) == 1
    file = tmp_path / "model/model.safetensors"
    file.write_text("b")  # as many bytes
    os.utime(file, ns=(0, 0))
    assert weights_hash(model) != before
    assert len(reads) == 2


def test_a_name_of_the_hub_is_looked_up_in_its_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--owner--name"
    snapshot = repository / "snapshots" / "98abc"
    alone(snapshot, "{}", "config.json")
    alone(repository / "refs", "98abc", "main")
    alone(snapshot, "a")
    assert weights_folder("owner/name") == snapshot
    assert weights_hash("owner/name") == weights_hash(alone(tmp_path / "same", "a"))

"""Game sources, generated and official: unknown names are errors with the nearest name."""

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from trca.envs.alfworld.data.generate import draw
from trca.envs.alfworld.data.official import GAME_FILE, GamesMissingError, unpack, unpacked
from trca.envs.alfworld.data.sources import (
    GeneratedGames,
    OfficialGames,
    game_source,
    task_type_of,
)
from trca.envs.alfworld.game import GameFileError
from trca.envs.panel import Panel, canonical_panel

SHARED = Path(__file__).parents[3] / ".." / "shared" / "data" / "alfworld" / "json_2.1.1.tar.xz"
FOLDERS = {
    "Pick": "pick_and_place_simple-Mug-None-Desk-308",
    "Look": "look_at_obj_in_light-Book-None-DeskLamp-308",
    "Clean": "pick_clean_then_place_in_recep-Cloth-None-Cabinet-424",
    "Heat": "pick_heat_then_place_in_recep-Egg-None-Fridge-13",
    "Cool": "pick_cool_then_place_in_recep-Pan-None-CounterTop-10",
    "Pick2": "pick_two_obj_and_place-Watch-None-Safe-219",
}


@pytest.fixture
def official(tmp_path):
    """A folder laid out as a release, with one game of each type in two splits."""
    root = tmp_path / "release" / "json_2.1.1"
    for split in ("train", "valid_seen"):
        for task_type, folder in FOLDERS.items():
            place = root / split / folder / "trial_T1"
            place.mkdir(parents=True)
            (place / GAME_FILE).write_text(json.dumps(draw("small", split, task_type, 0).game()))
    return root


def packed(root, path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            for file in sorted(root.rglob("*")):
                out.write(file, file.relative_to(root.parent))
    else:
        with tarfile.open(path, f"w:{path.suffix[1:]}") as out:
            out.add(root, root.name)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class TestGenerated:
    def test_ids_are_readable_and_take_turns_over_the_types(self):
        ids = GeneratedGames("small").task_ids("train")
        assert ids[:5] == (
            "small/train/pick-0000",
            "small/train/clean-0000",
            "small/train/heat-0000",
            "small/train/cool-0000",
            "small/train/pick-0001",
        )
        assert len(ids) == len(set(ids)) == 128

    def test_other_types_come_on_demand(self):
        source = GeneratedGames("small")
        ids = source.task_ids("valid_unseen", ["Pick2", "Look"])
        assert ids[:2] == ("small/valid_unseen/look-0000", "small/valid_unseen/pick2-0000")
        assert {source.task_type(i) for i in ids} == {"Look", "Pick2"}

    def test_a_seed_shows_in_the_ids(self):
        assert game_source("medium-7").task_ids("train")[0] == "medium-7/train/pick-0000"

    def test_a_process_shares_the_games_that_it_used_last(self):
        source = game_source("small")
        first, second = (source.load(task) for task in source.task_ids("train")[:2])
        assert game_source("small").load(source.task_ids("train")[0]) is first is not second
        assert game_source("small-1").load("small-1/train/pick-0000") is not first

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: game_source("smal"), "did you mean 'small'"),
            (lambda: game_source("nowhere/at/all"), "no folder or archive of games"),
            (lambda: GeneratedGames("tiny"), "small, medium, large"),
            (lambda: game_source("small").task_ids("valid_sen"), "did you mean 'valid_seen'"),
            (lambda: game_source("small").task_ids("valid_train"), "valid_unseen"),
            (lambda: game_source("small").task_ids("train", ["Haet"]), "did you mean 'Heat'"),
            (lambda: game_source("small").task_ids("train", []), "choose from Pick"),
            (lambda: game_source("small").load("small/train/heat"), "small/train/heat-0012"),
            (lambda: game_source("small").load("small/train/head-0001"), "did you mean 'heat'"),
        ],
    )
    def test_unknown_names_list_the_known_ones(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()


class TestOfficial:
    def test_types_are_read_off_the_folders(self):
        assert {name: task_type_of(folder) for name, folder in FOLDERS.items()} == {
            name: name for name in FOLDERS
        }
        assert task_type_of("pick_and_place_with_movable_recep-Pen-Mug-Desk-307") is None
        assert task_type_of("pick_and_place_simple-AppleSliced-None-Fridge-1") is None
        assert task_type_of("notes") is None

    def test_ids_are_sorted_paths(self, official):
        games = OfficialGames(official)
        assert games.splits == ("train", "valid_seen")
        assert games.task_ids("train") == tuple(
            f"train/{folder}/trial_T1" for folder in sorted(FOLDERS.values())
        )
        assert games.task_ids("train", ["Heat"]) == (f"train/{FOLDERS['Heat']}/trial_T1",)
        assert games.task_type(games.task_ids("train", ["Heat"])[0]) == "Heat"

    def test_the_folder_above_will_do(self, official):
        assert OfficialGames(official.parent).folder == official

    def test_alfworld_data_is_where_official_games_are(self, official, monkeypatch):
        monkeypatch.setenv("ALFWORLD_DATA", str(official.parent))
        assert game_source("official").name == str(official)

    def test_a_missing_release_says_how_to_get_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
        with pytest.raises(GamesMissingError, match="trca data alfworld"):
            game_source("official")

    def test_unpacked_games_of_others_in_the_cache_are_no_release(self, cache, monkeypatch):
        monkeypatch.delenv("ALFWORLD_DATA", raising=False)
        (cache / "alfworld" / "games" / "0123" / "train").mkdir(parents=True)
        with pytest.raises(GamesMissingError, match="trca data alfworld"):
            game_source("official")

    def test_a_folder_without_games_says_what_was_expected(self, tmp_path):
        with pytest.raises(GameFileError, match=r"<split>/<task>/<trial>/game\.tw-pddl"):
            OfficialGames(tmp_path)
        (tmp_path / "train" / "notes").mkdir(parents=True)
        with pytest.raises(GameFileError, match=r"<split>/<task>/<trial>/game\.tw-pddl"):
            game_source(tmp_path)

    def test_unknown_splits_types_and_tasks_are_named(self, official):
        games = OfficialGames(official)
        with pytest.raises(ValueError, match="Known: train, valid_seen"):
            games.task_ids("valid_unseen")
        near = games.task_ids("train")[0][:-1]
        with pytest.raises(ValueError, match="did you mean"):
            games.load(near)

    @pytest.mark.parametrize(
        "content", ["", "{", "[]", '{"pddl_domain": "x"}', "\0\0\0", "not a game"]
    )
    def test_broken_and_foreign_files_are_named_when_loaded(self, official, content):
        games = OfficialGames(official)
        task = games.task_ids("train")[0]
        (official / task / GAME_FILE).write_text(content)
        with pytest.raises(GameFileError, match=task):
            games.load(task)

    def test_a_changed_game_is_read_again(self, official):
        games = OfficialGames(official)
        task = games.task_ids("train")[0]
        old = games.load(task)
        assert games.load(task) is OfficialGames(official).load(task) is old
        content = (official / task / GAME_FILE).read_text()
        (official / task / GAME_FILE).write_text(content.replace(old.task, "put a pen in desk."))
        assert games.load(task).task == "put a pen in desk." != old.task

    def test_games_that_are_added_later_are_listed(self, official):
        first = OfficialGames(official).task_ids("train")
        shutil.copytree(official / first[0], (official / first[0]).with_name("trial_T2"))
        shutil.copytree(
            official / "valid_seen" / FOLDERS["Heat"], official / "train" / "pick_heat_2"
        )
        later = OfficialGames(official).task_ids("train")
        assert set(later) - set(first) == {first[0].replace("T1", "T2")}


class TestArchives:
    @pytest.mark.parametrize("suffix", [".tar.xz", ".tar.gz", ".zip"])
    def test_an_archive_holds_the_same_games_as_its_folder(self, official, tmp_path, cache, suffix):
        games = OfficialGames(packed(official, tmp_path / f"games{suffix}"))
        assert cache in games.folder.parents
        for split in games.splits:
            assert games.task_ids(split) == OfficialGames(official).task_ids(split)
        task = games.task_ids("train")[0]
        assert (games.folder / task / GAME_FILE).read_bytes() == (
            official / task / GAME_FILE
        ).read_bytes()

    def test_an_archive_is_unpacked_once_and_mended_when_files_are_gone(
        self, official, tmp_path, cache
    ):
        archive = packed(official, tmp_path / "games.zip")
        folder = unpacked(archive)
        before = folder.stat().st_ino
        assert unpacked(archive).stat().st_ino == before
        game = folder / "train" / FOLDERS["Heat"] / "trial_T1" / GAME_FILE
        game.write_text("")
        assert (unpacked(archive) / game).stat().st_size > 0

    def test_a_truncated_archive_is_refused_and_leaves_nothing(self, official, tmp_path, cache):
        for suffix in (".tar.xz", ".tar.gz", ".zip"):
            archive = packed(official, tmp_path / f"games{suffix}")
            archive.write_bytes(archive.read_bytes()[:-2000])
            with pytest.raises(GameFileError, match=f"games{suffix}.*trca data alfworld"):
                OfficialGames(archive)
        assert not [p for p in (cache / "alfworld" / "games").iterdir() if p.is_dir()]

    def test_an_archive_without_games_is_refused(self, tmp_path, cache):
        other = tmp_path / "other"
        other.mkdir()
        (other / "notes.txt").write_text("nothing")
        with pytest.raises(GameFileError, match="no games in this archive"):
            OfficialGames(packed(other, tmp_path / "other.zip"))
        (tmp_path / "plain.zip").write_text("not an archive at all")
        with pytest.raises(GameFileError, match=r"plain\.zip"):
            OfficialGames(tmp_path / "plain.zip")

    def test_members_cannot_lead_out_of_the_folder(self, tmp_path):
        archive = tmp_path / "hostile.zip"
        with zipfile.ZipFile(archive, "w") as out:
            out.writestr(f"../../train/{FOLDERS['Heat']}/../{GAME_FILE}", "x")
            out.writestr(f"/train/{FOLDERS['Heat']}/trial/{GAME_FILE}", "x")
            out.writestr(f"../train/{FOLDERS['Pick']}/trial/{GAME_FILE}", "x")
        folder = tmp_path / "deep" / "games"
        unpack(archive, folder)
        paths = {p.relative_to(tmp_path) for p in tmp_path.rglob(GAME_FILE)}
        assert len(paths) == 2
        assert all(str(p).startswith("deep/games/train/pick_") for p in paths)


@pytest.mark.skipif(not SHARED.exists(), reason=f"no archive of official games at {SHARED}")
def test_the_official_release_has_its_known_splits(cache):
    games = OfficialGames(SHARED)
    counts = {split: len(games.task_ids(split)) for split in games.splits}
    assert counts == {"train": 3553, "valid_seen": 140, "valid_unseen": 134, "valid_train": 200}
    by_type = {t: len(games.task_ids("valid_unseen", [t])) for t in FOLDERS}
    assert by_type == {"Pick": 24, "Look": 18, "Clean": 31, "Heat": 23, "Cool": 21, "Pick2": 17}
    for name in ("official-140", "official-134", "verl-agent-128"):
        panel = canonical_panel(name)
        tasks = tuple(games.task_ids(panel.split))
        canonical = panel.draw(Panel(panel.environment, panel.split, tasks))
        assert (canonical.hash, len(canonical.task_ids)) == (
            panel.hash,
            int(name.rpartition("-")[2]),
        )
    shutil.rmtree(cache)

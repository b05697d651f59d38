"""The game files that the ALFWorld benchmarks play."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from trca.envs.alfworld.data import generate
from trca.envs.alfworld.data.generate import SIZES
from trca.envs.alfworld.data.official import GAME_FILE
from trca.envs.alfworld.data.sources import GeneratedGames, OfficialGames


def game_files(name: str, splits: Iterable[str], folder: Path) -> Iterator[Path]:
    """Yields the files of official games, or of generated games after writing them to a folder.

    Args:
        name: The path of a folder or archive of official games, or a generated size.
        splits: The splits, in order.
        folder: Folder for generated games.
    """
    if name not in SIZES:
        source = OfficialGames(name)
        yield from (source.folder / i / GAME_FILE for s in splits for i in source.task_ids(s))
        return
    types = {task_type.lower(): task_type for task_type in SIZES[name].task_types}
    for task in (task for split in splits for task in GeneratedGames(name).task_ids(split)):
        _, split, rest = task.split("/")
        kind, _, number = rest.partition("-")
        path = folder / split / rest / GAME_FILE
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(generate.draw(name, split, types[kind], int(number)).game()))
        yield path

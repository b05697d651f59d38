"""Compares WebShop with recordings of the original: prices, goals, pages and scores.

    python benchmarks/webshop_parity.py --data path/to/webshop

Plays every recorded episode again in ``compat="original"`` and its observation mode, first with the
recorded search results, then with trca's search. Compares observation, clickables and their order,
search bar, reward and done at every step, every goal of both lists, every price, and every recorded
score with its parts. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trca.envs.webshop.compat import quirks_of
from trca.envs.webshop.data.catalogue import Catalogue
from trca.envs.webshop.data.official import CatalogueFiles, read_human_instructions, read_products
from trca.envs.webshop.data.products import Product
from trca.envs.webshop.reward import Score, noun_extractor, score_purchase
from trca.envs.webshop.simulator import Simulator
from trca.envs.webshop.tasks import Goal, make_goals

SEED = 7
"""Seed of the recordings."""
KINDS = ("human", "synthetic")


def read(path: Path) -> Any:
    """Reads a JSON or JSON lines file, compressed or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    if ".jsonl" in path.name:
        return [json.loads(line) for line in text.split("\n") if line]
    return json.loads(text)


@dataclass(frozen=True)
class Recordings:
    """The recordings of a folder, and trca's catalogue of the same files.

    Attributes:
        folder: Folder of the recordings.
        catalogue: trca's catalogue with the original's prices.
    """

    folder: Path
    catalogue: Catalogue

    @classmethod
    def open(cls, folder: Path) -> Recordings:
        """Reads the catalogue of a folder."""
        files = CatalogueFiles.find(folder)
        human = read_human_instructions(files)
        entries = ((each, tuple(human.get(each.asin, ()))) for each in read_products(files))
        return cls(folder, Catalogue.of(entries, SEED, "original"))

    def goals(self, kind: str) -> tuple[Goal, ...]:
        """Returns trca's goals."""
        return make_goals(self.catalogue, kind, SEED, "original")

    def recorded(self, name: str) -> Any:
        """Reads a file of the folder."""
        return read(next(self.folder.glob(f"{name}.json*")))


@dataclass(frozen=True)
class RecordedSearch:
    """A catalogue with recorded search results."""

    catalogue: Catalogue
    answers: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.catalogue)

    def __getitem__(self, position: int) -> Product:
        return self.catalogue[position]

    def search(self, query: str, limit: int = 50) -> list[int]:
        """Returns the recorded positions."""
        return [self.catalogue.position(asin) for asin in self.answers[query][:limit]]


def price_differences(recordings: Recordings) -> Iterator[str]:
    """Yields the prices that differ."""
    catalogue, prices = recordings.catalogue, recordings.recorded("prices")
    if len(catalogue) != len(prices):
        yield f"{len(catalogue)} products, recorded are {len(prices)}"
    for asin, price in prices.items():
        ours = catalogue[catalogue.position(asin)].price
        if ours != price:
            yield f"price of {asin}: {ours}, recorded {price}"


def as_recorded(goal: Goal, kind: str) -> dict[str, Any]:
    """Converts a goal to the form of the recordings."""
    pairs = zip(goal.option_names, goal.options, strict=False)
    return {
        "asin": goal.asin,
        "category": goal.category,
        "query": goal.query,
        "name": goal.title,
        "product_category": goal.product_category,
        "instruction_text": goal.instruction,
        "attributes": list(goal.attributes),
        "price_upper": goal.price_upper,
        "goal_options": list(goal.options) if kind == "human" else dict(pairs),
        "weight": goal.weight,
    }


def goal_differences(recordings: Recordings, kind: str) -> Iterator[str]:
    """Yields the goals of a list that differ."""
    ours, recorded = recordings.goals(kind), recordings.recorded(f"goals_{kind}")
    if len(ours) != len(recorded):
        yield f"{len(ours)} {kind} goals, recorded are {len(recorded)}"
    for index, (goal, theirs) in enumerate(zip(ours, recorded, strict=False)):
        if (converted := as_recorded(goal, kind)) != theirs:
            yield f"{kind} goal {index}:\n  ours     {converted}\n  recorded {theirs}"


def parts(score: Score) -> dict[str, Any]:
    """Converts a score to the form of the recordings."""
    return {
        "r_type": score.r_type,
        "r_att": score.r_att,
        "r_option": score.r_option,
        "r_price": score.r_price,
        "title_score": score.title_score,
        "query_match": score.query_match,
        "category_match": score.category_match,
    }


def score_differences(recordings: Recordings, every: int = 1) -> Iterator[str]:
    """Yields the scores that differ, in total or in a part."""
    nouns, quirks = noun_extractor("recorded"), quirks_of("original")
    goals = {kind: recordings.goals(kind) for kind in KINDS}
    catalogue = recordings.catalogue
    for entry in recordings.recorded("rewards")[::every]:
        product = catalogue[catalogue.position(entry["asin"])]
        goal = goals[entry["mode"]][entry["goal"]]
        score = score_purchase(product, entry["options"], goal, nouns, quirks)
        ours = parts(score) | {"reward": score.total}
        theirs = {name: entry[name] for name in ours}
        if ours != theirs:
            yield f"score {entry['id']}:\n  ours     {ours}\n  recorded {theirs}"


def episode_differences(simulator: Simulator, episode: dict[str, Any]) -> Iterator[str]:
    """Yields the differences in an episode, step by step."""

    def shown(reward: float, done: bool) -> dict[str, Any]:
        return {
            "obs": simulator.observation,
            "has_search_bar": simulator.page == "search",
            "clickables": list(simulator.clickables),
            "reward": reward,
            "done": done,
        }

    simulator.reset(episode["goal"]["index"])
    steps = [episode["reset"] | {"action": "reset", "reward": 0, "done": False}, *episode["steps"]]
    for number, step in enumerate(steps):
        reward, done = simulator.step(step["action"])[1:] if number else (0, False)
        for name, value in shown(reward, done).items():
            if value != step[name]:
                yield (
                    f"{episode['id']}:{number - 1} {step['action']!r}: {name} differs\n"
                    f"  ours     {value!r}\n  recorded {step[name]!r}"
                )
        if done:
            assert simulator.score is not None
            own_parts = parts(simulator.score)
            theirs = {name: step["reward_info"].get(name) for name in own_parts}
            if own_parts != theirs:
                yield f"{episode['id']}:{number - 1}: parts {own_parts}, recorded {theirs}"


def walk_differences(recordings: Recordings, own_search: bool, every: int = 1) -> Iterator[str]:
    """Yields the differences in the recorded episodes.

    Args:
        recordings: The recordings.
        own_search: Whether trca's search answers the queries.
        every: Distance between two compared episodes.
    """
    searches = recordings.recorded("episode_searches")
    catalogue: Any = recordings.catalogue
    if not own_search:
        answers = {entry["query"]: entry["top50"] for entry in searches}
        catalogue = RecordedSearch(recordings.catalogue, answers)
    for kind in KINDS:
        goals = recordings.goals(kind)
        for episode in recordings.recorded(f"episodes_{kind}")[::every]:
            simulator = Simulator(catalogue, goals, episode["obs_mode"], "original", "recorded")
            yield from episode_differences(simulator, episode)


def near_ties(recordings: Recordings) -> set[str]:
    """Returns the queries whose recorded order depends on the last bit of a score."""
    return {
        entry["query"] for entry in recordings.recorded("episode_searches") if entry["near_tie"]
    }


def main() -> int:
    """Makes all comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    recordings = Recordings.open(parser.parse_args().data)
    checks = {
        "prices": price_differences(recordings),
        "human goals": goal_differences(recordings, "human"),
        "synthetic goals": goal_differences(recordings, "synthetic"),
        "scores": score_differences(recordings),
        "episodes, recorded searches": walk_differences(recordings, own_search=False),
        "episodes, our searches": walk_differences(recordings, own_search=True),
    }
    bad = 0
    for name, check in checks.items():
        started = time.perf_counter()
        differences = list(check)
        bad += len(differences)
        print(*differences[:20], sep="\n", end="\n" if differences else "")
        print(f"{name}: {len(differences)} differ ({time.perf_counter() - started:.1f} s)")
    episodes = [e for kind in KINDS for e in recordings.recorded(f"episodes_{kind}")]
    print(
        f"compared {len(episodes)} episodes of {sum(len(e['steps']) for e in episodes):,} steps, "
        f"{len(recordings.recorded('rewards')):,} scores, "
        f"{sum(len(recordings.goals(kind)) for kind in KINDS):,} goals, "
        f"{len(recordings.catalogue):,} prices"
    )
    print(f"near ties among the queries: {sorted(near_ties(recordings)) or 'none'}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

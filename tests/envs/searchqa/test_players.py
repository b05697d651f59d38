"""The oracle wins every generated question; the demonstrator wins most from observations."""

import json
from pathlib import Path

import numpy as np
import pytest

from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.oracle import OracleError

DATA = Path(__file__).parents[4] / "shared" / "data" / "searchqa"


def wins(env, tasks, choose):
    """Share of wins and mean episode length on the first tasks."""
    won = steps = 0
    for task in env.task_ids[:tasks]:
        env.reset(options={"task": task})
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(choose(env))
            over = terminated or truncated
            steps += 1
        won += info["won"]
    count = min(tasks, len(env.task_ids))
    return won / count, steps / count


@pytest.mark.parametrize("chars", [30, 100, 1000])
def test_the_oracle_wins_within_four_steps(chars):
    share, steps = wins(SearchQAEnv(max_passage_chars=chars), 150, SearchQAEnv.oracle_action)
    assert share == 1.0
    assert 2 <= steps <= 4


def test_the_oracle_wins_from_wherever_it_is_left():
    env = SearchQAEnv(max_steps=12)
    rng = np.random.default_rng(0)
    for task in env.task_ids[:60]:
        env.reset(options={"task": task})
        over = False
        for _ in range(rng.integers(6)):
            action = env.random_action(rng)
            if not action.startswith("answer["):
                env.step(action)
        while not over:
            *_, terminated, truncated, info = env.step(env.oracle_action())
            over = terminated or truncated
        assert info["won"]


def test_after_an_answer_there_is_no_way():
    env = SearchQAEnv()
    env.reset(seed=0)
    env.step("answer[Oslo]")
    with pytest.raises(OracleError, match="after an answer"):
        env.oracle_action()


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_sensible_reader_wins_most(split):
    share, steps = wins(SearchQAEnv(split=split), 100, SearchQAEnv.demonstrator_action)
    assert share > 0.85
    assert steps < 3.5


def test_it_copes_with_what_others_do():
    rng = np.random.default_rng(0)

    def slipping(env):
        return env.random_action(rng) if rng.random() < 0.3 else env.demonstrator_action()

    share, _ = wins(SearchQAEnv(), 150, slipping)
    assert 0.1 < share < 0.7


def test_it_opens_what_goes_on_where_its_listing_ends():
    env = SearchQAEnv(max_passage_chars=12)
    env.reset(seed=1)
    env.step(env.demonstrator_action())
    assert env.demonstrator_action() == "open[1]"


@pytest.mark.skipif(not DATA.exists(), reason=f"no questions beside the repository: {DATA}")
@pytest.mark.parametrize("name", ["hotpotqa", "nq", "2wikimultihopqa"])
def test_real_questions_are_played_to_their_end(name, tmp_path):
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").open(encoding="utf-8")][:25]
    questions = tmp_path / f"{name}.jsonl"
    questions.write_text("".join(json.dumps({**row, "split": "test"}) + "\n" for row in rows))
    corpus = tmp_path / "corpus.jsonl"
    texts = {title: f'"{title}"\n{row["question"]}' for row in rows for title in titles(row)}
    corpus.write_text(
        "".join(json.dumps({"id": t, "contents": c}) + "\n" for t, c in texts.items())
    )
    env = SearchQAEnv(questions=str(questions), corpus=str(corpus), split="test")
    assert wins(env, 25, SearchQAEnv.oracle_action)[0] == 1.0
    assert wins(env, 25, SearchQAEnv.demonstrator_action)[1] <= 4


def titles(row):
    return row.get("gold_titles") or [row["question"]]

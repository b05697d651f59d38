"""The oracle and the demonstrator on generated and real questions."""

import json
from pathlib import Path

import pytest

from tests.envs.playing import steps
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.text_env import OracleError

DATA = Path(__file__).parents[4] / "shared" / "data" / "searchqa"


def test_after_an_answer_there_is_no_way():
    env = SearchQAEnv()
    env.reset(seed=0)
    env.step("answer[Oslo]")
    with pytest.raises(OracleError, match="after an answer"):
        env.oracle_action()


def test_the_demonstrator_opens_what_goes_on_where_its_listing_ends():
    env = SearchQAEnv(max_passage_chars=12)
    env.reset(seed=1)
    env.step(env.demonstrator_action())
    assert env.demonstrator_action() == "open[1]"


@pytest.mark.skipif(not DATA.exists(), reason=f"no questions next to the repository: {DATA}")
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
    assert len(env.task_ids) == 25
    for task in env.task_ids:
        assert steps(env, task, SearchQAEnv.oracle_action)[-1][4]["won"]
        assert steps(env, task, SearchQAEnv.demonstrator_action)[-1][2]


def titles(row):
    return row.get("gold_titles") or [row["question"]]

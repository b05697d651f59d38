import json
import lzma
from functools import partial

import pytest

from tests.cli import calls
from trca.envs.searchqa.data import corpora
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.env import SearchQAEnv

ROWS = [
    {"id": f"p{n}", "contents": f'"Town {n}"\nTown {n} has the mayor Zorn{n}.'} for n in range(50)
]


trca, done, refused = (partial(call, "data", "searchqa") for call in calls.ALL)


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "corpus.jsonl", ROWS)


@pytest.fixture
def datasets(tmp_path):
    question = {"question": "who is mayor of town 7", "golden_answers": ["Zorn7"]}
    for name in ("nq/test", "nq/train", "bamboogle/test"):
        rows = [{**question, "id": f"q{n}"} for n in range(3)]
        write(tmp_path / "FlashRAG" / f"{name}.jsonl", rows)
    return tmp_path / "FlashRAG"


def test_it_says_where_questions_and_passages_come_from():
    output = trca().output
    assert "FlashRAG_datasets" in output
    assert "wiki-18-corpus" in output
    assert "hotpotqa: in domain, several hops, CC BY-SA 4.0" in output
    assert "popqa: out of domain, one hop, MIT" in output


def test_a_corpus_is_indexed_and_searched(corpus, tmp_path):
    output = done("--corpus", corpus, "--to", tmp_path / "index")
    assert "about 50 passages" in output
    assert "50 passages are indexed" in output
    assert f"--set env_config.corpus={tmp_path / 'index'}" in output
    [[found, *_]] = open_search("bm25", tmp_path / "index").search(["zorn7"], 3)
    assert found.id == "p7"


def test_a_finished_index_is_left_as_it_is_and_not_mixed_with_another_corpus(corpus, tmp_path):
    trca("--corpus", corpus, "--to", tmp_path / "index")
    before = (tmp_path / "index" / "bm25" / "contents.json").stat().st_mtime_ns
    assert "50 passages are indexed" in trca("--corpus", corpus, "--to", tmp_path / "index").output
    assert (tmp_path / "index" / "bm25" / "contents.json").stat().st_mtime_ns == before
    other = write(tmp_path / "other.jsonl", ROWS[:3])
    words = refused("--corpus", other, "--to", tmp_path / "index")
    assert "has the index of another corpus" in words


def test_a_malformed_passage_is_named_and_the_mended_corpus_is_taken(corpus, tmp_path):
    corpus.write_text(f'{json.dumps(ROWS[0])}\n{{"id": "p1"}}\n')
    assert f"{corpus}:2: expected" in refused("--corpus", corpus, "--to", tmp_path / "index")
    write(corpus, ROWS)
    assert "50 passages are indexed" in trca("--corpus", corpus, "--to", tmp_path / "index").output


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_the_plan_is_near_what_a_corpus_has(tmp_path, suffix):
    rows = [
        {"id": str(n), "contents": f'"T {n}"\n{n * 7919 % 10007} and more'} for n in range(30_000)
    ]
    path = write(tmp_path / "corpus.jsonl", rows)
    size = path.stat().st_size
    if suffix:
        path = tmp_path / "corpus.jsonl.xz"
        path.write_bytes(lzma.compress((tmp_path / "corpus.jsonl").read_bytes(), preset=0))
    plan = corpora.estimate_index(path, tmp_path / "index", workers=4)
    assert plan.passages == pytest.approx(30_000, rel=0.5)
    assert plan.disk == pytest.approx(2 * size, rel=0.5)
    assert plan.memory == 4 * 300 * 2**20


def test_a_full_disk_is_said_before_anything_is_written(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "_DISK_PER_TEXT", 1e15)
    words = refused("--corpus", corpus, "--to", tmp_path / "index")
    assert "choose a folder on another disk" in words
    assert not (tmp_path / "index").exists()


def test_questions_are_checked_counted_and_written(datasets, tmp_path):
    output = done("--questions", datasets, "--to", tmp_path / "questions")
    assert "nq (in domain): test 3, train 3" in output
    assert "bamboogle (out of domain): test 3" in output
    assert sorted(p.name for p in (tmp_path / "questions").iterdir()) == [
        "bamboogle.jsonl",
        "nq.jsonl",
    ]


def test_what_was_prepared_is_played(datasets, corpus, tmp_path):
    trca("--questions", datasets, "--to", tmp_path / "questions")
    trca("--corpus", corpus, "--to", tmp_path / "index")
    env = SearchQAEnv(questions=tmp_path / "questions", corpus=tmp_path / "index", split="test")
    env.reset(seed=0)
    assert env.step("search[mayor of town 7]")[0].startswith("[1] Town 7: ")
    assert env.step("answer[zorn7]")[1] == 1.0


def test_a_malformed_question_is_named_and_nothing_is_written(datasets, tmp_path):
    with (datasets / "nq" / "test.jsonl").open("a") as file:
        file.write('\n{"question": "who"}\n')
    words = refused("--questions", datasets, "--to", tmp_path / "questions")
    assert "nq/test.jsonl:4: no answers" in words
    assert not (tmp_path / "questions").exists()


@pytest.mark.parametrize("name", ["../nq", "a/b", ".nq", ".."])
def test_a_dataset_that_names_another_folder_is_refused(tmp_path, name):
    row = {"question": "who?", "golden_answers": ["I"], "data_source": name}
    source = write(tmp_path / "new" / "rows.jsonl", [row])
    words = refused("--questions", source, "--to", tmp_path / "new" / "questions")
    assert f"dataset '{name}' is not a name for a file" in words
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("arguments", [["--corpus"], ["--questions"], ["--corpus", "--questions"]])
def test_what_is_missing_is_said(arguments, corpus, datasets, tmp_path):
    given = {"--corpus": corpus, "--questions": datasets}
    told = [part for each in arguments for part in (each, given[each])]
    words = refused(*told, *(("--to", tmp_path / "x") if len(arguments) == 2 else ()))
    assert "give --to, the folder to fill, and one of --corpus and --questions" in words

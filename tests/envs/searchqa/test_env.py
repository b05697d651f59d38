"""`SearchQAEnv` keeps the contract of text environments."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.retrieval.passages import CorpusError, Passage
from trca.envs.retrieval.retriever import RetrievalError
from trca.envs.retrieval.storage import StoredDataError
from trca.envs.searchqa import env as env_module
from trca.envs.searchqa.data.corpora import open_search
from trca.envs.searchqa.data.generate import TASK_TYPES
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.pages import ANSWERED, NOTHING_FOUND
from trca.envs.searchqa.reading import ANSWER_OFFER, SEARCH_OFFER

SHARED = Path(__file__).parents[4] / "shared" / "data" / "searchqa"


@pytest.fixture
def env():
    return SearchQAEnv()


def hidden(env):
    return env._simulator.question


def of_kind(env, kind):
    return next(each for each in env.task_ids if env._tasks.find(each).kind == kind)


def test_the_first_observation_is_the_question(env):
    observation, info = env.reset(options={"task": env.task_ids[3]})
    assert observation == f"Question: {info['task']}"
    assert info["task_id"] == env.task_ids[3]
    assert info["task_type"] in TASK_TYPES
    assert info["admissible_actions"] == [SEARCH_OFFER, ANSWER_OFFER]
    assert set(info) == {"task_id", "split", "task_type", "task", "admissible_actions"}


def test_a_one_hop_question_is_answered_by_search_open_and_answer(env):
    env.reset(options={"task": of_kind(env, "who")})
    [title], [answer, *_] = hidden(env).gold_titles, hidden(env).answers
    observation, reward, terminated, truncated, info = env.step(f"search[{title}]")
    assert observation.startswith(f"[1] {title}: {title} ")
    listed = len(observation.split("\n"))
    assert 2 <= listed <= 3
    opens = [f"open[{number}]" for number in range(1, listed + 1)]
    assert info["admissible_actions"] == [SEARCH_OFFER, *opens, ANSWER_OFFER]
    assert (reward, terminated, truncated, info["won"]) == (0.0, False, False, False)
    observation = env.step("open[1]")[0]
    assert answer in observation
    assert "…" not in observation
    observation, reward, terminated, truncated, info = env.step(f"answer[the {answer.upper()}!]")
    assert observation == ANSWERED
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (
        info["won"],
        info["score"],
        info["measures"]["f1"],
        info["measures"]["gold_recall"],
    ) == (True, 1.0, 1.0, 1.0)
    words = len(set(answer.lower().split()))  # the answer has an article more
    assert info["measures"]["word_set_f1"] == pytest.approx(2 * words / (2 * words + 1))
    assert info["admissible_actions"] == []


def test_some_answers_are_seen_only_when_a_passage_is_opened(env):
    cut = 0
    for task in env.task_ids[:80]:
        env.reset(options={"task": task})
        listed = env.step(f"search[{hidden(env).gold_titles[-1]}]")[0]
        cut += not any(answer in listed for answer in hidden(env).answers)
    assert 15 < cut < 60


def test_a_wrong_answer_ends_the_episode_without_reward(env):
    env.reset(options={"task": of_kind(env, "who")})
    words = hidden(env).answers[0].split()
    _, reward, terminated, _, info = env.step(f"answer[{words[0]}]")
    assert (reward, terminated, info["won"], info["score"]) == (0.0, True, False, 0.0)
    assert info["measures"]["f1"] == pytest.approx(2 / 3)
    assert info["measures"]["word_set_f1"] == pytest.approx(2 / 3)
    assert info["measures"]["gold_recall"] == 0.0


def test_an_alias_is_as_good_as_the_name(env):
    task = next(each for each in env.task_ids if len(env._tasks.find(each).answers) == 2)
    env.reset(options={"task": task})
    assert env.step(f"answer[{hidden(env).answers[1]}]")[1] == 1.0


def test_f1_and_recall_are_told_at_the_end_alone(env):
    env.reset(seed=0)
    for turn in range(4):
        *_, truncated, info = env.step(f"search[{hidden(env).gold_titles[0]}]")
        assert truncated == (turn == 3)
        assert ("measures" in info) == truncated
    assert info["measures"]["f1"] == info["measures"]["word_set_f1"] == 0.0
    assert info["measures"]["gold_recall"] in (0.5, 1.0)


def test_an_answer_at_the_last_step_terminates_and_does_not_truncate():
    env = SearchQAEnv(max_steps=1)
    env.reset(seed=0)
    assert env.step("answer[x]")[2:4] == (True, False)
    with pytest.raises(ResetNeeded, match="the episode is over"):
        env.step("answer[x]")


def test_a_search_without_results_closes_the_list(env):
    env.reset(seed=0)
    env.step("search[Ada]")
    observation, *_, info = env.step("search[zzz]")
    assert observation == NOTHING_FOUND
    assert info["accepted"]
    assert info["admissible_actions"] == [SEARCH_OFFER, ANSWER_OFFER]


def test_the_list_is_as_long_and_as_wide_as_asked_for():
    env = SearchQAEnv(top_k=5, max_passage_chars=20)
    env.reset(seed=0)
    lines = env.step("search[Ada Guild Bay River]")[0].split("\n")
    assert len(lines) == 5
    assert all(len(line.split(": ", 1)[1]) <= 21 for line in lines)


def test_a_failed_search_is_an_error_and_no_result():
    """The state stays unchanged, so the same action may be tried again."""
    env = SearchQAEnv()
    env.reset(options={"task": env.task_ids[0]})
    env.step("search[Ada]")
    working = env._simulator._searching

    class Dead:
        def search(self, queries, limit):
            raise RetrievalError("the server is gone")

    env._simulator._searching = Dead()
    for _ in range(6):
        with pytest.raises(RetrievalError, match="the server is gone"):
            env.step("search[Ben]")
    env._simulator._searching = working
    assert env.step("search[Ben]")[0].startswith("[1] Ben")
    assert env.step("open[1]")[2:4] == (False, False)
    assert env.step("open[1]")[2:4] == (False, True)


def test_the_beginning_of_a_panel_mixes_kinds(env):
    kinds = {env._tasks.find(task).kind for task in env.task_ids[:64]}
    assert kinds == set(TASK_TYPES)


def test_environments_share_one_index():
    assert SearchQAEnv()._retriever is SearchQAEnv(split="test")._retriever


def test_random_actions_fill_their_blanks_with_words_at_hand(env):
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = env.random_action(rng)
        assert action.startswith(("search[", "answer["))
        words = action.partition("[")[2][:-1].split()
        assert set(words) <= set(hidden(env).text.replace("?", "").split()) | {"Question:"} | set(
            hidden(env).text.split()
        )


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    passages = [("a", "Emma", "Emma was written by Jane Austen."), ("b", "Ran", "A film.")]
    rows = [{"id": each, "contents": f'"{title}"\n{text}'} for each, title, text in passages]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    question = {"id": "1", "question": "who wrote emma", "golden_answers": ["Jane Austen"]}
    (tmp_path / "nq.jsonl").write_text(json.dumps({**question, "gold_ids": ["a"]}))
    return tmp_path


def test_questions_and_corpus_of_files_are_played(files):
    env = SearchQAEnv(questions=files / "nq.jsonl", corpus=files / "corpus.jsonl", split="test")
    _, info = env.reset()
    assert (info["task"], info["task_type"]) == ("who wrote emma", "nq")
    assert env.step("search[emma]")[0] == "[1] Emma: Emma was written by Jane Austen."
    _, reward, *_, info = env.step("answer[jane austen]")
    assert (reward, info["measures"]["gold_recall"]) == (1.0, 1.0)


def test_a_corpus_is_indexed_once_and_again_when_it_changes(files):
    corpus = files / "corpus.jsonl"
    first = open_search("bm25", corpus)
    assert open_search("bm25", str(corpus)) is first
    [index] = (files / "cache" / "searchqa").iterdir()
    assert open_search("bm25", index) is open_search({"name": "bm25", "index": str(index)})
    corpus.write_text('{"id": "c", "contents": "\\"Ran\\"\\nRan is a film by Kurosawa."}')
    [[passage]] = open_search("bm25", corpus).search(["ran"], 3)
    assert passage.id == "c"


def test_a_changed_file_of_questions_is_read_again(files):
    row = {"id": "1", "question": "who made ran", "golden_answers": ["Kurosawa"]}
    for questions in (files / "nq.jsonl", [files / "nq.jsonl"], files):
        (files / "nq.jsonl").write_text(json.dumps({**row, "question": "who wrote emma"}))
        old = SearchQAEnv(questions=questions, corpus=files / "corpus.jsonl", split="test")
        (files / "nq.jsonl").write_text(json.dumps(row))
        new = SearchQAEnv(questions=questions, corpus=files / "corpus.jsonl", split="test")
        assert [env.reset()[1]["task"] for env in (old, new)] == ["who wrote emma", "who made ran"]
        assert new.step("answer[kurosawa]")[1] == 1.0


def test_a_changed_index_is_opened_again(files):
    for text in ("an old text", "a new text"):
        shutil.rmtree(files / "index", ignore_errors=True)
        index_corpus(files / "index", [Passage("a", f'"Emma"\n{text}')])
        for search in (open_search("bm25", files / "index"), BM25Retriever.open(files / "index")):
            [[passage]] = search.search(["emma"], 1)
            assert passage.contents.endswith(text)


def test_a_relative_path_follows_the_working_directory(files, monkeypatch):
    questions = {"a": "who wrote emma", "b": "who wrote ulysses"}
    for name, text in questions.items():
        row = {"id": "1", "question": text, "golden_answers": [name]}
        (files / name).mkdir()
        (files / name / "nq.jsonl").write_text(json.dumps(row))
    for name, text in questions.items():
        monkeypatch.chdir(files / name)
        env = SearchQAEnv(questions="nq.jsonl", corpus=files / "corpus.jsonl", split="test")
        assert env.reset()[1]["task"] == text


def test_a_malformed_corpus_is_named_by_file_and_line(files):
    corpus = files / "corpus.jsonl"
    corpus.write_text('{"id": "a", "contents": "x"}\n{"id": "b"}\n')
    with pytest.raises(CorpusError, match=r"corpus\.jsonl:2: expected"):
        SearchQAEnv(questions=files / "nq.jsonl", corpus=corpus, split="test")


def test_a_missing_corpus_is_said_so(files):
    with pytest.raises(ValueError, match="bm25 has nothing to search: give corpus"):
        SearchQAEnv(questions=files / "nq.jsonl", split="test")
    with pytest.raises(StoredDataError, match="nowhere"):
        SearchQAEnv(questions=files / "nq.jsonl", corpus=files / "nowhere", split="test")


def test_a_simulated_engine_is_told_of_the_question_in_training_alone(monkeypatch):
    calls = []

    class Simulated:
        def about(self, question, answers, progress, seed):
            calls.append((question, answers, progress, seed))
            return self

        def search(self, queries, limit):
            return [[] for _ in queries]

    monkeypatch.setattr(env_module, "SimulatedRetriever", Simulated)
    monkeypatch.setattr(env_module, "open_search", lambda *_: Simulated())
    env = SearchQAEnv()
    env.reset(options={"task": env.task_ids[0]})
    assert calls == []
    for _ in range(2):
        env.reset(options={"task": env.task_ids[0], "progress": 0.25})
    assert calls[0] == calls[1]
    assert calls[0][:3] == (hidden(env).text, hidden(env).answers, 0.25)


def test_the_shared_questions_are_played_over_the_shared_corpus(tmp_path):
    if not SHARED.exists():
        pytest.skip(f"no questions at {SHARED}")
    import lzma

    with lzma.open(SHARED / "corpus.jsonl.xz", "rt") as file:
        (tmp_path / "corpus.jsonl").write_text("".join(next(file) for _ in range(60)))
    questions = {"folder": SHARED, "datasets": ["hotpotqa"]}
    corpus = open_search("bm25", tmp_path / "corpus.jsonl")
    assert len(corpus) == 60
    env = SearchQAEnv(questions=questions, corpus=tmp_path / "corpus.jsonl", split="validation")
    _, info = env.reset(options={"task": env.task_ids[0]})
    assert info["task_type"] == "hotpotqa"
    for title in hidden(env).gold_titles:
        env.step(f"search[{title}]")
    info = env.step(f"answer[{hidden(env).answers[0]}]")[4]
    assert (info["won"], info["measures"]["gold_recall"]) == (True, 1.0)


def test_gold_is_told_to_those_who_ask_for_it_and_to_nobody_else(env):
    for task in env.task_ids[:20]:
        gold, question = env.gold(task), env._tasks.find(task)
        assert gold.answers == question.answers
        titles = [passage.partition("\n")[0].strip('"') for passage in gold.passages]
        assert titles == list(question.gold_titles)
        assert any(gold.answers[0].lower() in passage.lower() for passage in gold.passages)
    assert "gold" not in env.reset(seed=0)[1]

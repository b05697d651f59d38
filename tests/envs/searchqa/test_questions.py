"""Three formats of question files give equal questions; errors name file and line."""

import gzip
import json
import lzma
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from trca.envs.searchqa.data.datasets import (
    DATASETS,
    IN_DOMAIN,
    known_datasets,
    read_datasets,
)
from trca.envs.searchqa.data.questions import (
    Question,
    QuestionFileError,
    read_questions,
    write_questions,
)
from trca.envs.searchqa.tasks import tasks_of

SHARED = Path(__file__).parents[4] / "shared" / "data" / "searchqa"
NQ = {"id": "test_0", "question": "who wrote emma", "golden_answers": ["Jane Austen", "Austen"]}
PROMPT = (
    "Answer the given question. You can call a search engine by <search> query </search>. For"
    " example, <answer> Beijing </answer>. Question: who wrote emma?\n"
)


def lines(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def read(path):
    return list(read_questions(path))


def numbered(count, **more):
    return [
        {**NQ, "id": f"q{number}", "question": f"who is {number}", **more}
        for number in range(count)
    ]


def test_flashrag_rows_are_read(tmp_path):
    metadata = {
        "supporting_facts": {"title": ["Emma", "Jane Austen", "Emma"], "sent_id": [0, 1, 2]}
    }
    path = lines(tmp_path / "hotpotqa" / "dev.jsonl", {**NQ, "metadata": metadata})
    assert read(path) == [
        Question(
            id="test_0",
            dataset="hotpotqa",
            split="validation",
            text="who wrote emma",
            answers=("Jane Austen", "Austen"),
            kind="hotpotqa",
            gold_titles=("Emma", "Jane Austen"),
        )
    ]


def search_r1_row(**more):
    return {
        "data_source": "nq",
        "prompt": [{"role": "user", "content": PROMPT}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": ["Jane Austen"]}},
        "extra_info": {"split": "train", "index": 5},
        **more,
    }


def verl_agent_row():
    truth = {"target": ["Jane Austen"]}
    prompt = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "who wrote emma?"},
    ]
    return {
        **search_r1_row(data_source="searchR1_nq", prompt=prompt),
        "env_kwargs": {"ground_truth": truth, "question": "who wrote emma?", "data_source": "nq"},
        "metadata": None,
    }


@pytest.mark.parametrize("row", [search_r1_row(), verl_agent_row()])
def test_search_r1s_and_verl_agents_parquet_are_read(tmp_path, row):
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "train.parquet")
    assert read(tmp_path / "train.parquet") == [
        Question("5", "nq", "train", "who wrote emma?", ("Jane Austen",), "nq")
    ]


def test_search_r1s_parquet_keeps_the_ids_and_questions_of_flashrag(tmp_path):
    row = search_r1_row(id="train_9", question="who wrote emma?", golden_answers=["Austen"])
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "train.parquet")
    [question] = read(tmp_path / "train.parquet")
    assert (question.id, question.text, question.answers) == (
        "train_9",
        "who wrote emma?",
        ("Austen",),
    )


def test_our_own_rows_say_all_and_are_written_as_they_are_read(tmp_path):
    questions = [
        Question("1", "musique", "train", "Who?", ("I", "me"), "2hop", ("4", "5"), ("A", "B")),
        Question("2", "nq", "test", "Où ?", ("là",), "nq"),
    ]
    write_questions(tmp_path / "all.jsonl", questions)
    assert read(tmp_path / "all.jsonl") == questions
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]


def test_empty_aliases_of_an_answer_are_left_out(tmp_path):
    row = {**NQ, "golden_answers": ["Jane Austen", "", " ", 7]}
    [question] = read(lines(tmp_path / "nq.jsonl", row))
    assert question.answers == ("Jane Austen", "7")


@pytest.mark.parametrize(("suffix", "opened"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_files_are_read(tmp_path, suffix, opened):
    path = tmp_path / f"nq_dev.jsonl{suffix}"
    with opened(path, "wt") as file:
        file.write(json.dumps(NQ) + "\n")
    [question] = read(path)
    assert (question.dataset, question.split) == ("nq", "validation")


def test_the_name_of_a_file_tells_what_its_rows_do_not(tmp_path):
    for name, dataset, split in [
        ("popqa.jsonl", "popqa", "test"),
        ("popqa_train.jsonl", "popqa", "train"),
        ("popqa/dev.jsonl", "popqa", "validation"),
        ("my_questions.jsonl", "my_questions", "test"),
    ]:
        [question] = read(lines(tmp_path / name, NQ))
        assert (question.dataset, question.split) == (dataset, split)


GOOD = json.dumps(NQ)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("{", "this is not JSON"),
        ("", "this is not JSON"),
        ("[1]", "expected an object, found list"),
        ("{}", 'no question: expected "question" or "prompt", found nothing'),
        ({"id": "1", "golden_answers": ["x"]}, "no question"),
        ({**NQ, "id": "1", "question": " "}, "no question"),
        ({**NQ, "id": "1", "question": 7}, "no question"),
        ({"id": "1", "question": "who"}, 'no answers: expected "golden_answers"'),
        ({**NQ, "id": "1", "golden_answers": []}, "no answers"),
        ({**NQ, "id": "1", "golden_answers": [" "]}, "no answers"),
        ({**NQ, "id": "1", "golden_answers": {"a": 1}}, "golden_answers is {'a': 1}"),
        ({**NQ, "id": "1", "golden_answers": [None]}, "golden_answers is [None]"),
        ({**NQ, "id": "1", "golden_answers": [True]}, "golden_answers is [True]"),
        ({**NQ, "id": "1", "gold_ids": "7"}, "gold_ids is 7: expected a list"),
        ({**NQ, "id": "1", "split": "exam"}, "unknown split 'exam': choose train, validation"),
        (NQ, "row 1 has the same id 'test_0'"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path, row, problem):
    path = lines(tmp_path / "nq.jsonl", GOOD, row)
    with pytest.raises(QuestionFileError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:2: {problem}")


def test_a_malformed_row_of_parquet_is_named_by_its_number(tmp_path):
    rows = [{"question": "who", "golden_answers": ["x"]}, {"question": "", "golden_answers": ["x"]}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "nq.parquet")
    with pytest.raises(QuestionFileError, match=r"nq\.parquet:2: no question"):
        read(tmp_path / "nq.parquet")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("nq.parquet", b"PAR1 but not really", "the Parquet file is broken or truncated"),
        ("nq.jsonl.gz", gzip.compress(b"x" * 999, mtime=0)[:-9], "the file is broken or truncated"),
        ("nq.jsonl.xz", b"nothing of the kind", "the file is broken or truncated"),
        ("nq.csv", b"id,question", "unknown kind of file: choose .jsonl, "),
        ("nq.jsonl", b'{"question": "\xff"}', "this is not JSON"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(QuestionFileError, match=problem) as error:
        read(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(QuestionFileError, match=r"nq\.jsonl: there is no such file"):
        read(tmp_path / "nq.jsonl")


def test_in_domain_and_out_of_domain_are_as_in_the_papers_table():
    assert tuple(DATASETS) == (
        *("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"),
    )
    assert IN_DOMAIN == ("nq", "hotpotqa")
    single = {name for name, dataset in DATASETS.items() if not dataset.multi_hop}
    assert single == {"nq", "triviaqa", "popqa"}


@pytest.mark.parametrize("names", ["natural questions", ["nq", "hotpot"], [7]])
def test_unknown_datasets_list_the_known_ones(names):
    with pytest.raises(ValueError, match="Known: nq, triviaqa, popqa, hotpotqa, 2wiki"):
        known_datasets(names)


@pytest.fixture
def folder(tmp_path):
    """FlashRAG's folders, a file of this project, and a file of Search-R1 with several datasets."""
    lines(tmp_path / "nq" / "train.jsonl", *numbered(3))
    lines(tmp_path / "nq" / "test.jsonl", *numbered(2))
    lines(tmp_path / "hotpotqa.jsonl", *numbered(4, split="train"))
    lines(tmp_path / "musique" / "train.jsonl", *numbered(2))
    lines(tmp_path / "musique" / "dev.jsonl", *numbered(2))
    rows = [{**row, "data_source": "popqa"} for row in numbered(2)]
    rows += [{**row, "data_source": "nq"} for row in numbered(9)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "test.parquet")
    return tmp_path


def test_training_mixes_nq_and_hotpotqa_in_turns(folder):
    ids = tasks_of(folder, "train").ids
    assert [task.partition("-")[0] for task in ids] == ["nq", "hotpotqa"] * 3 + ["hotpotqa"]


def test_a_dataset_without_test_questions_is_tested_on_its_validation_questions(folder):
    tasks = tasks_of(str(folder), "test")
    count = {}
    for question in tasks.items.values():
        count[question.dataset, question.split] = (
            count.get((question.dataset, question.split), 0) + 1
        )
    assert count == {("nq", "test"): 2, ("popqa", "test"): 2, ("musique", "validation"): 2}


def test_datasets_are_chosen_by_name_for_any_split(folder):
    chosen = {"folder": folder, "datasets": ["musique"]}
    assert len(tasks_of(chosen, "train").ids) == 2
    with pytest.raises(
        QuestionFileError, match=r"no questions of bamboogle: expected a file such as bamboogle\.js"
    ):
        tasks_of({"folder": folder, "datasets": ["bamboogle"]}, "test")
    with pytest.raises(ValueError, match="unknown dataset 'trivia': did you mean 'triviaqa'"):
        tasks_of({"folder": folder, "datasets": ["trivia"]}, "test")
    with pytest.raises(ValueError, match="questions have folder: expected folder and datasets"):
        tasks_of({"folder": folder}, "test")


def test_files_are_taken_as_they_are_whatever_the_dataset(folder):
    tasks = tasks_of([folder / "musique" / "train.jsonl", folder / "hotpotqa.jsonl"], "train")
    assert len(tasks.ids) == 6
    assert {question.dataset for question in tasks.items.values()} == {"musique", "hotpotqa"}


def test_a_split_without_questions_lists_the_others(folder):
    with pytest.raises(ValueError, match="nothing for split 'dev': choose from train"):
        tasks_of(folder / "hotpotqa.jsonl", "dev")


def test_what_is_neither_size_file_nor_folder_is_said_so(tmp_path):
    with pytest.raises(QuestionFileError, match="choose small, medium, large, or the path"):
        tasks_of("tiny", "train")
    with pytest.raises(QuestionFileError, match="no questions of any dataset"):
        tasks_of(tmp_path, "train")


def test_a_tasks_id_changes_with_what_it_asks_and_with_what_is_right(tmp_path):
    def ids(*rows):
        return tasks_of(
            lines(tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl", *rows), "test"
        ).ids

    row = {**NQ, "dataset": "nq"}
    first = ids(row)
    assert ids(row) == first
    assert ids({**row, "question": "who wrote ran"}) != first
    assert ids({**row, "golden_answers": ["Kurosawa"]}) != first
    assert ids({**row, "gold_ids": ["1"]}) != first


def test_the_shared_questions_are_all_read():
    if not SHARED.exists():
        pytest.skip(f"no questions at {SHARED}")
    questions = read_datasets(SHARED)
    count = {name: sum(q.dataset == name for q in questions) for name in DATASETS}
    assert count == dict(
        zip(DATASETS, (300, 300, 300, 300, 164, 40, 125), strict=True),
    )
    gold = {q.dataset for q in questions if q.gold_ids}
    assert gold == {"hotpotqa", "2wikimultihopqa", "musique"}
    assert len(tasks_of(SHARED, "train").ids) == 100
    assert len(tasks_of(SHARED, "test").ids) == 1429

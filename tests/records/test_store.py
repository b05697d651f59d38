"""Rollouts pass files and processes without loss; a reader never sees half of a file."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.test_records import assert_same, make_rollout, make_step, steps
from trca.algorithms.rollouts.batch import RolloutBatch
from trca.records import read_rollouts, to_json, write_rollouts
from trca.records.rollout import Failure
from trca.records.store import failures_of, from_table, prompts_of, read_table, summaries, to_table

JUDGED = [{"judgments": np.array(bits, np.uint8)} for bits in ([1, 0, 0], [0, 0, 0], [0, 0, 1])]


def make_rollouts():
    """Two groups; a rollout without a step, one without operators, and one with all optional."""
    plain = make_rollout([make_step(**judged) for judged in JUDGED], group=0, index=0, score=0.5)
    silent = make_rollout([make_step(judgments=np.empty(0, np.uint8))], group=7, operators=())
    full = make_rollout(
        [make_step(version=3, demonstration="look", milestone=True)] * 2,
        group=7,
        agent_id="planner",
        module_id="shared",
        measures={"f1": 1 / 3, "steps": float("inf")},
        turns=[0, 2],
        final_prompt_ids=np.array([7, 8], np.int32),
        advantages=np.array([0.1, -0.0]),
    )
    return [plain, make_rollout(group=0, index=1), silent, full]


def same(one, other):
    return [to_json(rollout) for rollout in one] == [to_json(rollout) for rollout in other]


@given(st.lists(steps(), max_size=3), st.booleans())
def test_a_table_has_all_of_a_rollout_for_any_text_and_number(some, credited):
    rollout = make_rollout(some, score=0.1)
    if credited:
        rollout.advantages = np.linspace(-1 / 3, 2 / 3, len(some))
    try:
        to_json(rollout).encode().decode("unicode_escape").encode()
    except UnicodeEncodeError:
        return  # half of a surrogate pair; see the next test but one
    [again] = from_table(to_table([rollout]))
    assert_same(again, rollout)


def test_numbers_keep_their_bits(tmp_path):
    kinds = np.array([0x7FC00001, 0xFFC00000, 0x80000000, 0, 1], np.uint32)  # NaNs, -0, denormal
    logprobs = kinds.view(np.float32)
    doubles = np.array([0x7FF8000000000001, 0x8000000000000000, 1], np.uint64).view(np.float64)
    ids = np.array([2**31 - 1, -(2**31), 0, 1, 2], np.int32)
    one = make_step(
        old_logprobs=logprobs, response_ids=ids, action_mask=ids > 0, reward=float(doubles[2])
    )
    write_rollouts(tmp_path / "a.parquet", [make_rollout([one] * 3, advantages=doubles)])
    [again] = read_rollouts(tmp_path / "a.parquet")
    assert again.advantages.tobytes() == doubles.tobytes()
    for step in again.steps:
        assert step.old_logprobs.tobytes() == logprobs.tobytes()
        assert step.response_ids.tobytes() == ids.tobytes()
        assert step.action_mask.tolist() == (ids > 0).tolist()
        assert step.reward == 5e-324


def test_half_of_a_surrogate_pair_is_not_fatal():
    [again] = from_table(to_table([make_rollout([make_step(response="a \ud83d b")])]))
    assert again.steps[0].response == "a ? b"


def test_a_file_has_rollouts_prompts_and_failures(tmp_path):
    path, rollouts = tmp_path / "lr=0.1" / "train.parquet", make_rollouts()
    path.parent.mkdir()
    lost = [Failure(3, "heat-egg-3", 8, "ValueError: the prompt is too long")]
    texts = [f"prompt {k}" for k in range(6)]
    write_rollouts(path, rollouts, texts, lost)
    assert same(read_rollouts(path), rollouts)
    table = read_table(path)
    assert failures_of(table) == lost
    assert prompts_of(table) == [texts[:3], [], texts[3:4], texts[4:]]
    assert same(from_table(read_table(path, group=7)), rollouts[2:])
    write_rollouts(path, [], failures=lost)
    assert (list(read_rollouts(path)), failures_of(read_table(path))) == ([], lost)
    assert prompts_of(read_table(path)) is None


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_summary_has_the_numbers_of_the_rollout(tmp_path, suffix):
    path, rollouts = tmp_path / f"train.{suffix}", make_rollouts()
    if suffix == "parquet":
        write_rollouts(path, rollouts)
    else:
        path.write_text("".join(to_json(rollout) + "\n" for rollout in rollouts))
    for rollout, summary in zip(rollouts, summaries(path), strict=True):
        for name in ("group", "index", "task_id", "task_type", "agent_id", "won", "score"):
            assert summary[name] == getattr(rollout, name)
        assert summary["steps"] == len(rollout.steps)
        assert summary["foundational"] == sum(step.foundational for step in rollout.steps)
        assert summary["breakthrough"] == sum(step.breakthrough for step in rollout.steps)
        fired = {rollout.operators[k] for s in rollout.steps for k in s.judgments.nonzero()[0]}
        assert set(summary["fired"]) == fired
    assert len(next(summaries(path))["fired"]) == 2  # one by the first step, one by the last


def test_what_is_not_a_file_of_rollouts_is_named(tmp_path):
    path = tmp_path / "train.parquet"
    with pytest.raises(FileNotFoundError, match="train"):
        list(read_rollouts(path))
    pq.write_table(pa.table({"task_id": ["a"]}), path)
    with pytest.raises(ValueError, match=r"train\.parquet is not a .* there is no column 'split'"):
        list(read_rollouts(path))
    write_rollouts(path, make_rollouts())
    for broken in (b"", b"not Parquet", path.read_bytes()[:-9]):
        path.write_bytes(broken)
        for read in (read_rollouts, summaries):
            with pytest.raises(ValueError, match=r"train\.parquet is not a file of rollouts"):
                list(read(path))


def test_one_group_is_read_without_the_row_groups_of_the_others(tmp_path):
    path = tmp_path / "train.parquet"
    write_rollouts(path, [make_rollout([make_step()], group=number) for number in range(200)])
    first = pq.read_metadata(path).row_group(0).to_dict()["columns"]
    [texts] = [each for each in first if each["path_in_schema"].startswith("observation.")]
    start = texts["dictionary_page_offset"]
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(texts["total_compressed_size"]))
    assert [rollout.group for rollout in from_table(read_table(path, group=150))] == [150]
    with pytest.raises(ValueError, match=r"train\.parquet is not a file of rollouts"):
        list(read_rollouts(path))


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "train.parquet"
    rollouts = make_rollouts()
    with pytest.raises(TypeError):
        write_rollouts(path, [replace(rollouts[0], task_id=3)])
    assert not [*tmp_path.iterdir()]
    write_rollouts(path, rollouts)
    with pytest.raises(TypeError):
        write_rollouts(path, [replace(rollouts[0], task_id=3)])
    assert same(read_rollouts(path), rollouts)


KILLED = """
import sys
from pathlib import Path
from trca.records import read_rollouts, write_rollouts
path = Path(sys.argv[1])
rollouts = list(read_rollouts(path)) * 500
while True:
    print(flush=True)
    write_rollouts(path, rollouts)
"""


def test_a_reader_finds_a_whole_file_beside_a_writer_and_after_its_kill(tmp_path):
    path = tmp_path / "train.parquet"
    command = [sys.executable, "-c", KILLED, str(path)]
    for wait in (0.0, 0.1):
        write_rollouts(path, make_rollouts())
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        writer.stdout.readline()
        writer.stdout.readline()
        for _ in range(3):
            assert len(list(read_rollouts(path))) == 2000
        time.sleep(wait)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert len(list(read_rollouts(path))) == 2000


def sent(batch):
    buffers = []
    pickled = pickle.dumps(batch, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=buffers), len(buffers)


def test_a_batch_passes_a_process_without_loss():
    batch = RolloutBatch(make_rollouts(), [Failure(1, "task", 2, "late")])
    batch.seconds["generation"] = 2.0
    there, _ = sent(batch)
    assert (there.failures, there.seconds) == (batch.failures, batch.seconds)
    assert same(there.rollouts, batch.rollouts)
    assert there.rollouts[3].final_prompt_ids.dtype == np.int32
    assert not there.rollouts[0].steps[0].judgments.flags.writeable
    assert sent(RolloutBatch())[0] == RolloutBatch()


def test_the_number_of_buffers_does_not_grow_with_the_steps():
    few, many = (RolloutBatch(make_rollouts() * times) for times in (1, 6))
    assert sent(few)[1] == sent(many)[1]

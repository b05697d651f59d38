"""The archive that takes a run to a GPU machine without a network."""

import importlib.util
import io
import os
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "offline_gpu.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("offline_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code(kind: int, capability: int, content: bytes) -> bytes:
    """An entry of a fatbin: 1 is PTX, 2 is machine code."""
    head = struct.pack("<HHIQ12xI", kind, 0x101, 64, len(content), capability)
    return head.ljust(64, b"\1") + content


def fatbin(*codes: bytes) -> bytes:
    content = b"".join(codes)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def test_only_the_code_that_the_gpu_runs_stays(script):
    old, own, ptx = b"A" * 64, b"B" * 64, b"C" * 64
    library = b"\x7fELFtext" + fatbin(code(2, 80, old), code(2, 90, own), code(1, 80, ptx))
    data = bytearray(library)
    script.remove_device_code(data, 90)
    assert data == library.replace(old, bytes(64)).replace(ptx, bytes(64))


def test_ptx_stays_where_no_machine_code_fits(script):
    old, early, late, newer = b"A" * 64, b"B" * 64, b"C" * 64, b"D" * 64
    library = fatbin(code(2, 80, old), code(1, 75, early), code(1, 80, late), code(1, 100, newer))
    data = bytearray(library)
    script.remove_device_code(data, 90)
    expected = library
    for gone in (old, early, newer):
        expected = expected.replace(gone, bytes(64))
    assert data == expected


def test_text_that_looks_like_a_container_stays(script):
    library = struct.pack("<IHHQ", 0xBA55ED50, 7, 16, 64) + b"x" * 64
    data = bytearray(library)
    script.remove_device_code(data, 90)
    assert data == library


def test_pieces_join_to_the_stream(script, tmp_path):
    stream = bytes(range(256)) * 16
    sizes = dict(script.cut(io.BytesIO(stream), tmp_path, "piece", 1500 / script.MIB))
    assert sizes == {"piece-00": 1500, "piece-01": 1500, "piece-02": 1096}
    assert b"".join((tmp_path / name).read_bytes() for name in sorted(sizes)) == stream


def test_the_state_has_the_optimizer_of_the_rules_last_checkpoint_alone(script, tmp_path):
    checkpoints = ("start", 8), ("TRCA", 5), ("TRCA", 10), ("GRPO", 5)
    for name, number in checkpoints:
        learner = "learner_group/learner"
        folder = tmp_path / "runs" / name / "checkpoints" / f"iteration_{number:06}" / learner
        folder.mkdir(parents=True)
        (folder / "state.pkl").touch()
        (folder / "weights").touch()
        (folder.parents[1] / "model").mkdir()
        (folder.parents[1] / "model" / "weights").touch()
    (tmp_path / "runs" / "TRCA" / "checkpoints" / "last").symlink_to("iteration_000010")
    command = ["tar", "-cz", "-C", str(tmp_path), *script.kept(tmp_path, "TRCA")]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as stored:
        files = {
            tuple(Path(name).parts[i] for i in (1, 3, -1))
            for name in stored.getnames()
            if name.endswith(("state.pkl", "weights"))
        }
    assert files == {
        ("start", "iteration_000008", "weights"),
        ("TRCA", "iteration_000005", "weights"),
        ("TRCA", "iteration_000010", "weights"),
        ("TRCA", "iteration_000010", "state.pkl"),
    }


def test_programs_of_a_wheel_stay_programs(script, tmp_path):
    wheel = tmp_path / "made-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, mode in ("made/server", 0o100755), ("made/data", 0o100444):
            item = zipfile.ZipInfo(name)
            item.external_attr = mode << 16
            archive.writestr(item, "x")
    script.unpack(wheel, tmp_path / "site")
    assert os.access(tmp_path / "site" / "made" / "server", os.X_OK)
    assert (tmp_path / "site" / "made" / "data").stat().st_mode & 0o111 == 0

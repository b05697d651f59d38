"""The paper's ALFWorld experiment with SmolLM2 on a GPU machine without a network.

    python benchmarks/offline_gpu.py pack FOLDER --model smollm2.gguf --games json_2.1.1.tar.xz
    cat FOLDER/piece-* > kit.tar.xz     # on the GPU machine, after the pieces arrived
    python3 benchmarks/offline_gpu.py run OUT --archive kit.tar.xz --rule TRCA --minutes 8

``pack`` downloads the wheels that the GPU machine lacks, removes the device code of other GPUs from
vLLM (a wheel of 330 MB becomes 47 MB), adds the model, the games and the state of earlier runs, and
cuts the archive into pieces. The wheels are for Python 3.12 on x86-64; PyTorch, Transformers, peft
and the scientific packages are expected on the machine, with `REQUIREMENTS` on top.

``run`` unpacks the archive, imitates the demonstrator for a start if there is no start, trains with
a rule to each of `GOALS` iterations, and evaluates each goal on all 140 games of valid_seen and all
134 of valid_unseen. After ``--minutes`` it interrupts the training, which leaves a checkpoint. The
run folders (curves, logs, evaluations, last checkpoints) go to OUT in files of at most
``--file-mib``. Pass OUT to ``pack --state`` for the next visit.

``run --device cpu`` makes the same calls with tiny sizes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
REQUIREMENTS: Final = ROOT / "benchmarks" / "offline_gpu.txt"
CONFIG: Final = "smollm2/alfworld"
GOALS: Final = (15, 30, 50)
"""Iterations of 128 trajectories: the paper's 1.92K, 3.84K and 6.40K."""
UNUSED: Final = (
    *("*/tests", "ray/dashboard/client", "ray/jars", "vllm/vllm-rs"),
    *("mistral_common/data", "pycountry/locales"),
    *("vllm/vllm_flash_attn/_vllm_fa2_C*", "vllm/_moe_C*", "vllm/third_party/deep_gemm"),
    "vllm/third_party/fmha_sm100",
)
"""Parts of the wheels that no run of a dense model in bfloat16 on Hopper needs."""
PANEL: Final = "official-134"
"""All games of valid_unseen. Evaluations during training play valid_seen."""
TIME_IS_OVER: Final = 124
PYTHON: Final = ("--python-version", "3.12", "--implementation", "cp", "--only-binary=:all:")
GLIBC: Final = ("2_17", "2_24", "2_26", "2_27", "2_28", "2_31", "2_34", "2_35")
MIB: Final = 2**20


def pack(args: argparse.Namespace) -> None:
    """Makes the pieces of the archive."""
    folder: Path = args.folder
    site = folder / "kit" / "site"
    shutil.rmtree(folder / "kit", ignore_errors=True)
    site.mkdir(parents=True)
    platforms = [f"manylinux{name}_x86_64" for name in ("1", "2010", "2014")]
    platforms += [f"manylinux_{version}_x86_64" for version in GLIBC]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *PYTHON]
    command += ["--dest", str(folder / "wheels"), "--requirement", str(REQUIREMENTS)]
    subprocess.run([*command, *(f"--platform={name}" for name in platforms)], check=True)
    for wheel in sorted((folder / "wheels").glob("*.whl")):
        unpack(wheel, site)
    for pattern in UNUSED:
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for library in site.glob("vllm/**/*.so"):
        data = bytearray(library.read_bytes())
        remove_device_code(data, args.capability)
        library.write_bytes(data)
    shutil.copy(args.model, folder / "kit" / "model.gguf")
    shutil.copy(args.games, folder / "kit" / "games.tar.xz")
    for part in sorted(args.state.glob("state-*")) if args.state else ():
        shutil.copy(part, folder / "kit")
    for old in folder.glob("piece-*"):
        old.unlink()
    command = ["tar", "--create", "--directory", str(folder / "kit"), "."]
    xz = ["xz", "--threads=0", "--block-size=16MiB", "-6"]
    archive = subprocess.Popen(command, stdout=subprocess.PIPE)
    packed = subprocess.Popen(xz, stdin=archive.stdout, stdout=subprocess.PIPE)
    assert packed.stdout is not None
    for name, size in cut(packed.stdout, folder, "piece", args.piece_mib):
        print(f"{name}: {size / MIB:.1f} MiB")
    if archive.wait() or packed.wait():
        raise SystemExit("tar or xz failed")


def unpack(wheel: Path, site: Path) -> None:
    """Unpacks a wheel with the modes of its files: Ray starts programs."""
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            mode = item.external_attr >> 16
            path = Path(archive.extract(item, site))
            if mode and path.is_file():
                path.chmod(mode | stat.S_IWUSR)


def remove_device_code(data: bytearray, capability: int) -> None:
    """Zeroes the device code of other GPUs in a shared library.

    The containers of the code (fatbins) keep their sizes, so that nothing in the library moves.
    PTX stays in a container without machine code for the GPU.

    Args:
        data: Bytes of the library; changed in place.
        capability: Compute capability of the GPU, such as 90 for 9.0.
    """
    machine_code, ptx = 2, 1
    at = -1
    while (at := data.find(struct.pack("<I", 0xBA55ED50), at + 1)) >= 0:
        version, header, size = struct.unpack_from("<HHQ", data, at + 4)
        end = at + header + size
        if at % 8 or header != 16 or version != 1 or end > len(data):
            continue
        codes = []
        place = at + header
        while place + 64 <= end:
            kind, _, head = struct.unpack_from("<HHI", data, place)
            (length,) = struct.unpack_from("<Q", data, place + 8)
            (needs,) = struct.unpack_from("<I", data, place + 28)
            if not 32 <= head <= 1024 or not length:
                break
            codes.append((kind, needs, place + head, length))
            place += head + length
        newest = max(
            (needs for kind, needs, *_ in codes if kind == ptx and needs <= capability), default=0
        )
        native = any(kind == machine_code and needs == capability for kind, needs, *_ in codes)
        wanted = (machine_code, capability) if native else (ptx, newest)
        for kind, needs, begin, length in codes:
            if (kind, needs) != wanted:
                data[begin : begin + length] = bytes(length)


def cut(stream: IO[bytes], folder: Path, name: str, mib: float) -> Iterator[tuple[str, int]]:
    """Writes a stream into files of at most ``mib`` MiB; yields their names and sizes."""
    number = 0
    while part := stream.read(int(mib * MIB)):
        (folder / f"{name}-{number:02}").write_bytes(part)
        yield f"{name}-{number:02}", len(part)
        number += 1


class Visit:
    """One visit to the GPU machine.

    Args:
        args: The options of ``run``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._end = time.monotonic() + 60 * args.minutes
        self._rule: str = args.rule
        self._cpu = args.device == "cpu"
        self._kit: Path = args.kit
        self._start = self._kit / "start"
        self._set = [f"env_config.games={self._kit / 'games.tar.xz'}", *args.set]
        path = [str(ROOT)]
        if self._cpu:
            self._set += ["env_config.max_steps=2", "tasks_per_iteration=1", "evaluation_tasks=1"]
            self._set += ["group_size=2", "engine=transformers", "engine_config={}"]
            self._set += ["dtype=float32", "num_gpus_per_learner=0", "num_gpus_per_env_runner=0"]
        else:
            path += [str(self._kit / "site"), os.environ.get("PYTHONPATH", "")]
        self._env = os.environ | {
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONUNBUFFERED": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "VLLM_USE_FLASHINFER_SAMPLER": "0",  # the wheel of flashinfer does not travel
        }

    def learn(self) -> None:
        """Makes the start if there is none, trains to each goal, and evaluates unseen games.

        The end of a training evaluates the seen games.
        """
        start = self._runs / "start"
        if not (start / "evaluation.json").exists():
            model = str(self._kit / "model.gguf")
            if not self._train("start", "smollm2/alfworld_imitate", 1 if self._cpu else 8, model):
                return
        self._trca("export", str(start), "--to", str(self._start))
        for goal in (1, 2) if self._cpu else GOALS:
            if not self._train(self._rule, CONFIG, goal, str(self._start)):
                return
            self._evaluate(self._rule)
        self._evaluate("start")

    @property
    def _runs(self) -> Path:
        return self._kit / "runs"

    def _train(self, name: str, config: str, iterations: int, model: str) -> bool:
        """Starts or resumes a run; whether the run reached its last iteration in time."""
        run = self._runs / name
        if run.exists():
            command = ["--resume", str(run)]
        else:
            command = [config, "--model", model, "--name", name]
            command += ["--storage-path", str(self._runs)]
            command += [word for each in self._set for word in ("--set", each)]
        code = self._trca("train", *command, "--iterations", str(iterations))
        if code not in (0, TIME_IS_OVER):
            raise SystemExit(f"the training {name} failed")
        return code == 0

    def _evaluate(self, name: str) -> None:
        tasks = ["--split", "valid_unseen", "--tasks", "1"] if self._cpu else ["--panel", PANEL]
        self._trca("evaluate", str(self._runs / name), *tasks)

    def _trca(self, *words: str) -> int:
        """Runs a command until the visit's end; an interrupted training leaves a checkpoint."""
        print("$ trca", *words, flush=True)
        process = subprocess.Popen([sys.executable, "-m", "trca", *words], env=self._env)
        try:
            return process.wait(max(1.0, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
            return TIME_IS_OVER


def run(args: argparse.Namespace) -> None:
    """Unpacks the archive, learns, and stores what returns."""
    begun = time.monotonic()
    args.kit, args.out = args.kit.resolve(), args.out.resolve()
    if args.archive:
        args.kit.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-xf", str(args.archive), "-C", str(args.kit)], check=True)
        state = sorted(args.kit.glob("state-*"))
        if state:
            joined = subprocess.Popen(["cat", *map(str, state)], stdout=subprocess.PIPE)
            subprocess.run(["tar", "-xz", "-C", str(args.kit)], stdin=joined.stdout, check=True)
        print(f"unpacked after {time.monotonic() - begun:.0f} s", flush=True)
    try:
        Visit(args).learn()
    finally:
        args.out.mkdir(parents=True, exist_ok=True)
        state = subprocess.Popen(
            ["tar", "-cz", "-C", str(args.kit), *kept(args.kit, args.rule)], stdout=subprocess.PIPE
        )
        assert state.stdout is not None
        for name, size in cut(state.stdout, args.out, "state", args.file_mib):
            print(f"{name}: {size / MIB:.1f} MiB")


def kept(kit: Path, rule: str) -> Iterator[str]:
    """Yields tar's arguments: the runs, with the optimizer of the rule's last checkpoint alone.

    A merged model in a checkpoint is made again when a command needs it.
    """
    yield "--exclude=runs/*/checkpoints/*/model"
    last = kit / "runs" / rule / "checkpoints" / "last"
    for optimizer in kit.glob("runs/*/checkpoints/iteration_*/learner_group/learner/state.pkl"):
        if last.resolve() not in optimizer.parents:
            yield f"--exclude={optimizer.relative_to(kit)}"
    yield from (f"runs/{name}" for name in ("start", rule) if (kit / "runs" / name).exists())


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack", help="make the pieces of the archive")
    packing.set_defaults(action=pack)
    packing.add_argument("folder", type=Path)
    packing.add_argument("--model", type=Path, required=True, help="GGUF file of SmolLM2")
    packing.add_argument("--games", type=Path, required=True, help="archive of the official games")
    packing.add_argument("--state", type=Path, help="folder with the state of earlier visits")
    packing.add_argument("--piece-mib", type=float, default=46.0)
    packing.add_argument("--capability", type=int, default=90, help="of the GPU: 90 is Hopper")
    visit = commands.add_parser("run", help="train on the GPU machine")
    visit.set_defaults(action=run)
    visit.add_argument("out", type=Path, help="folder for the files that return")
    visit.add_argument("--archive", type=Path, help="the joined pieces; default: unpacked before")
    visit.add_argument("--kit", type=Path, default=Path("/tmp/trca-kit"), help="where to unpack")
    visit.add_argument("--rule", default="TRCA")
    visit.add_argument("--minutes", type=float, default=8.0)
    visit.add_argument("--file-mib", type=float, default=15.5)
    visit.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    visit.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args()
    args.action(args)


if __name__ == "__main__":
    main()

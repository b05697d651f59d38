"""The code blocks of the pages on other libraries run completely, each with its library."""

import json
import shlex
import shutil
import sys
from contextlib import ExitStack
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
import typing_extensions
from packaging.version import Version

from tests.test_docs import blocks

HERE = Path(__file__).parent
PAGES = ("docs/interop.md", "docs/interop_credit.md", "docs/tools.md")
BLOCKS = [block for page in PAGES for block in blocks(page) if block.library]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """A folder with the files of the blocks, and the names that stand for models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE))
    for file in ("guess.py", "counting_server.py"):
        shutil.copy(HERE / file, tmp_path)
    rows = [{"goal": n % 8 + 1, "prompt": "Guess."} for n in range(11)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ExitStack() as stack:
        yield {"enter": stack.enter_context}


def prepare(library, names):
    if library == "verl":
        import torch
        from verl import DataProto

        ones = torch.ones(1, 2)
        tensors = {"token_level_rewards": ones, "response_mask": ones}
        names["batch"] = DataProto.from_dict(tensors, {"uid": ["a"], "traj_uid": ["b"]})
    if library == "skyrl" and sys.version_info < (3, 12):  # see test_skyrl
        names["enter"](patch("typing.TypedDict", typing_extensions.TypedDict))
    if library == "trl":
        import trl

        from test_trl import tiny_qwen

        names["model"], names["tokenizer"] = tiny_qwen()
        names["settings"] = trl.GRPOConfig(
            output_dir="out",
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=8,
            max_steps=1,
            report_to="none",
            use_cpu=True,
        )


@pytest.mark.parametrize("library", sorted({block.library for block in BLOCKS}))
def test_the_blocks_of_a_library_run_to_their_end(library, names):
    if find_spec(library) is None:
        pytest.skip(f"make test-interop runs it, in an environment with {library}")
    if library == "mcp" and Version(version("mcp")) < Version("2.3"):
        pytest.skip("OpenEnv and verifiers bring an older mcp")
    prepare(library, names)
    for block in BLOCKS:
        if block.library == library:
            code = block.code
            if "{url}" in code:
                from tests.envs.retrieval.servers import serving

                code = code.replace("{url}", names["enter"](serving(names["app"])))
            exec(compile(code, str(block), "exec"), names)


def test_the_command_of_verifiers_names_its_options(names, monkeypatch):
    pytest.importorskip("verifiers", reason="make test-interop runs it, with verifiers")
    from verifiers.v1.cli.eval.main import main

    (command,) = (b.code for b in blocks("docs/interop.md") if b.code.startswith("vf-eval "))
    monkeypatch.setattr("sys.argv", ["vf-eval"])
    main([*shlex.split(command)[1:], "--dry-run", "--output-dir", "out"])
    (config,) = (json.loads(path.read_text()) for path in Path("out").rglob("eval.json"))
    assert config["env"]["taskset"]["env"] == "alfworld"
    assert config["env"]["rubric_weight"] == 0.1
    assert config["push"] is False

"""The checks before a run: their environments, their imports, and the problems they name."""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import wraps
from http.server import BaseHTTPRequestHandler

import pytest

from tests.cli.calls import done, refused, serving, trca
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.settings.parameters import TextParameters
from trca.cli.preflight.preflight import Preflight
from trca.cli.run import training
from trca.common.extras import missing_training
from trca.envs.alfworld.env import ALFWorldEnv
from trca.policies import models
from trca.policies.model_names import missing_on_hub
from trca.tune_configs.files import assign, read

HEAVY = {"torch", "ray", "transformers", "scipy", "matplotlib", "pandas", "pyarrow"}
ADAPTED = {"trl", "openenv", "verifiers", "pettingzoo", "datasets", "fastmcp"}


@pytest.fixture
def calls(monkeypatch):
    """Counts the environments by split, the validations and the tokenizers that a command makes."""
    count = Counter()

    def counted(owner, name, key):
        original = getattr(owner, name)

        @wraps(original)
        def call(*args, **kwargs):
            count[key(*args, **kwargs)] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    counted(ALFWorldEnv, "__init__", lambda *args, **kwargs: f"environment, {kwargs['split']}")
    counted(TextAlgorithmConfig, "validate", lambda *args: "validate")
    counted(models, "load_tokenizer", lambda *args: "tokenizer")
    return count


ONCE = {"environment, train": 1, "environment, valid_unseen": 1, "validate": 1, "tokenizer": 1}


def test_a_run_makes_environment_tokenizer_and_config_once_before_the_run_starts(
    calls, monkeypatch, tmp_path
):
    monkeypatch.setattr(training, "train", lambda *args: True)
    result = trca("train", "quickstart", f"--storage-path={tmp_path}")
    assert result.exit_code == 130, result.output
    assert calls == ONCE


def test_a_dry_run_makes_environment_tokenizer_and_config_once(calls):
    output = done("train", "quickstart", "--dry-run")
    assert "panel, evaluation" in output
    assert calls == ONCE


def test_all_problems_come_at_once():
    changes = {"group_size": 1, "model": "./nothing", "num_gpus_per_learner": 64, "num_learners": 1}
    settings = TextParameters.resolve(assign(read("quickstart"), changes))
    with Preflight(settings) as preflight:
        problems = preflight.problems()
    assert [problem.split(":")[0] for problem in problems[:2]] == [
        "group_size is 1",
        "no model at './nothing'",
    ]
    assert "asks for 64 GPUs" in problems[2]


def test_what_this_machine_lacks_is_no_problem_of_a_run_elsewhere():
    changes = {"num_gpus_per_learner": 64, "num_learners": 1}
    settings = TextParameters.resolve(assign(read("quickstart"), changes))
    with Preflight(settings, here=False) as preflight:
        assert preflight.problems() == []
        assert any("asks for 64 GPUs" in lack for lack in preflight.lacks())


@pytest.mark.parametrize(
    ("dtype", "slowdown", "noted"),
    [("bfloat16", 9.0, 1), ("bfloat16", 1.6, 1), ("bfloat16", 1.4, 0), ("float32", 9.0, 0)],
)
def test_bfloat16_is_noted_on_a_processor_without_its_instructions(
    monkeypatch, dtype, slowdown, noted
):
    assert models.bfloat16_slowdown() > 0
    monkeypatch.setattr(models, "bfloat16_slowdown", lambda: slowdown)
    settings = {**read("quickstart"), "dtype": dtype}
    with Preflight(settings) as preflight:
        notes = [note for note in preflight.notes() if "set dtype: float32" in note]
    assert len(notes) == noted
    assert all(f"{slowdown:.0f} times slower in bfloat16" in note for note in notes)


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({}, 0),
        ({"env_config": {"games": "small", "split": "valid_unseen"}}, 1),
        ({"evaluation_split": "train"}, 1),
    ],
)
def test_evaluation_on_training_tasks_is_noted(changes, noted):
    with Preflight({**read("quickstart"), **changes}) as preflight:
        notes = [note for note in preflight.notes() if "evaluation tasks are training" in note]
    assert len(notes) == noted


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ({"config.json": 200}, ""),
        ({"adapter_config.json": 200}, ""),
        ({}, "the name is wrong, or the model is private"),
        ({"config.json": 500}, "the Hugging Face hub gives none: Server error '500"),
        ({"config.json": 429}, "the Hugging Face hub gives none: 429 Too Many Requests"),
    ],
)
def test_a_hub_without_the_model_is_asked_once_for_each_file(monkeypatch, statuses, words):
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(file := self.path.rpartition("/")[2])
            self.send_response(status := statuses.get(file, 404))
            if status == 404:
                self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):
            self.send_error(404)

    with serving(Hub) as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub)
        paths = "{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", f"{hub}/{paths}"
        )
        problem = missing_on_hub("owner/no-such-model")
    assert words in problem
    assert bool(words) == bool(problem)
    assert len(asked) == len(set(asked)) <= 2, "nothing is asked again"


REFUSALS = {
    "--help": "submit",
    "train --help": "--auto-resume",
    "train quikstart": "did you mean 'quickstart'",
    "train --storage-path /proc/runs": "cannot write to /proc/runs",
    "train --set model=owner/none": "the Hugging Face hub gives none",
    "evaluate owner/none": "the Hugging Face hub gives none",
    "train --set lrr=1": "did you mean 'lr'",
    "train --set lr=-1": "lr is -1",
    "train --set lr": "write key=value",
    "train --set group_size=1": "group_size is 1",
    "train --algorithm TRCO": "did you mean 'TRCA'",
    "train --games smal": "did you mean 'small'",
    "train --name q": "outputs/q exists",
    "train --resume nothing": "no run 'nothing'",
    "train --model ./nothing": "no model at './nothing'",
    "train --set num_learners=1 --set num_gpus_per_learner=64": "asks for 64 GPUs",
    "train --dry-run --set lrr=1": "did you mean 'lr'",
    "train --dry-run --set group_size=1": "group_size is 1",
    "plan --gpus 4": "such as 4x80",
    "submit quickstart --to ray": "--storage-path is missing",
    "submit quickstart --to slurm": "copy examples/cluster/slurm.sbatch",
    "evaluate outputs/nothing": "no run 'outputs/nothing'",
    "audit outputs/nothing": "no run 'outputs/nothing'",
    "export outputs/nothing --to x": "no run 'outputs/nothing'",
    "jobs list --address http://127.0.0.1:9": "no Ray cluster answers",
    "jobs list": "no Ray cluster runs on this machine, and RAY_ADDRESS is not set",
}
IN_TURN = """
import json, os, sys
from typer.testing import CliRunner
from trca.cli import app

ends = []
for number, arguments in enumerate(json.loads(sys.argv[1])):
    os.makedirs(f"{number}/outputs/q")
    os.chdir(str(number))
    with open("outputs/q/config.yaml", "w") as file:
        file.write("algorithm: TRCA\\n")
    before = set(sys.modules)
    result = CliRunner().invoke(app, arguments.split())
    imported = sorted(set(sys.modules) - before)
    ends.append((result.exit_code, result.output, imported, os.listdir("outputs")))
    os.chdir("..")
with open("ends.json", "w") as file:
    json.dump(ends, file)
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Exit code, output, new imports and run folders of each command, in turn in one process."""
    folder = tmp_path_factory.mktemp("refusals")
    subprocess.run(
        [sys.executable, "-c", IN_TURN, json.dumps([*REFUSALS])],
        cwd=folder,
        check=True,
        env={n: v for n, v in os.environ.items() if n != "RAY_ADDRESS"}
        | {"RAY_TMPDIR": str(folder), "HF_ENDPOINT": "http://127.0.0.1:9"},
    )
    return dict(zip(REFUSALS, json.loads((folder / "ends.json").read_text()), strict=True))


@pytest.mark.parametrize(("arguments", "message"), REFUSALS.items())
def test_refusals_and_helps_import_neither_ray_nor_torch(ends, arguments, message):
    code, output, imported, outputs = ends[arguments]
    assert code == (0 if "--help" in arguments else 2), output
    assert message in " ".join(output.split())
    heavy = HEAVY | ADAPTED | ({"numpy"} if "--help" in arguments else set())
    assert heavy.isdisjoint(imported)
    assert outputs == ["q"]  # nothing is made


@pytest.mark.slow
def test_the_algorithms_register_themselves_and_import_no_adapters():
    program = (
        "import sys\n"
        "import trca.algorithms\n"
        "from ray.tune.registry import get_trainable_cls\n"
        "assert get_trainable_cls('TRCA') is trca.algorithms.TRCA\n"
        "trca.algorithms.TRCAConfig.from_preset('quickstart').validate()\n"
        "ours = {name for name in sys.modules if name.startswith('trca_interop')}\n"
        f"assert not ours | ({ADAPTED} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_parameter_models_are_those_of_the_algorithms():
    from trca.algorithms import ALGORITHMS
    from trca.algorithms.settings.parameters import parameter_models

    assert missing_training() == ""
    assert parameter_models() == {n: a.config_class.parameters_class for n, a in ALGORITHMS.items()}


def test_imitation_of_a_plain_environment_without_a_demonstrator_is_refused_early(tmp_path):
    (tmp_path / "door.py").write_text(
        "import gymnasium\n\n\n"
        "class Door(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Text(100)\n"
        "    action_space = gymnasium.spaces.Text(100)\n\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return 'You see a door.', {}\n\n"
        "    def step(self, action):\n"
        "        return 'You see a door.', 0.0, True, False, {}\n"
    )
    door = f"--env={tmp_path}/door.py:Door"
    for more in ([], ["--set=demonstrations=on_policy"]):
        result = trca("train", "imitate", door, "--model=tiny", "--dry-run", *more)
        assert result.exit_code == 2, result.output
        assert "has no demonstrator_action() to imitate: add one" in result.output
        assert len(result.output.splitlines()) == 1
    recorded = "--set=demonstrations=recorded", "--set=recorded_rollouts=none.parquet"
    assert "demonstrator_action" not in trca("train", "imitate", door, *recorded).output


@pytest.mark.parametrize(
    ("start", "tools", "problem"),
    [
        ('raise ValueError("no licence")', "()", "does not start: no licence"),
        ('raise RuntimeError("no server")', "()", "does not start: no server"),
        ('return "Begin."', '(tool("a", ""), tool("a", ""))', "start: two tools have the name 'a'"),
        ('return "Begin."', "()", "calls tools, and the environment has none"),
    ],
)
def test_an_environment_that_does_not_start_is_named(tmp_path, start, tools, problem):
    (tmp_path / "desk.py").write_text(
        "from trca.envs import ToolEnv, tool\n\n\n"
        "class Desk(ToolEnv):\n"
        f'    task_ids, instruction, tools = ("one",), "do it.", {tools}\n\n'
        "    def start_task(self, task_id, options):\n"
        f"        {start}\n\n"
        "    def call(self, name, arguments):\n"
        '        return ""\n'
    )
    output = refused(
        *("train", "quickstart", "--algorithm=GRPO", f"--env={tmp_path}/desk.py:Desk"),
        *("--model=Qwen/Qwen2.5-0.5B-Instruct", "--set=template=chat", "--dry-run"),
        "--set=response_format=tool_calls",
    )
    assert problem in output
    assert "max_prompt_tokens" not in output

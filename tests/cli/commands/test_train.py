"""Real runs of the real command, on a small random model and generated games."""

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import torch

from tests.cli import calls
from tests.cli.calls import done, refused, serving
from trca.algorithms.settings.parameters import TextParameters
from trca.records import read_rollouts
from trca.records.store import prompts_of, read_table
from trca.runs.folder import RunFolder
from trca.runs.success_tables import wilson
from trca.tune_configs.files import read

SMALL = [
    "--model=shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "--iterations=3",
    "--set=tasks_per_iteration=2",
    "--set=group_size=2",
    "--set=env_config.max_steps=3",
    "--set=max_new_tokens=6",
    "--set=max_prompt_tokens=160",
    "--set=minibatch_size=8",
    "--set=train_malformed=true",
    "--set=kl_coeff=0.1",
    "--set=evaluation_tasks=3",
    "--set=evaluation_rollouts=2",
    "--set=evaluation_interval=2",
    "--set=evaluation_split=valid_seen",
    "--set=num_env_runners=0",
    "--set=num_learners=0",
]
NOISE = ("seconds", "time", "timing", "tokens_per_second", "throughput", "restore", "memory_mb")


def trca(folder, *arguments):
    return [sys.executable, "-m", "trca", *arguments, f"--storage-path={folder}"]


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def run(folder, *arguments, **more):
    done = subprocess.run(
        trca(folder, *arguments),
        capture_output=True,
        text=True,
        env=environment(**more),
        timeout=800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def weights(folder):
    import pickle

    path = folder / "learner_group/learner/rl_module/default_policy/module_state.pkl"
    return {name: value.tobytes() for name, value in pickle.loads(path.read_bytes()).items()}


def figures(path):
    return [
        {k: v for k, v in row.items() if not any(word in k for word in NOISE)}
        for row in RunFolder(path).metrics()
    ]


def test_a_run_prints_one_line_an_iteration_and_ends_with_curve_table_and_advice(runs):
    folder, output = runs
    for part in (
        "iteration  success  held out",
        "\n      1/3  ",
        "\n      3/3  ",
        "valid_seen, 3 tasks",
        "95% interval",
        f"{folder}/quickstart/curve.png",
        f"trca evaluate {folder}/quickstart@last --seeds 3",
        f"trca diagnose {folder}/quickstart",
        f"trca inspect {folder}/quickstart",
        f"trca view {folder}/quickstart",
        f"trca train {folder}/quickstart/config.yaml --algorithm GRPO --name grpo",
    ):
        assert part in output
    assert "WARNING" not in output
    advice = output[output.index("What next:") :].splitlines()
    assert all(len(line) <= 80 or "trca" in line or "tensorboard" in line for line in advice)


def test_the_end_of_a_run_names_training_success_far_above_held_out_success(
    runs, tmp_path, monkeypatch
):
    """The last command of a run whose process ended before it said so, with other metrics."""
    run = RunFolder(shutil.copytree(runs[0] / "quickstart", tmp_path / "apart", symlinks=True))
    rates = {"success_rate": 0.8, "evaluation/success_rate": 0.4}
    ends = {"evaluation/success_low": 0.3, "evaluation/success_high": 0.5}
    row = run.metrics()[-1] | rates | ends
    (run.path / "metrics.jsonl").write_text(f"{json.dumps(row)}\n" * 5)
    run.set_status("running", 3)
    monkeypatch.setattr("trca.cli.run.training.train", lambda *_: None)
    for command in (["train", "--resume=apart"], ["diagnose", "apart"]):
        output = done(*command, f"--storage-path={tmp_path}")
        words = "success is 80% in training (mean of 5 iterations) and 40% on held-out tasks"
        assert words in " ".join(output.split())


def test_a_job_that_starts_again_with_other_settings_is_refused(runs):
    command = ["train", "quickstart", *SMALL, "--name=quickstart", "--auto-resume"]

    def words(*more):
        return refused(*command, f"--storage-path={runs[0]}", *more)

    assert "quickstart exists with lr: 0.0004, not 0.001: name another run" in words(
        "--set=lr=1e-3"
    )
    assert "exists with algorithm: 'TRCA', not 'GRPO'" in words("--algorithm=GRPO")
    more = "--set=env_config.max_steps=4"
    assert "'max_steps': 3}, not {'games': 'small', 'max_steps': 4}" in words(more)
    # the same job, started again, has no work
    assert "quickstart is finished" in done(*command, f"--storage-path={runs[0]}")


def test_a_job_is_compared_with_the_contents_of_copied_files(tmp_path):
    library = shutil.copy("trca/rubric/libraries/alfworld.yaml", tmp_path / "mine.yaml")
    settings = {**read("quickstart"), "env_config": {"library": str(library), "max_steps": 3}}
    run = RunFolder.create(tmp_path, "quickstart")
    run.write_settings(TextParameters.resolve(settings, "mine").flat())
    job = ["train", "quickstart", "--auto-resume", f"--storage-path={tmp_path}"]
    job += ["--dry-run", f"--set=env_config={{library: {library}, max_steps: 3}}"]
    done(*job)
    for changed in ("--set=lambda_=0.5", "--set=env_config.max_steps=4"):
        assert "exists with" in refused(*job, changed)
    (tmp_path / "elsewhere").mkdir()
    moved = Path(shutil.move(library, tmp_path / "elsewhere" / "mine.yaml"))
    job[-1] = f"--set=env_config={{library: {moved}, max_steps: 3}}"
    done(*job)
    moved.write_text(f"{moved.read_text()}# another\n")
    assert "mine.yaml (SHA-256" in refused(*job)
    (tmp_path / "quickstart" / "trials").mkdir()
    assert "is a sweep: resume it by" in refused(*job)


def test_a_run_whose_tasks_have_changed_is_not_continued(runs, tmp_path):
    folder = shutil.copytree(runs[0] / "quickstart", tmp_path / "changed", symlinks=True)
    panels = json.loads((folder / "panels.json").read_text())
    panels["train"]["hash"] = "0" * 16
    (folder / "panels.json").write_text(json.dumps(panels))
    result = calls.trca("train", f"--resume={folder}", "--iterations=4")
    assert result.exit_code == 1, result.output
    assert "the train tasks of" in " ".join(result.output.split())
    assert json.loads((folder / "panels.json").read_text()) == panels


def test_a_run_folder_holds_all_that_a_run_leaves(runs):
    folder, _ = runs
    path = folder / "quickstart"
    assert RunFolder(path).read_config()["env_config"] == {"games": "small", "max_steps": 3}
    assert json.loads((path / "versions.json").read_text())["packages"]["ray"]
    assert len(json.loads((path / "panels.json").read_text())["train"]["hash"]) == 16
    assert json.loads((path / "status.json").read_text())["state"] == "finished"
    assert [row["trajectories"] for row in RunFolder(path).metrics()] == [4, 8, 12]
    assert (path / "curve.png").stat().st_size > 1000
    assert list((path / "tensorboard").iterdir())
    assert RunFolder(path).checkpoint_iteration("last") == 3
    lines = done("inspect", path, "--iteration=3", "--json").splitlines()
    rollout = json.loads(lines[0])
    assert len(lines) == 4
    assert {"task_id", "group", "policy_version", "won", "steps"} <= set(rollout)
    assert {"observation", "prompt", "response", "action", "judgments", "advantage"} <= set(
        rollout["steps"][0]
    )
    again = list(read_rollouts(path / "rollouts/iteration_000003/train.parquet"))
    assert [r.task_id for r in again] == [json.loads(line)["task_id"] for line in lines]
    assert (path / "rollouts/iteration_000003/eval.parquet").exists()


def test_every_panel_of_an_evaluation_has_a_report_of_its_own(runs):
    folder, _ = runs
    path = folder / "quickstart"
    shorter = ["--tasks=2", "--set=max_new_tokens=5"]
    for arguments in (["--tasks=4", "--seeds=2", "--transcripts"], ["--tasks=2"], shorter):
        done("evaluate", f"{path}@last", *arguments)
    reports = {
        report.stem: json.loads(report.read_text())
        for report in path.glob("evaluation_*")
        if report.suffix == ".json"
    }
    sizes = {(len(r["outcomes"]), r["seeds"], r["temperature"]) for r in reports.values()}
    assert sizes == {(8, 2, 1.0), (2, 1, 1.0)}
    assert sorted(str(report.get("set")) for report in reports.values()) == [
        "None",
        "None",
        "{'max_new_tokens': 5}",
    ]
    (name,) = [name for name, report in reports.items() if report["seeds"] == 2]
    report = reports[name]
    assert name.startswith("evaluation_last_iteration_000003_valid_seen-4-")
    assert name.endswith(f"{report['panel']['hash'][:8]}_seeds-2_t-1")
    assert report["rows"][-1]["n"] + report["rows"][-1]["missing"] == 8
    assert len({(o["task_id"], o["seed"]) for o in report["outcomes"]}) == 8
    assert "95% interval" in (path / f"{name}.md").read_text()
    prompts = prompts_of(read_table(path / f"{name}.parquet"))
    assert len(prompts) == 8
    assert all(prompt for of_rollout in prompts for prompt in of_rollout)


def evaluated(path, *arguments):
    """The output of an evaluation of a run, its report, its page and its rollouts."""
    before = set(path.glob("evaluation_*.json"))
    output = done("evaluate", *arguments, "--transcripts")
    (file,) = set(path.glob("evaluation_*.json")) - before
    rollouts = list(read_rollouts(file.with_suffix(".parquet")))
    report = json.loads(file.read_text())
    return " ".join(output.split()), report, file.with_suffix(".md").read_text(), rollouts


def tokens(rollout):
    return [step.response_ids.tolist() for step in rollout.steps]


def test_a_report_draws_from_other_streams_than_the_evaluations_that_chose_a_checkpoint(runs):
    path = runs[0] / "quickstart"
    output, report, page, rollouts = evaluated(path, str(path), "--tasks=3", "--seeds=3")
    chose = list(read_rollouts(path / "rollouts/iteration_000003/eval.parquet"))
    assert (len(chose), len(rollouts)) == (6, 9)
    assert {r.task_id for r in rollouts} == {r.task_id for r in chose}
    assert sum(tokens(r) in [tokens(c) for c in chose] for r in rollouts) == 0
    words = "last, iteration 3: selected without a metric"
    assert f"Checkpoint: {words}" in output
    assert f"- checkpoint: {words}\n" in page
    assert report["selection"] == {"which": "last", "iteration": 3}


def test_a_report_of_the_best_checkpoint_leaves_out_the_tasks_that_chose_it(runs):
    path = runs[0] / "quickstart"
    output, report, page, rollouts = evaluated(path, f"{path}@best", "--tasks=2")
    chose = json.loads((path / "panels.json").read_text())["evaluation"]
    assert {r.split for r in rollouts} == {chose["split"]} == {"valid_seen"}
    assert not {r.task_id for r in rollouts} & set(chose["task_ids"])
    words = (
        "best, iteration 3: the highest evaluation/success_rate (0.0%) of 2 iterations, on panel"
        f" {chose['hash']} (valid_seen, 3 tasks); 0 of the 2 tasks of this report selected the"
        " checkpoint"
    )
    assert f"Checkpoint: {words}" in output
    assert f"- checkpoint: {words}\n" in page
    assert report["selection"]["panel"]["hash"] == chose["hash"] != report["panel"]["hash"]
    assert report["selection"]["tasks_in_this_report"] == 0


def test_a_read_only_run_is_evaluated_and_exported(runs, read_only_copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "cache"))
    finished = runs[0] / "quickstart"
    shutil.rmtree(finished / "checkpoints/iteration_000003/model", ignore_errors=True)
    path = str(read_only_copy(finished))
    command = ["evaluate", path, "--tasks=2"]
    refusal = refused(*command)
    assert f"cannot write to {path}: " in refusal
    assert "name another folder by --output" in refusal
    for _ in range(2):
        done(*command, f"--output={tmp_path}/reports")
    assert len(list(tmp_path.glob("reports/evaluation_*.json"))) == 1
    assert len(list(tmp_path.glob("cache/exports/*/config.json"))) == 1
    done("export", path, f"--to={tmp_path}/policy")


def test_the_interval_of_a_run_is_over_tasks(runs):
    path = runs[0] / "quickstart"
    row, whole = RunFolder(path).metrics()[-1], json.loads((path / "evaluation.json").read_text())
    interval = row["evaluation/success_low"], row["evaluation/success_high"]
    assert interval == (whole["rows"][-1]["low"], whole["rows"][-1]["high"]) == wilson(0, 3)
    assert row["evaluation/n"] == 6


def test_a_run_brings_its_own_config_and_a_missing_path_is_no_hub_name(runs, monkeypatch):
    folder, _ = runs
    monkeypatch.chdir(folder)
    assert "brings its own settings" in refused("evaluate", "quickstart/", "--config=webshop")
    (folder / "models").mkdir(exist_ok=True)
    for name in ("models/typo", "./typo", "quickstart/typo"):
        assert f"no run {name!r}" in refused("evaluate", name)


def test_an_exported_policy_says_what_it_needs(runs):
    folder, _ = runs
    path = folder / "quickstart"
    done("export", f"{path}@last", "--to", str(folder / "policy"))
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder / "policy")
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(folder / "policy"))
    card = (folder / "policy" / "README.md").read_text()
    for part in ("trca/ALFWorld-v0", "max_steps=3", "`compact`", "<action>...</action>"):
        assert part in card
    assert "| checkpoint | last, iteration 3: selected without a metric |" in card
    assert "likely too high" not in card
    done("export", f"{path}@best", "--to", str(folder / "best"))
    card = (folder / "best" / "README.md").read_text()
    assert "| checkpoint | best, iteration 3: the highest evaluation/success_rate (0.0%) of" in card
    assert "The highest of 2 numbers is likely too high" in card
    assert f"`trca evaluate {path}@best --split SPLIT`" in card
    assert "is not empty" in refused("export", str(path), "--to", str(folder / "policy"))


@contextmanager
def fake_hub():
    """A server with the requests of an upload to the Hugging Face hub; yields URL and uploads."""
    created, files, answers = [], {}, {"/api/whoami-v2": {"name": "me", "type": "user"}}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(answers.get(self.path, {"sha": "0" * 40, "siblings": []}))

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/api/repos/create":
                created.append(json.loads(body))
                self.answer({"url": f"http://{self.headers['Host']}/me/policy"})
            elif "/preupload/" in self.path:
                modes = {"uploadMode": "regular", "shouldIgnore": False}
                self.answer({"files": [{**f, **modes} for f in json.loads(body)["files"]]})
            elif "/commit/" in self.path:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        files[line["value"]["path"]] = b64decode(line["value"]["content"])
                commit = f"http://{self.headers['Host']}/me/policy/commit/0"
                self.answer({"commitUrl": commit, "commitOid": "0" * 40})
            else:
                self.answer({})

        def answer(self, data):
            self.send_response(200 if self.headers["Authorization"] == "Bearer hf_mine" else 401)
            self.end_headers()
            self.wfile.write(json.dumps(data).encode())

    with serving(Handler) as address:
        yield address, created, files


def test_an_exported_policy_is_uploaded_with_its_card(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    path, name = str(runs[0] / "quickstart"), "--to-hub=me/policy"
    with fake_hub() as (url, created, files):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        shown = done("export", path, name, "--dry-run")
        assert not created
        assert not [*tmp_path.iterdir()]
        done("export", path, name, "--private", "--to=policy")
        assert [(each["name"], each["visibility"]) for each in created] == [("policy", "private")]
        kept = {each.name: each.read_bytes() for each in Path("policy").iterdir()}
        assert files == kept
        card = files["README.md"].decode()
        assert "trca evaluate me/policy --config config.yaml" in card
        assert card.strip() in shown
        for file, data in kept.items():
            assert f"{len(data):,} bytes  {file}" in shown
            assert Path("policy", file).stat().st_mode & 0o777 == 0o644
        monkeypatch.setenv("HF_TOKEN", "hf_other")
        assert "does not take an upload to me/policy: " in refused("export", path, name)
        monkeypatch.setenv("HF_TOKEN", "")
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
        said = refused("export", path, name)
        assert "there is no token for an upload to me/policy: run hf auth login, or set" in said
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    said = refused("export", path, name)
    assert "Connection refused: check network and token" in said
    assert "--to-hub is 'policy': name owner" in refused("export", path, "--to-hub=policy")
    for options in ([], ["--to=other", "--dry-run"], ["--to=other", "--private"]):
        assert "name --to FOLDER, or --to-hub OWNER/NAME" in refused("export", path, *options)


def test_a_run_that_was_stopped_does_not_end_where_it_stopped(runs, tmp_path):
    whole = runs[0] / "quickstart"
    stopped = RunFolder(shutil.copytree(whole, tmp_path / "quickstart", symlinks=True))
    stopped.set_status("interrupted", 3)
    stopped.write_config({**stopped.read_config(), "iterations": 5})
    again = ["train", "--resume=quickstart", f"--storage-path={tmp_path}", "--iterations=3"]
    assert "give more --iterations" in refused(*again)
    assert stopped.read_config()["iterations"] == 5


def test_a_run_that_is_through_or_changed_is_not_resumed(runs):
    folder, _ = runs
    common = ["train", "--resume=quickstart", f"--storage-path={folder}"]
    assert "give more --iterations" in refused(*common)
    assert "a resumed run keeps its settings" in refused(*common, "--seed=7")
    for unread in ("webshop", "--name=other", "--auto-resume"):
        words = f"{unread.split('=')[0]} with --resume: a resumed run keeps its settings"
        assert words in refused(*common, unread, "--iterations=5")


def test_a_dry_run_of_the_papers_preset_needs_neither_games_nor_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    storage = tmp_path / "runs"
    output = done(
        *("train", "paper/alfworld_qwen2.5_1.5b", "--dry-run"),
        *("--set", "num_learners=1", "--set", "num_gpus_per_learner=64"),
        f"--storage-path={storage}",
    )
    for part in ("6,400", "1,543,714,304", "optimizer state", "data missing", "trca data alfworld"):
        assert part in output
    assert "GPUs and this machine has" in output
    assert output.index("rollouts in all") < output.index("lambda_: 0.8")
    assert not storage.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("part", ["learner", "env_runner"])
def test_a_gpu_for_the_driver_that_the_machine_lacks_is_refused_before_the_start(part, tmp_path):
    command = ["train", "quickstart", "--set", f"num_gpus_per_{part}=1", "--set"]
    command += [f"num_{part}s=0", f"--storage-path={tmp_path / 'runs'}"]
    assert "the run asks for 1 GPU and this machine has 0" in refused(*command)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_builds_no_policy_and_counts_one_that_is_built(tmp_path, monkeypatch):
    from trca.policies.models import load_model
    from trca.policies.shrunk import shrunk_model
    from trca.policies.tiny import tiny_folder

    command = ["train", "quickstart", "--set=max_prompt_tokens=1024", "--dry-run"]
    elsewhere = [*command, "--games=small-9"]
    built = shrunk_model("Qwen/Qwen2.5-1.5B-Instruct")
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path))

    def counted(arguments, folder):
        output = done(*arguments)
        count = sum(p.numel() for p in load_model(str(folder)).parameters())
        assert f" {count:,} " in output
        assert "at most" not in output.split("parameters")[0].rsplit("model", 1)[1]

    output = done(*elsewhere)
    assert "panel, evaluation" in output
    assert "at most 974,912" in output
    assert not (tmp_path / "tiny").exists()

    shutil.copytree(built, tiny_folder("trca/ALFWorld-v0", {"games": "small-9"}))
    counted(elsewhere, built)
    counted(command, tiny_folder("trca/ALFWorld-v0"))  # shipped


def test_a_damaged_file_of_the_shipped_policy_is_refused_before_the_run(tmp_path, monkeypatch):
    from trca.policies import shipped

    copy = shutil.copytree(shipped.FOLDER, tmp_path / "tiny_data")
    monkeypatch.setattr(shipped, "FOLDER", copy)
    with (copy / "alfworld" / "model.safetensors").open("r+b") as file:
        file.write(b"?")
    words = refused("train", "quickstart", f"--storage-path={tmp_path / 'runs'}")
    assert "model.safetensors: SHA-256 is" in words
    assert not (tmp_path / "runs").exists()


def test_a_rule_that_reads_gold_is_told_before_anything_runs(tmp_path):
    rule = tmp_path / "peeking.py"
    rule.write_text("def peek(batch, *, gold_answers):\n    return 0 * batch.reward\n")
    dry = ["train", "quickstart", "--dry-run", f"--set=credit={rule}:peek"]
    assert "set gold_in_training: true" in refused(*dry)
    output = done(*dry, "--set=gold_in_training=true")
    assert "note: training reads gold_answers: the hidden truth of its tasks" in output
    assert "gold_in_training: true" in output

"""`trca report` makes the paper's tables and figures of finished runs."""

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import stdev

import pytest

from tests.cli import calls
from trca.algorithms.settings.parameters import TextParameters, switch
from trca.analysis.paper_tables import as_latex, as_markdown, read_run, tables
from trca.cli.commands.report import note, over_setting
from trca.runs.folder import RunFolder
from trca.tune_configs.files import read


def row(kind, mean, **measures):
    told = {"task_type": kind, "n": 16, "won": 8, "mean": mean, "low": 0.0, "high": 1.0}
    return {**told, "steps": 9.0, "missing": 0, "measures": measures}


@pytest.fixture
def run(tmp_path):
    """Writes the folder of a run that has ended, or has come to an iteration."""

    def write(
        name, rows, preset="quickstart", algorithm="TRCA", iterations=None, taught=False, **settings
    ):
        folder = RunFolder.create(tmp_path / "outputs", name)
        config = {**switch(read(preset), algorithm), **settings}
        config = TextParameters.resolve(config, preset, need_data=False).flat()
        folder.write_config(config)
        for k in range(config["iterations"] if iterations is None else iterations):
            figures = {"iteration": k + 1, "trajectories": 64 * (k + 1)}
            figures |= {"teacher/success_rate" if taught else "success_rate": k / 40}
            folder.append_metrics(figures | {"evaluation/success_rate": k / 50})
        panel = {"hash": "ab12", "environment": "trca/ALFWorld-v0", "split": "valid_unseen"}
        told = {"panel": panel, "tasks": 64, "rows": rows, "outcomes": []}
        (folder.path / "evaluation.json").write_text(json.dumps(told))
        return str(folder.path)

    return write


@pytest.fixture
def household(run):
    """Two runs of TRCA and one of GRPO."""
    return [
        run("a", [row("Pick", 0.5), row("Heat", 0.25), row("All", 0.4)], seed=1),
        run("b", [row("Pick", 0.7), row("Heat", 0.25), row("All", 0.5)], seed=2),
        run("c", [row("Pick", 0.1), row("Heat", 0.3), row("All", 0.2)], algorithm="GRPO"),
    ]


trca, done, refused = (partial(call, "report") for call in calls.ALL)


def test_runs_that_differ_in_seed_are_one_row_with_mean_and_spread(household):
    [table] = tables([read_run(name, "") for name in household], with_paper=False)
    assert table.columns == ("Pick", "Heat", "All")
    lines = as_markdown(table).splitlines()
    assert lines[2] == "| TRCA | 2 | **60.0 (14.1)** | 25.0 (0.0) | **45.0 (7.1)** |"
    assert lines[3] == "| GRPO | 1 | 10.0 | **30.0** | 20.0 |"
    assert stdev([50, 70]) == pytest.approx(14.1, abs=0.05)
    latex = as_latex(table)
    assert "TRCA & \\textbf{60.0$_{(14.1)}$} & 25.0$_{(0.0)}$ &" in latex


def test_the_papers_numbers_stand_beside_and_are_marked(run):
    results = [read_run(run("a", [row("Pick", 0.5), row("All", 0.4)]), "")]
    [table] = tables(results)
    assert table.paper_model == "Qwen2.5-1.5B-Instruct"
    assert "| GiGPO † | | 94.4 (5.9) | 86.7 (1.7) |" in as_markdown(table)
    assert "GPT-4o" not in as_markdown(table)
    large = run("b", [row("All", 0.4)], model="Qwen/Qwen2.5-7B-Instruct")
    [table] = tables([read_run(large, "")])
    assert "| TRCA † | | 94.5 (1.4) |" in as_markdown(table)


def test_the_note_says_where_the_tasks_are_not_known_to_be_the_papers(run):
    model = "Qwen/Qwen2.5-1.5B-Instruct"
    result = read_run(run("a", [row("All", 0.4)], model=model), "")
    [table] = tables([result])
    assert "another model" not in note(table, [result])
    assert note(table, [result]).endswith("It is unknown whether its tasks are the same.")
    official = replace(result, panel="095d277ff7a02906")  # official-134
    assert note(table, [official]).endswith("over three seeds.")


def test_the_note_warns_of_a_small_panel_beside_the_papers_numbers(run):
    result = read_run(run("a", [row("All", 0.4)]), "")
    [table] = tables([result])
    assert "Warning" not in note(table, [result])
    small = replace(result, tasks=4)
    warning = "with 4 tasks, the 95% interval of a success rate is up to 70 points wide"
    assert warning in note(table, [small])
    [alone] = tables([small], with_paper=False)
    assert "Warning" not in note(alone, [small])


def test_other_environments_have_the_papers_other_columns(run):
    shop = run("shop", [row("book", 0.2, score=0.4), row("All", 0.3, score=0.55)], "webshop")
    search = run("search", [row("nq", 0.2), row("popqa", 0.4), row("All", 0.25)], "searchqa")
    first, second = tables([read_run(name, "") for name in (shop, search)], with_paper=False)
    assert first.rows == {"TRCA": {"score": [pytest.approx(55.0)], "success": [30.0]}}
    assert second.columns == ("nq", "popqa", "average")
    assert second.rows["TRCA"]["average"] == [pytest.approx(30.0)]  # over datasets, not questions


def test_a_run_whose_scores_are_its_successes_counts_in_the_mean_score(run):
    shops = [
        run("some", [row("All", 0.2, score=0.4)], "webshop", seed=1),
        run("none", [row("All", 0.0)], "webshop", seed=2),
    ]
    [table] = tables([read_run(name, "") for name in shops], with_paper=False)
    assert table.rows["TRCA"] == {"score": [40.0, 0.0], "success": [20.0, 0.0]}


def test_methods_on_different_panels_have_no_best(household, tmp_path):
    path = tmp_path / "outputs" / "c" / "evaluation.json"
    path.write_text(path.read_text().replace("ab12", "cd34"))
    results = [read_run(name, "") for name in household]
    [table] = tables(results, with_paper=False)
    assert "**" not in as_markdown(table)
    assert "measured on different panels" in note(table, results)


def test_a_setting_can_tell_rows_apart(run):
    names = [run(f"l{k}", [row("All", k / 4)], lambda_=k / 4) for k in (1, 2)]
    names.append(run("ablated", [row("All", 0.1)], ablation="without_breakthrough"))
    [table] = tables([read_run(name, "", ["lambda_"]) for name in names])
    assert list(table.rows) == [
        "TRCA lambda_=0.25",
        "TRCA lambda_=0.5",
        "TRCA without_breakthrough lambda_=0.8",
    ]
    assert "TRCA lambda\\_=0.25" in as_latex(table)
    with pytest.raises(ValueError, match="no setting 'lambda': use another --by"):
        read_run(names[0], "", ["lambda"])


def test_the_command_writes_tables_and_figures(household, tmp_path):
    out = tmp_path / "report"
    output = done(*household, "--output", out)
    assert "| GRPO † |" in output
    page = (out / "report.md").read_text()
    for name in ("alfworld_tiny_curves", "alfworld_tiny_budgets", "alfworld_tiny_types"):
        assert f"({name}.svg)" in page
        assert (out / f"{name}.png").stat().st_size > 10_000
        assert (out / f"{name}.svg").read_text().startswith("<?xml")
    rows = list(csv.DictReader((out / "alfworld_tiny.csv").open()))
    own = [r for r in rows if (r["source"], r["method"], r["column"]) == ("ours", "TRCA", "Pick")]
    assert own[0]["mean"] == "60.00"
    assert own[0]["runs"] == "2"


def test_a_setting_of_numbers_is_drawn_by_type_of_task(run, tmp_path):
    names = [
        run(f"{k}-{seed}", [row("Pick", k / 4), row("All", k / 8)], lambda_=k / 4, seed=seed)
        for k in (3, 1, 2)
        for seed in (0, 1)
    ]
    results = [read_run(name, "", ["lambda_"]) for name in names]
    [table] = tables(results, with_paper=False)
    assert over_setting(table, results) == {
        "Pick": {k / 4: [k / 4] * 2 for k in (3, 1, 2)},
        "All": {k / 4: [k / 8] * 2 for k in (3, 1, 2)},
    }
    ablated = run("ablated", [row("All", 0.1)], ablation="without_breakthrough", lambda_=0.25)
    mixed = [*results, read_run(ablated, "", ["lambda_"])]
    assert over_setting(tables(mixed, False)[0], mixed) is None
    assert over_setting(tables(results[:4], False)[0], results[:4]) is None
    words = [read_run(name, "", ["ablation"]) for name in names[:1]]
    assert over_setting(tables(words, False)[0], words) is None
    out = tmp_path / "report"
    done(*names, "--by", "lambda_", "--no-paper", "--output", out)
    assert "(alfworld_tiny_lambda_.svg)" in (out / "report.md").read_text()
    assert (out / "alfworld_tiny_lambda_.png").stat().st_size > 10_000


def test_three_types_of_task_are_drawn_as_a_radar(run, tmp_path):
    kinds = [row(kind, share) for kind, share in (("Pick", 0.6), ("Heat", 0.2), ("Cool", 0.1))]
    name = run("radar", [*kinds, row("All", 0.3)])
    out = tmp_path / "report"
    assert trca(name, "--output", out).exit_code == 0
    assert "(alfworld_tiny_radar.svg)" in (out / "report.md").read_text()
    drawn = (out / "alfworld_tiny_radar.svg").read_text()
    assert all(f"<!-- {kind} -->" in drawn for kind in ("Pick", "Heat", "Cool", "TRCA"))


def test_a_method_without_a_type_of_task_is_drawn_and_named(run, tmp_path):
    kinds = {
        "a": ("TRCA", ("Pick", "Heat", "Cool")),
        "b": ("GRPO", ("Heat", "Cool", "Look")),
        "c": ("RLOO", ("Pick", "Heat", "Cool", "Look")),
    }
    names = {
        name: run(name, [row(kind, 0.5) for kind in (*each, "All")], algorithm=algorithm)
        for name, (algorithm, each) in kinds.items()
    }
    for given, left_out in ((names.values(), "TRCA, GRPO"), ([names["a"], names["b"]], "")):
        out = tmp_path / f"report{len(given)}"
        done(*given, "--no-paper", "--output", out)
        types, page = (out / "alfworld_tiny_types.svg").read_text(), (out / "report.md").read_text()
        assert all(types.count(f"<!-- {name} -->") == 1 for name in ("TRCA", "GRPO"))
        assert ("radar" in page) == bool(left_out)
        assert f"leaves out {left_out}:" in page or not left_out


@pytest.mark.parametrize("alone", [True, False])
def test_budgets_are_drawn_of_runs_whose_policy_plays_in_training(run, household, tmp_path, alone):
    name = run("taught", [row("All", 0.5)], algorithm="Imitation", taught=True)
    out = tmp_path / "report"
    assert trca(name, *([] if alone else household), "--output", out).exit_code == 0
    page = (out / "report.md").read_text()
    assert "Imitation: a teacher plays the training episodes." in page
    assert ("_budgets.svg" in page) != alone
    assert alone or "<!-- Imitation -->" not in (out / "alfworld_tiny_budgets.svg").read_text()


def test_a_sweep_is_refused_with_the_name_of_a_trial(run, tmp_path):
    folder = Path(run("sweep", [row("All", 0.4)]))
    trial = folder / "trials" / "001_a"
    trial.mkdir(parents=True)
    (trial / "trial.json").write_text("{}")
    for command in ("report", "inspect", "view", "diagnose", "recredit"):
        rule = ["--credit", "gigpo"] if command == "recredit" else []
        words = calls.refused(command, folder, *rule)
        assert f"is a sweep: name a trial of it, such as {trial}" in words, command


def test_a_run_that_has_not_ended_is_refused_with_the_mend(household, tmp_path):
    (tmp_path / "outputs" / "b" / "evaluation.json").unlink()
    assert "resume the run to its end first" in refused(*household, "--output", tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_run_that_was_killed_after_an_evaluation_or_stopped_by_a_sweep_is_refused(run, tmp_path):
    killed = run("killed", [row("All", 0.4)], iterations=7)
    for command in (trca(killed), calls.trca("compare", killed, killed)):
        assert command.exit_code == 2
        assert "not finished, it ends after iteration 7 of 25: resume" in " ".join(
            command.output.split()
        )
    early = run("early", [row("All", 0.4)])
    path = RunFolder(Path(early)).path / "evaluation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "iteration": 5}))
    with pytest.raises(ValueError, match="is not finished, it ends after iteration 5 of 25"):
        read_run(early, "")
    stopped = run("stopped", [row("All", 0.4)])
    (tmp_path / "outputs" / "stopped" / "stopped.json").write_text('{"iteration": 4}')
    with pytest.raises(ValueError, match="was stopped early, after iteration 4: leave the run out"):
        read_run(stopped, "")


def test_a_run_without_results_and_one_that_is_named_twice_are_refused(run, household, tmp_path):
    none = run("none", [{**row("All", None), "n": 0}])
    empty = run("empty", [])
    (tmp_path / "outputs" / "empty" / "evaluation.json").write_text("")
    for runs, words in (
        ([none], "is finished: leave"),
        ([empty], "evaluation.json is not an evaluation"),
        ([household[0], f"{household[0]}/"], "is named twice"),
    ):
        assert words in refused(*runs, "--output", tmp_path / "report")


def test_files_beside_the_trials_of_a_sweep_are_left_out(household, tmp_path):
    (tmp_path / "outputs" / "tuner.pkl").touch()
    runs = sorted((tmp_path / "outputs").glob("*"))
    done(*runs, "--output", tmp_path / "report")
    assert (tmp_path / "report" / "report.md").exists()


def test_methods_that_are_level_are_both_the_best(run):
    names = [run("a", [row("All", 0.5)]), run("b", [row("All", 0.5)], algorithm="GRPO")]
    [table] = tables([read_run(name, "") for name in names], with_paper=False)
    assert as_markdown(table).count("**50.0**") == 2


def test_runs_of_one_row_differ_in_seed_games_and_machine_alone(run):
    rows = [row("All", 0.4)]
    games = {"games": "small-7", "max_steps": 16}
    first = run("a", rows, seed=1)
    second = run("b", rows, seed=2, env_config=games, num_env_runners=2, torch_threads=4)
    [table] = tables([read_run(name, "") for name in (first, second)])
    assert len(table.rows["TRCA"]["All"]) == 2
    own = RunFolder.open(run("e", rows))
    own.write_settings(own.read_config() | {"env": "own/ALFWorld-v2"})
    for key, other in (
        ("lambda_", run("c", rows, lambda_=0.2)),
        ("env_config.max_steps", run("d", rows, env_config=games | {"max_steps": 3})),
        ("env", own.path),
    ):
        with pytest.raises(ValueError, match=f"differ in {key}: distinguish them with --by {key}"):
            tables([read_run(first, ""), read_run(other, "")])


def test_a_file_of_the_users_is_the_same_where_its_content_is(run, tmp_path):
    names = []
    for seed, text in enumerate(("a", "a", "b")):
        rule = tmp_path / str(seed) / "rules.py"
        rule.parent.mkdir()
        rule.write_text(f"def zero(batch):\n    return {text!r}\n")
        names.append(run(str(seed), [row("All", 0.4)], seed=seed))
        folder = RunFolder.open(names[-1])
        folder.write_settings(folder.read_config() | {"credit": f"{rule}:zero"})
    first, again, other = (read_run(name, "") for name in names)
    assert len(tables([first, again])[0].rows["TRCA with rules.py:zero"]["All"]) == 2
    with pytest.raises(ValueError, match="differ in credit"):
        tables([first, other])


def test_a_trial_that_is_named_by_two_folders_is_refused(run, tmp_path):
    first = run("003_lambda-0.2_seed-1", [row("All", 0.4)], seed=1, lambda_=0.2)
    orphan = run("003_lambda-0.2_seed-1_0850", [row("All", 0.4)], seed=1, lambda_=0.2)
    games = {"games": "small-7", "max_steps": 16}
    others = [
        run("other-seed", [row("All", 0.4)], seed=2, lambda_=0.2),
        run("other-point", [row("All", 0.4)], seed=1, lambda_=0.8),
        run("other-games", [row("All", 0.4)], seed=1, lambda_=0.2, env_config=games),
    ]
    options = ["--by=lambda_", "--no-paper", f"--output={tmp_path}/report"]
    for twice in ([first, *others, orphan], [orphan, first]):
        output = refused(*twice, *options)
        words = output
        assert "they have the same settings, games and seed 1. Name one of them" in words
        assert first in words
        assert orphan in words
    assert trca(first, *others, *options).exit_code == 0

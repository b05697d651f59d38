"""A checkpoint's policy is exported once, also where several evaluations ask for it."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from trca.algorithms.settings.parameters import TextParameters
from trca.cli.preflight.preflight import panel as split_of
from trca.cli.run import checkpoints
from trca.cli.run.card import card
from trca.cli.run.checkpoints import Policy, find_checkpoint, is_model_name, policy
from trca.envs.panel import canonical_panel, canonical_panels
from trca.runs.folder import RunFolder
from trca.runs.selection import Selection
from trca.tune_configs.files import ConfigError, read


@pytest.mark.parametrize("name", [n for n in canonical_panels() if n.startswith("embedded-alf")])
def test_a_canonical_panel_has_all_types_of_task_though_a_run_has_one(name: str) -> None:
    panel = canonical_panel(name)
    trained = {**read("quickstart"), "env_config": {"games": "small-7", "task_types": ["Pick"]}}
    settings = TextParameters.resolve(trained, "pick")
    played = Policy("pick", "pick", settings, "tiny", Path()).on(panel, {}).settings
    assert panel.draw(split_of(played, played.evaluation_split)).hash == panel.hash


def test_two_evaluations_at_once_leave_a_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder.create(tmp_path, "run")
    run.write_config(read("quickstart"))
    run.save_checkpoint(1, lambda folder: (folder / "state").write_text(""), best=True)
    other_exports, asked = Event(), list[Future[Any]]()

    def export(run: RunFolder, which: str, to: Path) -> None:
        """As slow as a large model: the second evaluation starts in its midst."""
        (to / "config.json").write_text("{}")
        if asked:
            other_exports.set()
        else:
            asked.append(pool.submit(policy, str(run.path), None, {}))
            other_exports.wait(0.5)
        (to / "model.safetensors").write_text("weights")

    monkeypatch.setattr(checkpoints, "export_checkpoint", export)
    with ThreadPoolExecutor(1) as pool:
        first = policy(str(run.path), None, {})
    assert asked[0].result().model == first.model
    assert (Path(first.model) / "model.safetensors").read_text() == "weights"
    assert not other_exports.is_set()


def test_each_name_that_a_run_takes_as_model_is_a_model_to_evaluate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.gguf").touch()
    Path("folder").mkdir()
    Path("folder/config.json").touch()
    names = ("tiny", "smollm2", "shrunk:Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct")
    assert all(is_model_name(name) for name in (*names, "model.gguf", "folder"))
    assert not any(is_model_name(name) for name in ("quickstart", "outputs/x", "nothing.gguf"))


def test_a_folder_may_have_an_at_sign_in_its_name(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "ann@lab", "run")
    run.write_config(read("quickstart"))
    for name, which in (("run", "last"), ("run@best", "best"), ("run@last", "last")):
        found, chosen = find_checkpoint(str(tmp_path / "ann@lab" / name))
        assert (found.path, chosen) == (run.path, which)
    with pytest.raises(ConfigError, match="best"):
        find_checkpoint(str(tmp_path / "ann@lab" / "run@bset"))


@pytest.mark.parametrize(
    ("response_format", "words"),
    [
        ("action", ("`paper`: the prompt of the paper", "<think>...</think><action>")),
        ("search_r1_growing", ("the prompt of the response format", "<search>...</search>")),
        ("r1_answer", ("the prompt of the response format", "<think>...</think><answer>")),
    ],
)
def test_the_card_names_prompt_and_tags(response_format, words, tmp_path):
    run = RunFolder.create(tmp_path, "run")
    run.write_config(read("quickstart"))
    settings = TextParameters.resolve(
        {"env": "trca/SearchQA-v0", "model": "tiny", "response_format": response_format},
        need_data=False,
    )
    text = card(run, Selection(which="last", iteration=3), settings, tmp_path / "policy")
    assert all(word in text for word in words)

from pathlib import Path

import pytest

from trca.common.strict_yaml import MAX_BYTES
from trca.tune_configs.files import ConfigError, assign, assignments, parse, read, shipped

ROOT = Path(__file__).parents[2]


def test_every_shipped_file_is_read_by_its_name():
    assert {"quickstart", "embedded/alfworld_full", "paper/alfworld_qwen2.5_1.5b"} <= set(shipped())
    for name in shipped():
        assert read(name)


def test_a_file_is_read_by_its_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("algorithm: TRCA\nlr: 4e-4\nbudgets: {evidence: 1}\n")
    assert read(path) == {"algorithm": "TRCA", "lr": 4e-4, "budgets": {"evidence": 1}}


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(ConfigError, match=r"no config 'quikstart'.*did you mean 'quickstart'"):
        read("quikstart")


@pytest.mark.parametrize("name", ["quikstart", "zzz"])
def test_an_unknown_name_gets_the_page_that_lists_all_names(name):
    with pytest.raises(ConfigError, match=r"or a name \(docs/settings\.md lists all\)"):
        read(name)
    _, _, table = (ROOT / "docs/settings.md").read_text().partition("## Configs that come")
    assert [name for name in shipped() if f"| `{name}` | " not in table] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 1\nclip_low: 2\nlr: 3\n", "'lr' is repeated in line 3"),
        ("env_config: {split: a, split: b}", "'split' is repeated in line 1"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("- lr\n- 3\n", "a config is a mapping"),
        ("3: lr\n", "a config is a mapping"),
        ("lr: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("lr: [1, 2", "expected ',' or ']'"),
        ("a: \x00", "unacceptable character"),
        ("[" * 5000, "."),
    ],
)
def test_broken_text_is_refused_with_the_file_named(text, message):
    with pytest.raises(ConfigError, match="mine.yaml: .*" + message):
        parse(text, "mine.yaml")


def test_huge_and_binary_files_are_refused(tmp_path):
    path = tmp_path / "weights.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(path)
    path.write_bytes(b"a" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read(path)


def test_assignments_are_yaml_and_reach_into_mappings():
    settings = {"lr": 1e-3, "env_config": {"games": "small", "split": "train"}}
    changes = assignments(
        ["lr=4e-4", "env_config.games=large", "env_config.task_types=[Heat, Cool]", "memory=true"]
    )
    assert assign(settings, changes) == {
        "lr": 4e-4,
        "env_config": {"games": "large", "split": "train", "task_types": ["Heat", "Cool"]},
        "memory": True,
    }
    assert settings["env_config"]["games"] == "small"


def test_an_assignment_may_hold_an_equals_sign_and_may_be_empty():
    values = assignments(["model=a=b", "evaluation_tasks="])
    assert values == {"model": "a=b", "evaluation_tasks": None}


@pytest.mark.parametrize("text", ["lr", "=3", "a..b=1", ".lr=1"])
def test_an_assignment_without_key_or_value_is_refused(text):
    with pytest.raises(ConfigError, match="write key=value"):
        assignments([text])


def test_an_assignment_into_a_plain_value_is_refused():
    with pytest.raises(ConfigError, match=r"'lr' is 0\.1, which has no parts"):
        assign({"lr": 0.1}, {"lr.start": 1})

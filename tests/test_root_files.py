"""The files for contributors and machines at the root name what the tree has."""

import json
import re
from pathlib import Path

import pytest
import yaml

from trca import __version__

ROOT = Path(__file__).parents[1]
YAML = [".pre-commit-config.yaml", "CITATION.cff", *map(str, ROOT.glob(".github/**/*.yml"))]
MAKE = re.compile(r"\bmake ((?:\.venv[\w/.]*|[a-z][a-z0-9-]*)(?: [a-z][a-z0-9-]*)*)")


def text(name):
    return (ROOT / name).read_text()


def targets():
    """The targets of the Makefile."""
    rules = re.findall(r"^([.\w/ -]+?):(?!=)", text("Makefile"), re.M)
    return {target for rule in rules for target in rule.split()}


def jobs():
    return yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]


@pytest.mark.parametrize("name", YAML, ids=lambda name: Path(name).name)
def test_yaml_files_are_mappings(name):
    assert isinstance(yaml.safe_load(text(name)), dict)


def test_every_issue_form_has_a_name_and_unique_fields():
    for form in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"):
        content = yaml.safe_load(form.read_text())
        fields = [field["id"] for field in content["body"]]
        assert content["name"]
        assert content["description"]
        assert len(fields) == len(set(fields)) > 0


@pytest.mark.parametrize(
    "name", ["CONTRIBUTING.md", "Dockerfile", ".devcontainer/devcontainer.json"]
)
def test_targets_of_make_exist(name):
    code = text(name) if name != "CONTRIBUTING.md" else "\n".join(snippets(text(name)))
    named = {word for words in MAKE.findall(code) for word in words.split()}
    assert named
    assert named <= targets() | {".venv"}


def test_every_file_of_constraints_is_used_and_there():
    scripts = "\n".join(map(text, ["Makefile", "Dockerfile", *map(str, ROOT.glob(".ci/*"))]))
    (libraries,) = re.findall(r"^LIBRARIES = (.*)$", scripts, re.M)
    named = {*re.findall(r"constraints/(\w+)\.txt", scripts), *libraries.split()}
    assert named == {path.stem for path in ROOT.glob("constraints/*")}


def snippets(page):
    """The code in a page of Markdown: blocks and inline."""
    return ["".join(parts) for parts in re.findall(r"```(.*?)```|`([^`]+)`", page, re.S)]


def test_ci_makes_the_targets_of_the_complete_check():
    script = re.sub(r"#.*", "", text(".ci/run"))
    lines = re.findall(r"^make ([^>\n]*)", script, re.M)
    checks = {target for line in lines for target in line.split() if target[0] != "."}
    matrix = jobs()["make"]["strategy"]["matrix"]["target"]
    assert set(matrix) == checks <= targets()
    assert "make ${{ matrix.target }}" in [step.get("run") for step in jobs()["make"]["steps"]]


def test_ci_sets_the_variables_of_the_complete_check():
    (line,) = re.findall(r"^export (.*=.*)$", text(".ci/run"), re.M)
    assert jobs()["make"]["env"] == dict(part.split("=") for part in line.split())


def test_paths_of_the_contributors_page_exist():
    page = text("CONTRIBUTING.md")
    paths = set(re.findall(r"\]\(([^)]+)\)", page))
    paths |= {word for word in re.findall(r"`([^`\s]+)`", page) if "/" in word}
    assert len(paths) > 10
    assert not [path for path in paths if not list(ROOT.glob(path))]


def test_hooks_before_a_commit_use_the_environment_of_make():
    (repository,) = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    tools = [hook["entry"].split()[0] for hook in repository["hooks"]]
    assert all(tool in text("Makefile") for tool in tools)


def test_the_dev_container_is_json():
    assert json.loads(text(".devcontainer/devcontainer.json"))["postCreateCommand"] == "make .venv"


def test_the_quick_tests_exist():
    (folders,) = re.findall(r"^QUICK = (.*)$", text("Makefile"), re.M)
    assert all((ROOT / folder).exists() for folder in folders.split())


def test_the_citation_has_the_version_of_the_package():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["version"] == __version__
    assert {"title", "authors", "cff-version", "message"} <= citation.keys()

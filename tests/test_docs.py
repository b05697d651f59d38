"""The documentation agrees with the code, and its code blocks run.

A page states above a block how the tests shorten it, or why they do not run it::

    <!-- tested with: "quickstart" -> "short.yaml" -->
    <!-- not run by the tests: downloads an encoder -->
    <!-- run by make test-interop: trl -->
"""

import importlib.util
import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from trca.cli import app
from trca.cli.commands.new_env import write_package
from trca.envs import make
from trca.rubric import Operator, RubricLibrary
from trca.tune_configs.files import read

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
MEASURED = "docs/results"
"""The commands of the pages with this beginning are measurements that take hours."""

SHORT = {
    "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "tasks_per_iteration": 1,
    "group_size": 2,
    "env_config": {"games": "small", "max_steps": 2},
    "max_new_tokens": 4,
    "max_prompt_tokens": 160,
    "evaluation_interval": None,
}
"""Settings of ``short.yaml``, on top of the quickstart's."""

BLOCK = re.compile(
    r"(?P<notes>(?:^<!-- [^\n]* -->\n)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: str
    line: int
    language: str
    text: str
    notes: str

    @property
    def skipped(self):
        return "<!-- not run by the tests: " in self.notes or bool(self.library)

    @property
    def library(self):
        """The library of a block that `plugins/interop/tests` runs."""
        named = re.search(r"<!-- run by make test-interop: (\w+) -->", self.notes)
        return named[1] if named else ""

    @property
    def code(self):
        text = self.text
        for old, new in re.findall(r"<!-- tested with: (.*) -> (.*) -->", self.notes):
            assert old in text, f"{self.page}, line {self.line}: {old!r} is not in the block"
            text = text.replace(old, new)
        return text

    @property
    def commands(self):
        lines = (line.removeprefix("$ ") for line in self.code.splitlines())
        commands = [shlex.split(line, comments=True) for line in lines if line.startswith(COMMANDS)]
        return commands if self.language == "" else []

    def __str__(self):
        return f"{self.page}:{self.line}"


COMMANDS = ("trca ", "make ")


def blocks(page):
    content = (ROOT / page).read_text()
    return [
        Block(page, content[: m.start("text")].count("\n"), m["language"], m["text"], m["notes"])
        for m in BLOCK.finditer(content)
    ]


RUN = [b for page in PAGES if not page.startswith(MEASURED) for b in blocks(page) if not b.skipped]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of code blocks: a short preset, a package, a corpus with an index."""
    from trca.envs.retrieval.indexing import index_corpus
    from trca.envs.retrieval.passages import read_corpus

    monkeypatch.chdir(tmp_path)
    write_package("my_game", tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    Path("short.yaml").write_text(yaml.safe_dump(read("quickstart") | SHORT))
    line = '{"id": "1", "contents": "\\"Ada Lovelace\\"\\nShe wrote the first program."}\n'
    Path("wiki-18.jsonl").write_text(line)
    index_corpus(Path("wiki"), read_corpus(Path("wiki-18.jsonl")))
    (library,) = (b for b in blocks("docs/rubrics.md") if b.text.startswith("environment: "))
    Path("small.yaml").write_text(library.text)
    return tmp_path


PYTHON = {b.page: () for b in RUN if b.language == "python"}
PYTHON["docs/rllib.md"] = pytest.mark.slow  # trains in processes of Ray Tune


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=marks) for page, marks in sorted(PYTHON.items())]
)
def test_the_python_of_a_page_runs_to_its_end(page, folder, cluster):
    names = {"folder": str(folder)}
    for block in RUN:
        if block.page == page and block.language == "python":
            exec(compile(block.code, str(block), "exec"), names)


@pytest.mark.parametrize(
    ("block", "command"),
    [
        pytest.param(block, command, id=f"{block}-{' '.join(command)}")
        for block in RUN
        for command in block.commands
    ],
)
def test_a_command_of_a_page_runs_to_its_end(block, command, folder):
    program, *arguments = command
    if arguments == ["new-env", "my_game"]:
        shutil.rmtree("my_game")
    if program == "make":
        done = subprocess.run([*command, "-C", str(ROOT)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return
    result = CliRunner().invoke(app, arguments, input="quit\n")
    assert result.exit_code == 0, result.output


def test_the_commands_of_uv_name_the_checkout_its_extras_and_commands_of_trca():
    text = (ROOT / "docs/index.md").read_text()
    lines = re.findall(r"^(uvx? .*)$", text, re.M)
    assert len(lines) == 3
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parsers = get_command(app).commands
    for words in (shlex.split(line, comments=True) for line in lines):
        given, (name, *arguments) = words[: words.index("trca")], words[words.index("trca") + 1 :]
        assert given[:3] == ["uvx", "--from", "."] or given[:2] == ["uv", "run"]
        options = given[given.index("run") + 1 :] if "run" in given else []
        assert options[::2] == ["--extra"] * len(options[::2])
        assert set(options[1::2]) <= project["optional-dependencies"].keys()
        parsers[name].make_context(name, arguments)


def test_the_operators_of_a_page_are_operators():
    shown = [b for b in RUN if b.page == "docs/rubrics.md" and b.language == "yaml"]
    libraries = []
    for block in shown:
        parsed = yaml.safe_load(block.code)
        if isinstance(parsed, dict):
            libraries.append(RubricLibrary.parse(block.code))
            continue
        for each in parsed:
            operator = Operator.model_validate(each)
            assert operator.judge or operator.check(str(block))
    assert [len(library.ids) for library in libraries] == [4]


def test_the_library_of_a_page_judges_each_step_of_a_game(folder):
    env = make("alfworld", games="small", library="small.yaml", budgets={"invalidity": 4.0})
    env.reset(seed=0)
    actions = [env.unwrapped.oracle_action(), "sing", "look", "look"]
    while "target_taken" not in (fired := env.step(actions[0])[-1]["rubric"])["fired"]:
        actions[0] = env.unwrapped.oracle_action()
    assert fired["judgments"].tolist() == [0, 0, 0, 1]
    rubrics = [env.step(action)[-1]["rubric"] for action in actions[1:]]
    assert [each["fired"] for each in rubrics] == [("rejected",), *2 * [("nothing_new",)]]
    assert rubrics[0]["foundational"] == -2.0  # two operators share the budget


@pytest.mark.parametrize("page", PAGES)
def test_every_script_and_page_that_a_page_names_is_there(page):
    content = (ROOT / page).read_text()
    for script in re.findall(r"python ((?:benchmarks|docs)/\S+\.py)", content):
        assert (ROOT / script).is_file(), script
    for link in re.findall(r"\]\((?!http)([^)#]+)", content):
        assert ((ROOT / page).parent / link).exists(), link
    folders = "trca|plugins|tests|benchmarks|docs|examples"
    for path in re.findall(rf"`((?:{folders})/[\w/]+\.\w+)`", content):
        assert (ROOT / path).is_file(), path


def test_the_site_leads_to_every_page():
    nav = yaml.safe_dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    left_out = [page for page in PAGES if page != "README.md" and Path(page).name not in nav]
    assert not left_out, "name them under nav in mkdocs.yml"


def test_generated_pages_agree_with_the_code():
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    for name, page in build.PAGES.items():
        assert (ROOT / "docs" / name).read_text() == page(), "run: python docs/build.py"

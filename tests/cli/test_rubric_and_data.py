import subprocess
import sys
import zipfile

from typer.testing import CliRunner

from trca.cli import app
from trca.rubric import RubricLibrary


def trca(*arguments):
    return CliRunner().invoke(app, arguments)


def test_show_lists_every_operator():
    output = trca("rubric", "show").output
    for operator in RubricLibrary.load("alfworld").ids:
        assert operator in output


def test_check_accepts_a_sound_library_and_names_what_is_wrong_with_another(tmp_path):
    assert trca("rubric", "check").exit_code == 0
    path = tmp_path / "mine.yaml"
    path.write_text("environment: alfworld\noperators: []\n")
    result = trca("rubric", "check", str(path))
    assert result.exit_code == 2
    assert "mine.yaml: 0 evidence operators" in result.output


def test_a_broken_archive_of_games_is_refused(tmp_path):
    archive = tmp_path / "games.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("readme.txt", "nothing here")
    result = trca("data", "alfworld", "--from", str(archive), "--to", str(tmp_path / "games"))
    assert result.exit_code == 2
    assert "no games in this archive" in result.output


def test_help_needs_neither_torch_nor_ray():
    code = (
        "import sys; from typer.testing import CliRunner; from trca.cli import app; "
        "assert 'train' in CliRunner().invoke(app, ['--help']).output; "
        "print([m for m in ('torch', 'ray', 'transformers', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

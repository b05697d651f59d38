import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_of_settings_is_what_the_code_says():
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == build.settings_page(), "run: python docs/build.py"

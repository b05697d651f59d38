"""Both names of the plug-in, and its errors for missing libraries."""

import importlib
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

import trca_interop.dumps
from trca.cli import app
from trca_interop import required


def test_a_module_of_trca_interop_is_the_module_of_the_plug_in():
    from trca.interop import dumps

    assert dumps is trca_interop.dumps
    assert dumps.__spec__.name == "trca_interop.dumps"
    assert importlib.import_module("trca.interop.credit").Credit is trca_interop.credit.Credit
    with pytest.raises(ModuleNotFoundError, match=r"trca_interop\.nothing"):
        importlib.import_module("trca.interop.nothing")


def test_an_installed_library_is_imported():
    assert required("json.decoder", "trl").JSONDecoder


def test_the_error_for_a_missing_library_names_the_extra():
    with pytest.raises(ImportError, match=r"library': pip install './plugins/interop\[trl\]' in"):
        required("no_library", "trl")


@pytest.mark.skipif(find_spec("openenv") is not None, reason="OpenEnv is here")
def test_an_environment_without_its_extra_is_refused_in_one_line():
    url = "env_config.url=http://127.0.0.1:9"
    env = ["--env", "trca.interop.openenv_env:RemoteEnv", "--set", url]
    result = CliRunner().invoke(app, ["train", "--algorithm", "GRPO", *env, "--dry-run"])
    assert result.exit_code == 2, result.output
    assert "RemoteEnv needs openenv: pip install './plugins/interop[openenv]' in a" in result.output

"""Every argument of RLlib's config methods works as in RLlib, or is refused by name."""

import inspect
from pathlib import Path

import pytest
from ray._common.deprecation import DEPRECATED_VALUE

from trca.algorithms import TRCAConfig
from trca.algorithms.settings.policy_config import config_methods
from trca.algorithms.settings.setting_names import IGNORED, attributes_of

PAGE = Path(__file__).parents[3] / "docs" / "rllib.md"
ARGUMENTS = {
    method: [
        name
        for name, argument in list(inspect.signature(function).parameters.items())[1:]
        if argument.default != DEPRECATED_VALUE
    ]
    for method, function in config_methods().items()
}
"""The arguments of each method, without the names that RLlib has given up."""


def table() -> str:
    """The table of the page."""
    lines = ["| method | works | refused: use instead |", "|---|---|---|"]
    for method, names in ARGUMENTS.items():
        works = ", ".join(f"`{name}`" for name in names if name not in IGNORED)
        refused: dict[str, list[str]] = {}
        for name in names:
            if name in IGNORED:
                refused.setdefault(IGNORED[name], []).append(f"`{name}`")
        parts = [f"{', '.join(group)}: {reason}" for reason, group in refused.items()]
        lines.append(f"| `{method}` | {works} | {'; '.join(parts)} |")
    return "\n".join(lines)


def test_the_page_lists_every_argument_of_every_config_method():
    assert table() in PAGE.read_text(), f"decide on the new arguments, and write:\n{table()}"


@pytest.mark.parametrize(
    ("method", "name"), [(m, n) for m, names in ARGUMENTS.items() for n in names if n in IGNORED]
)
def test_an_argument_without_effect_is_refused_by_name(method, name):
    value = {"framework": "tf2"}.get(name, object())
    config = TRCAConfig.from_preset("quickstart")
    stored = [n for n in attributes_of(name) if n in vars(config)]
    setattr(config, stored[0] if stored else name, value)
    refusal = f"'{name}' has no effect here: "
    with pytest.raises(ValueError, match=refusal):
        config.validate()
    if method != "framework":  # RLlib calls it itself
        with pytest.raises(ValueError, match=refusal):
            getattr(TRCAConfig(), method)(**{name: value})


def test_arguments_with_their_default_are_accepted():
    config = TRCAConfig().api_stack(True, True).framework("torch")
    config.env_runners(create_local_env_runner=True, env_to_module_connector=None)
    config.update_from_dict({"framework": "torch", "explore": True})


def test_the_old_api_stack_is_refused_by_position_and_by_name():
    for refused in ((False, False), (False,)):
        with pytest.raises(ValueError, match="the algorithms use RLlib's new API stack"):
            TRCAConfig().api_stack(*refused)


@pytest.mark.parametrize("change", [{"lr": 1.0}, {"temperature": 0.5}, {"explore": False}])
def test_a_change_for_evaluations_that_training_runners_cannot_follow_is_refused(change):
    config = TRCAConfig.from_preset("quickstart").evaluation(evaluation_config=change)
    with pytest.raises(ValueError, match=rf"evaluation_config.{next(iter(change))} has no effect"):
        config.validate()

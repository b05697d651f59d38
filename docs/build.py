"""Writes the pages that are made from the code: ``python docs/build.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from trca.algorithms import ALGORITHMS
from trca.algorithms.parameters import LossSettings, TextParameters
from trca.rubric import Budgets
from trca.tune_configs.settings import RunParameters

HEAD = """# Settings

A config is a flat YAML file of these names; `trca train CONFIG --set name=value` changes one, and
`budgets.execution=2` or `env_config.games=medium` reaches into one. The same names are attributes
of the RLlib configs (`TRCAConfig().training(lr=1e-6)`) and keys of a Ray Tune `param_space`.
Defaults are the paper's where it has a value. This page is written by `python docs/build.py`.
"""


def settings_page() -> str:
    """The page of settings."""
    sections = [
        ("Run, environment and resources", RunParameters, ()),
        ("Every algorithm", TextParameters, tuple(LossSettings.model_fields)),
        ("Every algorithm: the loss", LossSettings, ()),
        ("`budgets`", Budgets, ()),
    ]
    for name, algorithm in ALGORITHMS.items():
        model = algorithm.config_class.parameters_class
        shared = set(TextParameters.model_fields) - model.own_defaults()
        sections.append((f"{name} alone", model, tuple(shared)))
    return "\n".join([HEAD, *(_section(*section) for section in sections if _fields(*section[1:]))])


def _fields(model: Any, left_out: tuple[str, ...]) -> dict[str, Any]:
    return {name: field for name, field in model.model_fields.items() if name not in left_out}


def _section(title: str, model: Any, left_out: tuple[str, ...]) -> str:
    lines = [f"## {title}", "", "| name | default | meaning |", "|---|---|---|"]
    for name, field in _fields(model, left_out).items():
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {_default(field)} | {description} |")
    return "\n".join(lines) + "\n"


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "-"
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return f"`{value}`" if value is not None else "none"


def main() -> None:
    """Writes the pages."""
    (Path(__file__).parent / "settings.md").write_text(settings_page(), encoding="utf-8")


if __name__ == "__main__":
    main()

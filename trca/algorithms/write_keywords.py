"""Writes `trca.algorithms.settings.keywords`: ``python -m trca.algorithms.write_keywords``.

Editors and type checkers do not run code, so they need the names and types of the settings in a
file. Defaults, bounds and descriptions stay in the fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from ray._common.deprecation import DEPRECATED_VALUE
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from trca.algorithms import ALGORITHMS
from trca.algorithms.settings import keywords
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.setting_names import IGNORED
from trca.tune_configs.recording import RecordingParameters

HEAD: Final = '''"""Keyword arguments of the methods of configs, for editors and type checkers.

``python -m trca.algorithms.write_keywords`` writes this file from the fields of the settings. A
value is a setting, or a search space of Ray Tune.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from ray.tune.search.sample import Domain

from trca.rubric import Budgets

T = TypeVar("T")
Setting: TypeAlias = Domain | Mapping[str, Iterable[T]] | T
"""A value, a distribution of Ray Tune, or ``tune.grid_search`` of values."""
'''


def text() -> str:
    """The text of the file."""
    shared = TextParameters.model_fields
    evaluation = [name for name in shared if name.startswith("evaluation_")]
    recording = [*RecordingParameters.model_fields]
    parts = [
        HEAD,
        _keywords("EvaluationKeywords", "TypedDict", TextParameters, evaluation)
        + _rllib(AlgorithmConfig.evaluation, evaluation),
        _keywords("ReportingKeywords", "TypedDict", RecordingParameters, recording)
        + "    run_folder: str | Path | Literal[False] | None\n"
        + _rllib(AlgorithmConfig.reporting, recording),
        _keywords("TrainingKeywords", "TypedDict", TextParameters, [*shared])
        + _rllib(AlgorithmConfig.training, [*shared]),
        *(_keywords(_name(model), _bases(model), model, _fields(model)) for model in _models()),
    ]
    return "\n\n".join(parts)


def _models() -> Iterator[type[BaseModel]]:
    """The models that add settings to `TextParameters`, bases first."""
    seen: list[type[BaseModel]] = []
    for algorithm in ALGORITHMS.values():
        for model in reversed(algorithm.config_class.parameters_class.__mro__):
            if issubclass(model, BaseModel) and model not in seen and _fields(model):
                seen.append(model)
                yield model


def _fields(model: type[BaseModel]) -> list[str]:
    """The settings that a class declares and `TextParameters` does not have."""
    return [name for name in inspect.get_annotations(model) if name in _own(model)]


def _own(model: type[BaseModel]) -> set[str]:
    return model.model_fields.keys() - TextParameters.model_fields.keys()


def _name(model: type[BaseModel]) -> str:
    return model.__name__.removesuffix("Parameters").removesuffix("Settings") + "Keywords"


def _bases(model: type[BaseModel]) -> str:
    """The TypedDicts of the model's bases."""
    bases = [_name(b) for b in model.__bases__ if issubclass(b, BaseModel) and _own(b)]
    if TextParameters in model.__bases__ or not issubclass(model, TextParameters):
        bases.append("TrainingKeywords" if issubclass(model, TextParameters) else "TypedDict")
    return ", ".join(bases)


def _keywords(name: str, bases: str, model: type[BaseModel], fields: list[str]) -> str:
    """A TypedDict of settings."""
    lines = [f"class {name}({bases}, total=False):", f'    """Settings of `{model.__name__}`."""\n']
    for field in fields:
        lines.append(f"    {field}: Setting[{_type(model.model_fields[field].annotation)}]")
    return "\n".join(lines) + "\n"


def _rllib(method: Callable[..., Any], taken: list[str]) -> str:
    """RLlib's arguments of a method that have an effect here."""
    names = [
        name
        for name, argument in list(inspect.signature(method).parameters.items())[1:]
        if name not in {*taken, *IGNORED, *TextParameters.model_fields}
        and argument.default != DEPRECATED_VALUE
    ]
    return "".join(f"    {name}: Any\n" for name in names)


def _type(annotation: Any) -> str:
    """An annotation as a caller may write the value: mappings and sequences of any kind."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]".replace("'", '"')
    if origin in (Union, UnionType):
        return " | ".join(_type(each) for each in arguments)
    if origin in (tuple, list):
        return f"Sequence[{_type(arguments[0])}]"
    if origin is dict:
        return f"Mapping[{_type(arguments[0])}, {_type(arguments[1])}]"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return f"{annotation.__name__} | Mapping[str, Any]"
    if annotation is NoneType:
        return "None"
    return "Any" if annotation is Any else str(annotation.__name__)


if __name__ == "__main__":
    Path(keywords.__file__).write_text(text())

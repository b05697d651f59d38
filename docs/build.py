"""Writes the pages that are made from the code: ``python docs/build.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.main import get_command

from trca.algorithms import ALGORITHMS
from trca.algorithms.settings.parameters import TextParameters
from trca.cli import app
from trca.cli.sweep.trials import shipped_sweeps
from trca.envs import make
from trca.envs.registration import PACKAGED, env_class
from trca.rubric import Budgets
from trca.tune_configs.files import read, shipped
from trca.tune_configs.run_parameters import RunParameters

HEAD = """# Settings

A config is a flat YAML file of these names. `trca train CONFIG --set name=value` changes a setting;
`budgets.execution=2` and `env_config.games=medium` change a part of a setting. A value is YAML:
`null`, `[2e-4, 4e-4]`, `'{backend: local}'`; `engine_config={}` empties a mapping. The same names
are attributes of the RLlib configs (`TRCAConfig().training(lr=1e-6)`) and keys of a Ray Tune
`param_space`, except `algorithm`: in Python each algorithm has its own config class. Defaults are
the paper's values, if the paper has one. Most runs choose from the first tables only; each table
"When needed" serves one purpose. The [last table](#configs-that-come-with-the-package) lists the
configs of the package. `python docs/build.py` writes this page.

## A config file of your own

A setting that the file does not name has the default of the tables below, not the value of a
preset. A config has no `base`: this key makes the file a [sweep](sweeps.md). So copy a complete
file and change the copy: the file of a config in the [last
table](#configs-that-come-with-the-package), or `config.yaml` of a run.

<!-- tested with: mine.yaml -> short.yaml -->
```
cp trca/tune_configs/quickstart.yaml mine.yaml
trca train mine.yaml --dry-run
```

The dry run prints the value of every setting. A relative path in the file starts at the folder of
the file, or else at the current folder. If `config.yaml` of a run names copies of your files, such
as `files/my_rule.py:mine`, copy the folder `files` too.
"""


ALGORITHM = "| `algorithm` | `TRCA` | The algorithm, one of `trca.algorithms.ALGORITHMS`. |"
"""The row of the setting that chooses the class of the settings."""

SHARED = ("library", "team")
"""Arguments of `trca.envs.make` that a config may give; the run sets budgets and lambda."""

CONFIGS_HEAD = """## Configs that come with the package

A config of the package is also called a preset. `trca train NAME` runs it. The files are in
`trca/tune_configs`: `quickstart` is `trca/tune_configs/quickstart.yaml`. In an installed package,
`python -c "import trca.tune_configs as t; print(t.__path__[0])"` prints the folder. The comment at
the head of a file names the sources of its settings, and data and servers that the run needs.
`.[vllm]` is an extra: `pip install '.[vllm]'` in a checkout. `trca data` fetches data or names
their source. The run downloads a model of Hugging Face.
"""


COMMANDS_HEAD = """# Commands

This page shows the help of every command (`trca COMMAND --help` or `-h`). `trca --help` lists the
commands, `trca --version` shows the version. `play`, `new-env`, `rubric` and `data` work in the
base installation, `serve-retriever` needs `.[serve]`. All further commands need `.[train]`;
`view` also needs `.[serve]`, `jobs` and `submit` also need `.[clusters]`. Models at
an endpoint need `.[endpoint]`. `import-dump` is a command of the [plug-in](interop_credit.md)
`plugins/interop`. CONFIG is the name of a
[config of the package](settings.md#configs-that-come-with-the-package) or the path of [your own
file](settings.md#a-config-file-of-your-own). `python docs/build.py` writes this page.
"""


def settings_page() -> str:
    """The page of settings: first the settings that most runs choose, then groups by purpose."""
    *groups, run = TextParameters.__bases__
    return "\n".join(
        [
            HEAD,
            _section("Run and environment", run, _declared(run), ALGORITHM),
            _section("Every algorithm", TextParameters, _declared(TextParameters)),
            _section("`budgets`", Budgets, _declared(Budgets)),
            *_of_algorithms(),
            _changed_defaults(),
            _environments(),
            *(
                _section(_purpose(group), group, _declared(group))
                for group in (*reversed(groups), *run.__bases__)
            ),
            _configs(),
        ]
    )


def _of_algorithms() -> list[str]:
    """A section for each class of settings that some algorithms add."""
    owners: dict[Any, list[str]] = {}
    for name, algorithm in ALGORITHMS.items():
        for model in reversed(algorithm.config_class.parameters_class.__mro__):
            if issubclass(model, BaseModel) and _added(model):
                owners.setdefault(model, []).append(name)
    return [_section(", ".join(names), model, _added(model)) for model, names in owners.items()]


def _added(model: type[BaseModel]) -> list[str]:
    return [name for name in _declared(model) if name not in TextParameters.model_fields]


def _declared(model: type[BaseModel]) -> list[str]:
    """The settings in the body of a class."""
    return [name for name in inspect.get_annotations(model) if name in model.model_fields]


def _purpose(group: type[BaseModel]) -> str:
    """The title of a group, from its docstring."""
    text = re.split(r"[.;]", group.__doc__ or "")[0]
    return f"When needed: {text[:1].lower()}{text[1:]}"


def _changed_defaults() -> str:
    """The defaults of shared settings that algorithms change."""
    lines = ["## Defaults that algorithms change", "", "| algorithm | defaults |", "|---|---|"]
    for name, algorithm in ALGORITHMS.items():
        model = algorithm.config_class.parameters_class
        changed = [n for n in model.model_fields if n in model.own_defaults()]
        if changed:
            values = (f"`{n}: {model.model_fields[n].default}`" for n in changed)
            lines.append(f"| {name} | {', '.join(values)} |")
    return "\n".join(lines) + "\n"


def _environments() -> str:
    """The arguments of each environment."""
    parts = []
    for env_id in PACKAGED:
        parts += [
            f"## `env_config` of `{env_id}`",
            "",
            *_arguments(env_class(env_id).__init__),
        ]
    parts += [
        "## `env_config` of every environment",
        "",
        *_arguments(make, only=(*SHARED, "isolation")),
    ]
    return "\n".join(parts)


def _arguments(function: Any, only: tuple[str, ...] = ()) -> list[str]:
    """A table of arguments, with their meanings from the docstring."""
    doc = inspect.getdoc(function) or ""
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", doc, re.MULTILINE))
    parameters = inspect.signature(function).parameters
    lines = ["| name | default | meaning |", "|---|---|---|"]
    for name in only or [n for n in parameters if n not in ("self", "render_mode")]:
        default = parameters[name].default
        meaning = " ".join(meanings[name].split()).replace("``", "`").replace("|", "\\|")
        shown = "none" if default is None else f"`{default}`"
        lines.append(f"| `{name}` | {shown} | {meaning} |")
    return [*lines, ""]


def _configs() -> str:
    """The configs that come with the package, each with the first sentence of its file."""
    lines = [CONFIGS_HEAD, "| name | environment | model | needs | content |", f"|{'---|' * 5}"]
    sweeps = shipped_sweeps()
    for name, path in shipped().items():
        if name not in sweeps:
            settings = read(name)
            env = settings["env"].removeprefix("trca/").partition("-v")[0]
            model, text = settings["model"].rpartition("/")[2], _first_sentence(path)
            lines.append(f"| `{name}` | {env} | {model} | {_needs(settings)} | {text} |")
    lines += ["", "`trca sweep` runs these configs ([sweeps](sweeps.md)):", ""]
    lines += ["| name | content |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in sweeps.items()]
    return "\n".join(lines) + "\n"


def _needs(settings: dict[str, Any]) -> str:
    """GPUs, extras, data and servers that the run of a config needs."""
    run = {k: v for k, v in settings.items() if k in RunParameters.model_fields}
    _, gpus = RunParameters(**run).resources()
    engine, model, arguments = settings.get("engine"), settings["model"], settings["env_config"]
    extras = {"vllm": engine == "vllm", "lora": "lora_rank" in settings, "gguf": model == "smollm2"}
    retriever = arguments.get("retriever", {}).get("name", "")
    if arguments["max_steps"] == 1:  # an answer without a search
        retriever = ""
    needs = {
        f"{gpus:g} GPU{'s' * (gpus != 1)}": gpus,
        f"`.[{','.join(name for name, used in extras.items() if used)}]`": any(extras.values()),
        "`trca data smollm2`": model == "smollm2",
        "a policy of `imitate`": model == "smollm2" and settings["algorithm"] != "Imitation",
        "`trca data alfworld`": arguments.get("games") == "official",
        "`trca data webshop`": arguments.get("catalogue", "small") != "small",
        "`trca data searchqa`": isinstance(arguments.get("questions"), dict),
        "a served [retriever](retrieval.md)": retriever == "http",
        "a served model as [search engine](retrieval.md)": retriever == "simulated",
    }
    return ", ".join(need for need, there in needs.items() if there) or "-"


def _first_sentence(path: Path) -> str:
    """The first sentence of the comment at the head of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = " ".join(line[2:] for line in takewhile(lambda line: line.startswith("# "), lines))
    return comment.partition(". ")[0].removesuffix(".") + "."


def _section(title: str, model: Any, names: list[str], *first: str) -> str:
    """A table of settings, with first rows that are not fields."""
    lines = [f"## {title}", "", "| name | default | meaning |", "|---|---|---|", *first]
    for name in names:
        field = model.model_fields[name]
        default = "the algorithm's rule" if name == "credit" else _default(field)
        lines.append(f"| `{name}` | {default} | {_meaning(field)} |")
    return "\n".join(lines) + "\n"


def _meaning(field: Any) -> str:
    """Meaning of a setting, and its values if the description does not name them."""
    text = " ".join((field.description or "").split())
    choices = [str(each) for each in _choices(field.annotation)]
    if not all(each in text for each in choices):
        text += f" One of {', '.join(f'`{each}`' for each in choices)}."
    return text.replace("|", "\\|")


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "-"
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return f"`{value}`" if value is not None else "none"


def commands_page() -> str:
    """The page of commands: the help of each command."""
    return "\n".join([COMMANDS_HEAD, *_commands("trca", get_command(app))])


def _commands(name: str, command: Any) -> list[str]:
    if not hasattr(command, "commands"):
        return [_command(name, command)]
    inner = [_commands(f"{name} {each}", part) for each, part in command.commands.items()]
    return [section for sections in inner for section in sections]


def _command(name: str, command: Any) -> str:
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    usage = " ".join([name, *(_usage(p) for p in arguments), "[OPTIONS]"])
    lines = [f"## `{name}`", "", f"`{usage}`", "", inspect.cleandoc(command.help or ""), ""]
    lines += ["| argument or option | default | meaning |", "|---|---|---|"]
    for parameter in shown:
        given = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
        given = f"`{_usage(parameter)}`" if parameter in arguments else given
        meaning = " ".join((parameter.help or "").split())
        if choices := _members(parameter):
            meaning += f" One of {', '.join(f'`{each}`' for each in choices)}."
        cells = (given, _default_of(parameter), meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _members(parameter: Any) -> list[str]:
    """The values of an option with an enumeration or literals."""
    kind = parameter.type_descriptor.annotation
    members = isinstance(kind, type) and issubclass(kind, Enum)
    return [str(each.value) for each in kind] if members else [*map(str, _choices(kind))]


def _usage(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _default_of(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is True and parameter.secondary_opts:
        return f"`{parameter.opts[0]}`"
    if value is None or value is False or callable(value) or value == ():
        return "-"
    return f"`{getattr(value, 'value', value)}`"


def main() -> None:
    """Writes the pages."""
    for name, page in PAGES.items():
        (Path(__file__).parent / name).write_text(page(), encoding="utf-8")


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "commands.md": commands_page,
}


if __name__ == "__main__":
    main()

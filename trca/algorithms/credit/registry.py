"""Credit rules by name: registered rules, and ``path/to/file.py:function`` of a user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

import numpy as np

from trca.algorithms.credit.reads import READS
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import CREDIT_RULES as CREDIT_RULES
from trca.common.names import nearest
from trca.envs.annotate import line_in
from trca.records import Floats, StepBatch
from trca.tune_configs.run_parameters import RunParameters

_PARAMETERS: Final = "parameters"
"""Name of the argument that receives the settings as one object."""


@dataclass(frozen=True)
class Credited:
    """The result of a rule that credits tokens or teaches a critic.

    Attributes:
        advantages: float64 (S,), the advantage of each step.
        token_advantages: float64 (sum of R,), the advantage of each response token, in place of the
            step's.
        value_targets: float64 (sum of R, H), targets of the critic before each response token; nan
            for tokens without a target.
    """

    advantages: Floats
    token_advantages: Floats | None = None
    value_targets: Floats | None = None


CreditRule = Callable[..., Floats | Credited]
"""``rule(batch, parameters, **reads)`` returns one advantage per step, float64 (S,).

``batch`` has S steps, and ``parameters`` the settings that the equations name; ``epsilon`` is added
to standard deviations. A rule that credits tokens or teaches a critic returns `Credited`.
`trca.records.step_batch.action_mask_of` marks the tokens of a step that its advantage weighs.
"""


@dataclass(frozen=True)
class BoundRule:
    """A credit rule with its settings; a call needs only the batch and the reads by name."""

    name: str
    reads: tuple[str, ...]
    _rule: CreditRule
    _arguments: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings of the rule, by name.

        For a rule with a parameter object: its `credit_settings` and the algorithm's settings.
        """
        values = dict(self._arguments)
        if (chosen := values.pop(_PARAMETERS, None)) is not None:
            shared = TextParameters.model_fields.keys() - chosen.credit_settings
            values |= chosen.model_dump(exclude=shared)
        return values

    @property
    def gold(self) -> tuple[str, ...]:
        """The reads that are gold."""
        return tuple(name for name in self.reads if READS.get(name).gold)

    def __call__(self, batch: StepBatch, **read: Any) -> Floats:
        """Returns the advantages of a batch; see `credit`."""
        return self.credit(batch, **read).advantages

    def credit(self, batch: StepBatch, **read: Any) -> Credited:
        """Runs the rule on a batch and checks the result.

        Raises:
            ValueError: For a result that is not one finite number a step.
            Exception: An exception of the rule, with a note that names its line.
        """
        try:
            result = self._rule(batch, **self._arguments, **read)
        except Exception as error:
            code = getattr(self._rule, "__code__", None)
            files = [code.co_filename] if code else []
            error.add_note(f"in credit rule {self.name.split('/')[-1]}{line_in(files, error)}")
            raise
        if not isinstance(result, Credited):
            result = Credited(np.asarray(result, np.float64))
        shape = result.advantages.shape
        if shape != (len(batch),):
            raise ValueError(
                f"credit rule {self.name!r} returned shape {shape} for {len(batch)} steps:"
                " return one advantage per step"
            )
        for unit, column in (("step", result.advantages), ("token", result.token_advantages)):
            if column is not None and not np.isfinite(column).all():
                row = int(np.flatnonzero(~np.isfinite(column))[0])
                raise ValueError(
                    f"credit rule {self.name!r} returned {column[row]} for {unit} {row}: return"
                    " finite numbers"
                )
        return result

    def check_tokens(self, credit: Credited, tokens: int, heads: int) -> None:
        """Checks the columns of response tokens.

        ``tokens`` is the sum of R, and ``heads`` the number H of values that the critic has for a
        token, 0 without a critic.

        Raises:
            ValueError: For a column of another shape, and for a critic without targets.
        """
        if heads and credit.value_targets is None:
            raise ValueError(
                f"credit rule {self.name!r} returned no value_targets for the critic: return"
                " Credited(advantages, value_targets=...)"
            )
        shapes: dict[str, tuple[int, ...]] = {"token_advantages": (tokens,)}
        if heads:
            shapes["value_targets"] = (tokens, heads)
        for name, shape in shapes.items():
            column = getattr(credit, name)
            if column is not None and np.shape(column) != shape:
                raise ValueError(
                    f"credit rule {self.name!r} returned {name} of shape {np.shape(column)} for"
                    f" {tokens} response tokens: return shape {shape}"
                )


def bind_credit(name: str, settings: TextParameters | Mapping[str, Any]) -> BoundRule:
    """Binds a rule to its settings.

    The argument after the batch named ``parameters`` receives the settings as the object of its
    annotation, such as `TRCAParameters`. Any other argument receives the setting, the value of
    ``credit_config`` or the read of its name.

    Args:
        name: A name of `CREDIT_RULES`, or ``path/to/file.py:function``.
        settings: The settings of an algorithm, or some by name; empty for the defaults of the rule.

    Raises:
        ValueError: For an unknown or broken rule; for ``parameters`` of another algorithm; for an
            argument without a default that is neither a setting nor a read; for a key of
            ``credit_config`` that the rule does not have or that is a setting; and for a rule that
            reads gold while ``gold_in_training`` is false.
    """
    rule = CREDIT_RULES.get(name)
    if not callable(rule):
        raise ValueError(f"credit rule {name!r} is a {type(rule).__name__}, not a function")
    given = settings.hyperparameters() if isinstance(settings, TextParameters) else settings
    arguments = list(inspect.signature(rule).parameters.values())[1:]
    chosen: dict[str, Any] = {}
    if any(a.name == _PARAMETERS for a in arguments):
        arguments = [a for a in arguments if a.name != _PARAMETERS]
        chosen[_PARAMETERS] = _parameters(name, rule, settings, given)
    config = dict(given.get("credit_config") or {})
    _check_config(name, config, arguments, given)
    values = {**given, **config}
    if any(a.kind is a.VAR_KEYWORD for a in arguments):
        chosen |= values
    else:
        chosen |= {a.name: values[a.name] for a in arguments if a.name in values}
    rest = [a for a in arguments if a.name not in chosen]
    reads = tuple(a.name for a in rest if a.name in READS)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    missing = [
        a.name
        for a in rest
        if a.kind not in variable and a.default is a.empty and a.name not in reads
    ]
    if missing:
        raise ValueError(
            f"credit rule {name!r} needs {', '.join(missing)}, which is not a setting: give"
            f" {missing[0]} a default, set credit_config.{missing[0]}, or read one of"
            f" {', '.join(READS.names())}"
        )
    bound = BoundRule(name, reads, rule, chosen)
    if bound.gold and not given.get("gold_in_training", True):
        raise ValueError(
            f"credit rule {name!r} reads {' and '.join(bound.gold)}, the hidden truth of the tasks:"
            " set gold_in_training: true, which the run's results show"
        )
    return bound


def _parameters(
    name: str,
    rule: CreditRule,
    settings: TextParameters | Mapping[str, Any],
    given: Mapping[str, Any],
) -> TextParameters:
    """The settings as an object of the class in the annotation of the argument ``parameters``."""
    try:
        model = get_type_hints(rule).get(_PARAMETERS)
    except NameError as error:
        raise ValueError(f"the annotations of {rule.__name__} do not import: {error}") from None
    if not (isinstance(model, type) and issubclass(model, TextParameters)):
        raise ValueError(
            f"{rule.__name__} takes {_PARAMETERS} without their class: annotate the class, such as"
            f" {_PARAMETERS}: TRCAParameters"
        )
    if isinstance(settings, model):
        return settings
    needed = model.model_fields.keys() - RunParameters.model_fields.keys()
    missing = sorted(needed - given.keys()) if given else []
    if missing:
        raise ValueError(
            f"credit rule {name!r} takes {model.__name__}, and the algorithm has no"
            f" {', '.join(missing)}: set algorithm to {model.algorithm}"
        )
    return model(**{k: given[k] for k in model.model_fields if k in given})


def _check_config(
    name: str,
    config: Mapping[str, Any],
    arguments: Sequence[inspect.Parameter],
    settings: Mapping[str, Any],
) -> None:
    """Checks ``credit_config``: the names, and that numbers replace numbers."""
    free = {a.name: a.default for a in arguments if a.name not in settings and a.name not in READS}
    for key, value in config.items():
        if key in settings:
            raise ValueError(f"credit_config.{key} has no effect: {key} is a setting, set that")
        if key not in free:
            hint = nearest(key, free) if free else "the rule has only settings and reads"
            raise ValueError(f"credit rule {name!r} has no parameter {key!r}: {hint}")
        if type(free[key]) in (int, float) and type(value) not in (int, float):
            raise ValueError(f"credit_config.{key} is {value!r}: give a number")

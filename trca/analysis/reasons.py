"""The reasons why operators fired on the steps of recorded rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters
    from trca.records import Rollout
    from trca.rubric import Clause, RubricLibrary


class Reasons:
    """Evaluates the conditions of recorded steps again, with the current version of the library."""

    def __init__(self, settings: TextParameters) -> None:
        """Loads the library of a run.

        Raises a `ValueError` if the environment has no rubric library, or the library is broken.
        """
        from trca.envs.registration import env_class
        from trca.rubric import Judge
        from trca.runs.rollout_files import load_library

        library = load_library(settings.env, settings.env_config)
        if library is None:
            raise ValueError(f"{settings.env} has no rubric library: set env_config.library")
        adapter: Any = env_class(settings.env).adapter_class
        self._adapter_class = adapter
        self._judge = Judge(library, adapter.facts_type, adapter.binding_type)
        self.library: RubricLibrary = library

    def knows(self, rollout: Rollout) -> bool:
        """Whether the rollout has the operators of the library."""
        return rollout.operators == self.library.ids

    def of(self, rollout: Rollout) -> list[dict[str, tuple[Clause, ...]]]:
        """Returns the operators that fired on each step, with their true clauses; see `knows`."""
        if not rollout.steps:
            return []
        binding, facts_by_step = recorded_facts(rollout, self._adapter_class)
        reasons_by_step = []
        for step, facts in zip(rollout.steps, facts_by_step, strict=True):
            reasons = self._judge.explain(binding, facts)
            fired = (rollout.operators[number] for number in step.judgments.nonzero()[0])
            reasons_by_step.append({name: reasons.get(name, ()) for name in fired})
        return reasons_by_step


def recorded_facts(rollout: Rollout, adapter_class: Any) -> tuple[Any, list[Any]]:
    """Returns the binding of a rollout with steps, and the facts of each step.

    Raises:
        ValueError: If a step has a fact that the adapter does not know.
    """
    adapter, facts = adapter_class(), []
    adapter.reset(rollout.instruction, rollout.steps[0].observation, ())
    for step in rollout.steps:
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in step.facts.items()}
        try:
            facts.append(adapter_class.facts_type(**values))
        except TypeError as error:
            raise ValueError(
                f"the recorded facts are of another version of {adapter_class.__name__} ({error}):"
                " restore the version of the run"
            ) from None
    return adapter.binding, facts

"""Why operators fired on the steps of recorded rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.records import Rollout
    from trca.rubric import Clause, RubricLibrary
    from trca.tune_configs.settings import RunSettings


class Reasons:
    """Judges recorded steps again, for the values that the conditions read.

    Attributes:
        library: The rubric library of the run, as it is now.
    """

    def __init__(self, settings: RunSettings) -> None:
        """Loads the library of a run.

        Raises:
            ValueError: When nothing judges its environment, or the library is broken.
        """
        from trca.envs.registration import env_class
        from trca.rubric import Judge
        from trca.runs.rollout_files import load_library

        run = settings.run
        library = load_library(run.env, run.env_config)
        if library is None:
            raise ValueError(f"nothing judges {run.env}: there is no rubric to ask")
        adapter: Any = env_class(run.env).adapter_class
        self._adapter_class = adapter
        self._judge = Judge(library, adapter.facts_type, adapter.binding_type)
        self.library: RubricLibrary = library

    def knows(self, rollout: Rollout) -> bool:
        """Whether a rollout was judged by the operators of the library."""
        return rollout.operators == self.library.ids

    def of(self, rollout: Rollout) -> list[dict[str, tuple[Clause, ...]]]:
        """The operators that fired on each step, with the clauses that made them true.

        Args:
            rollout: A rollout that the library judged, see `knows`.
        """
        if not rollout.steps:
            return []
        adapter = self._adapter_class()
        adapter.reset(rollout.instruction, rollout.steps[0].observation, ())
        told = []
        for step in rollout.steps:
            values = {k: tuple(v) if isinstance(v, list) else v for k, v in step.facts.items()}
            facts = self._adapter_class.facts_type(**values)
            reasons = self._judge.explain(adapter.binding, facts)
            fired = (rollout.operators[number] for number in step.judgments.nonzero()[0])
            told.append({name: reasons.get(name, ()) for name in fired})
        return told

"""`Report`: the result of an evaluation, as a table, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from trca.common.files import write_json, write_text
from trca.records import by_episode
from trca.runs.success_tables import Outcome, Row, as_markdown, as_rich, by_task_type

if TYPE_CHECKING:
    from rich.console import Group

    from trca.envs.panel import Panel


@dataclass(frozen=True)
class Report:
    """The outcomes of one panel: for each of its tasks one per seed."""

    panel: Panel
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, panel: Panel, evaluations: Mapping[int, Any]) -> Report:
        """Returns the report of a panel from an `Evaluation` of `trca.algorithms` for each seed."""
        outcomes: list[Outcome] = []
        types: dict[str, str] = {}
        played = (rollout for each in evaluations.values() for rollout in each.rollouts)
        scored = any(rollout.score != rollout.won for rollout in played)
        for seed, evaluation in evaluations.items():
            for roles in by_episode(evaluation.rollouts):
                rollout = roles[0]
                types[rollout.task_id] = rollout.task_type
                score = {"score": rollout.score} if scored else {}
                outcomes.append(
                    Outcome(
                        rollout.task_id,
                        rollout.task_type,
                        seed,
                        rollout.won,
                        sum(len(role.steps) for role in roles),
                        score | rollout.measures | score,
                        parsed=sum(step.parsed for role in roles for step in role.steps),
                    )
                )
        for seed, evaluation in evaluations.items():
            for missing in evaluation.failures:
                task_type = types.get(missing.task_id, "unknown")
                outcome = Outcome(missing.task_id, task_type, seed, None, failure=missing.reason)
                outcomes += [outcome] * missing.rollouts
        outcomes.sort(key=lambda outcome: (outcome.task_type, outcome.task_id, outcome.seed))
        return cls(panel, tuple(outcomes))

    def write(self, path: Path, record: Mapping[str, Any] | None = None, **about: object) -> None:
        """Writes ``path.json`` and ``path.md``; the path has no suffix.

        ``about`` are entries of both files, such as the policy; ``record`` are entries of the JSON
        file only, such as versions.
        """
        rows = by_task_type(self.outcomes)
        data = {
            **about,
            **(record or {}),
            "panel": {
                "hash": self.panel.hash,
                "environment": self.panel.environment,
                "split": self.panel.split,
            },
            "tasks": len(self.panel.task_ids),
            "rows": [asdict(row) for row in rows],
            "failures": self.failures(),
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }
        write_json(path.with_name(f"{path.name}.json"), data)
        entries = {k: ", ".join(v) if isinstance(v, tuple) else v for k, v in about.items()}
        lines = [f"# {self.title}", "", *(f"- {key}: {value}" for key, value in entries.items())]
        lines += [f"- panel: `{self.panel.hash}`", "", as_markdown(rows)]
        lines += [f"- {count} missing: {reason}" for reason, count in self.failures().items()]
        write_text(path.with_name(f"{path.name}.md"), "\n".join(lines).rstrip() + "\n")

    def failures(self) -> dict[str, int]:
        """Counts the technical failures by reason, the most frequent first."""
        return dict(Counter(o.failure for o in self.outcomes if o.won is None).most_common())

    def interval(self) -> dict[str, float]:
        """Returns the 95% interval of success as metrics; empty without a finished episode."""
        total = by_task_type(self.outcomes)[-1]
        if total.mean is None:
            return {}
        return {"success_low": total.low, "success_high": total.high}

    @property
    def title(self) -> str:
        """Environment, split and number of tasks."""
        return f"{self.panel.environment} {self.panel.split}, {len(self.panel.task_ids)} tasks"

    def table(self) -> Group:
        """Returns title and table for the terminal."""
        return as_rich(by_task_type(self.outcomes), self.title)


class _Panel(BaseModel):
    hash: str
    environment: str
    split: str


class _File(BaseModel):
    panel: _Panel
    tasks: int
    rows: list[Row]
    outcomes: list[Outcome]


def read_evaluation(path: Path) -> dict[str, Any]:
    """Reads the JSON file of a report.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not a report. The message names the file and the reason.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict):
            raise ValueError("expected a JSON object")
        _File.model_validate(data)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = ".".join(map(str, detail["loc"]))
        raise ValueError(f"{path} is not an evaluation: {where}: {detail['msg']}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not an evaluation: {error}") from None
    return data


def read_table(path: Path) -> Group:
    """Reads ``path.json`` and returns the report's table."""
    data = read_evaluation(path.with_name(f"{path.name}.json"))
    panel = data["panel"]
    title = f"{panel['environment']} {panel['split']}, {data['tasks']} tasks"
    return as_rich([Row(**row) for row in data["rows"]], title)

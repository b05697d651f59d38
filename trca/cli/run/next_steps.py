"""The commands that ``trca train`` shows at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters
    from trca.runs.folder import RunFolder

_GRPO: Final = "GRPO"
_TINY_GRPO: Final = " --set lr=2e-4"
"""GRPO with the tiny policy needs a lower learning rate than the quickstart, tuned on panel 31
(docs/results_settings.md)."""

_GROUP: Final = 8


def next_steps(run: RunFolder, settings: TextParameters) -> list[tuple[str, str]]:
    """Commands for a finished run, each with its purpose."""
    from trca.envs.registration import lacks_rubric
    from trca.policies.model_names import TINY
    from trca.runs.refusals import quoted

    address, config = run.address, quoted(run.path / "config.yaml")
    other = "GiGPO" if settings.algorithm == _GRPO else _GRPO
    tiny_grpo = other == _GRPO and settings.model == TINY
    changes = _TINY_GRPO if tiny_grpo else ""
    if settings.group_size == 1:  # imitation; the other algorithm compares rollouts
        changes += f" --set group_size={_GROUP}"
    commands = [
        (f"trca inspect {quoted(address)}", "the rollouts of the last iteration, step by step"),
        (f"trca view {quoted(address)}", "the rollouts in a browser"),
        (
            f"trca evaluate {quoted(f'{address}@last')} --seeds 3",
            "the last checkpoint on held-out tasks, 3 times, fresh random streams",
        ),
        (
            f"trca train {config} --algorithm {other}{changes} --name {other.lower()}",
            "another algorithm on the same tasks",
        ),
        (f"trca export {quoted(address)} --to my-policy", "a folder that from_pretrained opens"),
    ]
    if not lacks_rubric(settings.env, settings.env_config.get("library")):
        why = "what failed rollouts contain, and what looks wrong"
        commands.insert(0, (f"trca diagnose {quoted(address)}", why))
    if "tensorboard" in settings.tracking:
        commands.append((f"tensorboard --logdir {quoted(run.path)}", "every metric over time"))
    return commands

"""Registers the worlds with Gymnasium, which calls `register` when it is imported.

The ``gymnasium.envs`` entry point of the package leads here, so ``gymnasium.make`` knows the worlds
without an import of ours.
"""

from __future__ import annotations

from typing import Any

import gymnasium


def register() -> None:
    """Registers every world; does nothing the second time."""
    if "trca/ALFWorld-v0" not in gymnasium.registry:
        gymnasium.register(id="trca/ALFWorld-v0", entry_point=f"{__name__}:make_alfworld")


def make_alfworld(
    library: str = "alfworld",
    budgets: Any = None,
    lambda_: float = 0.8,
    **kwargs: Any,
) -> gymnasium.Env[str, str]:
    """ALFWorld with rubric judgments in ``info``.

    Args:
        library: Name or path of the rubric library.
        budgets: Category budgets of the rubric rewards in ``info``.
        lambda_: Weight of the breakthrough reward in ``info``.
        kwargs: What `trca.envs.alfworld.env.ALFWorldEnv` takes.
    """
    from trca.envs.alfworld.env import ALFWorldEnv
    from trca.envs.annotate import RubricAnnotation

    return RubricAnnotation(
        ALFWorldEnv(**kwargs), library=library, budgets=budgets, lambda_=lambda_
    )

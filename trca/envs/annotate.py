"""`RubricAnnotation`: puts context, memory and rubric judgments into a text world's ``info``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, SupportsFloat, cast

import gymnasium

from trca.envs.text_env import RubricInfo
from trca.rubric import Budgets, EpisodeRewards, Judge, RubricError, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA

_ADAPTERS: Final = {
    "alfworld": "trca.envs.alfworld.adapter:ALFWorldAdapter",
    "searchqa": "trca.envs.searchqa.adapter:SearchQAAdapter",
    "webshop": "trca.envs.webshop.adapter:WebShopAdapter",
}


class Adapter(Protocol):
    """A world's adapter: follows an episode by what the agent was shown, offered and did.

    Nothing else may reach it: no success, no hidden state, no future, no gold answer.
    """

    facts_type: type
    """Frozen dataclass of the facts of a transition; every field has a default."""
    binding_type: type
    """Frozen dataclass of the task binding; every field has a default."""
    binding: Any
    """The binding of the present task."""

    def reset(self, task: str, observation: str, admissible: Sequence[str]) -> None:
        """Starts an episode from the instruction, the first observation and the first offers."""
        ...

    def step(self, command: str, observation: str, admissible: Sequence[str]) -> Any:
        """Takes in a transition and returns its facts."""
        ...

    @property
    def context(self) -> str:
        """Structural key s~ of the present state."""
        ...

    @property
    def memory(self) -> str:
        """One short line of what was observed so far."""
        ...


def adapter_type(world: str) -> Callable[[], Adapter]:
    """The adapter class of a world.

    Raises:
        RubricError: When no world of that name is judged here.
    """
    if world not in _ADAPTERS:
        raise RubricError(f"no adapter for world {world!r}: choose from {', '.join(_ADAPTERS)}")
    module, _, name = _ADAPTERS[world].partition(":")
    return cast("Callable[[], Adapter]", getattr(import_module(module), name))


def load_judge(library: str | Path) -> tuple[Judge, Adapter]:
    """Loads a library, checks it against its world, and makes the pair that judges an episode.

    Raises:
        RubricError: When the library breaks a rule; names the file, the operator and the mend.
    """
    loaded = RubricLibrary.load(library)
    try:
        adapter = adapter_type(loaded.world)()
    except RubricError as error:
        raise RubricError(f"{loaded.source}: {error}") from None
    return Judge(loaded, adapter.facts_type, adapter.binding_type), adapter


class RubricAnnotation(gymnasium.Wrapper[str, str, str, str]):
    """Judges every transition of a text world and adds what it found to ``info``.

    Adds ``context`` and ``memory`` on ``reset``; ``context`` (before the action), ``next_context``,
    ``memory``, ``facts`` and ``rubric`` (a `RubricInfo`) on ``step``. Observations, rewards and
    ends are the environment's own.

    Attributes:
        judge: The judge; its library and its count of errors.
        rewards: r^F, r^B and r^TRCA of the present episode. An algorithm sets its own, with its
            budgets and lambda, before an episode starts.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        library: str | Path = "alfworld",
        budgets: Budgets | Mapping[str, float] | None = None,
        lambda_: float = DEFAULT_LAMBDA,
    ) -> None:
        """Wraps a world.

        Args:
            env: A world whose ``info`` has ``task`` and ``admissible_actions`` (see `TextInfo`).
            library: Name or path of the rubric library.
            budgets: Category budgets for ``info["rubric"]``; judgments do not depend on them.
            lambda_: Weight of the breakthrough reward in ``info["rubric"]["reward"]``.
        """
        super().__init__(env)
        self.judge, self._adapter = load_judge(library)
        self.rewards = EpisodeRewards(self.judge.library.categories, budgets, lambda_)
        self._context = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode; nothing is covered."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._adapter.reset(info["task"], observation, info["admissible_actions"])
        self.rewards.reset()
        self._context = info["context"] = self._adapter.context
        info["memory"] = self._adapter.memory
        return observation, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the world and judges the transition."""
        adapter = self._adapter
        observation, reward, terminated, truncated, info = self.env.step(action)
        facts = adapter.step(action, observation, info["admissible_actions"])
        info["context"] = self._context
        self._context = info["next_context"] = adapter.context
        info["memory"] = adapter.memory
        info["facts"] = facts
        info["rubric"] = self._judge(facts)
        return observation, reward, terminated, truncated, info

    def _judge(self, facts: Any) -> RubricInfo:
        judgments = self.judge.judge(self._adapter.binding, facts)
        foundational, breakthrough, reward = self.rewards.step(judgments)
        ids = self.judge.library.ids
        return RubricInfo(
            judgments=judgments,
            foundational=foundational,
            breakthrough=breakthrough,
            reward=reward,
            fired=tuple([ids[number] for number in judgments.nonzero()[0].tolist()]),
        )

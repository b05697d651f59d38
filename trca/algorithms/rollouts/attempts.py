"""Several attempts at each task with reflections in between, as in Reflexion.

::

    runner = local_runner(config, partial(AttemptsRunner, attempts=3, reflection=reflection_prompt))
    evaluate_panel(runner, panel)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch, derive_seed
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.common.errors import short_line
from trca.common.thoughts import answer_start
from trca.common.threads import run_to_end
from trca.envs.responses import RESPONSE_FORMATS, PromptWriter
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.prompts import Prompter
from trca.records import Rollout
from trca.records.rollout import Failure, Incident

_REMEMBERED: Final = 3
"""Number of reflections in a prompt: the newest."""


class AttemptsRunner(TextEnvRunner):
    """A runner that repeats each task until success or until its attempts are used up.

    `sample` returns the last attempt at each task, with the number of attempts in its measures. The
    first attempt is the rollout that a `TextEnvRunner` samples.
    """

    def __init__(self, *, attempts: int, reflection: PromptWriter, **kwargs: Any) -> None:
        """``reflection`` writes the prompt that asks for a reflection on a failed attempt.

        Raises:
            ValueError: For a team: an attempt is one rollout, and a team leaves one per role.
        """
        super().__init__(**kwargs)
        if self.config.roles:
            raise ValueError("attempts are for one agent: leave env_config.team out")
        self._attempts, self._reflection = attempts, reflection

    def sample(
        self,
        *,
        groups: Sequence[GroupRequest] = (),
        sampling: SamplingParams | None = None,
        **kwargs: Any,
    ) -> RolloutBatch:
        """Samples the last attempt at each task; a `ValueError` for a group of several rollouts."""
        if any(group.size != 1 for group in groups):
            raise ValueError("attempts follow each other: give groups of one rollout")
        config = self.config
        sampling = sampling or SamplingParams(
            config.settings.temperature, config.settings.max_new_tokens
        )
        batch, of_task = RolloutBatch(), {group.group: group for group in groups}
        reflections: dict[int, list[str]] = {group.group: [] for group in groups}
        waiting = [replace(group, memory="", finished=None) for group in groups]
        for attempt in range(1, self._attempts + 1):
            played = super().sample(groups=waiting, sampling=sampling)
            lost = {r.group: r for r in played.rollouts if not r.won and attempt < self._attempts}
            ended = [rollout for rollout in played.rollouts if rollout.group not in lost]
            for rollout in ended:
                rollout.measures["attempts"] = attempt
                if (finished := of_task[rollout.group].finished) is not None:
                    finished([rollout])
            batch.add(replace(played, rollouts=ended))
            if not lost:
                break
            failed = [group for group in waiting if group.group in lost]
            self._reflect(failed, lost, reflections, sampling, batch)
            missing = {failure.group for failure in batch.failures}
            waiting = [
                replace(
                    group,
                    key=(*of_task[group.group].key, "trial", attempt),
                    memory=_memory(reflections[group.group]),
                )
                for group in failed
                if group.group not in missing
            ]
        batch.rollouts.sort(key=lambda rollout: rollout.group)
        return batch

    def _reflect(
        self,
        groups: Sequence[GroupRequest],
        lost: dict[int, Rollout],
        reflections: dict[int, list[str]],
        sampling: SamplingParams,
        batch: RolloutBatch,
    ) -> None:
        """Adds a reflection on each lost attempt.

        A reflection that fails is asked for once more. After a second failure the rollout of the
        task is missing.
        """

        async def reflect(group: GroupRequest) -> Exception | None:
            try:
                prompt_ids = self._prompt(lost[group.group], reflections[group.group])
                seed = derive_seed(*group.key, group.group, "reflection")
                completion = await self.loop.guard.generate(Request(prompt_ids, seed), sampling)
            except Exception as error:  # also a prompt that is too long
                return error
            text = self.loop.tokenizer.decode(completion.ids, skip_special_tokens=True)
            written = text[answer_start(text, self.loop.prompter.thought) :]
            reflections[group.group].append(" ".join(written.split()))
            return None

        async def reflect_all() -> list[Exception | None]:
            return await asyncio.gather(*map(reflect, groups))

        for action in ("retried", "dropped"):
            errors = run_to_end(reflect_all())
            failed = [(g, e) for g, e in zip(groups, errors, strict=True) if e is not None]
            groups = [group for group, _ in failed]
            for group, error in failed:
                reason = short_line(f"{type(error).__name__}: {error}", 400)
                which = f"0 of group {group.group}, its reflection"
                batch.incidents.append(
                    Incident(time.time(), "rollout", which, group.task_id, reason, action)
                )
                if action == "dropped":
                    batch.failures.append(Failure(group.group, group.task_id, 1, reason))

    @cached_property
    def _prompter(self) -> Prompter:
        """Writes the prompts of reflections; long attempts are shortened."""
        acting = self.loop.prompter
        return Prompter(
            self.loop.tokenizer,
            self._reflection,
            history_length=acting.history_length,
            max_prompt_tokens=acting.max_prompt_tokens,
            memory=True,
        )

    def _prompt(self, rollout: Rollout, reflections: Sequence[str]) -> Any:
        complete = RESPONSE_FORMATS.get(self.config.settings.response_format).whole_history
        return self._prompter.encode(
            instruction=rollout.instruction,
            step=len(rollout.steps),
            max_steps=len(rollout.steps),
            history=[(s.observation, s.response if complete else s.action) for s in rollout.steps],
            observation=rollout.last_observation,
            admissible=(),
            memory=_memory(reflections),
        )


def _memory(reflections: Sequence[str]) -> str:
    """The newest reflections, numbered by attempt, one per line. ``Trial`` is Reflexion's word."""
    numbered = [f"Trial {number}: {text}" for number, text in enumerate(reflections, 1)]
    return "\n".join(numbered[-_REMEMBERED:])

"""Seconds of an iteration on GPUs: floating-point operations and bytes over assumed rates.

A forward pass takes 2 operations a parameter and token, a backward pass 4 (2 where only an adapter
is trained), and gradient checkpointing a second forward pass. An engine writes one token of all its
rollouts in a pass, which reads the weights and the keys and values once. Not counted: the
operations of attention, environments, the transport of weights, and RLlib's work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trca.cli.preflight.size import Shape, engine, row_cache_bytes

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters

USED: Final = 0.5
"""Expected share of the limits on steps, prompts and responses that rollouts use."""


@dataclass(frozen=True)
class Rates:
    """The assumed rates of a GPU.

    Attributes:
        flops: Operations a second at its peak, bfloat16.
        utilisation: Share of the peak that training reaches.
        bandwidth: Bytes a second from its memory, at the peak.
        read: Share of the bandwidth that generation reaches.
    """

    flops: float
    utilisation: float
    bandwidth: float
    read: float

    def words(self, settings: TextParameters) -> str:
        """The assumptions in words."""
        from trca.policies.engines import engine_class

        least = engine_class(settings.engine).gpu_pass_s
        return (
            f"A100 or A800: {self.flops / 1e12:.0f} TFLOP/s at {self.utilisation:.0%},"
            f" {self.bandwidth / 1e12:.0f} TB/s at {self.read:.0%}, a pass of"
            f" {settings.engine} takes {least * 1000:.0f} ms or more; rollouts use"
            f" {USED:.0%} of the step and token limits"
        )


GPU: Final = Rates(312e12, 0.4, 2e12, 0.6)


@dataclass(frozen=True)
class Work:
    """Expected seconds of an iteration by phase.

    Attributes:
        generation: Seconds of the engines.
        scoring: Seconds of the reference, of recomputed old log-probabilities and of a critic.
        updates: Seconds of forward and backward passes, including a critic.
        tokens: Tokens that an iteration trains on.
        written: Tokens that the engines write.
    """

    generation: float
    scoring: float
    updates: float
    tokens: float
    written: float

    @classmethod
    def of(
        cls,
        settings: TextParameters,
        shape: Shape,
        gpu_bytes: float,
        placed: list[list[str]],
        step_limit: int,
    ) -> Work:
        """The work of an iteration.

        Args:
            settings: Settings.
            shape: Shape of the model.
            gpu_bytes: Size of a GPU.
            placed: The processes on each.
            step_limit: Steps of an episode at most.
        """
        from trca.policies.engines import engine_class

        turns = USED * step_limit
        steps = settings.trajectories_per_iteration * turns
        read = steps * USED * settings.max_prompt_tokens
        written = steps * USED * settings.max_new_tokens
        tokens, rate = read + written, GPU.flops * GPU.utilisation
        learners = max(1, sum("learner" in names for names in placed))
        forward = 2 * shape.parameters / (rate * learners)
        scored = int(settings.kl_coeff > 0 or settings.kl_coeff_format > 0)
        scored += int(settings.recompute_logprobs)
        networks = 2 if getattr(settings, "critic", "") else 1
        scored += networks - 1
        factor = 1 + (1 if settings.lora_rank else 2) + int(settings.gradient_checkpointing)
        engines = max(1, sum("engine" in names for names in placed))
        row, memory = row_cache_bytes(settings, shape), engine(settings, shape, gpu_bytes)
        together = max(1, memory.rollouts_at_once(row))
        cached = together * row * USED
        split = max(1.0, engines / max(1, settings.num_env_runners))
        streamed = (shape.parameters * shape.size + cached) / split
        least = engine_class(settings.engine).gpu_pass_s
        a_pass = max(least, streamed / (GPU.bandwidth * GPU.read))
        rollouts = settings.trajectories_per_iteration / max(1, settings.num_env_runners)
        waves = math.ceil(rollouts / together)
        return cls(
            generation=waves * turns * USED * settings.max_new_tokens * a_pass
            + read * 2 * shape.parameters / (rate * engines),
            scoring=scored * tokens * forward,
            updates=settings.num_epochs * networks * factor * tokens * forward,
            tokens=tokens,
            written=written,
        )

    def rows(self) -> list[tuple[str, float, str]]:
        """Lines of a table: name, seconds, about."""
        speed = self.written / max(self.generation, 1e-9)
        whole = self.generation + self.scoring + self.updates
        return [
            ("an iteration, expected", whole, f"{self.tokens:,.0f} tokens to train on"),
            ("  generation", self.generation, f"{speed:,.0f} tokens/s, all engines together"),
            ("  scoring", self.scoring, "reference, old log-probabilities, critic"),
            ("  updates", self.updates, "forward and backward passes"),
        ]

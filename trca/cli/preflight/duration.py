"""Seconds of an iteration on GPUs: floating-point operations and bytes over assumed rates.

A forward pass takes 2 operations a parameter and token, a backward pass 4 (2 where only an adapter
is trained), and gradient checkpointing a second forward pass. An engine writes one token of all its
rollouts in a pass, which reads the weights and the keys and values once. Left out are attention's
own operations, environments, weights on their way and RLlib's work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trca.cli.preflight.size import Shape, live_rows, rollouts_at_once, row_cache_bytes

if TYPE_CHECKING:
    from trca.tune_configs.settings import RunSettings

USED: Final = 0.5
"""Share of the limits on steps, prompts and responses that rollouts are expected to use."""


@dataclass(frozen=True)
class Rates:
    """What a GPU is assumed to do.

    Attributes:
        flops: Operations a second at its peak, bfloat16.
        utilisation: Share of the peak that training reaches.
        bandwidth: Bytes a second from its memory, at the peak.
        read: Share of it that generation reaches.
    """

    flops: float
    utilisation: float
    bandwidth: float
    read: float

    def words(self, settings: RunSettings) -> str:
        """The assumptions in words."""
        from trca.policies.engines import engine_class

        least = engine_class(settings.parameters.engine).gpu_pass_s
        return (
            f"A100 or A800: {self.flops / 1e12:.0f} TFLOP/s at {self.utilisation:.0%},"
            f" {self.bandwidth / 1e12:.0f} TB/s at {self.read:.0%}, a pass of"
            f" {settings.parameters.engine} takes {least * 1000:.0f} ms or more; rollouts use"
            f" {USED:.0%} of the steps and tokens they may"
        )


GPU: Final = Rates(312e12, 0.4, 2e12, 0.6)


@dataclass(frozen=True)
class Work:
    """Expected seconds of an iteration by phase.

    Attributes:
        generation: Seconds of rollouts, without those of the environments.
        scoring: Of the reference, of old log-probabilities where they are recomputed, and of a
            critic.
        updates: Of forward and backward passes, a critic's too.
        tokens: Tokens that an iteration trains on.
        written: Tokens of them that the engines write.
    """

    generation: float
    scoring: float
    updates: float
    tokens: float
    written: float

    @classmethod
    def of(
        cls, settings: RunSettings, shape: Shape, gpu_bytes: float, placed: list[list[str]]
    ) -> Work:
        """The work of an iteration.

        Args:
            settings: Settings.
            shape: Shape of the model.
            gpu_bytes: Size of a GPU.
            placed: The processes on each.
        """
        from trca.policies.engines import engine_class

        parameters = settings.parameters
        turns = USED * int(settings.run.env_config.get("max_steps", 25))
        steps = settings.trajectories_per_iteration * turns
        read = steps * USED * parameters.max_prompt_tokens
        written = steps * USED * parameters.max_new_tokens
        tokens, rate = read + written, GPU.flops * GPU.utilisation
        learners = max(1, sum("learner" in names for names in placed))
        forward = 2 * shape.parameters / (rate * learners)
        scored = int(parameters.kl_coeff > 0 or parameters.kl_coeff_format > 0)
        scored += int(parameters.recompute_logprobs)
        networks = 2 if getattr(parameters, "critic", "") else 1
        scored += networks - 1
        factor = 1 + (1 if parameters.lora_rank else 2) + int(parameters.gradient_checkpointing)
        engines = max(1, sum("engine" in names for names in placed))
        together = max(1, rollouts_at_once(settings, shape, gpu_bytes))
        cached = together * row_cache_bytes(settings, shape) * USED
        split = max(1.0, engines / max(1, settings.run.num_env_runners))
        streamed = (shape.parameters * shape.size + cached) / split
        least = engine_class(parameters.engine).gpu_pass_s
        a_pass = max(least, streamed / (GPU.bandwidth * GPU.read))
        waves = -(-live_rows(settings) // together)
        return cls(
            generation=waves * turns * USED * parameters.max_new_tokens * a_pass
            + read * 2 * shape.parameters / (rate * engines),
            scoring=scored * tokens * forward,
            updates=parameters.num_epochs * networks * factor * tokens * forward,
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

"""`ForwardPasses`: the forward passes of one policy over rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trca.algorithms.learner.last_mlp import last_mlp_at
from trca.algorithms.learner.reduction import Reduction
from trca.algorithms.learner.rows import Rows, segments
from trca.algorithms.learner.tensors import TokenBatch, no_tokens, token_batch
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.policies.llm_module import LLMModule


class ForwardPass(NamedTuple):
    """A forward pass.

    Attributes:
        batch: The tensors.
        last: Whether the pass is the last over its rows, on all learners.
        rows: The rows; None in a pass over no rows.
        places: int64 (n,), the places of the rows in the mini-batch; None in a pass over no rows.
    """

    batch: TokenBatch
    last: bool
    rows: Rows | None = None
    places: Any = None


class ForwardPasses:
    """Cuts rows into forward passes of one policy, and runs the passes."""

    def __init__(self, module: LLMModule, config: PolicyConfig, reduction: Reduction) -> None:
        """Takes the policy, the config, and the sums over the learners."""
        self._module, self._config, self._reduction = module, config, reduction

    def over(self, rows: Rows) -> Iterator[ForwardPass]:
        """The forward passes over the rows that have a counted token.

        All learners take part in each pass over a sharded model. So the learners agree on the
        number of passes first, and a learner with fewer rows adds passes over no rows.
        """
        passes = [
            (places, micro)
            for places, micro in rows.numbered_microbatches(
                self._config.settings.micro_batch_tokens
            )
            if self._counted(micro).any()
        ]
        most, device = len(passes), self._reduction.device
        if self._reduction.sharded:
            most = int(self._reduction.numbers([most], largest=True)[0])
        shares = bool(self._module.shares_prefixes)
        for number, (places, micro) in enumerate(passes, 1):
            batch = token_batch(micro, self._counted(micro), device, shares)
            yield ForwardPass(batch, number == most, micro, places)
        for number in range(len(passes) + 1, most + 1):
            yield ForwardPass(no_tokens(device), number == most)

    def run(self, batch: TokenBatch, reference: bool = False) -> dict[str, Tensor]:
        """Runs one pass.

        Args:
            batch: The tensors.
            reference: Whether the frozen reference runs instead of the policy.

        Returns:
            ``logprobs`` and ``entropy`` of the counted tokens, float32 (K,) each.
        """
        with (
            self._module.network(reference) as model,
            last_mlp_at(model, batch.row, batch.position, batch.shared),
        ):
            return self._module.score(
                input_ids=batch.input_ids,
                row=batch.row,
                position=batch.position,
                targets=batch.targets,
                temperature=self._config.settings.temperature,
                reference=reference,
                shared=batch.shared,
            )

    def score(self, rows: Rows, reference: bool = False) -> NDArray[np.float32]:
        """Log-probabilities of the counted response tokens, without a gradient.

        Returns:
            float32 (sum of R,), 0 for tokens that do not count.
        """
        scores = np.zeros(len(rows.old_logprobs), dtype=np.float32)
        with torch.no_grad():
            for each in self.over(rows):
                out = self.run(each.batch, reference)
                if each.rows is not None:
                    counted = segments(rows.response_lengths, each.places)[each.batch.counted]
                    scores[counted] = out["logprobs"].cpu().numpy()
        return scores

    def _counted(self, rows: Rows) -> NDArray[np.bool_]:
        """Marks action tokens, with ``kl_coeff_format`` all response tokens: bool (sum of R,)."""
        return np.ones_like(rows.action) if self._config.settings.kl_coeff_format else rows.action

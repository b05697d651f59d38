"""`TextLearner`: the clipped objective on action tokens, for any number of learners.

A `PolicyUpdater` updates each policy. The learner builds the updaters, calls them in turn, and logs
their metrics. `SavingLearner` has the checkpoints.

Where this differs from RLlib's and the usual loops:

=======================  ===========================================================================
Batches                  Ragged `Rows`, not padded `MultiAgentBatch`es: rows of similar length share
                         a forward pass, and gradients accumulate over passes.
Several learners         Each learner takes its rows of every mini-batch, sometimes no row, and the
                         learners add the gradients up in buckets. Row weights come from the driver,
                         so the sum is that of one learner (DDP averages, and hangs without rows).
Sharded learners         With ``sharding: fsdp`` each learner holds a share of the model; see
                         `trca.policies.sharding`.
Logits                   Only at the tokens that enter the objective.
Reference                Scored once an iteration, before the epochs.
Not-finite steps         A loss or gradient norm that is not finite skips the update, and a metric
                         counts the skipped updates (RLlib's ``torch_skip_nan_gradients`` takes such
                         steps).
Empty mini-batches       A mini-batch without a counted token moves no weight and enters no metric.
Mismatch                 Before the first update a learner compares its log-probabilities with the
                         sampler's, and stops when the difference is too large. Replayed rows do not
                         enter the comparison.
=======================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import NUM_MODULE_STEPS_TRAINED, NUM_MODULE_STEPS_TRAINED_LIFETIME
from torch import Tensor

from trca.algorithms.learner.losses import LossInputs
from trca.algorithms.learner.policy_updater import PolicyUpdater
from trca.algorithms.learner.reduction import Reduction
from trca.algorithms.learner.rows import Rows, scored_rows
from trca.algorithms.learner.saving import SavingLearner
from trca.policies.canary import Sent
from trca.policies.lora import share_bases


class TextLearner(SavingLearner):
    """Updates language models on credited steps, one policy after the other."""

    updater_class: ClassVar[type[PolicyUpdater]] = PolicyUpdater

    def build(self) -> None:
        """Builds modules and optimizers; every learner starts from the first one's weights."""
        torch.set_num_threads(self.config.settings.torch_threads)
        super().build()
        if self.distributed and not self._sharded:
            for parameter in self._params.values():
                torch.distributed.broadcast(parameter.data, src=0)

    def configure_optimizers_for_module(
        self, module_id: str, config: AlgorithmConfig | None = None
    ) -> None:
        """Makes the updater of a policy and registers its optimizers."""

        def compute_loss(inputs: LossInputs, out: dict[str, Tensor]) -> Tensor:
            return self.compute_loss_for_module(
                module_id=module_id, config=self.config, batch=inputs, fwd_out=out
            )

        module: Any = self.module[module_id]
        reduction = Reduction(self.distributed, self._sharded, self._device)
        updater = self.updater_class(module_id, module, self.config, reduction, compute_loss)
        self.updaters[module_id] = updater
        for name, optimizer in updater.optimizers.items():
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self.register_optimizer(
                module_id=module_id, optimizer_name=name, optimizer=optimizer, params=parameters
            )

    def compute_loss_for_module(  # type: ignore[override]
        self,
        *,
        module_id: str,
        config: AlgorithmConfig,
        batch: LossInputs,
        fwd_out: dict[str, Tensor],
    ) -> Tensor:
        """The objective of a micro-batch.

        Args:
            module_id: The module.
            config: Its config.
            batch: The tensors that are known before the forward pass.
            fwd_out: ``logprobs`` and ``entropy`` of the tokens, (K,) each.
        """
        return self.updaters[module_id].loss(batch, fwd_out)

    def update(  # type: ignore[override]
        self,
        *,
        training_data: TrainingData,
        timesteps: dict[str, Any] | None = None,
        shuffle_key: Sequence[int] = (),
        iteration: int = 1,
        **kwargs: Any,
    ) -> Any:
        """Trains ``num_epochs`` over this learner's rows.

        Args:
            training_data: Its ``batch`` is this learner's `Rows`, or the `Rows` of each policy by
                its id, in the same order on all learners.
            timesteps: RLlib's counters.
            shuffle_key: Seed of the mini-batches; the same on all learners.
            iteration: Number of the iteration, from 1; sets the learning rate.
            kwargs: Ignored arguments of `LearnerGroup.update`.

        Returns:
            RLlib's reduced metrics.
        """
        self._check_is_built()
        self.before_gradient_based_update(timesteps=timesteps or {})
        self._weights_seq_no += 1
        batch: Any = training_data.batch
        if not isinstance(batch, dict):
            batch = {self._only_module(): batch}
        for module_id, rows in batch.items():
            metrics = self.updaters[module_id].update(rows, shuffle_key, iteration)
            self._log_update(module_id, metrics, len(rows) * self.config.settings.num_epochs)
        self.after_gradient_based_update(timesteps=timesteps or {})
        if self.config.settings.engine_config.get("sleep") and torch.cuda.is_available():
            torch.cuda.empty_cache()  # for the engine, which wakes up at the push
        return self.metrics.reduce()

    def score_canary(self, prompt_ids: Any, ids: Any, module_id: str | None = None) -> Sent:
        """Scores the response that an engine sampled after a push; all learners take part.

        Args:
            prompt_ids: int32 (P,), the fixed prompt.
            ids: int32 (R,), the response.
            module_id: The policy; None for the only policy.
        """
        updater = self._updater(module_id)
        logprobs = updater.passes.score(scored_rows([prompt_ids], [ids]))
        return Sent(self._weights_seq_no, updater.module.sent, updater.module.dtype, logprobs)

    def score_rows(
        self, rows: Rows, reference: bool = False, module_id: str | None = None
    ) -> NDArray[Any]:
        """Scores response tokens without a gradient; all learners take part.

        Args:
            rows: This learner's rows; their action tokens are scored.
            reference: Whether the frozen reference scores.
            module_id: The policy; None for the only policy.

        Returns:
            float32 (sum of R,), log-probabilities; 0 for tokens outside of the action.
        """
        return self._updater(module_id).passes.score(rows, reference)

    def _log_update(self, module_id: str, metrics: dict[str, float], steps: int) -> None:
        self.metrics.log_dict(metrics, key=module_id, reduce="mean", window=1)
        self.metrics.log_value((module_id, NUM_MODULE_STEPS_TRAINED), steps, reduce="sum")
        lifetime = (module_id, NUM_MODULE_STEPS_TRAINED_LIFETIME)
        self.metrics.log_value(lifetime, steps, reduce="lifetime_sum")

    def _make_modules_ddp_if_necessary(self) -> None:
        """Adds no wrapper: `PolicyUpdater` adds the gradients up."""

    def _map_module_to_device(self, module: Any) -> None:
        """Splits a sharded model before the move, so that no device holds all weights.

        Policies with adapters on one base share the base in memory afterwards.
        """
        if self._sharded:
            (policy,) = module.values()
            policy.shard(torch.device(self.device or "cpu").type)
        super()._map_module_to_device(module)
        share_bases([policy.model for policy in module.values()])

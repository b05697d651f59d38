"""TRCA, GiGPO and BEACON as advantage estimators of SkyRL.

SkyRL 0.3.0 passes no annotations to an estimator, and with ``step_wise_trajectories`` only the last
step of a rollout. The trainer of `with_credit` therefore computes the advantages::

    Trainer = with_credit(RayPPOTrainer, register("alfworld"))

``get_metrics`` of the environment returns ``{"trca": [...]}``, the annotations of all steps; see
docs/interop_credit.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca_interop.credit import COLUMN, Credit
from trca_interop.dumps import write_dump
from trca_interop.verl import bind_all

_REGISTRY: Final = "skyrl.backends.skyrl_train.utils.ppo_utils"
_CREDITING: ContextVar[bool] = ContextVar("crediting", default=False)


def register(library: str | None = None, **settings: Mapping[str, Any]) -> dict[str, Credit]:
    """Registers the names of the rules with SkyRL.

    Args:
        library: Name or path of the rubric library that made the judgments; `None` registers only
            the rules that read none.
        settings: Settings of each rule, by name: ``trca={"lambda_": 0.5}``.

    Returns:
        The registered rules by name, for `with_credit`.

    Raises:
        ImportError: Without SkyRL.
        ValueError: For an unknown rule, setting or library, or a name that is registered already.
    """
    rules = bind_all(library, settings)
    registry = import_module(_REGISTRY)
    for name in rules:
        registry.register_advantage_estimator(name)(estimator)
    return rules


def estimator(token_level_rewards: Any, response_mask: Any, **_: Any) -> tuple[Any, Any]:
    """Returns zeros, which the trainer of `with_credit` replaces by the advantages of a rule.

    Args:
        token_level_rewards: (B, R) tensor.
        response_mask: (B, R) tensor.
        _: SkyRL's further arguments.

    Raises:
        ValueError: In another trainer.
    """
    if not _CREDITING.get():
        raise ValueError(
            "SkyRL passes no annotations to its estimators: train with"
            " trca_interop.skyrl.with_credit(RayPPOTrainer, register(...))"
        )
    zeros = token_level_rewards.new_zeros(response_mask.shape)
    return zeros, zeros.clone()


def with_credit(trainer: type, rules: Mapping[str, Credit]) -> type:
    """A subclass of a trainer of SkyRL that computes advantages with credit rules.

    Rows of a rollout without annotations have no advantage: SkyRL asks an environment for metrics
    only at the end of an episode, and stops a rollout that reaches ``max_input_length`` before. The
    metric ``trca/unannotated_rollouts`` counts these rollouts.

    Args:
        trainer: ``RayPPOTrainer``, or a subclass.
        rules: The rules by name of the estimator.
    """

    class CreditingTrainer(trainer):  # type: ignore[misc]
        """The trainer with the rules as estimators."""

        _annotated = False  # whether a batch had annotations

        def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
            data = super().convert_to_training_input(generator_output, uids)
            if self.cfg.trainer.algorithm.advantage_estimator in rules:
                self._refuse()
                data.metadata[COLUMN] = _annotations(generator_output, self._annotated)
                self._annotated = True
            return data

        def compute_advantages_and_returns(self, data: Any) -> Any:
            credit = rules.get(self.cfg.trainer.algorithm.advantage_estimator)
            if credit is None:
                return super().compute_advantages_and_returns(data)
            mask = data["loss_mask"].cpu().numpy() > 0  # response_mask has observations, too
            annotations = list(data.metadata.pop(COLUMN))
            uids = list(data.metadata["uids"])
            rollouts = _rollouts(data.metadata.get("is_last_step"), len(mask))
            rows = zip(rollouts, annotations, strict=False)
            without = {rollout for rollout, annotation in rows if annotation is None}
            annotations += [None] * (len(mask) - len(annotations))  # SkyRL has filled the batch
            values = credit(uids, rollouts, annotations, mask)
            self._rows = uids, rollouts, annotations
            token = _CREDITING.set(True)
            try:
                data = super().compute_advantages_and_returns(data)
            finally:
                _CREDITING.reset(token)
            data["advantages"] = data["returns"].new_tensor(values)
            data["returns"] = data["advantages"].clone()
            annotated = np.array([annotation is not None for annotation in annotations])
            of_tokens = values[mask & annotated[:, None]]
            of_tokens = of_tokens if len(of_tokens) else np.zeros(1)
            means = {
                "avg_raw_advantages": float(of_tokens.mean()),
                "avg_raw_advantages_abs": float(np.abs(of_tokens).mean()),
            }
            self.all_metrics["trca/unannotated_rollouts"] = len(without)
            for name, value in means.items():
                data.metadata["metrics"][name.replace("raw_", "")] = value
                self.all_metrics[f"loss/{name}"] = value
            return data

        def dump_data(self, data: Any, file_name: str) -> None:
            """Dumps the batch, and writes a file for ``trca import-dump``."""
            super().dump_data(data, file_name)
            folder = Path(self.cfg.trainer.export_path) / "dumped_data"
            if hasattr(self, "_rows"):
                write_dump(folder / f"{file_name}.jsonl", *self._rows)

        def _refuse(self) -> None:
            """Refuses settings that reorder rows without their annotations."""
            sampling = self.cfg.trainer.algorithm.dynamic_sampling.type
            if sampling is not None:
                raise ValueError(
                    f"dynamic_sampling.type={sampling!r} moves rows without their annotations: set"
                    " it to null"
                )
            if self.cfg.generator.merge_stepwise_output:
                raise ValueError("merge_stepwise_output merges the rows of steps: set it to false")

    return CreditingTrainer


def _annotations(generator_output: Mapping[str, Any], annotated: bool) -> list[Any]:
    """The annotations of each row: of a step, or of all steps of a rollout, or `None`.

    Args:
        generator_output: SkyRL's output of the generator.
        annotated: Whether an earlier batch had annotations. Then a batch without annotations is
            valid: all of its rollouts may be too long.

    Raises:
        ValueError: If the first batch has no annotations, or a rollout another number than steps.
    """
    metrics = generator_output.get("env_metrics") or []
    lasts: Sequence[bool] | None = generator_output.get("is_last_step")
    ends = [row for row in range(len(metrics)) if lasts is None or lasts[row]]
    if not annotated and not any(COLUMN in metrics[row] for row in ends):
        raise ValueError(
            f"env_metrics of the rollouts have no {COLUMN!r}: return a list of annotations of"
            f" trca_interop.credit.annotate as {COLUMN!r} in get_metrics of the environment, and"
            " raise max_input_length if every rollout reached the limit"
        )
    if lasts is None:
        return [each.get(COLUMN) for each in metrics]
    annotations, start = list[Any](), 0
    for end in ends:
        steps = metrics[end].get(COLUMN, [None] * (end + 1 - start))
        if len(steps) != end + 1 - start:
            raise ValueError(
                f"the rollout in rows {start} to {end} has {len(steps)} annotations: annotate every"
                " step"
            )
        annotations += steps
        start = end + 1
    return annotations


def _rollouts(lasts: Sequence[bool] | None, rows: int) -> list[int]:
    """Number of the rollout of each row."""
    if lasts is None:
        return list(range(rows))
    ends = np.array(lasts, dtype=np.int64)
    return (np.cumsum(ends) - ends).tolist()  # type: ignore[no-any-return]

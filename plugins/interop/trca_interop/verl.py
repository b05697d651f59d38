"""TRCA, GiGPO and BEACON as advantage estimators of verl and verl-agent.

The columns ``uid``, ``traj_uid`` and ``trca`` of ``non_tensor_batch`` are the group, the rollout
and the annotation of a row; see docs/interop_credit.md. verl 0.9.1 passes its columns to no
estimator but ``gdpo``, so `register` also replaces ``compute_advantage`` of the trainer. Its v1
trainer has the columns in another place: see `trca_interop.verl_v1`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trca_interop.credit import COLUMN, RULES, Credit
from trca_interop.dumps import next_file, write_dump
from trca_interop.verl_v1 import TRAINER, find_columns, found_columns

if TYPE_CHECKING:
    from types import ModuleType

_REGISTRY = "verl.trainer.ppo.core_algos"
_TRAINER = "verl.trainer.ppo.ray_trainer"


def register(
    library: str | None = None, *, dump: Path | str | None = None, **settings: Mapping[str, Any]
) -> dict[str, Credit]:
    """Registers the rules with verl, in this process; call it in the process of the trainer.

    Args:
        library: Name or path of the rubric library that made the judgments; `None` registers only
            the rules that read none.
        dump: Folder that receives the rows of each training step, for ``trca import-dump``.
        settings: Settings of each rule, by name: ``trca={"lambda_": 0.5}``.

    Returns:
        The registered rules by name.

    Raises:
        ImportError: Without verl.
        ValueError: For an unknown rule, setting or library, or a name that is registered already.
    """
    rules = bind_all(library, settings)
    registry = import_module(_REGISTRY)
    for name, credit in rules.items():
        registry.register_adv_est(name)(estimator(credit))
    if find_spec("transfer_queue"):  # verl's v1 trainer needs it
        find_columns(import_module(TRAINER).PPOTrainer, rules)
    replace_compute_advantage(import_module(_TRAINER), rules, dump)
    return rules


def bind_all(library: str | None, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Credit]:
    """Binds the rules that a trainer can use with a library.

    Args:
        library: The rubric library; `None` leaves out rules that read judgments.
        settings: Settings of each rule, by name.

    Raises:
        ValueError: For settings of an unknown rule, or of a rule that is left out.
    """
    rules = {}
    for name in dict.fromkeys((*RULES, *settings)):
        if name in settings or name == "gigpo" or library:
            rules[name] = Credit.bind(name, library, **settings.get(name, {}))
    return rules


def estimator(credit: Credit) -> Callable[..., tuple[Any, Any]]:
    """The advantage estimator of a rule, with verl's signature.

    Args:
        credit: The rule.

    Returns:
        A function of ``token_level_rewards`` and ``response_mask``, (B, R) tensors, and
        ``non_tensor_batch``. It returns advantages and returns, two equal (B, R) tensors.
    """

    def advantages(
        token_level_rewards: Any,
        response_mask: Any,
        non_tensor_batch: Mapping[str, Sequence[Any]] | None = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        columns = non_tensor_batch or {}
        if missing := [name for name in ("uid", COLUMN) if name not in columns]:
            raise ValueError(
                f"the batch has no non_tensor_batch column {' and '.join(map(repr, missing))}:"
                " write annotations of trca_interop.credit.annotate, and call"
                " trca_interop.verl.register in the process of the trainer"
            )
        mask = response_mask.detach().cpu().numpy() > 0
        values = credit(columns["uid"], _rollouts(columns), columns[COLUMN], mask)
        tensor = token_level_rewards.new_tensor(values)
        return tensor, tensor.clone()

    return advantages


def _rollouts(columns: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    """Ids of the rollouts; without the column every row is a rollout."""
    return columns.get("traj_uid", range(len(columns["uid"])))


def replace_compute_advantage(
    trainer: ModuleType, rules: Mapping[str, Credit], dump: Path | str | None = None
) -> None:
    """Replaces ``compute_advantage`` of a trainer's module for some estimators.

    Modules of verl that have imported the function by name get the new function, too. verl-agent
    has no registry and refuses unknown names, so one of its names represents a rule:
    ``replace_compute_advantage(ray_trainer, {"gigpo": Credit.bind("trca", "alfworld")})``.

    Args:
        trainer: The module, ``verl.trainer.ppo.ray_trainer``.
        rules: The rules by name of the estimator.
        dump: Folder that receives the rows of each training step as ``trca_1.jsonl`` and so on,
            for ``trca import-dump``. The numbers go on in a folder that has such files.
    """
    folder = None if dump is None else Path(dump)
    original = trainer.compute_advantage
    estimators = {name: estimator(credit) for name, credit in rules.items()}

    @wraps(original)
    def compute_advantage(data: Any, adv_estimator: Any, *rest: Any, **settings: Any) -> Any:
        name = getattr(adv_estimator, "value", adv_estimator)
        if name not in estimators:
            return original(data, adv_estimator, *rest, **settings)
        if "response_mask" not in data.batch.keys():  # noqa: SIM118, a TensorDict
            data.batch["response_mask"] = trainer.compute_response_mask(data)
        columns = {**data.non_tensor_batch, **found_columns()}
        data.batch["advantages"], data.batch["returns"] = estimators[name](
            token_level_rewards=data.batch["token_level_rewards"],
            response_mask=data.batch["response_mask"],
            non_tensor_batch=columns,
        )
        if folder:
            write_dump(next_file(folder), columns["uid"], _rollouts(columns), columns[COLUMN])
        return data

    trainer.compute_advantage = compute_advantage  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith("verl.") and getattr(module, "compute_advantage", None) is original:
            module.compute_advantage = compute_advantage  # type: ignore[attr-defined]

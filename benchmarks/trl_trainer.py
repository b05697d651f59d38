"""TRL's GRPOTrainer on given rows, for `benchmarks/learner.py`.

TRL's loop, loss, optimizer and scoring of the reference run unchanged on given rollouts. The
objective differs from the paper's: the ratio is the mean over a completion, and there is no entropy
term. The work and the number of passes are equal.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from learner import Case


def missing_trl() -> str:
    """Returns why the comparison is left out; empty if TRL is installed."""
    return "" if find_spec("trl") else "GRPOTrainer was not measured: TRL is not installed."


def iterations(
    case: Case, folder: str, settings: dict[str, Any], rounds: int, between: Callable[[], None]
) -> list[float]:
    """Returns the CPU seconds of each iteration of the trainer.

    Args:
        case: The case. The second half of each response is the completion.
        folder: Folder of the model.
        settings: ``lr``, ``minibatch_size``, ``micro_batch_tokens`` and ``kl_coeff``.
        rounds: Number of iterations.
        between: Called before each iteration, outside of the measured time.
    """
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    minibatch = min(case.rows, settings["minibatch_size"])
    fit = minibatch
    while fit * (case.prompt + case.response) > settings["micro_batch_tokens"]:
        fit //= 2
    prompt, completion = case.prompt + case.response // 2, case.response - case.response // 2
    rows = case.make_rows()
    tokens = torch.from_numpy(rows.tokens.reshape(case.rows, -1)).long()
    seconds: list[float] = []

    class Trainer(GRPOTrainer):  # type: ignore[misc]
        """Returns the given rows, scored by the reference, in place of rollouts."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, torch.Tensor]:
            if started:
                seconds.append(time.process_time() - started.pop())
            between()
            started.append(time.process_time())
            with torch.no_grad():
                reference, *_ = self._get_per_token_logps_and_entropies(
                    self.ref_model, tokens, torch.ones_like(tokens), completion, batch_size=fit
                )
            return {
                "prompt_ids": tokens[:, :prompt],
                "prompt_mask": torch.ones_like(tokens[:, :prompt]),
                "completion_ids": tokens[:, prompt:],
                "completion_mask": torch.ones_like(tokens[:, prompt:]),
                "advantages": torch.from_numpy(rows.advantages),
                "old_per_token_logps": torch.from_numpy(rows.old_logprobs).reshape(case.rows, -1)[
                    :, -completion:
                ],
                "ref_per_token_logps": reference,
                "num_items_in_batch": torch.tensor(case.rows * completion),
            }

    started: list[float] = []
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=scratch,
            per_device_train_batch_size=fit,
            gradient_accumulation_steps=minibatch // fit,
            steps_per_generation=case.rows // fit,
            num_generations=8,
            max_steps=(rounds + 1) * (case.rows // minibatch),
            learning_rate=settings["lr"],
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            beta=settings["kl_coeff"],
            loss_type="grpo",
            importance_sampling_level="sequence",
            epsilon=0.2,
            epsilon_high=0.28,
            temperature=1.0,
            max_completion_length=completion,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        Trainer(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(folder),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config,
            train_dataset=Dataset.from_list([{"prompt": "a"}] * case.rows),
        ).train()
    return seconds

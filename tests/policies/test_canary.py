"""The canary detects a push of weights that did not arrive, and names the cause."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from trca.algorithms.learner.passes import token_batch
from trca.algorithms.learner.rows import scored_rows
from trca.policies.canary import PushError, Sent, ask, check, digest
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.logits import token_logprobs
from trca.policies.weights import export_weights


class Pair:
    """An engine, and a trainer with changing weights."""

    def __init__(self, model, tokenizer):
        self.tokenizer = tokenizer
        self.engine = TransformersEngine(model(), tokenizer)
        self.trainer, self.version, self.before = model(), 0, None

    def move(self):
        torch.manual_seed(self.version)
        with torch.no_grad():
            for parameter in self.trainer.parameters():
                parameter.add_(1e-3 * torch.randn_like(parameter))
        self.version += 1
        return export_weights(self.trainer)

    def check(self, sent, arrived):
        canary = ask(self.engine, self.tokenizer, 1.0, digest(arrived))
        rows = scored_rows([canary.prompt_ids], [canary.ids])
        batch = token_batch(rows, rows.action_mask, "cpu")
        with torch.no_grad():
            hidden = self.trainer.base_model(batch.input_ids).last_hidden_state
            expected, _ = token_logprobs(
                self.trainer,
                hidden[batch.row, batch.position],
                batch.targets,
                vocabulary=len(self.tokenizer),
            )
        push = Sent(self.version, digest(sent), "float32", expected.numpy())
        difference = check(canary, push, self.before)
        self.before = canary
        return difference


@pytest.fixture
def pair(tiny, tokenizer):
    from copy import deepcopy

    return Pair(lambda: deepcopy(tiny), tokenizer)


def test_weights_that_arrive_pass_each_time(pair):
    for _ in range(3):
        weights = pair.move()
        pair.engine.load_weights(weights, pair.version)
        assert pair.check(weights, weights) < 1e-5


def test_a_lost_push_is_named(pair):
    pair.move()
    with pytest.raises(PushError, match="version 0, but version 1 was sent: the push was lost"):
        pair.check({}, {})


def test_weights_of_another_push_are_named(pair):
    old, new = pair.move(), pair.move()
    pair.engine.load_weights(old, pair.version)
    with pytest.raises(PushError, match="received weights differ from the sent weights"):
        pair.check(new, old)


def test_an_engine_that_keeps_a_copy_is_named_at_the_second_push(pair):
    weights = pair.move()
    pair.engine.load_weights(weights, pair.version)
    pair.check(weights, weights)
    weights = pair.move()
    pair.engine.version = pair.version  # the engine reports the new version
    with pytest.raises(PushError, match="the engine samples as before"):
        pair.check(weights, weights)


def test_a_part_that_stays_old_is_named(pair):
    weights = pair.move()
    last = next(name for name in weights if "norm" in name and "layers.1" in name)
    old = export_weights(pair.engine.model)[last]
    for _ in range(60):
        weights = pair.move()
    pair.engine.load_weights({**weights, last: old}, pair.version)
    with pytest.raises(PushError, match="engine and trainer disagree: the log-probabilities"):
        pair.check(weights, weights)


def test_a_digest_knows_names_shapes_precisions_and_places():
    weights = {"a": np.arange(4.0), "b": np.zeros(2)}
    others = [
        {"a": np.arange(4.0), "c": np.zeros(2)},
        {"a": np.arange(4.0).reshape(2, 2), "b": np.zeros(2)},
        {"a": np.arange(4.0)[::-1], "b": np.zeros(2)},
        {"a": np.arange(4.0), "b": np.zeros(2, dtype=np.int64)},
    ]
    assert len({digest(w) for w in [weights, *others]}) == 5
    assert digest(dict(reversed(weights.items()))) == digest(weights)


def test_rounding_of_one_token_in_bfloat16_is_no_disagreement(pair):
    weights = pair.move()
    pair.engine.load_weights(weights, pair.version)
    canary = ask(pair.engine, pair.tokenizer, 1.0, digest(weights))
    far = np.full(len(canary.ids), 0.5, np.float32)
    rounded = np.where(np.arange(len(far)) == 3, far, 0)
    sent = Sent(1, digest(weights), "bfloat16", canary.logprobs + rounded)
    assert check(canary, sent, None) == pytest.approx(0.5 / len(far))
    with pytest.raises(PushError, match=r"differ by 5.0e-01 on average, at most 3e-01"):
        check(canary, replace(sent, logprobs=canary.logprobs + far), None)


def test_an_answer_that_is_not_a_number_is_no_agreement(pair):
    weights = pair.move()
    pair.engine.load_weights(weights, pair.version)
    canary = ask(pair.engine, pair.tokenizer, 1.0, digest(weights))
    bad = Sent(1, digest(weights), "float32", np.full(len(canary.ids), np.nan, np.float32))
    with pytest.raises(PushError, match="disagree"):
        check(canary, bad, None)
    assert (
        check(
            replace(canary, ids=canary.ids[:0], logprobs=canary.logprobs[:0]),
            replace(bad, logprobs=bad.logprobs[:0]),
            None,
        )
        == 0.0
    )

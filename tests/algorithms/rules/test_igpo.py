"""IGPO by hand and against the slow version; the read of a real policy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.algorithms.credit.slow_rules import slow_igpo
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from tests.records.test_records import make_rollout, make_step
from trca.algorithms import IGPOConfig
from trca.algorithms.credit import READS, Sources, bind_credit
from trca.algorithms.credit.logprobs import ANSWER_LOGPROBS
from trca.policies.models import load_model, load_tokenizer
from trca.records import StepBatch

igpo = rule("igpo")


def advantages(lengths, groups, probabilities, f1, **changed):
    batch = step_batch(lengths, groups, np.zeros(sum(lengths)), np.arange(sum(lengths)))
    return igpo(
        batch,
        answer_logprobs=np.log(probabilities),
        final_word_set_f1=np.repeat(f1, lengths),
        **{"normalization": "separate", "epsilon": 0.0, **changed},
    )


def test_a_step_is_worth_what_it_adds_and_the_last_one_its_answer_by_hand():
    """Gains .3 and .1: mean .2, deviation .1, so 1 and -1. F1 1 and 0: 1 and -1."""
    probabilities = [0.1, 0.4, 0.2, 0.3]
    found = advantages([2, 2], [0, 0], probabilities, [1.0, 0.0])
    np.testing.assert_allclose(found, [2, 1, -2, -1])
    discounted = advantages([2, 2], [0, 0], probabilities, [1.0, 0.0], gamma=0.5)
    np.testing.assert_allclose(discounted, [1.5, 1, -1.5, -1])


def test_gains_and_answers_are_compared_together_by_hand():
    """.3, 1, .1, 0 have mean .35 and deviation sqrt .1525."""
    found = advantages([2, 2], [0, 0], [0.1, 0.4, 0.2, 0.3], [1.0, 0.0], normalization="joint")
    each = (np.array([0.3, 1, 0.1, 0]) - 0.35) / np.sqrt(0.1525)
    np.testing.assert_allclose(found, [each[0] + each[1], each[1], each[2] + each[3], each[3]])


@given(batches(), st.floats(0, 1), st.data())
@pytest.mark.parametrize("gain", ["probability", "log_probability"])
@pytest.mark.parametrize("normalization", ["separate", "joint"])
def test_it_equals_the_slow_version(gain, normalization, batch, gamma, data):
    logprobs = data.draw(arrays(np.float64, len(batch), elements=st.sampled_from([-3, -1, -0.2])))
    f1 = data.draw(arrays(np.float64, len(batch), elements=st.sampled_from([0, 0.4, 1])))
    f1 = f1[np.searchsorted(batch.rollout, batch.rollout)]
    read = {"answer_logprobs": logprobs, "final_word_set_f1": f1}
    fast = igpo(batch, **read, gamma=gamma, gain=gain, normalization=normalization)
    slow = slow_igpo(batch, logprobs, f1, gamma, gain, normalization)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_choices_are_checked_and_gold_is_asked_for():
    for choice in ({"gain": "loss"}, {"normalization": "none"}):
        with pytest.raises(ValueError, match="Input should be"):
            advantages([1], [0], [0.5], [1], **choice)
    assert bind_credit("igpo", {}).gold == ("answer_logprobs",)
    with pytest.raises(ValueError, match="gold_in_training"):
        bind_credit("igpo", IGPOConfig().settings)


def test_the_last_reward_is_the_f1_of_sets_of_words_and_not_hotpotqas():
    """Both rollouts have the F1 .5; their F1 of sets of words is 1 and 0, so 1 and -1."""
    rollouts = [
        make_rollout([make_step()], index=index, measures={"f1": 0.5, "word_set_f1": words})
        for index, words in enumerate([1.0, 0.0])
    ]
    batch = StepBatch.from_rollouts(rollouts, np.zeros(3, dtype=np.int8))
    sources = Sources(IGPOConfig(), None, None, rollouts)
    settings = {"gold_in_training": True, "credit_config": {"epsilon": 0.0}}
    rule = bind_credit("igpo", IGPOConfig().training(**settings).settings)
    read = {name: READS.get(name)(sources, batch) for name in rule.reads if "f1" in name}
    advantages = rule(batch, answer_logprobs=np.zeros(2), **read)
    np.testing.assert_allclose(advantages, [1.0, -1.0])


@pytest.mark.usefixtures("cluster")
def test_the_policy_is_asked_for_the_right_answer_after_every_prompt(build, make_config, model):
    settings = {"tasks_per_iteration": 2, "group_size": 2, "gold_in_training": True, "lr": 1e-15}
    algorithm = build(make_config(IGPOConfig, **settings))
    assert algorithm.train()["gold_in_training"] == 1
    network, tokenizer = load_model(str(model)), load_tokenizer(str(model))
    found = iter(ANSWER_LOGPROBS(algorithm._sources(algorithm.rollouts), None))
    for rollout in algorithm.rollouts:
        answer = f"the key of {rollout.task_id}"
        before = "<think>Now there is enough information to answer.</think><action>"
        text = f"{before}say {answer}</action>"
        encoded = tokenizer(text, return_offsets_mapping=True)
        ids, offsets = encoded["input_ids"], np.array(encoded["offset_mapping"])
        start = len(before) + len("say ")
        part = (offsets[:, 1] > start) & (offsets[:, 0] < start + len(answer))
        for step in rollout.steps:
            whole = torch.tensor([[*step.prompt_ids, *ids]])
            with torch.no_grad():
                logits = network(whole).logits[0, len(step.prompt_ids) - 1 : -1]
            scored = logits.log_softmax(-1)[range(len(ids)), ids].numpy()
            np.testing.assert_allclose(next(found), scored[part].mean(), atol=1e-4)

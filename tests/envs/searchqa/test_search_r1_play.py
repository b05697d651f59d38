"""Models with the tags of Search-R1 play SearchQA, and their action tokens are located."""

import numpy as np

from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.play import RolloutLoop
from trca.envs import make
from trca.envs.searchqa.search_r1 import SEARCH_R1_FORMAT
from trca.policies.bpe import train_tokenizer
from trca.policies.engines.engine import BatchEngine, Completion, SamplingParams
from trca.policies.prompts import Prompter
from trca.policies.spans import read_response


class Scripted(BatchEngine):
    """An engine that replies with scripted texts, one per turn."""

    def __init__(self, tokenizer, responses):
        super().__init__()
        self.tokenizer, self.responses, self.prompts = tokenizer, list(responses), []

    def generate(self, requests, sampling):
        self.prompts += [self.tokenizer.decode(request.prompt_ids) for request in requests]
        ids = np.array(self.tokenizer(self.responses.pop(0))["input_ids"], dtype=np.int32)
        return [Completion(ids, np.zeros(len(ids), np.float32), "stop") for _ in requests]

    def load_weights(self, weights, version):
        pass

    def close(self):
        pass


def test_an_episode_is_played_through_the_dialect():
    tokenizer = train_tokenizer(["Question: who <search> Ada </search>"] * 3, [], 50, 10)
    engine = Scripted(
        tokenizer,
        ["<think>é</think><search>Ada Balan</search> ok", "nothing", "<answer>Oslo</answer>"],
    )
    env = make("searchqa")
    loop = RolloutLoop(
        lambda split: env,
        engine,
        Prompter(tokenizer, SEARCH_R1_FORMAT.prompt),
        tokenizer,
        SEARCH_R1_FORMAT,
    )
    task = env.unwrapped.task_ids[0]
    batch = loop.run([GroupRequest(0, task, "train", 1, (0,))], SamplingParams(1.0, 64))
    assert not batch.failures
    steps = batch.rollouts[0].steps
    assert [step.action for step in steps] == ["search[Ada Balan]", "", "answer[Oslo]"]
    assert [step.parsed for step in steps] == [True, False, True]
    marked = tokenizer.decode(steps[0].response_ids[steps[0].action_mask])
    assert marked == "<search>Ada Balan</search>"
    assert not steps[1].action_mask.any()
    assert "<information>[1] Ada Balan" in engine.prompts[1]


def test_the_mask_covers_the_tags_of_either_format():
    tokenizer = train_tokenizer(["a b <search> </search>"] * 3, [], 20, 5)
    ids = np.array(tokenizer("a <search>b</search> a")["input_ids"])
    marked = ids[read_response(ids, tokenizer, SEARCH_R1_FORMAT).action_mask]
    assert tokenizer.decode(marked).strip() == "<search>b</search>"
    assert not read_response(ids, tokenizer).action_mask.any()

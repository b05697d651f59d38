import numpy as np

from trca.algorithms.learner.rows import Rows
from trca.algorithms.learner.tensors import token_batch

PROMPTS, RESPONSES = [[1, 2, 3], [4]], [[5, 6], [7, 8, 9]]


def test_each_counted_token_is_predicted_from_the_place_before_it():
    size = sum(map(len, RESPONSES))
    rows = Rows(
        number=np.arange(2),
        total=2,
        tokens=np.concatenate([PROMPTS[0], RESPONSES[0], PROMPTS[1], RESPONSES[1]]),
        prompt_lengths=np.array([3, 1]),
        response_lengths=np.array([2, 3]),
        action=np.ones(size, dtype=bool),
        old_logprobs=np.zeros(size, dtype=np.float32),
        reference=np.zeros(size, dtype=np.float32),
        advantages=np.zeros(2, dtype=np.float32),
        weights=np.full(2, 0.5),
    )
    counted = np.array([True, False, True, False, True])
    batch = token_batch(rows, counted, "cpu")
    assert batch.input_ids.tolist() == [[1, 2, 3, 5, 6, 0, 0, 0], [4, 7, 8, 9, 0, 0, 0, 0]]
    assert batch.row.tolist() == [0, 1, 1]
    assert batch.position.tolist() == [2, 0, 2]
    assert batch.targets.tolist() == [5, 7, 9]

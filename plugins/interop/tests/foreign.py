"""Rollouts of the toy environment, recorded by this package and as a batch of another trainer."""

import numpy as np

from tests.toy import ACTIONS, Rooms
from trca.algorithms.rollouts.recording import Recorder, Turn
from trca.envs import make
from trca.envs.text_env import UNPARSED
from trca.policies.engines.engine import Completion
from trca.policies.spans import Response
from trca.records import Rollout
from trca_interop.credit import annotate

LIBRARY = str(Rooms.library)


def play(groups=4, size=4, seed=0):
    """Plays random actions, a quarter of them unreadable.

    Returns:
        The rollouts as our trainer records them, and for each step its row: group id, rollout id
        and annotation.
    """
    rng = np.random.default_rng(seed)
    env = make(Rooms, max_steps=6, milestones=True, wind=0.2)
    rollouts, rows = [], []
    for group in range(groups):
        for index in range(size):
            new = Rollout(f"train-{group}", "train", "", group, index, 0)
            observation, info = env.reset(
                seed=int(rng.integers(99)), options={"task": f"train-{group}"}
            )
            recorder = Recorder(observation, info, [new])
            for number in range(6):
                action = rng.choice([*ACTIONS[:2], *ACTIONS[:2], ACTIONS[3], UNPARSED])
                transition = env.step(str(action))
                response = Response("", str(action), np.ones(3, bool), None, np.zeros(3, np.int8))
                completion = Completion(
                    np.arange(3, dtype=np.int32), np.zeros(3, np.float32), "stop"
                )
                prompt = np.arange(2, dtype=np.int32)
                recorder.add(Turn(number, observation, prompt, completion, response), transition)
                annotation = annotate(number, observation, str(action), transition)
                rows.append((f"task {group}", f"rollout {group}.{index}", annotation))
                observation = transition[0]
                if transition[2] or transition[3]:
                    break
            rollouts.append(new)
    return rollouts, rows


def masks(rows, rng, width=7):
    """(B, width), true on the first tokens of each row: 1 to ``width`` of them."""
    return np.arange(width) < rng.integers(1, width + 1, (rows, 1))


def trajectories(rows, rng, width=60):
    """One row per rollout: ids, lists of annotations, runs of tokens, and the step of each token.

    Returns:
        Groups, rollouts, annotations, the mask (n, width), and the step's number, -1 outside.
    """
    by_rollout = {}
    for number, (group, rollout, annotation) in enumerate(rows):
        by_rollout.setdefault((group, rollout), []).append((number, annotation))
    step = np.full((len(by_rollout), width), -1)
    for row, steps in enumerate(by_rollout.values()):
        column = 0
        for number, _ in steps:
            length = int(rng.integers(1, 6))
            step[row, column : column + length] = number
            column += length + int(rng.integers(1, 4))
    groups, rollouts = zip(*by_rollout, strict=True)
    annotations = [[annotation for _, annotation in steps] for steps in by_rollout.values()]
    return groups, rollouts, annotations, step >= 0, step

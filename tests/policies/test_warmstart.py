import gymnasium
import pytest

from trca.envs import make
from trca.envs.text_space import AnyText
from trca.policies.warmstart import demonstrate


class Gate(gymnasium.Env[str, str]):
    """Opens when it is told to; it lists no actions."""

    max_steps = 4
    observation_space = AnyText()
    action_space = AnyText()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "You stand before a gate.", {}

    def step(self, action):
        opened = action == "open gate"
        return "It opens." if opened else "Nothing happens.", float(opened), opened, False, {}

    def demonstrator_action(self):
        return "open gate"


@pytest.mark.parametrize("randomness", [0.0, 1.0])
def test_without_admissible_actions_nothing_is_random(randomness):
    examples = demonstrate([make(Gate)], randomness, 3, 0, 0, lambda *report: None)
    assert {example.action for example in examples} == {"open gate"}
    assert "You stand before a gate." in examples[0].prompt

"""One episode played directly, for comparison with an episode through an adapter."""

from trca.envs import make

ALFWORLD = {"games": "small", "split": "train"}


def played(task, policy="demonstrator", env="alfworld", **kwargs):
    """The transitions of an episode: action, observation, reward and judgments."""
    made = make(env, **(kwargs or ALFWORLD))
    observation, info = made.reset(options={"task": task})
    transitions, over = [("", observation, 0.0, None)], False
    while not over:
        action = getattr(made.unwrapped, f"{policy}_action")()
        observation, reward, terminated, truncated, info = made.step(action)
        transitions.append((action, observation, reward, info.get("rubric")))
        over = terminated or truncated
    return transitions

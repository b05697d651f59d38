"""Plays episodes of environments; `choose` gets the environment and returns an action."""

from trca.envs.annotate import RubricAnnotation


def steps(env, task, choose):
    """The results of the steps of an episode."""
    env.reset(options={"task": task})
    results, over = [], False
    while not over:
        results.append(env.step(choose(env.unwrapped)))
        over = results[-1][2] or results[-1][3]
    return results


def judged(env, choose, tasks):
    """The operators that fire in each step of an episode per task, and the number of wins."""
    annotated = RubricAnnotation(env, library=env.library)
    episodes = [steps(annotated, task, choose) for task in env.task_ids[:tasks]]
    assert not annotated.judge.errors
    fired = [[set(info["rubric"]["fired"]) for *_, info in episode] for episode in episodes]
    return fired, sum(episode[-1][4]["won"] for episode in episodes)

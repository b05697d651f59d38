"""The operators that text alone can fake: they fire though the state does not change.

An adapter reads text. Here a text of the environment claims the result of an action that the
environment does not carry out, or a response contains the words of a result or an action.
"""

import copy
import re
from itertools import islice
from pathlib import Path

import pytest

from trca.envs import make
from trca.envs.annotate import load_judge

PAGE = Path(__file__).parents[2] / "docs" / "rubrics.md"


def attacked(name):
    """The operators that add reward and fire on a text of the environment, and of a response."""
    env = make(name).unwrapped
    judge = load_judge(name, env.adapter_class)
    earning = [o.id for o in judge.library.operators if o.category != "invalidity"]

    def fired(adapter, action, text, admissible):
        adapter = copy.deepcopy(adapter)
        judgments = judge.judge(adapter.binding, adapter.step(action, text, admissible))
        return {i for i, j in zip(judge.library.ids, judgments, strict=True) if j and i in earning}

    by_env, by_response, tasks = set(), set(), {}
    for task in islice(env.task_ids, 120):
        env.reset(options={"task": task})
        tasks.setdefault(env.task_type, task)
    for task in tasks.values():
        observation, info = env.reset(options={"task": task})
        instruction, over, states, texts, actions = info["task"], False, [], [observation], []
        while not over:
            states.append(copy.deepcopy((env, env.adapter, info["admissible_actions"])))
            actions.append(env.oracle_action())
            observation, _, terminated, truncated, info = env.step(actions[-1])
            texts.append(observation)
            over = terminated or truncated
        texts.append("\n".join(texts))
        responses = [instruction, "\n".join(actions), *texts, *actions]
        responses += [each for a in actions for each in (f"I did {a}", f"{a} now", a.upper())]
        for env_before, adapter, admissible in states:
            for action in dict.fromkeys(actions):
                for text in texts:
                    by_env |= fired(adapter, action, text, admissible)
            for response in responses:
                env_after = copy.deepcopy(env_before)
                observation, *_, info = env_after.step(response)
                if not info["accepted"]:
                    seen = observation, info["admissible_actions"]
                    by_response |= fired(adapter, response, *seen)
    return [i for i in earning if i in by_env], [i for i in earning if i in by_response]


@pytest.mark.parametrize("name", ["alfworld", "searchqa", "webshop"])
def test_the_page_lists_the_operators_that_text_alone_can_fake(name):
    by_env, by_response = attacked(name)
    row = re.search(rf"^\| `{name}` \| (.*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", row[1]) == by_env
    assert re.findall(r"`(\w+)`", row[2]) == by_response

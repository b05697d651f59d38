"""An agent with a plain `openai` client, as the policy of an environment.

pip install '.[train,serve,endpoint]'
trca train --set agent_program=examples/gateway/agent.py:agent
"""

from openai import OpenAI

from trca.policies.prompts import compact_prompt


def agent(env, base_url):
    """Plays one episode.

    Args:
        env: The environment of the episode, with `reset` and `step` of Gymnasium.
        base_url: Address of the policy for this episode.
    """
    with OpenAI(base_url=base_url, api_key="none") as client:
        observation, info = env.reset()
        done = False
        while not done:
            reply = client.chat.completions.create(
                model="policy",
                messages=[{"role": "user", "content": prompt(env, observation, info)}],
                stop=["</action>"],
            )
            action = read(reply.choices[0])
            observation, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated


def prompt(env, observation, info):
    """The prompt that the tiny policy knows; an instruct model takes any text."""
    actions = [action for action in info["admissible_actions"] if action not in env.idle_actions]
    memory = info.get("memory") or ""
    return compact_prompt(info["task"], 0, env.max_steps, [], memory, observation, actions)


def read(choice):
    """The action in a response; an empty action is counted as unreadable."""
    text = choice.message.content
    return text.rpartition("<action>")[2].strip() if choice.finish_reason == "stop" else ""

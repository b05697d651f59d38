"""Gold answers and gold passages reach no agent and no judge before the end.

Two environments differ only in hidden data: answers, aliases and gold passages. For any actions,
all outputs are equal until the end, and no output has a hidden word.
"""

import json

import numpy as np
import pytest

from trca.envs.annotate import RubricAnnotation
from trca.envs.searchqa.data.generate import generated
from trca.envs.searchqa.env import SearchQAEnv
from trca.policies.engines.endpoint import byte_tokenizer
from trca.policies.prompts import Prompter

MARK = "zyzzyva"
TOLD_AT_THE_END = {"won", "score", "measures"}


def question_file(path, secret):
    """The questions of a generated world, with different answers and gold passages if secret."""
    rows = [question.row() for question in generated(200).questions if question.split == "test"]
    for number, row in enumerate(rows):
        if secret:
            row["golden_answers"] = [f"{MARK}{number}", f"{MARK} alias {number}"]
            row["gold_ids"] = [f"{MARK}-{number}"]
            row["gold_titles"] = [f"{MARK} title {number}"]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def envs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrecy")
    corpus = folder / "corpus.jsonl"
    rows = [{"id": p.id, "contents": p.contents} for p in generated(200).passages]
    corpus.write_text("\n".join(map(json.dumps, rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRCA_CACHE", str(folder / "cache"))
        return [
            SearchQAEnv(
                questions=question_file(folder / f"{name}.jsonl", secret),
                corpus=corpus,
                split="test",
                max_steps=6,
                max_passage_chars=100,
            )
            for name, secret in (("open", False), ("secret", True))
        ]


def actions(env, task, seed):
    """Actions of random players and of the demonstrator."""
    rng = np.random.default_rng(seed)
    env.reset(options={"task": task})
    played, over = [], False
    while not over:
        sensible = seed % 2 == 0 and rng.random() < 0.8
        action = env.demonstrator_action() if sensible else env.random_action(rng)
        if action.startswith("answer[") and len(played) < 3:
            action = "search[Ada]"
        played.append(action)
        *_, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    return played


def outputs(env, number, played):
    """All outputs of an episode, step by step, and the state of its adapter."""
    annotated = RubricAnnotation(env, library="searchqa")
    prompters = [
        Prompter(byte_tokenizer(), template, 4, 10**6, memory=memory)
        for template in ("paper", "compact")
        for memory in (False, True)
    ]
    observation, info = annotated.reset(options={"task": env.task_ids[number]})
    history, steps = [], []
    for turn, action in enumerate([*played, None]):
        prompts = [
            bytes(
                prompter.encode(
                    instruction=info["task"],
                    step=turn,
                    max_steps=env.max_steps,
                    history=history,
                    observation=observation,
                    admissible=info["admissible_actions"],
                    memory=info["memory"],
                ).tolist()
            ).decode()
            for prompter in prompters
        ]
        visible = {k: v for k, v in info.items() if k != "task_id"}
        if "rubric" in visible:
            rubric = visible["rubric"]
            visible["rubric"] = {**rubric, "judgments": rubric["judgments"].tolist()}
        adapter = env.adapter
        state = [adapter.binding, adapter.facts, adapter.context, adapter.memory]
        steps.append([observation, visible, prompts, repr(state), _dump(adapter)])
        if action is not None:
            history.append((observation, action))
            observation, reward, _, _, info = annotated.step(action)
            info["reward"] = reward
    return steps


def _dump(thing, depth=0):
    """The complete state of an object as text."""
    if depth < 6 and hasattr(thing, "__dict__"):
        return {key: _dump(value, depth + 1) for key, value in vars(thing).items()}
    if depth < 6 and isinstance(thing, dict):
        return {repr(key): _dump(value, depth + 1) for key, value in thing.items()}
    if depth < 6 and isinstance(thing, list | tuple):
        return [_dump(value, depth + 1) for value in thing]
    return repr(thing) if not isinstance(thing, set | frozenset) else sorted(map(repr, thing))


@pytest.mark.parametrize("seed", range(2))
def test_what_is_hidden_changes_nothing_before_the_end(envs, seed):
    plain, secret = envs
    for number in range(seed, len(plain.task_ids), 5):
        played = actions(plain, plain.task_ids[number], seed)
        shown, other = (outputs(env, number, played) for env in envs)
        assert shown[:-1] == other[:-1]
        for last in (shown[-1], other[-1]):
            hidden = {
                key: last[1].pop(key) for key in (*TOLD_AT_THE_END, "reward") if key in last[1]
            }
            assert set(hidden) == {*TOLD_AT_THE_END, "reward"}
        assert shown[-1] == other[-1]
        assert MARK not in json.dumps(other, default=repr)
        assert MARK in secret._simulator.question.answers[0]

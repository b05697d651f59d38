import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.policies.conftest import RoomEnv
from trca.envs import TextEnv, make
from trca.envs.responses import ACTION_FORMAT, PLAN_FORMAT, read_action, read_plan
from trca.envs.retrieval.indexing import index_corpus
from trca.envs.searchqa.data.generate import generated
from trca.policies import warmstart
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.model_names import resolve_model
from trca.policies.prompts import Prompter
from trca.policies.tiny import new_model, tiny_folder, tiny_policy
from trca.policies.warmstart import Stage, TinySpec, demonstrate

SPEC = TinySpec(
    hidden_size=32,
    layers=1,
    heads=2,
    kv_heads=1,
    feed_forward=48,
    stages=(Stage(0.5, 100),),
    batch_size=8,
    warmup=5,
    lr=1e-2,
    threads=1,
)
QUICK = replace(SPEC, stages=(Stage(0.5, 2),))


def responses(room, folder, response_format, observation="You are in a room.", subgoal=""):
    """Texts of 64 responses to a prompt of the environment, and its admissible actions."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    _, info = make(room).reset()
    prompt = Prompter(tokenizer, "compact", history_length=0).encode(
        instruction=info["task"],
        step=0,
        max_steps=4,
        history=[],
        observation=observation,
        admissible=info["admissible_actions"],
        subgoal=subgoal,
    )
    sampling = SamplingParams(1.0, 20, response_format.stop)
    requests = [Request(prompt, seed) for seed in range(64)]
    completions = TransformersEngine(model, tokenizer).generate(requests, sampling)
    return [tokenizer.decode(c.ids) for c in completions], info["admissible_actions"]


def test_the_policy_learns_the_response_format_and_admissible_actions(room, cache):
    texts, admissible = responses(room, tiny_policy(room, {}, SPEC), ACTION_FORMAT)
    assert np.mean([read_action(text).action in admissible for text in texts]) > 0.6


def test_the_policy_learns_the_format_of_plans(room, cache):
    folder = tiny_policy(room, {}, SPEC, "plan")
    plans = []
    for observation, subgoal in (("You are in a room.", ""), ("You look around.", "go")):
        texts, admissible = responses(room, folder, PLAN_FORMAT, observation, subgoal)
        readings = [read_plan(text) for text in texts]
        assert np.mean([reading.action in admissible for reading in readings]) > 0.6
        plans += [reading.plan for reading in readings if reading.plan is not None]
    assert {plan.switch for plan in plans} == {True, False}
    assert np.mean([plan.subgoal == "go" for plan in plans]) > 0.8


def test_a_format_without_a_plan_does_not_change_the_recipe(room):
    folders = {tiny_folder(room, {}, name) for name in ("action", "search_r1")}
    assert folders == {tiny_folder(room, {})}
    assert tiny_folder(room, {}, "plan") not in folders


def test_arguments_that_keep_the_texts_share_a_policy(room, cache):
    first = tiny_policy(room, {}, SPEC)
    written = (first / "model.safetensors").stat().st_mtime_ns
    silent = {"lambda_": 0.3, "budgets": {}, "max_steps": 3, "split": "valid"}
    assert tiny_policy(room, silent, SPEC) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    assert json.loads((first / "recipe.json").read_text())["env_config"] == {"split": "train"}


def test_another_environment_or_recipe_has_another_policy(room, cache):
    tiny_policy(room, {}, QUICK)
    tiny_policy(room, {"places": 4}, QUICK)
    tiny_policy(room, {}, replace(QUICK, seed=1))
    assert len(cache()) == 3


def test_a_team_is_identified_by_the_content_of_its_file(tmp_path):
    team = """
roles:
  planner: {{speaks: true, prompt: "{prompt}"}}
  executor: {{acts: [all], sees: [task, observation, messages]}}
"""
    first, same, other = (tmp_path / name for name in ("first.yaml", "same.yaml", "other.yaml"))
    first.write_text(team.format(prompt="Plan."))
    same.write_text("# A remark.\n" + first.read_text())
    other.write_text(team.format(prompt="Say what comes next."))
    folders = [tiny_folder("alfworld", {"team": str(file)}) for file in (first, same, other)]
    assert folders[0] == folders[1] != folders[2]


def test_the_same_recipe_gives_the_same_bytes(room, cache, monkeypatch, tmp_path):
    one = tiny_policy(room, {}, SPEC)
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "elsewhere"))
    assert_same_policy(one, tiny_policy(room, {}, SPEC))


def test_a_policy_of_generated_environments_never_plays_the_seed_of_the_run(cache):
    of_others = tiny_policy("trca/SearchQA-v0", {"seed": 0}, replace(QUICK, worlds=1))
    of_that_world = tiny_policy("trca/SearchQA-v0", {"seed": 1}, QUICK)
    assert_same_policy(of_others, of_that_world)


def test_an_environment_that_is_not_generated_is_played_itself(cache, tmp_path):
    index_corpus(tmp_path / "index", generated(200).passages)
    searched = {"corpus": str(tmp_path / "index")}
    with_others = tiny_policy("trca/SearchQA-v0", searched, replace(QUICK, worlds=1))
    assert_same_policy(with_others, tiny_policy("trca/SearchQA-v0", searched, QUICK))


class HeldOut(RoomEnv):
    """Has different tasks in each split, and records the started tasks.

    Args:
        split: First word of the task ids.
        max_steps: The step limit.
        seed: World.
    """

    generated = True
    started: ClassVar[set[tuple[int, str]]] = set()

    def __init__(self, split: str = "train", max_steps: int = 4, seed: int = 0):
        super().__init__(split, max_steps)
        self._seed = seed

    @property
    def task_ids(self):
        return tuple(f"{self.split} {n}" for n in range(4))

    def start_task(self, task_id, options):
        self.started.add((self._seed, task_id))
        return super().start_task(task_id, options)


@pytest.mark.parametrize(("worlds", "seeds"), [(0, {0}), (2, {1, 2})])
def test_demonstrations_are_of_the_training_split(worlds, seeds, cache):
    HeldOut.started.clear()
    quick = replace(SPEC, worlds=worlds, stages=(Stage(0.5, 10), Stage(0.9, 10)))
    tiny_policy(HeldOut, {"split": "test"}, quick)
    assert HeldOut.started == {(seed, f"train {n}") for seed in seeds for n in range(4)}


def assert_same_policy(one, other):
    for name in ("model.safetensors", "tokenizer.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_builders_at_once_build_once(room, cache, capsys):
    with ThreadPoolExecutor(3) as pool:
        folders = set(pool.map(lambda _: tiny_policy(room, {}, QUICK), range(3)))
    assert len(folders) == 1
    assert capsys.readouterr().err.count("Built") == 1


def test_a_build_that_dies_leaves_nothing_to_be_found(room, cache, monkeypatch):

    def die(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("trca.policies.tiny.imitate", die)
        with pytest.raises(KeyboardInterrupt):
            tiny_policy(room, {}, QUICK)
    assert (tiny_policy(room, {}, QUICK) / "config.json").is_file()


def test_a_stopped_build_prints_a_message_and_resumes_to_the_same_bytes(
    room, cache, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("trca.policies.warmstart.SNAPSHOT_UPDATES", 2)
    quick = replace(SPEC, stages=(Stage(0.5, 3), Stage(0.9, 3)))
    share, shares = warmstart._loss, []

    def stop(*args):
        shares.append(args)
        if len(shares) == 6:
            raise KeyboardInterrupt
        return share(*args)

    monkeypatch.setattr("trca.policies.warmstart._loss", stop)
    with pytest.raises(KeyboardInterrupt):
        tiny_policy(room, {}, quick)
    assert "the next run resumes" in capsys.readouterr().err
    resumed = tiny_policy(room, {}, quick)
    assert len(shares) == 6 + 2
    assert not list(tmp_path.glob("tiny/*.snapshot"))
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "elsewhere"))
    assert_same_policy(resumed, tiny_policy(room, {}, quick))


def test_the_demonstrator_is_as_random_as_asked(room):
    env = make(room)
    quiet = lambda doing, done, total: None  # noqa: E731

    def sensible(randomness):
        examples = demonstrate([env], randomness, 400, 0, 0, quiet)
        return float(np.mean([e.action[6:] == e.prompt.split("\n")[0][5:-1] for e in examples]))

    assert sensible(0.0) == 1.0
    assert 0.4 < sensible(0.5) < 0.75
    assert sensible(1.0) < 0.25


def test_deliberate_commands_are_never_random():
    env = gymnasium.make("trca/SearchQA-v0", disable_env_checker=True)

    def answers(deliberate):
        examples = demonstrate([env], 1.0, 400, 0, 0, lambda *_: None, deliberate)
        return sum(example.action.startswith("answer") for example in examples)

    assert answers(()) > 40
    assert answers(("answer",)) == 0
    with pytest.raises(ValueError, match="only search, answer is admissible"):
        answers(("search", "answer"))


class Mute(RoomEnv):
    demonstrator_action = TextEnv.demonstrator_action


def test_an_environment_without_a_demonstrator_is_refused():
    with pytest.raises(ValueError, match=r"Mute has no demonstrator_action\(\) to imitate"):
        demonstrate([make(Mute)], 0.5, 1, 0, 0, lambda *_: None)


def test_a_relative_folder_is_found_in_a_trial_of_tune(room, tmp_path, monkeypatch):
    (tmp_path / "models" / "start").mkdir(parents=True)
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path))
    assert resolve_model("models/start", env_id=room) == str(tmp_path / "models" / "start")
    assert resolve_model("Qwen/Qwen2.5-7B", env_id=room) == "Qwen/Qwen2.5-7B"


def test_names_of_models(room, tmp_path):
    assert resolve_model("Qwen/Qwen2.5-7B", env_id=room) == "Qwen/Qwen2.5-7B"
    assert resolve_model(str(tmp_path), env_id=room) == str(tmp_path)
    with pytest.raises(ValueError, match=r"no model at '\./gone'"):
        resolve_model("./gone", env_id=room)
    with pytest.raises(ValueError, match=r"choose from Qwen/Qwen2\.5-1\.5B-Instruct"):
        resolve_model("shrunk:gpt", env_id=room)


@pytest.mark.parametrize("size", ["1.5B", "7B"])
def test_a_shrunk_model_keeps_the_architecture(size, cache):
    folder = resolve_model(f"shrunk:Qwen/Qwen2.5-{size}-Instruct", env_id="")
    model = AutoModelForCausalLM.from_pretrained(folder)
    config = model.config
    assert config.model_type == "qwen2"
    assert config.num_attention_heads // config.num_key_value_heads == (6 if size == "1.5B" else 7)
    assert config.tie_word_embeddings == (size == "1.5B")
    assert sum(p.numel() for p in model.parameters()) < 500_000
    assert AutoTokenizer.from_pretrained(folder).chat_template


@torch.no_grad()
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_a_mimetic_head_copies_the_attended_token(tokenizer, kv_heads):
    torch.manual_seed(0)
    spec = TinySpec(hidden_size=64, heads=2, kv_heads=kv_heads, layers=1)
    token = torch.randn(64)
    passed = []
    for each in (replace(spec, mimetic=True), spec):
        attention = new_model(tokenizer, each).model.layers[0].self_attn
        values = attention.v_proj(token).unflatten(0, (kv_heads, -1))
        heads = values.repeat_interleave(2 // kv_heads, 0).flatten()
        passed.append(float(torch.cosine_similarity(attention.o_proj(heads), token, dim=0)))
    assert passed[0] > 0.5 > 3 * abs(passed[1])

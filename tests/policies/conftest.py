"""Small real parts: a tokenizer, random models, and an environment for imitation."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from tests.architectures import SIZES
from trca.envs import Outcome, TextEnv, register
from trca.envs.demonstrations import THOUGHT
from trca.envs.responses import write_action
from trca.policies.bpe import train_tokenizer
from trca.policies.model_names import resolve_model
from trca.policies.models import load_tokenizer
from trca.policies.tiny import new_model
from trca.policies.warmstart import TinySpec

NOUNS = ("bed", "desk", "shelf", "drawer")


@pytest.fixture(scope="session", autouse=True)
def _one_thread(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRCA_CACHE", str(tmp_path_factory.mktemp("cache")))
        torch.set_num_threads(1)
        yield


@pytest.fixture(scope="session")
def tokenizer():
    commands = [f"go to {noun} {n}" for noun in NOUNS for n in range(3)]
    commands += [f"take mug {n} from desk 1" for n in range(3)]
    texts = [
        f"put a mug on shelf.\nAt bed 1.\n{c}\n{write_action(THOUGHT, c)}" for c in commands
    ] * 3
    return train_tokenizer(texts, commands, words=100, merges=20)


@pytest.fixture(scope="session")
def qwen_tokenizer():
    return load_tokenizer(resolve_model("shrunk:Qwen/Qwen2.5-1.5B-Instruct", env_id=""))


@pytest.fixture(scope="session")
def tiny(tokenizer):
    torch.manual_seed(0)
    spec = TinySpec(hidden_size=64, layers=2, heads=4, kv_heads=2, feed_forward=96)
    return sharpened(new_model(tokenizer, spec))


@pytest.fixture(scope="session")
def qwen(tokenizer):
    """A Qwen2 with untied weights and a vocabulary larger than the tokenizer's."""
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=len(tokenizer) + 13,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=64,
    )
    return sharpened(Qwen2ForCausalLM(config))


@pytest.fixture(scope="session")
def hybrid(tokenizer):
    """A Qwen3.5 with a recurrent state in two of three layers."""
    torch.manual_seed(2)
    return sharpened(small("qwen3_5_text", len(tokenizer)))


def small(kind, vocabulary):
    """A small random model of an architecture."""
    config = AutoConfig.for_model(kind, vocab_size=vocabulary, pad_token_id=0, **SIZES[kind])
    return AutoModelForCausalLM.from_config(config)


def sharpened(model):
    """Random weights large enough that the next token depends on the prompt."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model.eval()


class RoomEnv(TextEnv):
    """Go to the place in the instruction."""

    def __init__(self, split: str = "train", max_steps: int = 4, places: int = 8):
        super().__init__(split, max_steps)
        self.places = places

    @property
    def task_ids(self):
        return tuple(f"{noun} {n}" for noun in NOUNS for n in (1, 2))[: self.places]

    @property
    def instruction(self):
        return f"find {self.goal}."

    @property
    def admissible_actions(self):
        return [*(f"go to {place}" for place in self.task_ids), "look"]

    def start_task(self, task_id, options):
        self.goal = task_id
        return "You are in a room."

    def take_action(self, action):
        won = action == f"go to {self.goal}"
        return Outcome("You look around.", float(won), won)

    def demonstrator_action(self):
        return f"go to {self.goal}"


@pytest.fixture(scope="session")
def room():
    """Gymnasium id of a small environment with a demonstrator."""
    register("toy/Room-v0", RoomEnv)
    return "toy/Room-v0"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; a call returns the folders in the cache."""
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path))
    return lambda: sorted(p for p in tmp_path.glob("*/*") if p.is_dir())

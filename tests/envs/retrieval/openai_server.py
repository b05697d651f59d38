"""A small OpenAI-compatible server: chat completions by a real, tiny language model."""

import threading

import numpy as np
import torch
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import Qwen3Config, Qwen3ForCausalLM

from trca.policies.bpe import train_tokenizer
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine

MODEL = "tiny"


class Message(BaseModel):
    role: str
    content: str


class Chat(BaseModel):
    model: str
    messages: list[Message]
    temperature: float = 1.0
    max_tokens: int = 64
    seed: int = 0


def tiny_engine():
    """An engine with random weights and its tokenizer."""
    text = "Doc 1 : the red apple is a fruit . Doc 2 : the pear is green ."
    tokenizer = train_tokenizer([text] * 3, ["search x"], words=50, merges=20)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
    )
    return TransformersEngine(Qwen3ForCausalLM(config).eval(), tokenizer), tokenizer


def create_app(asked):
    """The server; `asked` records every request."""
    app = FastAPI()
    engine, tokenizer = tiny_engine()
    one_at_a_time = threading.Lock()

    @app.post("/v1/chat/completions")
    def complete(chat: Chat):
        asked.append(chat)
        prompt = np.array(tokenizer.encode(chat.messages[-1].content), dtype=np.int32)
        sampling = SamplingParams(chat.temperature, min(chat.max_tokens, 8), stop=())
        with one_at_a_time:
            [completion] = engine.generate([Request(prompt, chat.seed)], sampling)
        text = tokenizer.decode(completion.ids, skip_special_tokens=True)
        choice = {"index": 0, "finish_reason": completion.finish_reason}
        choice["message"] = {"role": "assistant", "content": text}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": chat.model,
            "choices": [choice],
        }

    return app

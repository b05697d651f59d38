"""Tiny models behind a real OpenAI-compatible server: ``transformers serve``."""

import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import torch

from trca.policies.tiny import new_model
from trca.policies.warmstart import TinySpec, imitate

TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def taught(folder, tokenizer, rows):
    """Writes a small model, trained on prompts and responses, with one user message per prompt."""
    tokenizer.chat_template = TEMPLATE
    ids = [(chat_ids(tokenizer, a), tokenizer(b)["input_ids"]) for a, b in rows]
    sizes = {"hidden_size": 48, "layers": 1, "heads": 2, "kv_heads": 1, "feed_forward": 96}
    recipe = {"batch_size": 8, "lr": 5e-3, "warmup": 10, "prompt_weight": 0.0, "threads": 1}
    spec = TinySpec(**sizes, **recipe)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = new_model(tokenizer, spec)
    imitate(network, [ids] * 2, spec, lambda *_: None)
    network.generation_config.update(eos_token_id=tokenizer.eos_token_id, do_sample=True)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def chat_ids(tokenizer, prompt):
    message = {"role": "user", "content": prompt}
    return tokenizer.apply_chat_template([message], return_dict=False)


@contextmanager
def served(model, port):
    """Serves a model folder, and yields the base URL."""
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model)]
    server = subprocess.Popen(
        [*command, "--port", str(port), "--device", "cpu"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_healthy(server, f"http://localhost:{port}/health")
        yield f"http://localhost:{port}/v1"
    finally:
        server.kill()
        server.wait()


def wait_until_healthy(server, url):
    while server.poll() is None:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError("the server ended")

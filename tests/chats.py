"""Tokenizers in the manner of Qwen3 and SmolLM2, with small vocabularies."""

from __future__ import annotations

from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from trca.policies.gguf import PRE_TOKENIZERS
from trca.policies.prompts import PAPER_TEXT

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and message.role != 'system' %}"
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n{% endif %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""SmolLM2's chat template."""

QWEN3 = (
    "{%- if messages[0].role == 'system' %}"
    "{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}"
    "{%- set last = namespace(user=messages|length - 1) %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{%- set last.user = loop.index0 %}"
    "{%- endif %}{%- endfor %}"
    "{%- for m in messages %}"
    "{%- if m.role == 'assistant' %}"
    "{%- set thought = '' %}{%- set answer = m.content %}"
    "{%- if '</think>' in m.content %}"
    "{%- set thought = m.content.split('</think>')[0].rstrip('\n').split('<think>')[-1] %}"
    "{%- set answer = m.content.split('</think>')[-1].lstrip('\n') %}"
    "{%- endif %}"
    "{{- '<|im_start|>assistant\n' }}"
    "{%- if loop.index0 > last.user and (loop.last or thought.lstrip('\n')) %}"
    "{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + answer.lstrip('\n') }}"
    "{%- else %}{{- answer }}{%- endif %}"
    "{{- '<|im_end|>\n' }}"
    "{%- elif m.role == 'user' or not loop.first %}"
    "{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"
)
"""Qwen3's chat template for conversations without tools. It drops past thoughts."""

THINKING = QWEN3.replace(
    "<|im_start|>assistant\n' }}{%- if enable_thinking is defined and enable_thinking is false %}",
    "<|im_start|>assistant\n' }}{%- if enable_thinking is not defined or enable_thinking %}"
    "{{- '<think>\n' }}{%- else %}",
)
"""A chat template whose prompts open a thought, as Qwen3.5 and the distillations of R1 have it."""


QWEN_TOOLS = (
    "{{- '<|im_start|>system\n' + messages[0].content }}{%- if tools %}"
    "{{- '\n\n# Tools\n<tools>' }}{%- for t in tools %}{{- '\n' }}{{- t | tojson }}{%- endfor %}"
    "{{- '\n</tools>\nwithin <tool_call></tool_call>:' }}{%- endif %}{{- '<|im_end|>\n' }}"
    "{%- for m in messages %}{%- if m.role == 'tool' %}"
    "{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}"
    "{{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}"
    "{%- endif %}{%- elif m.role != 'system' %}{{- '<|im_start|>' + m.role + '\n' + m.content }}"
    "{%- for call in m.tool_calls or () %}{{- '' if loop.first else '\n' }}"
    '{{- \'<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson }}{{- '}\n</tool_call>' }}{%- endfor %}"
    "{{- '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""A chat template with tools in the manner of Qwen and Hermes."""

QWEN3_CODER_TOOLS = QWEN_TOOLS.replace(
    '{{- \'<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson }}{{- '}\n</tool_call>' }}",
    "{{- '<tool_call>\n<function=' + call.function.name + '>\n' }}"
    "{%- for name, value in call.function.arguments | items %}{{- '<parameter=' + name + '>\n' }}"
    "{{- value if value is string else value | tojson }}{{- '\n</parameter>\n' }}{%- endfor %}"
    "{{- '</function>\n</tool_call>' }}",
)
"""A chat template with tools in the manner of Qwen 3.5 and Qwen3-Coder."""

LLAMA_TOOLS = (
    "{%- macro head(role) %}{{- '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}"
    "{%- endmacro %}{%- if messages[0].role == 'system' %}"
    "{{- head('system') + messages[0].content + '<|eot_id|>' }}{%- endif %}"
    "{%- for m in messages if m.role != 'system' %}{%- if m.role == 'tool' %}"
    "{{- head('ipython') }}{{- m.content | tojson }}{%- else %}{{- head(m.role) }}"
    "{%- if tools and loop.first %}{%- for t in tools %}{{- t | tojson(indent=4) + '\n\n' }}"
    "{%- endfor %}{%- endif %}{%- if m.tool_calls %}{%- set call = m.tool_calls[0].function %}"
    "{%- if m.tool_calls | length > 1 %}{{- raise_exception('one call at once') }}{%- endif %}"
    '{{- \'{"name": "\' + call.name + \'", "parameters": \' }}'
    "{{- call.arguments | tojson }}{{- '}' }}{%- else %}{{- m.content | trim }}{%- endif %}"
    "{%- endif %}{{- '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- head('assistant') }}{%- endif %}"
)
"""A chat template with tools in the manner of Llama 3."""


BOS = "<|endoftext|>"


def qwen3_tokenizer(template: str = QWEN3) -> PreTrainedTokenizerFast:
    """A tokenizer with Qwen's splits of words and Qwen3's tokens for chats and thoughts."""
    return _tokenizer("qwen2", template, thoughts=("<think>", "</think>"))


def tool_tokenizer(template: str = QWEN_TOOLS) -> PreTrainedTokenizerFast:
    """A tokenizer for a chat template with tools of Qwen, or of Llama 3."""
    if "<|im_end|>" in template:
        return _tokenizer("qwen2", template, ("<tool_call>", "</tool_call>"))
    tokenizer = _tokenizer("llama-bpe", template, ())
    ends = ["<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"]
    tokenizer.add_tokens([AddedToken(token, special=True) for token in ends], special_tokens=True)
    tokenizer.eos_token, tokenizer.bos_token = "<|eot_id|>", BOS
    return tokenizer


def smollm2_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with SmolLM2's splits of words and tokens for chats."""
    return _tokenizer("smollm", SMOLLM2, thoughts=())


def bos_tokenizer(template: str | None = BOS + SMOLLM2) -> PreTrainedTokenizerFast:
    """A tokenizer that begins a text with BOS, as Llama's; its chat template writes BOS, too."""
    tokenizer = _tokenizer("smollm", template, thoughts=())
    bos = tokenizer.convert_tokens_to_ids(BOS)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, bos)]
    )
    return tokenizer


def sentencepiece_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer in the manner of Llama 2: word marks in front, and bytes as a last resort."""
    marks = ["<unk>", "<s>", "</s>"]
    letters = [*marks, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"abcdefgh<>/|"]
    vocabulary = {piece: number for number, piece in enumerate(letters)}
    model = models.BPE(vocabulary, [], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    backend.add_special_tokens([AddedToken(mark, normalized=False) for mark in marks])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


def save_chat_model(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Saves a small random Qwen3 model with a tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from tests.architectures import SIZES

    tokenizer.save_pretrained(folder)
    sizes = {**SIZES["qwen3"], "max_position_embeddings": 4096}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **sizes
        )
        Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def _tokenizer(kind: str, template: str, thoughts: tuple[str, ...]) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = PRE_TOKENIZERS[kind]
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        [PAPER_TEXT] * 2,
        trainers.BpeTrainer(
            vocab_size=512,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            show_progress=False,
        ),
    )
    backend.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in thoughts])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=template,
    )

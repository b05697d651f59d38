"""Token ids of conversations with tools, by the chat templates of models that TRL ships."""

from pathlib import Path

import pytest

from tests.chats import tool_tokenizer
from tests.policies.test_tool_prompts import check_conversation

trl = pytest.importorskip("trl", reason="make test-interop runs it, with TRL")
QWEN, LLAMA, CODER = "tool_calls", "llama_tool_calls", "qwen3_coder_tool_calls"


@pytest.mark.parametrize(
    ("model", "response_format"),
    [
        ("qwen2_5", QWEN),
        ("qwen3", QWEN),
        ("qwen3_instruct_2507", QWEN),
        ("qwen3_5_nothink", CODER),
        ("llama3_1", LLAMA),
        ("llama3_2", LLAMA),
    ],
)
def test_a_conversation_with_tools_is_the_one_of_the_chat_template(model, response_format):
    file = Path(trl.__file__).parent / "chat_templates" / f"{model}.jinja"
    check_conversation(tool_tokenizer(file.read_text()), response_format)

"""The template ``chat``: append-only prompts of sampled ids, windows, options, native thoughts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.architectures import CHATS, save_tokenizer
from tests.chats import QWEN3, THINKING, qwen3_tokenizer, smollm2_tokenizer
from trca.envs.responses import PLAN_FORMAT
from trca.policies.prompts import Conversation, Prompter
from trca.policies.spans import read_response

TOKENIZERS = {"qwen3": qwen3_tokenizer(), "smollm2": smollm2_tokenizer()}
PAGES = ("You see a desk 1.", "On the desk 1, you see a mug 1.", "You take the mug 1.", "A bed 1.")
ACTIONS = ["look", "go to desk 1"]
THOUGHT = "<think>\nhm\n</think>\n\n"


class Talk:
    """A conversation in progress.

    Attributes:
        prompts: The prompts so far.
        responses: The responses so far.
    """

    def __init__(self, tokenizer, **settings):
        settings = {"history_length": 50, "max_prompt_tokens": 10_000, **settings}
        self.prompter = Prompter(tokenizer, "chat", **settings)
        self.tokenizer, self.conversation = tokenizer, Conversation()
        self.prompts = []
        self.responses = []

    def ask(self, observation, **change):
        """The prompt of the next step."""
        arguments = {
            "instruction": "put a mug on shelf.",
            "step": len(self.responses),
            "max_steps": 25,
            "history": (),
            "observation": observation,
            "admissible": ACTIONS,
            "conversation": self.conversation,
        }
        return self.prompter.encode(**{**arguments, **change}).tolist()

    def answer(self, ids, observation="You see a desk 1.", **change):
        """Asks, and adds a response."""
        self.prompts.append(self.ask(observation, **change))
        self.responses.append(list(ids))
        self.conversation.add(np.array(ids, dtype=np.int32))

    def text(self):
        """The last prompt."""
        return str(self.tokenizer.decode(self.prompts[-1]))


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_prompt_continues_the_last_prompt_and_the_sampled_ids(name):
    tokenizer = TOKENIZERS[name]

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(
            st.lists(st.integers(0, len(tokenizer) - 1), min_size=1, max_size=12),
            min_size=1,
            max_size=5,
        )
    )
    def check(responses):
        talk = Talk(tokenizer)
        for response in responses:
            talk.answer(response)
        talk.prompts.append(talk.ask("The end."))
        for before, response, after in zip(talk.prompts, responses, talk.prompts[1:], strict=False):
            assert after[: len(before) + len(response)] == before + response

    check()


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("name", [*TOKENIZERS, *sorted(CHATS.keys() - {"falcon"})])
def test_a_conversation_is_the_one_of_the_chat_template(name, ended, tmp_path):
    """A response ends with its stop string or with the end token.

    The template of Falcon in these tests has no turns of the assistant.
    """
    tokenizer = TOKENIZERS.get(name) or save_tokenizer(tmp_path, name)
    talk = Talk(tokenizer)
    end = tokenizer.eos_token if ended and name in TOKENIZERS else ""
    system = tokenizer.decode(talk.ask(PAGES[0])).partition("You are an expert")[2]
    for page in PAGES[:-1]:
        talk.answer(ids_of(tokenizer, f"<action>look</action>{end}"), page)
    talk.prompts.append(talk.ask(PAGES[-1]))
    listed = "Your admissible actions of the current situation are: ['look',\n 'go to desk 1']."
    users = [f"Step {k + 1}: {page}\n{listed}" for k, page in enumerate(PAGES)]
    assert listed in system
    messages = [{"role": "system", "content": talk.conversation.system}]
    for user in users:
        messages += [
            {"role": "user", "content": user},
            {"role": "assistant", "content": "<action>look</action>"},
        ]
    whole = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
    assert talk.text() == whole


def test_past_thoughts_stay_though_the_chat_template_drops_them():
    tokenizer = TOKENIZERS["qwen3"]
    talk = Talk(tokenizer)
    talk.answer(ids_of(tokenizer, f"{THOUGHT}<action>look</action><|im_end|>"))
    assert THOUGHT in tokenizer.decode(talk.ask("A bed 1."))
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": f"{THOUGHT}b"},
        {"role": "user", "content": "c"},
    ]
    assert THOUGHT not in tokenizer.apply_chat_template(messages, tokenize=False)


def test_system_prompts_of_a_task_differ_only_at_their_end():
    one, other = (
        Talk(TOKENIZERS["qwen3"]).ask("A bed.", instruction=task) for task in ("find a.", "find b.")
    )
    shared = next(k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    assert TOKENIZERS["qwen3"].decode(one[:shared]).endswith("Your task is to: find")


def test_a_template_without_system_prompts_gets_the_text_in_the_first_message():
    for template in (
        QWEN3.replace(
            "{%- if messages[0]",
            "{%- if messages[0].role == 'system' %}"
            "{{- raise_exception('System role not supported') }}{%- endif %}{%- if messages[0]",
            1,
        ),
        QWEN3.replace("messages[0].content +", "", 1),
    ):
        talk = Talk(qwen3_tokenizer(template))
        talk.answer([5, 6])
        talk.prompts.append(talk.ask("A bed 1."))
        _, first, second = talk.text().split("<|im_start|>user\n")
        assert "put a mug on shelf.\n\nStep 1" in first
        assert "put a mug" not in second


def test_a_window_keeps_the_newest_half_of_the_turns():
    tokenizer = TOKENIZERS["smollm2"]
    talk = Talk(tokenizer, history_length=4)
    shown = []
    for k in range(12):
        talk.answer([10 + k, 11 + k, 12 + k], f"page {k}.")
        shown.append([n for n in range(12) if f"page {n}." in talk.text()])
    assert [len(pages) - 1 for pages in shown] == [0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2]
    assert all(pages == list(range(pages[0], k + 1)) for k, pages in enumerate(shown))
    for first, prompt in zip([pages[0] for pages in shown], talk.prompts, strict=True):
        assert talk.text().count("put a mug on shelf.") == 1
        text = tokenizer.decode(prompt)
        assert text.index(f"page {first}.") > text.index("put a mug on shelf.")
    last = talk.prompts[-1]
    for response in talk.responses[9:11]:
        assert any(last[k : k + 3] == response for k in range(len(last)))


@pytest.mark.parametrize("limit", [420, 700, 1500])
def test_no_prompt_passes_the_limit_on_tokens(limit):
    tokenizer = TOKENIZERS["qwen3"]
    talk = Talk(tokenizer, max_prompt_tokens=limit)
    draw = np.random.default_rng(0)
    continued = 0
    for _ in range(20):
        page = " ".join(f"thing {n}" for n in range(draw.integers(1, 60)))
        talk.answer(draw.integers(0, len(tokenizer), 9).tolist(), page)
        assert len(talk.prompts[-1]) <= limit
        assert "put a mug on shelf." in talk.text()
        before = talk.prompts[-2] + talk.responses[-2] if len(talk.prompts) > 1 else []
        continued += talk.prompts[-1][: len(before)] == before
    assert continued >= (8 if limit == 1500 else 1)


def test_a_page_over_the_limit_is_cut_and_the_next_prompt_is_a_new_window():
    tokenizer = TOKENIZERS["qwen3"]
    least = len(Talk(tokenizer).ask("..."))
    talk = Talk(tokenizer, max_prompt_tokens=least + 60)
    page = " ".join(f"word{n}" for n in range(50))
    talk.answer([5], page)
    cut = talk.text()
    assert "word0" in cut
    assert "word49" not in cut
    assert "..." in cut
    assert "word0" not in tokenizer.decode(talk.ask("A bed 1."))
    with pytest.raises(ValueError, match="raise max_prompt_tokens"):
        Talk(tokenizer, max_prompt_tokens=50).ask("A bed.")


def test_asking_twice_changes_nothing():
    talk = Talk(TOKENIZERS["qwen3"])
    talk.answer([7, 8])
    assert talk.ask("A bed 1.") == talk.ask("A bed 1.")


def test_memory_and_subgoal_stand_in_the_turn():
    tokenizer = TOKENIZERS["qwen3"]
    talk = Talk(tokenizer, memory=True, response_format=PLAN_FORMAT)
    text = tokenizer.decode(talk.ask("A.", memory="Holding a mug.", subgoal="take mug"))
    assert "<switch>KEEP or SWITCH</switch>" in text
    turn = text.partition("<|im_start|>user\n")[2]
    assert turn.startswith(
        "Step 1: A.\nWhat you have observed so far: Holding a mug.\nYour subgoal"
    )
    assert "Holding" not in tokenizer.decode(Talk(tokenizer).ask("A.", memory="Holding a mug."))


def test_the_compact_prompt_of_a_chat_model_names_the_tags():
    tokenizer = TOKENIZERS["smollm2"]
    prompter = Prompter(tokenizer, "compact", memory=True)
    ids = prompter.encode(
        instruction="put a mug.",
        step=0,
        max_steps=9,
        history=(),
        observation="o",
        admissible=["go to bed 1", "go to desk 1"],
        memory="At bed 1.",
    )
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\n"
        "Answer in this form: <think>...</think><action>...</action><|im_end|>\n"
        "<|im_start|>user\nput a mug.\nAt bed 1.\ngo to bed 1 desk 1\n<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def prompt_end(template, thinking):
    options = {} if thinking is None else {"enable_thinking": thinking}
    tokenizer = qwen3_tokenizer(template)
    prompter = Prompter(tokenizer, "paper", chat_template_kwargs=options)
    ids = prompter.encode(
        instruction="t", step=0, max_steps=9, history=(), observation="o", admissible=()
    )
    return str(tokenizer.decode(ids)).rpartition("<|im_start|>assistant\n")[2], prompter.thought


@pytest.mark.parametrize(
    ("template", "thinking", "end", "thought"),
    [
        (QWEN3, None, "", "closed"),
        (QWEN3, True, "", "closed"),
        (QWEN3, False, "<think>\n\n</think>\n\n", "closed"),
        (THINKING, None, "<think>\n", "open"),
        (THINKING, False, "<think>\n\n</think>\n\n", "closed"),
    ],
)
def test_the_options_of_the_chat_template(template, thinking, end, thought):
    assert prompt_end(template, thinking) == (end, thought)


def test_only_a_chat_template_with_thoughts_makes_thoughts_native():
    assert Prompter(TOKENIZERS["smollm2"]).thought == "none"


def test_a_closed_thought_of_the_prompt_stays_in_the_conversation():
    tokenizer = TOKENIZERS["qwen3"]
    talk = Talk(tokenizer, chat_template_kwargs={"enable_thinking": False})
    talk.answer(ids_of(tokenizer, "<action>look</action>"))
    talk.answer(ids_of(tokenizer, "<action>look</action>"))
    assert talk.text().count("<think>\n\n</think>\n\n") == 2


def test_what_a_chat_needs_is_checked(tokenizer):
    with pytest.raises(ValueError, match="template is chat, and the tokenizer of the model has no"):
        Prompter(tokenizer, "chat")
    with pytest.raises(ValueError, match="chat_template_kwargs is set, and the tokenizer"):
        Prompter(tokenizer, "compact", chat_template_kwargs={"enable_thinking": False})
    for name in ("enable_thinkng", "messages", "add_generation_prompt"):
        with pytest.raises(ValueError, match=f"chat_template_kwargs has '{name}'"):
            Prompter(TOKENIZERS["qwen3"], chat_template_kwargs={name: False})
    talk = Talk(qwen3_tokenizer("{{ messages[0].content }}{{ messages[-1].content }}"))
    talk.answer([5])
    with pytest.raises(ValueError, match="does not show all turns"):
        talk.ask("A bed.")


@pytest.mark.parametrize(
    ("response", "thought", "action"),
    [
        ("<think>like <action>look</action>?</think><action>go</action>", "closed", "go"),
        ("<think>like <action>look</action>", "closed", ""),
        ("like <action>look</action>?</think>\n\n<action>go</action>", "open", "go"),
        ("like <action>look</action>", "open", ""),
        ("</think><think>a</think><action>go</action>", "open", "go"),
        ("<think>like <action>look</action>", "none", "look"),
        ("<action>go</action>", "closed", "go"),
    ],
)
def test_a_quoted_tag_in_a_native_thought_is_no_action(response, thought, action):
    tokenizer = TOKENIZERS["qwen3"]
    ids = ids_of(tokenizer, response)
    reading = read_response(ids, tokenizer, thought=thought)
    assert reading.action == action
    marked = tokenizer.decode(
        [i for i, inside in zip(ids, reading.action_mask, strict=True) if inside]
    )
    assert (f"<action>{action}</action>" in marked) == bool(action)
    assert "look" not in marked or action == "look"


def test_the_parts_of_a_plan_follow_the_native_thought():
    tokenizer = TOKENIZERS["qwen3"]
    plan = "<switch>KEEP</switch><subgoal>b</subgoal><action>go</action>"
    ids = ids_of(tokenizer, f"<think>é <action>look</action></think>{plan}")
    reading = read_response(ids, tokenizer, PLAN_FORMAT, "closed")
    assert reading.action == "go"
    subgoal = [i for i, part in zip(ids, reading.parts, strict=True) if part == 2]
    assert "b</subgoal" in tokenizer.decode(subgoal)

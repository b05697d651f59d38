from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.responses import ACTION_FORMAT
from trca.policies.prompts import Prompter, compact_prompt, paper_prompt

HISTORY = [("You see a bed.", "go to bed 1"), ("You see a desk.", "go to desk 1")]
IDLE = frozenset({"help", "inventory", "look"})
OFFERED = ["go to bed 1", "go to desk 1", "help", "inventory", "look", "take mug 1 from desk 1"]


def text(tokenizer, **change):
    arguments = {
        "instruction": "put a mug on shelf.",
        "step": 2,
        "max_steps": 25,
        "history": HISTORY,
        "observation": "You see a mug 1.",
        "admissible": OFFERED,
    }
    prompter = Prompter(tokenizer, **change.pop("prompter", {}))
    return str(tokenizer.decode(prompter.encode(**{**arguments, **change})))


def test_the_paper_prompt_has_all_parts_in_order(tokenizer):
    prompt = text(tokenizer)
    parts = (
        "Your task is to: put a mug on shelf.",
        "25 steps",
        "taken 2 step(s)",
        "[Observation 1: 'You see a bed.', Action 1: 'go to bed 1']",
        "[Observation 2: 'You see a desk.', Action 2: 'go to desk 1']",
        "step 3",
        "You see a mug 1.",
        "'take mug 1 from desk 1'",
        "<think> </think>",
        "<action> </action>",
    )
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)


def test_only_the_last_steps_are_shown(tokenizer):
    assert "Action 1" not in text(tokenizer, prompter={"history_length": 1})
    assert "[Observation" not in text(tokenizer, prompter={"history_length": 0})


def test_without_admissible_actions_the_prompt_asks_for_any_action(tokenizer):
    prompt = text(tokenizer, admissible=[])
    assert "admissible" not in prompt
    assert "choose an action" in prompt


def test_memory_is_shown_only_when_asked_for(tokenizer):
    assert "Holding a mug" not in text(tokenizer, memory="Holding a mug.")
    assert "Holding a mug" in text(tokenizer, memory="Holding a mug.", prompter={"memory": True})


def test_a_memory_that_does_not_fit_takes_no_word_of_the_observation(tokenizer):
    alone = text(tokenizer, history=[])
    limit = len(tokenizer(alone)["input_ids"])
    budget = {"memory": True, "max_prompt_tokens": limit}
    assert text(tokenizer, history=[], memory="mug " * 99, prompter=budget) == alone
    assert text(tokenizer, memory="mug " * 99, prompter=budget) == alone


def test_a_chat_template_is_used(qwen_tokenizer):
    prompt = text(qwen_tokenizer)
    system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    assert prompt.startswith(
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nYou are an"
    )
    assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_the_compact_prompt_wastes_nothing():
    actions = [action for action in OFFERED if action not in IDLE]
    assert compact_prompt("put a mug.", 1, 9, HISTORY[:1], "", "You  see\na mug 1.", actions) == (
        "put a mug.\n>go to bed 1\nYou see a mug 1.\ngo to bed 1 desk 1\ntake mug 1 from desk 1\n"
    )


def test_the_compact_prompt_omits_idle_actions(tokenizer):
    compact = {"prompter": {"template": "compact"}}
    assert "inventory" in text(tokenizer, **compact)
    assert "inventory" not in text(tokenizer, **compact, idle=IDLE)
    assert "inventory" in text(tokenizer, idle=IDLE)


def test_memory_stands_for_the_observation_in_the_compact_prompt():
    assert compact_prompt("put a mug.", 0, 9, (), "At bed 1.", "You see.", ["go to bed 1"]) == (
        "put a mug.\nAt bed 1.\ngo to bed 1\n"
    )


def test_shared_words_keep_numbers_with_their_names():
    offers = ["go to bed 1", "go to bed 2", "take mug 1 from bed 1", "take mug 2 from bed 1"]
    assert compact_prompt("t", 0, 9, (), "", "o", offers).splitlines()[2:] == [
        "go to bed 1 bed 2",
        "take mug 1 from bed 1 mug 2 from bed 1",
    ]


def test_actions_with_an_argument_on_the_page_are_not_listed():
    offers = ["click[back to search]", "click[< prev]", "click[red]", "click[sky blue]", "use[it]"]
    page = "Mug. color: [red] [Sky Blue]."
    assert compact_prompt("buy a mug", 0, 9, (), page, "o", offers).splitlines() == [
        "buy a mug",
        page,
        "click [back to search] [< prev]",
        "use [it]",
    ]
    assert compact_prompt("t", 0, 9, (), "", "o", ["search[<your query>]"]).endswith(
        "o\nsearch [<your query>]\n"
    )


@settings(max_examples=60, deadline=None)
@given(
    observation=st.lists(st.text("abcdefg ", max_size=9), max_size=60).map(" ".join),
    admissible=st.lists(st.text("abcdef 1", min_size=1, max_size=20), max_size=30),
    history=st.lists(
        st.tuples(st.text("abc ", max_size=60), st.text("ab", max_size=9)), max_size=4
    ),
    template=st.sampled_from(["paper", "compact"]),
    spare=st.integers(0, 200),
)
def test_prompts_never_exceed_a_sufficient_budget(
    tokenizer, observation, admissible, history, template, spare
):
    write = paper_prompt if template == "paper" else compact_prompt
    least = len(tokenizer(write("find a mug.", 3, 9, (), "", "...", ["..."]))["input_ids"])
    prompter = Prompter(tokenizer, template, 2, least + spare)
    arguments = {
        "instruction": "find a mug.",
        "step": 3,
        "max_steps": 9,
        "history": history,
        "observation": observation,
        "admissible": admissible,
    }
    ids = prompter.encode(**arguments)
    assert len(ids) <= least + spare
    assert ids.tolist() == prompter.encode(**arguments).tolist()
    prompt = tokenizer.decode(ids)
    assert "find a mug." in prompt
    assert template == "compact" or "<action> </action>" in prompt


def test_history_goes_first_then_the_end_of_the_page(tokenizer):
    page = " ".join(f"word{k}" for k in range(50))
    whole = len(tokenizer(text(tokenizer, observation=page))["input_ids"])
    shorter = text(tokenizer, observation=page, prompter={"max_prompt_tokens": whole - 1})
    assert "Action 1" not in shorter
    assert "Action 2" in shorter
    assert "word49" in shorter
    cut = text(tokenizer, observation=page, prompter={"max_prompt_tokens": whole - 320})
    assert "Action 2" not in cut
    assert "word0" in cut
    assert "word49" not in cut
    assert "'take mug 1 from desk 1'" in cut


@pytest.mark.parametrize(
    "page",
    [
        "item 1, " * 900,
        "".join(f'{{"id":{k}}},' for k in range(900)),
        "\n".join(f"row{k}" for k in range(900)),
        "\u684c" * 900,
        "<|end|>" * 900,
    ],
)
def test_a_page_of_any_script_keeps_its_beginning(tokenizer, page):
    whole = len(tokenizer(text(tokenizer, observation=""))["input_ids"])
    cut = text(tokenizer, observation=page, prompter={"max_prompt_tokens": whole + 200})
    assert page[:50] in cut


def test_the_subgoal_follows_the_instruction_and_is_dropped_last(tokenizer):
    for prompter in ({}, {"template": "compact", "history_length": 0}):
        without = text(tokenizer, prompter=prompter)
        shown = text(tokenizer, prompter=prompter, subgoal="take mug")
        assert shown.replace("\nYour subgoal: take mug", "") == without
        assert "put a mug on shelf.\nYour subgoal: take mug\n" in shown
        for spare in range(0, 400, 9):
            room = {**prompter, "max_prompt_tokens": spare}
            try:
                cut = text(tokenizer, prompter=room, subgoal="take mug " * 20)
            except ValueError:
                with pytest.raises(ValueError, match="raise max_prompt_tokens"):
                    text(tokenizer, prompter=room)
                continue
            assert len(tokenizer(cut)["input_ids"]) <= spare
            assert ("Your subgoal" in cut) or cut == text(tokenizer, prompter=room)


def test_a_budget_too_small_for_the_instruction_is_refused(tokenizer):
    with pytest.raises(ValueError, match="raise max_prompt_tokens"):
        text(tokenizer, prompter={"max_prompt_tokens": 20})


def test_a_response_format_may_show_json(tokenizer):
    form = replace(ACTION_FORMAT, instructions='Choose {choice}: {"action": "..."}')
    shown = text(tokenizer, prompter={"response_format": form})
    assert 'Choose an admissible action: {"action": "..."}' in shown


def test_unknown_templates_are_refused(tokenizer):
    with pytest.raises(ValueError, match="'papr': choose paper, compact or chat"):
        Prompter(tokenizer, template="papr")

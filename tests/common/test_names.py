from trca.common.names import nearest, unknown


def test_a_hint_has_the_nearest_name_and_a_short_list_of_known_names():
    assert nearest("vlm", ["vllm", "openai"]) == "did you mean 'vllm'? Known: vllm, openai"


def test_case_is_ignored():
    assert nearest("grpo", ["TRCA", "GRPO"]).startswith("did you mean 'GRPO'?")


def test_a_hint_without_a_similar_name_lists_the_known_names():
    assert nearest("xyz", ["b", "a"]) == "Known: b, a"
    assert nearest("xyz", {"b", "a"}) == "Known: a, b"
    assert nearest("xyz", []) == "there is none"


def test_a_long_list_is_left_out_given_a_similar_name_and_cut_otherwise():
    names = [f"name_{number:02}" for number in range(50)]
    assert nearest("nam_07", names) == "did you mean 'name_07'?"
    assert nearest("xyz", names).endswith("name_07, ... (50 in all)")


def test_a_huge_word_costs_nothing_and_is_cut():
    message = str(unknown("engine", "x" * 10_000_000, ["vllm"]))
    assert message.startswith("unknown engine 'xxx")
    assert len(message) < 300

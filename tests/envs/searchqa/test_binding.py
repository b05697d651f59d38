"""The binder parses human and generated questions: names, relation, constraints, answer format."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.searchqa.binding import AnswerFormat, SearchQABinding, bind, formats_of
from trca.envs.searchqa.data.generate import generated
from trca.envs.searchqa.english import _TOKEN, names_in

DATA = Path(__file__).parents[4] / "shared" / "data" / "searchqa"


def test_a_question_is_names_relation_limits_and_a_format():
    binding = bind("In what year was the oldest teacher of Ada Balan born?")
    assert binding.entity == "Ada Balan"
    assert binding.entities == ("Ada Balan",)
    assert binding.relation == ("teacher", "born")
    assert binding.bridge == ("teacher",)
    assert binding.constraints == ("oldest",)
    assert binding.answer_format == "date"
    assert bind("") == SearchQABinding()


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who was the composer of Easy Living?", ("Easy Living",)),
        ("Who wrote The Silent Garden?", ("The Silent Garden",)),
        ("The Blue Lacy, official breed of Texas, is what?", ("Blue Lacy", "Texas")),
        ("What county is Icknield Walk First School located in?", ("Icknield Walk First School",)),
        ('Who released the song "Far from it"?', ("Far from it",)),
        ("Whose beagle buddy is 'Snoopy'?", ("Snoopy",)),
        ("Where was Ada's teacher born?", ("Ada",)),
        ("Are Kent College and Lee School in Ohio?", ("Kent College", "Lee School", "Ohio")),
        ("Who is mentioned in Grace and Frankie?", ("Grace and Frankie",)),
        ("What happened on 3 October 1999 in South Park?", ("3 October 1999", "South Park")),
        ("who is the owner of the crowne plaza", ("crowne plaza",)),
        ("when did the breakfast club come out", ("breakfast club",)),
        ('"Who wrote ""A Cauliflower""?"', ("A Cauliflower",)),
        ("why?", ()),
        ("", ()),
    ],
)
def test_names_are_quoted_or_capitalised_or_the_longest_stretch(question, names):
    assert bind(question).entities == names


@pytest.mark.parametrize(
    ("question", "form", "choices"),
    [
        ("Who wrote Ran?", "name", ()),
        ("What is the date of death of Ada?", "date", ()),
        ("when did hawaii become a state", "date", ()),
        ("Who was king when Ada died?", "name", ()),
        ("What month did Ran come out?", "date", ()),
        ("how many episodes are in chicago fire season 4", "number", ()),
        ("What is the population of Pira?", "number", ()),
        ("Is Ran longer than Ikiru?", "yes or no", ()),
        ("Who is older, Ada Balan or Ben Ek?", "choice", ("Ada Balan", "Ben Ek")),
        ("Which is older, The Life of Plants or Marx?", "choice", ("The Life of Plants", "Marx")),
    ],
)
def test_the_answer_format_is_in_the_wording(question, form, choices):
    assert bind(question).answer_format == form
    assert bind(question).choices == choices


@pytest.mark.parametrize(
    ("answer", "formats"),
    [
        ("Ada Balan", {"name"}),
        ("3 October 1999", {"name", "date", "number"}),
        ("in may", {"name", "date"}),
        ("twelve", {"name", "number"}),
        ("No.", {"yes or no"}),
        ("Ben", {"name", "choice"}),
        ("", set()),
        ("?!", set()),
        ("she was " * 20, set()),
    ],
)
def test_an_answer_has_formats(answer, formats):
    assert set(formats_of(answer, ("Ben Ek", "Cora Or"))) == formats


def test_words_for_one_relation_are_one():
    asked = {bind(f"{words} Ran?").relation for words in ("Who wrote", "Who is the author of")}
    assert asked == {("author",)}
    assert bind("What is the profession of Ada?").relation == ("is a",)


def test_names_in_text_are_as_written():
    text = "In 1999 Dr. Ada Balan of the Guild met J. Ek. She won."
    assert names_in(text) == ("1999", "Dr Ada Balan of the Guild", "J Ek")


def test_every_generated_question_is_about_its_first_gold_passage():
    for question in generated(200).questions:
        binding = bind(question.text)
        assert binding.entity == question.gold_titles[0]
        assert (binding.answer_format == "date") == question.answers[0].isdecimal()
        assert binding.relation or question.kind in ("which", "what")


@given(st.text())
def test_any_text_is_a_question(task):
    binding = bind(task)
    assert binding.answer_format in get_args(AnswerFormat)
    assert set(binding.bridge) <= set(binding.relation)


@given(st.text("aB1_.-' \n", max_size=12))
def test_words_are_those_of_the_plain_pattern(text):
    plain = re.compile(r"""[^\W_]+(?:[.'’&-]+[^\W_]+)*\.?(?=\W|$)|["“”,;:?!()]""")
    assert _TOKEN.findall(text) == plain.findall(text)


def test_a_long_word_is_read_in_good_time():
    assert names_in("A" * 200_000 + "_b") == ()
    assert names_in("A-" * 100_000 + "_b")


def test_a_long_question_is_read_in_good_time():
    assert bind('"A or ' * 20_000 + "the b of C's d " * 5_000)


@pytest.mark.skipif(not DATA.exists(), reason=f"no questions next to the repository: {DATA}")
@pytest.mark.parametrize("name", ["hotpotqa", "2wikimultihopqa"])
def test_a_name_of_a_real_question_is_in_a_gold_title(name):
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").open(encoding="utf-8")]
    hits = 0
    for row in rows:
        titles = " ".join(row["gold_titles"]).lower()
        hits += any(entity.lower() in titles for entity in bind(row["question"]).entities)
    assert hits / len(rows) > 0.7

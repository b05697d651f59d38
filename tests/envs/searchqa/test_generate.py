"""The generated world: deterministic, with disjoint circles, and answerable from its passages."""

import pytest

from trca.envs.retrieval.bm25 import BM25Retriever
from trca.envs.retrieval.porter import stem
from trca.envs.searchqa.answer_scores import normalized
from trca.envs.searchqa.data.generate import (
    CIRCLE,
    SIZES,
    TASK_TYPES,
    TWO_HOP,
    WORDS,
    YEARS,
    draw,
    generated,
)
from trca.envs.searchqa.data.questions import SPLITS

COUNT = 600


@pytest.fixture(scope="module")
def world():
    return generated(COUNT)


@pytest.fixture(scope="module")
def passages(world):
    return {passage.id: passage for passage in world.passages}


@pytest.fixture(scope="module")
def retriever(world):
    return BM25Retriever.of(world.passages)


def says(passage, answers):
    contents = f" {normalized(passage.contents)} "
    return any(f" {normalized(answer)} " in contents for answer in answers)


def test_a_world_depends_on_its_seed_alone(world):
    generated.cache_clear()
    again, other = generated(COUNT), generated(COUNT, seed=1)
    assert again == world
    assert not {p.contents for p in world.passages} & {p.contents for p in other.passages}
    pairs = {(q.text, q.answers) for q in world.questions}
    same = pairs & {(q.text, q.answers) for q in other.questions}
    assert len(same) < 0.01 * len(pairs)


def test_a_small_world_is_the_beginning_of_a_larger_one(world):
    small = generated(200)
    assert small.passages == world.passages[:200]
    assert set(small.questions) < set(world.questions)


@pytest.mark.parametrize("count", [0, -20, 30])
def test_a_world_is_made_of_whole_circles(count):
    with pytest.raises(ValueError, match="multiple of 20"):
        generated(count)


@pytest.mark.parametrize("kind", ["person", "place", "work", "organisation"])
def test_names_are_unique_in_the_largest_world(kind):
    circles = SIZES["large"] // CIRCLE
    names = [
        entity.name
        for number in (*range(60), *range(100, circles, 9))
        for entity in draw(number)
        if entity.kind == kind
    ]
    assert len(set(names)) == len(names)


def test_there_are_names_for_no_more_than_a_number_of_circles():
    with pytest.raises(ValueError, match="at most"):
        draw(10_000)


def test_a_search_tells_all_words_of_names_apart():
    made_up = [onset + coda for onset in WORDS["onsets"] for coda in WORDS["codas"]]
    for parts in (
        made_up,
        WORDS["adjectives"],
        WORDS["nouns"],
        WORDS["places"],
        WORDS["organisations"],
    ):
        assert len({stem(word.lower()) for word in parts}) == len(parts)
    assert len({stem(name.lower()) for name in WORDS["first_names"]}) == 32


def test_splits_have_no_entity_in_common(world, passages):
    """Questions, answers and intermediate entities are all disjoint."""
    names = {passage.title for passage in world.passages}
    split_of_circle = {}
    for question in world.questions:
        about = {int(each) // CIRCLE for each in question.gold_ids}
        about |= {
            int(p.id) // CIRCLE
            for p in world.passages
            if p.title in question.text or p.title in question.answers
        }
        assert len(about) == 1
        [circle] = about
        assert split_of_circle.setdefault(circle, question.split) == question.split
        assert all(passages[each].title in names for each in question.gold_ids)
    counts = [list(split_of_circle.values()).count(split) for split in SPLITS]
    assert counts == [18, 6, 6]


def test_no_passage_speaks_of_another_circle(world):
    circles = [
        {entity.name for entity in draw(number)} for number in range(len(world.passages) // CIRCLE)
    ]
    for number, names in enumerate(circles[:6]):
        others = set().union(*circles[:number], *circles[number + 1 :])
        for passage in world.passages[number * CIRCLE : (number + 1) * CIRCLE]:
            assert any(name in passage.contents for name in names)
            assert not any(f" {name}" in passage.contents for name in others)


def test_the_answer_stands_in_the_last_gold_passage(world, passages):
    for question in world.questions:
        assert question.gold_titles == tuple(passages[each].title for each in question.gold_ids)
        assert says(passages[question.gold_ids[-1]], question.answers)


def test_a_two_hop_question_cannot_be_answered_from_its_subject(world, passages):
    """The question names only the first passage, and only the second passage has the answer."""
    two_hop = [question for question in world.questions if question.kind == TWO_HOP]
    assert len(two_hop) == len(world.questions) / 2
    for question in two_hop:
        first, second = (passages[each] for each in question.gold_ids)
        assert first.title in question.text
        assert second.title not in question.text
        assert second.title in first.text.partition(". ")[0]
        assert not says(first, question.answers)


def test_a_two_hop_question_takes_two_searches(world, retriever):
    two_hop = [question for question in world.questions if question.kind == TWO_HOP]
    results = retriever.search([question.text for question in two_hop], 3)
    at_once = [
        {*question.gold_ids} <= {passage.id for passage in passages}
        for question, passages in zip(two_hop, results, strict=True)
    ]
    assert sum(at_once) < 0.01 * len(two_hop)


def test_a_search_for_a_name_finds_its_passage(world, retriever):
    results = retriever.search([passage.title for passage in world.passages], 3)
    for passage, hits in zip(world.passages, results, strict=True):
        assert passage.id in [hit.id for hit in hits]


def test_kinds_of_questions_are_told_by_what_they_ask_for(world):
    asked = {"who": "Who ", "where": ("Where", "What place", "Which town", "What is the")}
    asked |= {"when": ("When ", "In what year "), "which": ("Which", "From which", "What is the")}
    for question in world.questions:
        assert question.text.endswith("?")
        assert question.text.startswith(asked.get(question.kind, ""))
        if question.kind == "when":
            assert question.answers[0] in YEARS
    assert {question.kind for question in world.questions} == set(TASK_TYPES)


def test_aliases_are_told_in_the_passage_of_what_they_name(world):
    aliased = [question for question in world.questions if len(question.answers) == 2]
    assert len(aliased) > 0.15 * len(world.questions)
    by_title = {passage.title: passage for passage in world.passages}
    for question in aliased:
        name, alias = question.answers
        assert f" {alias}" in by_title[name].text

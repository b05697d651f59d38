"""Game files: errors name the file, the problem and the fix."""

import json
import pickle
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.alfworld.data import generate
from trca.envs.alfworld.game import Game, GameFileError

GAME = generate.draw("small", "train", "Pick2", 3).game()
PROBLEM = GAME["pddl_problem"]
RECEPTACLE = re.search(r"receptacleAtLocation (\S+)", PROBLEM)[1]
OBJECT = re.search(r"objectType (\S+)", PROBLEM)[1]


def with_fact(fact):
    return {**GAME, "pddl_problem": PROBLEM.replace("(:init", f"(:init\n({fact})")}


def test_a_game_tells_its_task_and_its_walkthrough(tmp_path):
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps({**GAME, "walkthrough": ["look", "help"]}))
    game = Game.from_file(path)
    assert game.walkthrough == ("look", "help")
    assert re.fullmatch(r"(put|find) two \w+ (in|and put them in) \w+\.", game.task)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is not JSON or is truncated"),
        (b"not json", "it is not JSON"),
        (json.dumps(GAME).encode()[:-100], "truncated"),
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"[]", "its JSON is not an object"),
        (b"{}", "no text 'pddl_domain'"),
        (json.dumps({"pddl_domain": 3}).encode(), "no text 'pddl_domain'"),
    ],
)
def test_a_broken_file_is_named_with_the_mend(tmp_path, content, problem):
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(content)
    with pytest.raises(GameFileError) as caught:
        Game.from_file(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert problem in message
    assert "trca data alfworld" in message
    assert len(message) < 600


def test_the_error_reads_the_same_from_another_process():
    error = GameFileError("a.tw-pddl", "it is no game")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("path", ["nowhere.tw-pddl", ".", "nul\x00byte"])
def test_a_file_that_cannot_be_opened_is_named(path):
    with pytest.raises(GameFileError, match=r"no such file|cannot be read"):
        Game.from_file(path)


@pytest.mark.parametrize("key", ["pddl_domain", "grammar", "pddl_problem"])
def test_a_missing_part_is_named(key):
    with pytest.raises(GameFileError, match=f"no text '{key}'"):
        Game({name: part for name, part in GAME.items() if name != key})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pddl_domain": "(define (domain logistics))"}, "its PDDL domain is not ALFWorld's"),
        (
            {"pddl_domain": GAME["pddl_domain"].replace("(not (holdsAny ?a))", "", 1)},
            "its PDDL domain is not ALFWorld's",
        ),
        (
            {"grammar": GAME["grammar"].replace("You open", "You  open")},
            "its text grammar is not ALFWorld's",
        ),
        (
            {"grammar": GAME["grammar"].replace("move {o} to {r}", "put {o} in/on {r}")},
            "the text grammar of ALFWorld before 0.4.0",
        ),
        ({"grammar": GAME["grammar"].replace("is to: ", "is to: #help# ")}, "contains markup"),
        ({"walkthrough": 7}, "'walkthrough' is not a list"),
    ],
)
def test_foreign_rules_and_texts_are_refused(changes, problem):
    with pytest.raises(GameFileError, match=problem):
        Game({**GAME, **changes})


def test_layout_case_and_comments_of_the_rules_do_not_matter():
    domain = "; a remark\n" + GAME["pddl_domain"].upper().replace("\n", "\n   ")
    assert Game({**GAME, "pddl_domain": domain}).task == Game(GAME).task


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("", "does not begin with"),
        (PROBLEM[: len(PROBLEM) // 2], "a parenthesis is not closed"),
        (PROBLEM + ")", "closes a parenthesis"),
        (PROBLEM.replace(":init", ":start"), "no :init section"),
        (PROBLEM.replace("(:goal", "(:goal (and)"), ":goal is not one condition"),
        (PROBLEM.replace("(atLocation agent1 loc_bar_0)", ""), "at 0 places"),
        (PROBLEM.replace("agent1 - agent", "agent1 - agent\nagent1 - agent"), "an object twice"),
        (PROBLEM.replace("agent1 - agent", "agent1 - (agent)"), "not followed by a type"),
        (PROBLEM.replace("(:objects", "(:objects (nested)"), "holds a parenthesis"),
        (PROBLEM.replace("(exists", "(forall", 1), "uses 'forall'"),
        (re.sub(r"\(objectType \?o1? \w+\)", "(objectType ?o NoType)", PROBLEM), "NoType|notype"),
        ("(define " + "(" * 100_000 + ")" * 100_001, "no :objects section"),
    ],
)
def test_a_broken_problem_is_refused_with_the_reason(problem, reason):
    assert problem != PROBLEM
    with pytest.raises(GameFileError, match=f"its PDDL problem.*({reason})"):
        Game({**GAME, "pddl_problem": problem})


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (f"holds agent1 {OBJECT}", "unknown predicate 'holds'"),
        ("burning agent1", "unknown predicate 'burning'"),
        (f"openable {OBJECT}", "is about object, not about receptacle"),
        (f"inReceptacle {OBJECT}", "is about object, not about object, receptacle"),
        ("openable nothing_bar_1", "is about nothing declared"),
        (f"receptacleAtLocation {RECEPTACLE} loc_bar_0", "two of 'receptacleatlocation'"),
    ],
)
def test_a_start_that_stock_was_never_compared_on_is_refused(fact, reason):
    with pytest.raises(GameFileError, match=reason):
        Game(with_fact(fact))


def test_a_goal_with_too_many_cases_is_refused():
    wide = " ".join(f"?x{i} - object" for i in range(12))
    goal = (
        "(:goal (exists ("
        + wide
        + ") (and "
        + " ".join(f"(isHot ?x{i})" for i in range(12))
        + "))))"
    )
    problem = PROBLEM[: PROBLEM.index("(:goal")] + goal
    with pytest.raises(GameFileError, match="over 100000 cases"):
        Game({**GAME, "pddl_problem": problem})


TOKENS = re.findall(r"[()]|[^\s()]+", PROBLEM)


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, len(TOKENS)) | st.integers(len(TOKENS) - 70, len(TOKENS)),
    cut=st.integers(0, 3),
    new=st.lists(st.sampled_from(["(", ")", "-", "?o", "and", "not", "=", *TOKENS[-60:]])),
)
def test_a_garbled_problem_is_played_or_refused_but_never_crashes(at, cut, new):
    problem = " ".join([*TOKENS[:at], *new, *TOKENS[at + cut :]])
    with suppress(GameFileError):
        Game({**GAME, "pddl_problem": problem})

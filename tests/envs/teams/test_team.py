"""Teams as data: packaged teams load, and errors name the fault of a broken file."""

from __future__ import annotations

from pathlib import Path

import pytest

from trca.envs.teams.team import Team, TeamError

TEXT = """
names: [numbered]
roles:
  planner: {speaks: true}
  executor: {acts: [all], sees: [task, messages], turn: 2}
"""


def test_the_packaged_teams_load() -> None:
    names = {path.stem for path in Path("trca/envs/teams/data").glob("*.yaml")}
    assert names == {"alfworld_planner", "searchqa_searcher", "webshop_planner"}
    for name in names:
        team = Team.load(name)
        assert len(team.roles) == 2
        assert all("{task}" in role.prompt for role in team.roles.values())


def test_a_team_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(TEXT)
    team = Team.load(tmp_path / "team.yaml")
    assert list(team.roles) == ["planner", "executor"]
    assert team.roles["executor"].turn == 2


def test_what_an_action_is_to_a_role() -> None:
    roles = Team.load("searchqa_searcher").roles
    searcher, answerer = roles["searcher"], roles["answerer"]
    assert searcher.message("tell[Ada [1912]]") == "Ada [1912]"
    assert searcher.message("search[tell]") is None
    assert answerer.message("tell[Ada]") is None
    assert searcher.may("SEARCH[x]")
    assert not searcher.may("answer[x]")
    assert not searcher.may("")
    assert Team.parse(TEXT).roles["planner"].message("go to desk 1") == "go to desk 1"
    assert Team.parse(TEXT).roles["executor"].may("go to desk 1")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("speaks: true", "turn: 1"), "role 'planner' neither acts nor speaks"),
        (("acts: [all], ", "speaks: true, "), "no role acts"),
        (("turn: 2", "turn: 0"), "turn is '0'"),
        (("[all]", "[ALL]"), "acts.0 is 'ALL'"),
        (("[all]", "[open, Search]"), "acts.1 is 'Search'"),
        (("[all]", "['go to']"), "acts.0 is 'go to'"),
        (("turn: 2", "trun: 2"), "unknown key 'trun': did you mean 'turn'"),
        (("numbered", "roman"), "names.0 is 'roman'"),
        (("messages]", "letters]"), "sees.1 is 'letters'"),
        (("planner:", "Planner!:"), "Planner!"),
        (("speaks: true", "speaks: true, prompt: 'Do {it}'"), "prompt may hold {task}"),
        (("roles:", "rolls:"), "roles"),
        (("roles:", "roles: ["), "not a YAML file"),
    ],
)
def test_a_broken_team_says_where(change: tuple[str, str], words: str) -> None:
    with pytest.raises(TeamError, match="mine") as error:
        Team.parse(TEXT.replace(*change), "mine")
    assert words in str(error.value)


def test_an_unknown_team_names_the_nearest() -> None:
    with pytest.raises(TeamError, match="alfworld_planner"):
        Team.load("alfworld_planer")

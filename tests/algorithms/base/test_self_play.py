"""Games train: each role by its own return, against frozen earlier copies of the policies."""

from pathlib import Path

import numpy as np
import pytest
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.tune.registry import register_env

from tests.stones import TEAM, Stones
from trca.algorithms import GRPOConfig, TurnPPOConfig, export
from trca.algorithms.base.evaluation import evaluate_panel, local_runner
from trca.algorithms.rollouts.batch import GroupRequest
from trca.envs import make
from trca.records import by_agent, by_episode

pytestmark = pytest.mark.usefixtures("cluster")

ROLES = ("first", "second")
COPIES = tuple(f"{role}_frozen_{k}" for role in ROLES for k in range(2))


@pytest.fixture(scope="module")
def make_game(make_config, tmp_path_factory):
    register_env("Stones", lambda context: make(Stones, **context))
    path = tmp_path_factory.mktemp("team") / "team.yaml"
    path.write_text(TEAM)

    def make_one(config_class=GRPOConfig, **settings):
        own = {"role_policies": "own", "tasks_per_iteration": 4, "evaluation_split": "train"}
        config = make_config(config_class, {"team": str(path)}, **own | settings)
        return config.environment("Stones", env_config={"team": str(path)})

    return make_one


def weights_of(algorithm):
    return algorithm.learner_group.get_weights()


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_each_role_is_credited_by_its_own_return(build, make_game):
    algorithm = build(make_game())
    result = algorithm.train()
    for one, other in by_episode(algorithm.rollouts):
        assert (one.agent_id, other.agent_id) == ROLES
        assert one.won + other.won == (not one.truncated)
    for role, of_role in by_agent(algorithm.rollouts).items():
        assert 0 < np.mean([r.won for r in of_role]) < 1
        rate = result["roles"][role]["success_rate"]
        assert rate == pytest.approx(np.mean([r.won for r in of_role]))
        assert rate == pytest.approx(result["policies"][role]["success_rate"])
        for group in {r.group for r in of_role}:
            played = [r for r in of_role if r.group == group and r.steps]
            if len(played) < 2:
                continue
            returns = np.array([sum(step.reward for step in r.steps) for r in played])
            assert all(sign > 0 for sign, r in zip(returns, played, strict=True) if r.won)
            expected = (returns - returns.mean()) / (returns.std(ddof=1) + 1e-6)
            given = [r.advantages for r in played]
            for advantages, each in zip(given, expected, strict=True):
                np.testing.assert_allclose(advantages, each, atol=1e-9)


def test_a_group_has_one_role_that_learns_against_frozen_copies(build, make_game):
    algorithm = build(make_game(frozen_copies=2, evaluation_rollouts=1, evaluation_interval=1))
    before = weights_of(algorithm)
    assert set(before) == {*ROLES, *COPIES}
    opponents = set()
    for _ in range(3):
        result = algorithm.train()
        for rollout in algorithm.rollouts:
            learner = ROLES[rollout.group % 2]
            assert (rollout.module_id == rollout.agent_id) == (rollout.agent_id == learner)
            assert rollout.module_id in (learner, *COPIES)
            opponents |= {rollout.module_id} - set(ROLES)
        assert {
            len({r.module_id for r in algorithm.rollouts if r.group == g}) for g in range(4)
        } == {2}
    assert opponents == set(COPIES)
    after = weights_of(algorithm)
    assert all(same(before[copy], after[copy]) for copy in COPIES)
    assert not any(same(before[role], after[role]) for role in ROLES)
    assert {r.module_id for r in algorithm.evaluation.rollouts} == set(ROLES)
    rates = [result["evaluation"]["roles"][role]["success_rate"] for role in ROLES]
    assert sum(rates) == pytest.approx(1.0)


def test_the_oldest_copy_takes_the_present_weights(build, make_game):
    algorithm = build(make_game(frozen_copies=2, frozen_copy_interval=2))
    start = weights_of(algorithm)
    history = []
    for _ in range(6):
        assert algorithm.train()["push_difference"] < 1e-4
        history.append(weights_of(algorithm))
    for role in ROLES:
        oldest, newest = (f"{role}_frozen_{k}" for k in range(2))
        assert same(history[0][oldest], start[role])
        assert same(history[1][oldest], history[1][role])
        assert same(history[2][oldest], history[1][role])
        assert same(history[2][newest], start[role])
        assert same(history[3][newest], history[3][role])
        assert same(history[4][oldest], history[1][role])
        assert same(history[5][oldest], history[5][role])


def test_a_checkpoint_has_the_copies_and_an_export_has_none(build, make_game, tmp_path):
    settings = {"frozen_copies": 1, "frozen_copy_interval": 2}
    algorithm = build(make_game(**settings))
    for _ in range(3):
        algorithm.train()
    saved = weights_of(algorithm)
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    again = build(make_game(**settings))
    again.restore_from_path(path)
    restored = weights_of(again)
    assert all(same(saved[policy], restored[policy]) for policy in saved)
    assert not same(saved["first"], saved["first_frozen_0"])
    algorithm.train()
    again.train()
    assert all(
        same(a, b)
        for a, b in zip(weights_of(algorithm).values(), weights_of(again).values(), strict=True)
    )
    for source, folder in ((path, tmp_path / "one"), (algorithm, tmp_path / "two")):
        export(source, folder)
        assert {p.name for p in folder.iterdir() if p.is_dir()} == set(ROLES)
    trained = build(make_game(**settings, model=str(tmp_path / "one")))
    started = weights_of(trained)
    assert same(started["first_frozen_0"], saved["first"])
    assert same(started["first"], saved["first"])


def test_one_policy_plays_all_roles_against_its_copies(build, make_game, tmp_path):
    config = make_game(role_policies="shared", frozen_copies=1)
    algorithm = build(config)
    algorithm.train()
    copy = f"{DEFAULT_MODULE_ID}_frozen_0"
    for rollout in algorithm.rollouts:
        learns = rollout.agent_id == ROLES[rollout.group % 2]
        assert rollout.module_id == (DEFAULT_MODULE_ID if learns else copy)
    folder = export(algorithm, tmp_path / "model")
    assert (Path(folder) / "model.safetensors").is_file()
    runner = local_runner(make_game(role_policies="shared", frozen_copies=1, model=str(folder)))
    rollouts = evaluate_panel(runner, runner.panel("train").head(1)).rollouts
    runner.stop()
    assert {r.module_id for r in rollouts} == {DEFAULT_MODULE_ID}


def test_only_roles_that_learn_take_turns(make_game):
    frozen = make_game(frozen_copies=1, frozen_roles=["first"])
    untrained = make_game(frozen_copies=1).multi_agent(policies_to_train=["second"])
    for config in (frozen, untrained):
        config.validate()
        for number in range(4):
            group = GroupRequest(number, "4", "train", 2, ("key",), progress=0.0)
            assert config.module_of("second", group) == "second"
            assert config.module_of("first", group) == "first_frozen_0"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tasks_per_iteration": 1}, "set tasks_per_iteration to 2"),
        ({"frozen_copy_interval": 0}, "frozen_copy_interval"),
        ({"role_policies": {"first": "a", "second": "a_frozen_0"}}, "'a_frozen_0' has the name of"),
    ],
)
def test_what_self_play_cannot_do_is_refused(make_game, settings, words):
    with pytest.raises(ValueError, match=words):
        make_game(frozen_copies=1, **settings).validate()


def test_self_play_without_a_team_is_refused(make_config):
    with pytest.raises(ValueError, match=r"set env_config\.team"):
        make_config(GRPOConfig, frozen_copies=1).validate()


def test_a_critic_that_several_policies_would_share_is_refused(build, make_game):
    algorithm = build(make_game(TurnPPOConfig, frozen_copies=1))
    with pytest.raises(ValueError, match="acted for one agent"):
        algorithm.train()

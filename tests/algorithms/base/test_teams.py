"""Teams train: each role has its rollouts and its credit, and each policy its own updates."""

import json

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from tests.algorithms.learner.test_rows import random_rows
from trca.algorithms import GRPOConfig, HCAPOConfig, HiPERConfig, TRCAConfig, TurnPPOConfig, export
from trca.algorithms.base.audit import BranchRunner, sample
from trca.algorithms.base.evaluation import evaluate_panel, local_runner
from trca.algorithms.credit import bind_credit
from trca.algorithms.learner.rows import join_roles
from trca.algorithms.rollouts.batch import GroupRequest
from trca.analysis.diagnosis import diagnose
from trca.envs.responses import read_plan
from trca.envs.text_env import DEFAULT_AGENT
from trca.policies.models import load_model
from trca.records import StepBatch, by_agent, episodes, from_json, to_json

pytestmark = pytest.mark.usefixtures("cluster")

TEAM = """
names: [numbered]
roles:
  planner: {speaks: true}
  executor: {acts: [all], sees: [task, observation, memory, admissible, messages], turn: 2}
"""
ROLES = ("planner", "executor")


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("team") / "team.yaml"
    path.write_text(TEAM)
    return str(path)


@pytest.fixture(scope="module")
def make_team(make_config, team):
    def make(config_class=TRCAConfig, **settings):
        return make_config(config_class, {"team": team}, **{"tasks_per_iteration": 2} | settings)

    return make


@pytest.fixture(scope="module")
def played(make_team):
    runner = local_runner(make_team())
    yield evaluate_panel(
        runner, runner.panel("train").head(4), rollouts=4, temperature=1.0
    ).rollouts
    runner.stop()


def weights_of(algorithm):
    got = algorithm.learner_group.get_weights()
    return {module: {k: np.array(v) for k, v in weights.items()} for module, weights in got.items()}


def changed(before, after):
    return any(not np.array_equal(before[name], after[name]) for name in before)


def test_an_episode_leaves_a_rollout_of_each_role(played):
    assert len(played) == 32
    for one, other in zip(played[::2], played[1::2], strict=True):
        assert (one.agent_id, other.agent_id) == ROLES
        assert (one.group, one.index, one.won) == (other.group, other.index, other.won)
        turns = sorted(one.turns + other.turns)
        assert turns == list(range(len(turns)))
        assert one.turns[0] == 0
        assert all(len(r.turns) == len(r.steps) for r in (one, other))
        for rollout in (one, other):
            assert sum(step.reward for step in rollout.steps) == float(rollout.won)
    assert len(episodes(played)) == 16


def test_each_role_is_judged_by_its_own_operators(played):
    planner, executor = (by_agent(played)[role] for role in ROLES)
    assert {len(r.operators) for r in planner} == {15}
    assert "message_empty" in planner[0].operators
    assert "key_taken" in executor[0].operators
    assert all(len(s.judgments) == 15 for r in played for s in r.steps)
    assert any(s.judgments.any() for r in planner for s in r.steps)


def test_the_message_is_in_the_executors_observation(played):
    planner, executor = (by_agent(played)[role] for role in ROLES)
    messages = [(r, step.action) for r in planner for step in r.steps[:1] if step.action.strip()]
    assert messages
    for rollout, message in messages:
        reader = next(r for r in executor if (r.group, r.index) == (rollout.group, rollout.index))
        line = reader.steps[0].observation.splitlines()[-1]
        assert line == f"planner: {' '.join(message.split())}"


def test_the_diagnosis_of_one_agent_refuses_a_team(played):
    with pytest.raises(ValueError, match="not of planner and executor"):
        diagnose(played, [r.group for r in played], np.zeros(15, np.int8))


def test_a_record_of_a_role_is_read_back(played):
    for rollout in played[:2]:
        back = from_json(to_json(rollout))
        assert (back.agent_id, back.turns, back.module_id) == (
            rollout.agent_id,
            rollout.turns,
            rollout.module_id,
        )
        assert to_json(back) == to_json(rollout)


def test_records_have_the_instruction_where_a_role_is_not_shown_it(make_config, tmp_path):
    (tmp_path / "team.yaml").write_text(TEAM.replace("speaks: true", "speaks: true, sees: []"))
    runner = local_runner(make_config(env_config={"team": str(tmp_path / "team.yaml")}))
    rollouts = evaluate_panel(runner, runner.panel("train").head(1)).rollouts
    prompt = runner.loop.tokenizer.decode(rollouts[0].steps[0].prompt_ids)
    runner.stop()
    assert "take the key." not in prompt
    assert [r.instruction for r in rollouts] == ["take the key."] * 2


def test_an_audit_refuses_a_team_before_it_plays(make_team):
    runner = local_runner(make_team(), BranchRunner)
    with pytest.raises(ValueError, match="one agent, not of planner and executor"):
        sample(runner, tasks=2, size=2, seed=0)
    runner.stop()


def test_a_record_of_the_only_agent_says_nothing_of_teams(make_config):
    runner = local_runner(make_config())
    (rollout,) = evaluate_panel(runner, runner.panel("train").head(1)).rollouts
    assert rollout.agent_id == DEFAULT_AGENT
    assert not {"turns", "module_id"} & set(json.loads(to_json(rollout)))
    runner.stop()


def test_each_role_follows_its_own_subgoal(make_team, planner):
    config = make_team(model=str(planner), response_format="plan", max_new_tokens=40)
    runner = local_runner(config)
    panel, decode = runner.panel("train").head(4), runner.loop.tokenizer.decode
    rollouts = evaluate_panel(runner, panel, rollouts=4, temperature=1.0).rollouts
    runner.stop()
    followed = 0
    for rollout in rollouts:
        subgoal = ""
        for step in rollout.steps:
            _, line, rest = decode(step.prompt_ids).partition("\nYour subgoal: ")
            assert rest.partition("\n")[0] == subgoal if line else not subgoal
            plan = read_plan(step.response).plan
            subgoal = subgoal if plan is None else plan.subgoal
            followed += line != ""
    assert followed > 5


@pytest.mark.slow
def test_credit_of_a_role_does_not_depend_on_the_other(build, make_team):
    algorithm = build(make_team())
    algorithm.train()
    for role, of_role in by_agent(algorithm.rollouts).items():
        batch = StepBatch.from_rollouts(of_role, algorithm._operators[role].categories)
        advantages = bind_credit("trca", algorithm.config.settings)(batch)
        given = np.concatenate([r.advantages for r in of_role])
        np.testing.assert_array_equal(given, advantages)
        assert np.abs(given).max() > 0.1


@pytest.mark.parametrize("sizes", [(3,), (5, 5), (2, 9, 4)])
def test_roles_that_share_a_policy_count_alike(sizes):
    parts = [random_rows(size) for size in sizes]
    joined = join_roles(parts)
    assert joined.total == sum(sizes)
    assert joined.number.tolist() == list(range(sum(sizes)))
    for share in np.split(joined.weights, np.cumsum(sizes)[:-1]):
        assert share.sum() == pytest.approx(1.0 / len(parts))


def test_two_policies_learn_each_from_its_role(build, make_team):
    config = make_team(role_policies="own", policy_lr={"planner": 2e-3})
    algorithm = build(config)
    before = weights_of(algorithm)
    assert set(before) == set(ROLES)
    assert not changed(before["planner"], before["executor"])
    result = algorithm.train()
    after = weights_of(algorithm)
    assert changed(before["planner"], after["planner"])
    assert changed(before["executor"], after["executor"])
    assert changed(after["planner"], after["executor"])
    assert {r.agent_id: r.module_id for r in algorithm.rollouts} == {r: r for r in ROLES}
    advantages = [
        np.concatenate([r.advantages for r in of_role])
        for of_role in by_agent(algorithm.rollouts).values()
    ]
    assert all(np.abs(each).max() > 0.1 for each in advantages)
    assert set(result["roles"]) == set(ROLES)
    assert result["policies"]["planner"]["lr"] == 2e-3
    assert result["policies"]["executor"]["lr"] == 1e-3
    assert result["push_difference"] < 1e-4
    steps = sum(len(r.steps) for r in algorithm.rollouts) / len(episodes(algorithm.rollouts))
    assert result["episode_length"] == pytest.approx(steps)
    assert result["env_runners"]["episode_len_mean"] == pytest.approx(steps)


@pytest.mark.parametrize("kind", ["trunk", pytest.param("own", marks=pytest.mark.slow)])
def test_each_policy_of_a_team_has_a_critic_of_its_own(build, make_team, kind):
    rates = {"critic": kind, "critic_lr": 1e-2, "policy_lr": {"planner": 1e-30}}
    algorithm = build(make_team(TurnPPOConfig, role_policies="own", lr=1e-30, **rates))
    before = weights_of(algorithm)
    result = algorithm.train()
    after = weights_of(algorithm)
    assert result["skipped_updates"] == 0
    modules = algorithm.learner_group._learner.module
    read = {}
    for role, of_role in by_agent(algorithm.rollouts).items():
        named = [name for name in before[role] if name.startswith("critic/")]
        assert changed(*({name: of[role][name] for name in named} for of in (before, after)))
        explained = result["roles"][role]["explained_variance"]
        assert explained == pytest.approx(0.0)  # the head starts at zero
        assert result["policies"][role]["value_loss"] > 0.0
        prompts = [step.prompt_ids for rollout in of_role for step in rollout.steps][:3]
        values = algorithm._sources(of_role).learners.values(prompts, [np.zeros(1, int)] * 3)
        read[role] = np.concatenate(values).ravel()
        slow = [value_at_end(modules[role], prompt) for prompt in prompts]
        np.testing.assert_allclose(read[role], slow, rtol=1e-4, atol=1e-5)
    assert np.abs(read["planner"] - read["executor"]).max() > 1e-3


def value_at_end(module, prompt_ids):
    with torch.no_grad():
        ids = torch.from_numpy(np.asarray(prompt_ids, dtype=np.int64))[None]
        place = {"row": torch.tensor([0]), "position": torch.tensor([len(prompt_ids) - 1])}
        return float(module.values(input_ids=ids, **place))


def test_a_role_that_was_cut_off_keeps_what_it_would_have_read_next(make_config, tmp_path):
    (tmp_path / "team.yaml").write_text(TEAM.replace("speaks: true", "speaks: true, sees: [task]"))
    env_config = {"team": str(tmp_path / "team.yaml")}
    runner = local_runner(make_config(TurnPPOConfig, env_config, template="paper"))
    decode = runner.loop.tokenizer.decode
    tasks = enumerate(runner.panel("train").task_ids)
    groups = [GroupRequest(k, task, "train", 1, ("report", 0), progress=0.0) for k, task in tasks]
    rollouts = runner.sample(groups=groups).rollouts
    runner.stop()
    cut = [rollout for rollout in rollouts if rollout.truncated]
    assert {rollout.agent_id for rollout in cut} == set(ROLES)
    assert all((r.final_prompt_ids is not None) == r.truncated for r in rollouts)
    for rollout in cut:
        asked, last = (decode(p) for p in (rollout.final_prompt_ids, rollout.steps[-1].prompt_ids))
        assert asked != last
        if rollout.agent_id == "executor":
            assert rollout.last_observation in asked
        actions = asked.partition("admissible actions")[2]
        assert ("knock" in actions) == (rollout.agent_id == "executor")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config_class", "settings"),
    [
        (HiPERConfig, {"response_format": "plan", "max_new_tokens": 40}),
        (TurnPPOConfig, {"role_policies": "own", "lora_rank": 2}),
        (TurnPPOConfig, {"gae": "bi_level", "ratio_level": "token"}),
    ],
)
def test_rules_with_a_critic_train_teams(build, make_team, planner, config_class, settings):
    model = {"model": str(planner)} if "response_format" in settings else {}
    algorithm = build(make_team(config_class, critic_lr=1e-2, **settings, **model))
    before = weights_of(algorithm)
    results = [algorithm.train() for _ in range(2)]
    after = weights_of(algorithm)
    assert all(result["skipped_updates"] == 0 for result in results)
    assert all(changed(before[module], after[module]) for module in before)
    for module in before:
        assert np.abs(after[module]["critic/head.weight"]).max(axis=1).min() > 0


@pytest.mark.parametrize(
    ("config_class", "policies"), [(TRCAConfig, "shared"), (TurnPPOConfig, "own")]
)
def test_each_role_replays_its_own_rollouts(build, make_team, tmp_path, config_class, policies):
    replay = {"replay_size": 2, "replay_weight": 0.5}
    algorithm = build(make_team(config_class, role_policies=policies, **replay))
    untrained = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    assert algorithm.train()["replayed_rollouts"] == 0
    assert set(algorithm.get_state()["replay"]) == set(ROLES)
    parts, _ = algorithm.replays.add({}, algorithm.rollouts, iteration=0)
    modules = ROLES if policies == "own" else (DEFAULT_MODULE_ID,)
    assert set(parts) == set(modules)
    for rows in parts.values():
        assert rows.replayed.all()
        assert rows.weights.sum() == pytest.approx(0.5)
    algorithm._update(parts)
    assert algorithm.train()["skipped_updates"] == 0
    algorithm.restore_from_path(untrained)
    assert algorithm.get_state()["replay"] == {}


def test_a_frozen_role_and_an_untrained_policy_stay_as_they_are(build, make_team):
    by_role = {"planner": "talk", "executor": "walk"}
    frozen = make_team(role_policies=by_role, frozen_roles=["planner"])
    untrained = make_team(GRPOConfig).multi_agent(  # RLlib's own settings
        policies={"talk", "walk"},
        policy_mapping_fn=lambda agent_id, episode, **kw: by_role[agent_id],
        policies_to_train=["walk"],
    )
    for config in (frozen, untrained):
        algorithm = build(config)
        before = weights_of(algorithm)
        algorithm.train()
        after = weights_of(algorithm)
        assert not changed(before["talk"], after["talk"])
        assert changed(before["walk"], after["walk"])
        assert all(r.advantages is not None for r in algorithm.rollouts)


def test_a_group_that_teaches_a_frozen_role_alone_is_refilled(build, make_team, tmp_path):
    rule = tmp_path / "rule.py"  # only the executor sees the planner's messages
    rule.write_text(
        "import numpy as np\n"
        "def to_the_planner(batch):\n"
        "    heard = any('planner: ' in text for text in batch.texts)\n"
        "    return np.full(len(batch), 0.0 if heard else 1.0)\n"
    )
    config = make_team(
        GRPOConfig,
        credit=f"{rule}:to_the_planner",
        frozen_roles=["planner"],
        on_zero_advantage="drop_groups",
        refill_groups=2,
        tasks_per_iteration=2,
    )
    algorithm = build(config)
    assert algorithm.train()["refilled_groups"] == 2
    planner, executor = (by_agent(algorithm.rollouts)[role] for role in ROLES)
    assert all(r.advantages is not None and r.advantages.all() for r in planner)
    assert not any(r.advantages is None or r.advantages.any() for r in executor)


def test_log_probabilities_of_an_agent_that_several_policies_act_for_are_refused(
    build, make_config
):
    config = make_config(HCAPOConfig, tasks_per_iteration=2, group_size=2)
    config.multi_agent(
        policies={"even", "odd"},
        policy_mapping_fn=lambda agent_id, episode, **kw: ("even", "odd")[episode.group % 2],
    )
    algorithm = build(config)
    with pytest.raises(ValueError, match="even and odd acted for one agent"):
        algorithm.train()


@pytest.mark.slow
@pytest.mark.parametrize("config_class", [TRCAConfig, TurnPPOConfig])
def test_a_checkpoint_holds_every_policy(build, make_team, tmp_path, config_class):
    config = make_team(config_class, role_policies="own")
    algorithm = build(config)
    algorithm.train()
    saved = weights_of(algorithm)
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.train()
    later = weights_of(algorithm)
    again = build(make_team(config_class, role_policies="own"))
    again.restore_from_path(path)
    restored = weights_of(again)
    for role in ROLES:
        assert not changed(saved[role], restored[role])
    again.train()
    resumed = weights_of(again)
    for role in ROLES:
        assert not changed(later[role], resumed[role])


@pytest.mark.slow
def test_each_policy_is_exported_and_plays_again(build, make_team, tmp_path):
    algorithm = build(make_team(role_policies="own"))
    algorithm.train()
    sampled = evaluate_panel(algorithm.env_runner_group, algorithm.panel("train").head(2))
    folder = export(algorithm, tmp_path / "model")
    saved = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    again = export(saved, tmp_path / "again")
    for role in ROLES:
        one, other = (load_model(str(at / role)).state_dict() for at in (folder, again))
        assert all(torch.equal(one[name], other[name]) for name in one)
    runner = local_runner(make_team(role_policies="own", model=str(again)))
    played = evaluate_panel(runner, runner.panel("train").head(2))
    runner.stop()
    for one, other in zip(sampled.rollouts, played.rollouts, strict=True):
        assert [s.response for s in one.steps] == [s.response for s in other.steps]
    trained = build(make_team(role_policies="own", model=str(again)))
    weights = weights_of(trained)
    trained.train()
    for role in ROLES:
        saved_weights = load_model(str(again / role)).state_dict()
        for name, value in weights[role].items():
            np.testing.assert_array_equal(value, saved_weights[name])


@pytest.mark.slow
def test_each_policy_has_an_adapter_of_its_own(build, make_team):
    pytest.importorskip("peft")
    config = make_team(role_policies="own", lora_rank=2, policy_lr={"planner": 1e-2})
    algorithm = build(config)
    before = weights_of(algorithm)
    assert all("lora" in name for weights in before.values() for name in weights)
    learner = algorithm.learner_group._learner
    engines = algorithm.env_runner.loop.engine.engines
    for models in (
        [learner.module[role].model for role in ROLES],
        [engines[role].model for role in ROLES],
    ):
        places = [model.get_input_embeddings().weight.data_ptr() for model in models]
        assert len(set(places)) == 1
    algorithm.train()
    after = weights_of(algorithm)
    assert all(changed(before[role], after[role]) for role in ROLES)
    assert changed(after["planner"], after["executor"])


def test_swapped_policies_play_each_others_roles(make_team):
    swapped = {"planner": "executor", "executor": "planner"}
    runner = local_runner(make_team(role_policies=swapped))
    rollouts = evaluate_panel(runner, runner.panel("train").head(1)).rollouts
    assert {r.agent_id: r.module_id for r in rollouts} == swapped
    runner.stop()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"frozen_roles": ["scout"]}, "'scout'"),
        ({"frozen_roles": list(ROLES)}, "every role is frozen"),
        ({"role_policies": {"planner": "p"}}, "no policy for executor"),
        ({"policy_lr": {"planer": 1.0}}, "policy in policy_lr"),
        ({"role_policies": "own", "sharding": "fsdp", "num_learners": 2}, "sharding"),
    ],
)
def test_what_a_team_cannot_have_is_refused(make_team, settings, words):
    with pytest.raises(ValueError, match=words):
        make_team(**settings).validate()


def test_roles_without_a_team_are_refused(make_config):
    with pytest.raises(ValueError, match=r"env_config\.team"):
        make_config(role_policies="own").validate()


def test_a_prompt_of_words_has_the_roles_brief(make_config, tmp_path):
    briefed = TEAM.replace("speaks: true", "speaks: true, prompt: 'Plan: {task}'")
    (tmp_path / "team.yaml").write_text(briefed)
    settings = {"env_config": {"team": str(tmp_path / "team.yaml")}, "max_new_tokens": 2}
    for template, shown in (("paper", True), ("compact", False)):
        runner = local_runner(make_config(template=template, **settings))
        planner, executor = evaluate_panel(runner, runner.panel("train").head(1)).rollouts
        decode = runner.loop.tokenizer.decode
        assert ("Plan: take the key." in decode(planner.steps[0].prompt_ids)) == shown
        assert "Plan:" not in decode(executor.steps[0].prompt_ids)
        runner.stop()

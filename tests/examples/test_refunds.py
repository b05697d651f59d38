"""The example with tools and a small rubric."""

from pathlib import Path

from tests.examples.test_key_door import EXAMPLES, settings
from trca.envs import make
from trca.envs.check import self_check
from trca.envs.registration import check_library
from trca.envs.responses import read_action
from trca.envs.tool_calls import read_calls
from trca.policies.warmstart import demonstrate

FOLDER = EXAMPLES / "refunds"
DESK = f"{FOLDER}/desk.py:RefundDesk"


def test_it_trains(cluster: None) -> None:
    trainer = settings("TRCA", DESK).algorithm_config().build_algo()
    try:
        trainer.train()
        steps = [step for rollout in trainer.rollouts for step in rollout.steps]
        assert {len(step.judgments) for step in steps} == {4}
        assert trainer.panel("test").environment == "RefundDesk"
    finally:
        trainer.stop()


def test_it_is_sound_and_small() -> None:
    env = make(DESK)
    report = self_check(env, env.unwrapped.task_ids[:24])  # type: ignore[attr-defined]
    assert report.ok, report.problems
    assert min(report.firing.values()) > 0, report.firing
    assert len(check_library(FOLDER / "rubric.yaml", DESK).ids) == 4
    lines = [
        len(Path(FOLDER, name).read_text().splitlines()) for name in ("desk.py", "rubric.yaml")
    ]
    assert sum(lines) <= 100


def test_a_tiny_policy_imitates_calls_from_short_prompts() -> None:
    examples = demonstrate([make(DESK)], 0.5, 40, 0, 0, lambda *_: None)
    assert {call.name for each in examples for call in read_calls(each.action)} == {
        "show",
        "refund",
    }
    for example in examples:
        assert read_action(example.response).action == example.action
        assert "arguments" not in example.prompt

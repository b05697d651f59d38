"""``trca evaluate --resume``: evaluations at an endpoint that were stopped, or are incomplete."""

import json
import os
import shutil
import signal
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.cli.calls import chatting, done, refused, trca
from tests.toy import ACTIONS
from trca.common.files import held
from trca.records import read_rollouts

ENV = [f"--set=env={Path(__file__).parents[2] / 'toy.py'}:Rooms", "--set=env_config={tasks: 6}"]
COMMON = ["--model=m", *ENV, "--split=valid", "--seeds=2", "--temperature=1", "--transcripts"]
ONE_BY_ONE = "--set=engine_config.concurrency=1"


@contextmanager
def endpoint(allowed=(), acts=None):
    """A server whose answers depend on the seed of the request only; yields its URL and the seeds.

    After the allowed number of answers it is down, until `allowed` is empty. `acts` has functions
    to call before an answer, by the number of the answer.
    """
    seeds = []

    def answer(request):
        seeds.append(request["seed"])
        if acts and len(seeds) in acts:
            acts.pop(len(seeds))()
        down = any(len(seeds) > most for most in allowed)
        return 500 if down else f"<action>{ACTIONS[request['seed'] % len(ACTIONS)]}</action>"

    with chatting(answer) as (url, _):
        yield url, seeds


def evaluate(url, *more, call=done):
    return call("evaluate", f"--base-url={url}", *COMMON, *more)


def results(here):
    """Outcomes, endpoint usage, and the text of all responses, from the report."""
    [path] = here.glob("outputs/*.json")
    told = json.loads(path.read_text())
    rollouts = read_rollouts(path.with_suffix(".parquet"))
    said = [(r.task_id, [step.response for step in r.steps]) for r in rollouts]
    return told["outcomes"], told["endpoint"], said


def interrupt():
    """Interrupts this process as by Ctrl-C, and waits until the client has noticed."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)


def kept_episodes(here):
    [kept] = here.glob("outputs/*.episodes")
    return kept


def test_a_killed_evaluation_continues_with_the_episodes_that_it_has_not_played(here):
    acts, copy = {}, here / "copy"

    def copy_and_interrupt():
        drafts = shutil.ignore_patterns(".*")  # a draft may get its name during the copy
        shutil.copytree(kept_episodes(here), copy, ignore=drafts)
        interrupt()

    with endpoint(acts=acts) as (url, seeds):
        evaluate(url, ONE_BY_ONE)
        outcomes, _, said = results(here)
        assert len(outcomes) == 12
        for path in here.glob("outputs/evaluation_*"):
            path.unlink()
        requests = sorted(seeds)
        seeds.clear()
        acts[20] = copy_and_interrupt
        evaluate(url, ONE_BY_ONE, call=trca)
        kept = kept_episodes(here)
        shutil.rmtree(kept)  # a killed process leaves what was there in that moment
        copy.rename(kept)
        played = len([*kept.glob("seed-*.parquet")])
        assert 0 < played < 12
        assert "--resume plays the others" in evaluate(url, ONE_BY_ONE, call=refused)
        before = len(seeds)
        steps = sum(len(r.steps) for r in read_rollouts(kept))
        assert f"after {played} episodes" in evaluate(url, ONE_BY_ONE, "--resume")
        again, usage, said_again = results(here)
        assert (again, said_again) == (outcomes, said)
        assert sorted(set(seeds)) == requests
        assert len(seeds) - before == len(requests) - steps
        assert 0 <= len(seeds) - usage["requests"] < 12  # answers after the last kept episode
        assert not kept.exists()
        count = len(seeds)
        assert "is complete: leave --resume" in evaluate(url, ONE_BY_ONE, "--resume", call=refused)
        assert len(seeds) == count


def test_ctrl_c_keeps_the_episodes_and_another_evaluation_does_not_continue_with_them(here):
    with endpoint(acts={20: interrupt}) as (url, _):
        result = evaluate(url, ONE_BY_ONE, call=partial(refused, code=130))
        assert "episodes are kept: the same command with --resume" in result
        kept = kept_episodes(here)
        for changed, words in (
            ("--model=n", "has model: 'm', not 'n'"),
            ("--temperature=0", "has temperature: 1.0, not 0.0"),
            ("--seeds=3", "has seeds: 2, not 3"),
            ("--tasks=5", "has panel: "),
            ("--set=history_length=1", "has history_length: 2, not 1"),
        ):
            said = evaluate(url, ONE_BY_ONE, "--resume", changed, call=refused)
            assert words in said
            assert kept.name in said
        about = json.loads((kept / "evaluation.json").read_text())
        (kept / "evaluation.json").write_text(json.dumps({**about, "trca": "3.0.0"}))
        assert "has trca: '3.0.0', not" in evaluate(url, ONE_BY_ONE, "--resume", call=refused)
        (kept / "evaluation.json").write_text(json.dumps(about))
        evaluate(url, ONE_BY_ONE, "--resume")
    assert len(results(here)[0]) == 12


def test_episodes_that_the_endpoint_failed_are_played_by_resume(here):
    allowed = [13]
    with endpoint(allowed=allowed) as (url, seeds):
        fails = ONE_BY_ONE, "--set=engine_config.attempts=1"
        output = evaluate(url, *fails)
        assert "missing: EndpointError: " in output
        assert "with --resume plays the others" in output
        outcomes, _, _ = results(here)
        missing = sum(outcome["won"] is None for outcome in outcomes)
        assert 0 < missing < 12
        failures = len(seeds) - allowed.pop()
        evaluate(url, *fails, "--resume")
        outcomes, usage, _ = results(here)
        assert [outcome["won"] is None for outcome in outcomes] == [False] * 12
        assert (usage["requests"], usage["failures"]) == (len(seeds) - failures, failures)
        assert not [*here.glob("outputs/*.episodes")]


def test_resume_begins_an_evaluation_and_is_for_endpoints(here):
    with endpoint() as (url, _):
        evaluate(url, "--resume")
        assert len(results(here)[0]) == 12
        agent = "--agent=reflexion", "--trials=2"
        evaluate(url, "--resume", "--output=reflexion", *agent)
    assert "--resume is for a model at an endpoint" in refused("evaluate", "tiny", "--resume")
    [path] = Path("reflexion").glob("evaluation_*.json")
    assert json.loads(path.read_text())["rows"][-1]["n"] == 12
    assert not [*here.rglob("*.episodes")]


def test_two_processes_do_not_play_one_evaluation(here):
    with endpoint(allowed=[13]) as (url, _):
        once = ONE_BY_ONE, "--set=engine_config.attempts=1"
        evaluate(url, *once)
        with held(kept_episodes(here) / "lock"):
            words = evaluate(url, *once, "--resume", call=partial(refused, code=1))
    assert "plays this evaluation: wait for its end" in words

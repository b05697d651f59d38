"""The page in a real browser: its content, and that no text of a model runs as code."""

import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.calls import done
from tests.cli.view.conftest import ATTACKS
from trca.cli.view.bundle import single_file
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import iteration_files, rollout_file

CHROMIUM = Path("/usr/bin/chromium")
WAIT_MS = 300_000
"""Longest wait: a busy machine is slow, and that is no fault."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=WAIT_MS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page that takes no error, and nothing from elsewhere."""
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.set_default_timeout(WAIT_MS)
    errors, requests = [], []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    opened.on("request", lambda request: requests.append(request.url))
    yield opened
    opened.close()
    assert errors == []
    assert [u for u in requests if not re.match(r"(http://127\.0\.0\.1:\d+/|file:|data:)", u)] == []


@contextmanager
def serving(*arguments):
    """`trca view` as a process; gives its address, and ends it by Ctrl-C."""
    command = [sys.executable, "-m", "trca", "view", *map(str, arguments), "--port=0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=600)
        assert server.returncode == 0, said
        assert "Traceback" not in said
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def exported(hostile_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "rollouts.html"
    done("view", hostile_run, f"--export={path}")
    return path


def assert_harmless(page):
    """Looks at every view, and finds the attacks as words."""
    page.wait_for_selector(".list .pip")
    assert ATTACKS[0] in page.inner_text(".list")
    page.locator(".list .pip").first.click()
    page.wait_for_selector(".turn.end")
    for part in (".cell b", ".cell span", ".cell p + p", ".cell li[aria-current]"):
        assert ATTACKS[1] in page.locator(part).first.inner_text()
    for part in (".title", ".observation >> nth=0", ".action >> nth=0", ".thought >> nth=0"):
        for attack in ATTACKS[:2]:
            assert attack in page.inner_text(part)
    assert page.locator(".turn .fired code").count() > 0
    command = "trca inspect hostile --iteration 1 --rollout 0"
    assert f" · {command}" in page.inner_text(".title")
    page.get_by_role("button", name="side by side").click()
    page.wait_for_selector(".beside")
    page.get_by_role("button", name="Rollouts").click()
    page.locator(".list .pip").last.click()
    page.wait_for_selector(".note")
    assert ATTACKS[0] in page.inner_text("h1")
    page.get_by_role("button", name="Training").click()
    page.wait_for_selector(".multiples")
    assert ATTACKS[1] in page.inner_text("main")
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, main style, [onload], [onerror]").count() == 0


def test_no_text_of_a_model_runs_in_an_exported_file(page, exported):
    page.goto(exported.as_uri())
    assert_harmless(page)
    text = exported.read_text()
    assert text.count("<script") == text.count("</script>") == 2  # the data and the page's own
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_policy_alone_stops_a_script_in_an_exported_file(browser, exported, tmp_path):
    attacked = tmp_path / "attacked.html"
    attacked.write_text(exported.read_text().replace("<body>", f"<body>{ATTACKS[0]}{ATTACKS[1]}"))
    page = browser.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(attacked.as_uri())
    page.wait_for_selector(".list .pip")
    assert page.locator("img").count() == 1
    assert page.evaluate("window.ran") is None
    page.close()


def test_runs_that_cannot_be_read_are_told_of(page, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text(single_file({"kind": "train", "runs": None}))
    page.goto(path.as_uri())
    page.wait_for_selector(".note")


@pytest.mark.slow
def test_a_served_page_runs_no_text_lists_filters_and_walks(page, hostile_run, recorded_run):
    with serving(recorded_run, hostile_run) as address:
        page.goto(f"{address}#kind=train&i0=1&i1=1")
        page.wait_for_selector(".list .pip")
        assert "4 of 4 groups, 12 rollouts" in page.inner_text(".filters")
        page.select_option("[aria-label=outcome]", "none")
        assert "0 of 4 groups" in page.inner_text(".filters")
        page.select_option("[aria-label=outcome]", "mixed")
        page.fill("[aria-label=task]", "onerror")
        assert "2 of 4 groups, 6 rollouts" in page.inner_text(".filters")
        page.select_option("[aria-label=operator]", "target_taken")
        assert page.locator(".list .pip.fired").count() > 0
        assert_harmless(page)

        page.goto(f"{address}#kind=train&i0=1&i1=1")
        page.reload()
        page.wait_for_selector(".list .pip")
        page.select_option("[aria-label=type]", "Clean")
        page.select_option("[aria-label='iteration of run']", "3")
        page.wait_for_selector("text=0 of 4 groups")
        assert page.input_value("[aria-label=type]") == "Clean"
        page.select_option("[aria-label=type]", "")
        assert "4 of 4 groups" in page.inner_text(".filters")

        page.goto(f"{address}#view=group&kind=train&i0=1&run=0&group=0&rollout=1")
        page.reload()
        page.wait_for_selector(".turn.end")
        assert "lost, cut off at the step limit" in page.inner_text(".turn.end")
        assert page.locator(".turn .fired code").count() > 0
        for key, name in (("j", "3"), ("k", "2"), ("k", "1")):
            page.keyboard.press(key)
            page.wait_for_selector(f".tab[aria-pressed=true]:text-is('{name}')")
        for _ in range(3):  # on into the next group
            page.keyboard.press("j")
        page.wait_for_selector("text=group 1")
        page.set_viewport_size({"width": 420, "height": 900})
        page.reload()
        page.wait_for_selector(".strip")
        assert page.evaluate("document.documentElement.scrollWidth") == 420
        page.goto(f"{address}#kind=train")
        page.reload()
        page.wait_for_selector(".list .pip")
        assert page.input_value("[aria-label='iteration of run']") == "1"  # the last of both runs
        page.goto("about:blank")  # a page that asks a server that has ended logs errors


@pytest.mark.slow
def test_the_curve_selects_in_both_runs_and_a_running_run_grows(page, recorded_run, tmp_path):
    runs = [RunFolder(shutil.copytree(recorded_run, tmp_path / name)) for name in "ab"]
    for run, counts in zip(runs, ((6, 18), (5, 20)), strict=True):
        for iteration, count in zip((1, 3), counts, strict=True):
            row = {"iteration": iteration, "trajectories": count, "success_rate": 0.5}
            run.append_metrics(row)

    def shown():
        return [page.input_value(f"#pick{k}") for k in (0, 1)]

    with serving(*(run.path for run in runs)) as address:
        page.goto(address)
        page.wait_for_selector(".list .pip")
        assert shown() == ["3", "3"]
        assert "a: iteration 3, 18 trajectories" in page.inner_text("[role=status]")
        page.focus("#curve")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("#curve[aria-valuetext*='a: iteration 1, 6 trajectories']")
        assert shown() == ["1", "1"]
        page.keyboard.press("End")  # the focus is still on the curve
        page.wait_for_selector("#curve[aria-valuetext*='b: iteration 3, 20 trajectories']")
        width = page.locator("#curve").bounding_box()["width"]
        page.locator("#curve").click(position={"x": 0.35 * width, "y": 40})
        page.wait_for_selector("#curve[aria-valuetext*='b: iteration 1, 5 trajectories']")
        page.wait_for_selector(".list .pip")

        page.evaluate("document.querySelector('.list').id = 'kept'")
        page.fill("[aria-label=task]", "train")
        new = rollout_file(runs[1], "train", 4)
        shutil.copy(iteration_files(runs[1], "train")[3], new)
        runs[1].append_metrics({"iteration": 4, "trajectories": 30, "success_rate": 1.0})
        page.wait_for_selector("#pick1 option[value='4']", state="attached")
        assert shown() == ["1", "1"]
        assert page.input_value("[aria-label=task]") == "train"
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "task"
        assert page.locator("#kept .pip").count() == 12

        page.get_by_role("button", name="Training").click()
        page.get_by_text("Success as a table").click()
        page.get_by_role("button", name="iteration 4").click()
        page.wait_for_selector(".list .pip")
        assert shown() == ["3", "4"]
        page.goto("about:blank")

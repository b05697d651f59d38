"""Shows slow steps of environments on the console while they run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, SupportsFloat

import gymnasium

from trca.common.process_log import SILENT_S
from trca.common.threads import STILL_RUNNING

_EVERY_S: Final = 1.0
_SHOWN: Final = 80
"""Characters of an action in a notice."""
_SILENT: Final = "Timeout ("
"""Start of the line that `faulthandler` writes above the tracebacks of a silent process."""


@contextmanager
def slow_steps_shown(log: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Reads the log of a run, to which all its processes write, and shows slow steps.

    Args:
        log: The log.
        say: Shows a line of text; called in a thread.
    """
    ended = threading.Event()
    start = log.stat().st_size if log.is_file() else 0

    def read() -> None:
        place = start
        while not ended.wait(_EVERY_S):
            place = _show_from(log, place, say)

    thread = threading.Thread(target=read, name="trca-slow-steps", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class SlowStepNotice(gymnasium.Wrapper[str, str, str, str]):
    """Shows each reset and step that takes longer than a limit, with the current line of code.

    The environment is called in the thread of the caller. A second thread watches the time.
    """

    def __init__(
        self, env: gymnasium.Env[str, str], say: Callable[[str], None], limit_s: float = SILENT_S
    ) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            say: Shows a line of text; called in a thread.
            limit_s: Seconds that a call may take without a notice.
        """
        super().__init__(env)
        self._say, self._limit_s = say, limit_s
        self._call: tuple[str, float, int] | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="trca-slow-steps", daemon=True).start()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode."""
        with self._timed(f"reset(options={options})"):
            return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes a step."""
        shown = repr(action) if len(action) <= _SHOWN else f"{action[:_SHOWN]!r}..."
        with self._timed(f"step({shown})"):
            return self.env.step(action)

    def close(self) -> None:
        """Closes the environment and ends the watch."""
        self._ended.set()
        self.env.close()

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        self._call = call, time.monotonic(), threading.get_ident()
        try:
            yield
        finally:
            self._call = None

    def _watch(self) -> None:
        named = None
        while not self._ended.wait(min(self._limit_s, _EVERY_S)):
            current = self._call
            if current is None or current is named:
                continue
            call, since, thread = current
            if time.monotonic() - since > self._limit_s:
                named = current
                name = type(self.env.unwrapped).__name__
                place = _place(thread)
                self._say(f"{name}: {call} {STILL_RUNNING} {self._limit_s:g} s{place}")


def _place(thread: int) -> str:
    """The current line of a thread."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    code = frame.f_code
    return f", at {Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"


def _show_from(log: Path, place: int, say: Callable[[str], None]) -> int:
    """Shows what complete lines from a place in a log say about slow steps; returns their end."""
    try:
        with log.open("rb") as file:
            file.seek(place)
            lines, newline, _ = file.read().rpartition(b"\n")
    except OSError:
        return place
    for line in lines.decode("utf-8", "replace").splitlines():
        if STILL_RUNNING in line:
            say(line.partition("WARNING ")[2] or line)
        elif line.startswith(_SILENT):
            say(
                f"a process has run no Python code for {SILENT_S:g} s: native code, such as a"
                f" library of an environment, does not return. {log} shows where"
            )
    return place + len(lines) + len(newline)

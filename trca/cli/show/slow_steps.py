"""Shows slow steps of environments on the console while they run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, SupportsFloat

import gymnasium

from trca.common.process import SILENT_S
from trca.common.threads import STILL_RUNNING

_EVERY_S: Final = 1.0
_SILENT: Final = "Timeout ("
"""Start of the line that `faulthandler` writes above the tracebacks of a silent process."""


@contextmanager
def slow_steps_shown(log: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Reads the log of a run, to which all its processes write, and shows slow steps by ``say``.

    A thread calls ``say``.
    """
    ended = threading.Event()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a+", encoding="utf-8", errors="replace") as file:

        def read() -> None:
            text = ""
            while not ended.wait(_EVERY_S):
                *lines, text = (text + file.read()).split("\n")
                for line in lines:
                    if STILL_RUNNING in line:
                        say(line.partition("WARNING ")[2] or line)
                    elif line.startswith(_SILENT):
                        say(
                            f"a process has run no Python code for {SILENT_S:g} s: native code,"
                            f" such as a library of an environment, does not return. {log} shows"
                            " where"
                        )

        thread = threading.Thread(target=read, name="trca-slow-steps", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class SlowStepNotice(gymnasium.Wrapper[str, str, str, str]):
    """Shows each reset and step that takes longer than a limit, with the current line of code.

    A thread calls ``say`` with a line of text.
    """

    def __init__(
        self, env: gymnasium.Env[str, str], say: Callable[[str], None], limit_s: float = SILENT_S
    ) -> None:
        super().__init__(env)
        self._say, self._limit_s = say, limit_s

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode."""
        with self._timed(f"reset(options={options})"):
            return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes a step."""
        with self._timed(f"step({action[:80]!r}{'...' * (len(action) > 80)})"):
            return self.env.step(action)

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        notice = threading.Timer(self._limit_s, self._notice, (call, threading.get_ident()))
        notice.start()
        try:
            yield
        finally:
            notice.cancel()

    def _notice(self, call: str, thread: int) -> None:
        code = sys._current_frames()[thread]
        place = f"{Path(code.f_code.co_filename).name}:{code.f_lineno} in {code.f_code.co_name}"
        name = type(self.env.unwrapped).__name__
        self._say(f"{name}: {call} {STILL_RUNNING} {self._limit_s:g} s, at {place}")

"""`Simulator`: ScienceWorld's Java program, one Java process per object.

The package ``scienceworld`` starts Java without options. Two loads of a task then list objects of
one name in different orders, because Scala's sets are ordered by the addresses of their elements.
With a constant identity hash the sets are in the order of insertion, and a task always gives the
same texts.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from typing import Any, Final, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError
from scienceworld.constants import JAR_PATH

JAVA_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-Xmx256m",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
"""One thread for garbage, at most 256 MB of objects, a constant identity hash."""
_ERROR: Final = "ERROR:"
"""Start of the texts by which the simulator reports a fault of its own."""


class Turn(NamedTuple):
    """The texts and the score after an action.

    Attributes:
        answer: Answer to the action.
        look: Description of the room.
        inventory: Description of the inventory.
        score: The benchmark's score, 0 to 1; negative after a wrong focus.
        completed: Whether the task has ended.
    """

    answer: str
    look: str
    inventory: str
    score: float
    completed: bool


class Simulator:
    """A Java process with ScienceWorld. The first `load` starts it.

    A failure of Java raises `RuntimeError` and ends the process; the next `load` starts another.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()  # the Java program writes a file there
        self._server: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        self._end: Any = None

    def load(self, task_type: str, variation: int, simplifications: str) -> str:
        """Starts a task and returns its description."""
        self._load(task_type, variation, simplifications, gold=False)
        description = self._call("freeActionTaskDesc")
        return " ".join(description.removeprefix("Task Description:").split())

    def gold(self, task_type: str, variation: int, simplifications: str) -> tuple[str, ...]:
        """Starts a task and returns the actions of the benchmark's own solution."""
        self._load(task_type, variation, simplifications, gold=True)
        return tuple(map(str, self._call("getGoldActionSequence")))

    def act(self, action: str) -> Turn:
        """Carries out an action."""
        answer = self._call("step", action)
        texts = (answer, self._call("freeActionLook"), self._call("freeActionInventory"))
        for text in texts:
            if text.startswith(_ERROR):
                raise self._failed(text)
        score, completed = self._call("getScore"), self._call("getCompleted")
        return Turn(*map(_paragraph, texts), float(score), bool(completed))

    def actions(self) -> list[str]:
        """The forms of the actions, with ``OBJ`` for each object."""
        return list(map(str, self._call("getPossibleActions")))

    def objects(self) -> list[str]:
        """Names of the visible objects, as actions may write them."""
        return list(map(str, self._call("getPossibleObjects")))

    def variations(self) -> tuple[list[int], list[int], list[int]]:
        """The variations of the loaded task for train, dev and test."""
        train, dev, test = (
            list(self._call(f"getVariations{split}")) for split in ("Train", "Dev", "Test")
        )
        return train, dev, test

    def close(self) -> None:
        """Ends the Java process."""
        if self._end is not None:
            self._end()
        self._server = None

    def _load(self, task_type: str, variation: int, simplifications: str, gold: bool) -> None:
        if self._server is None:
            self._start()
        error = self._call("load", task_type, variation, simplifications, gold)
        if error:
            raise self._failed(error)

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._server is None:
            raise RuntimeError("no task is loaded: call load() first")
        try:
            return getattr(self._server, method)(*arguments)
        except (Py4JError, OSError) as error:
            raise self._failed(str(error)) from error

    def _failed(self, reason: str) -> RuntimeError:
        code = self._process.poll() if self._process else None
        ended = "" if code is None else f"; Java ended with exit code {code}"
        self.close()
        return RuntimeError(f"ScienceWorld failed: {reason[:500]}{ended}")

    def _start(self) -> None:
        if shutil.which("java") is None:
            raise RuntimeError(
                "ScienceWorld needs Java, and there is no command java: install a Java runtime,"
                " such as version 17 (Debian, Ubuntu: apt-get install default-jre-headless)"
            )
        try:
            port, process = launch_gateway(
                classpath=JAR_PATH,
                cwd=self._folder.name,
                javaopts=list(JAVA_OPTIONS),
                die_on_exit=True,
                return_proc=True,
            )
        except (Py4JError, OSError, ValueError) as error:
            raise RuntimeError(f"Java does not start ScienceWorld: {error}") from error
        self._process = process
        parameters = GatewayParameters(port=port, auto_field=True)
        self._gateway = JavaGateway(gateway_parameters=parameters, java_process=process)
        self._end = weakref.finalize(self, _end, process, self._gateway)
        try:
            self._server = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        except (Py4JError, OSError) as error:
            raise self._failed(str(error)) from error


def _end(process: subprocess.Popen[bytes], gateway: Any) -> None:
    process.kill()
    process.wait()
    gateway.close()


def _paragraph(text: str) -> str:
    """A text without blank lines and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

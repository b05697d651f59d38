"""`Simulator`: a game of TextWorldExpress. All games of a Python process share one Java process.

The package ``textworld-express`` starts a Java process for each environment, with half of the
machine's memory as its limit. Here the first game starts Java, and Java ends with the last game.
A game is a `PythonInterface` of the package, so that its texts are those of the package.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from threading import Lock
from typing import Any, Final, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError
from textworld_express.constants import BASEPATH, JAR_PATH

JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
"""One thread for garbage, the fast compiler only, at most 256 MB of objects."""
GAME: Final = "cookingworld"
UNKNOWN: Final = "Unknown action: I'm not sure what you mean."
"""The package's answer to an action that is not valid now."""


class Turn(NamedTuple):
    """The texts and the score after an action.

    Attributes:
        answer: Answer to the action.
        look: Description of the room.
        inventory: Description of the inventory.
        valid: The actions that are valid now, sorted.
        score: The benchmark's score, 0 to 1.
        won: Whether the task is completed.
        lost: Whether the task can no longer be completed.
    """

    answer: str
    look: str
    inventory: str
    valid: tuple[str, ...]
    score: float
    won: bool
    lost: bool


class Simulator:
    """A game in the shared Java process. The first `start` starts Java.

    A failure of Java raises `RuntimeError`; the next `start` uses another Java process.

    Args:
        parameters: The package's parameters, such as ``numLocations=3``, separated by commas.
    """

    def __init__(self, parameters: str) -> None:
        self.parameters = parameters
        self._java: Java | None = None
        self._game: Any = None

    def start(self, seed: int, fold: str) -> Turn:
        """Starts the task of a seed, with a recipe of a fold: ``train``, ``dev`` or ``test``."""
        self._turn = self._start(seed, fold, gold=False)
        return self._turn

    def gold(self, seed: int, fold: str) -> tuple[str, ...]:
        """Starts a task and returns the actions of the benchmark's own solution.

        The benchmark begins each solution with ``look around``, which the start of a task includes.
        """
        self._turn = self._start(seed, fold, gold=True)
        return tuple(map(str, self._call(self._game, "getGoldActionSequence")))[1:]

    def act(self, action: str) -> Turn:
        """Carries out an action. An action that is not valid now does not reach Java."""
        if action in self._turn.valid:
            self._turn = self._read(self._call(self._game, "stepJSON", action))
        else:
            self._turn = self._turn._replace(answer=UNKNOWN)
        return self._turn

    def instruction(self) -> str:
        """The instruction, which is the same for all tasks."""
        return str(self._call(self._game, "getTaskDescription"))

    def close(self) -> None:
        """Leaves the Java process."""
        self._java = self._game = None

    def _start(self, seed: int, fold: str, gold: bool) -> Turn:
        if self._java is None or self._game is None:
            self._java = shared_java()
            try:
                self._game = self._java.new_game(self.parameters)
            except (Py4JError, OSError) as error:
                raise self._failed(error) from error
        return self._read(self._call(self._game, "generateNewGameJSON", seed, fold, gold))

    def _call(self, target: Any, method: str, *arguments: Any) -> Any:
        if self._game is None:
            raise RuntimeError("no task is started: call start() first")
        try:
            return getattr(target, method)(*arguments)
        except (Py4JError, OSError) as error:
            raise self._failed(error) from error

    def _read(self, text: str) -> Turn:
        result = json.loads(text)
        if result["scoreRaw"] < 0:  # a fault of the simulator
            raise self._failed(result["observation"])
        return Turn(
            _paragraph(result["observation"]),
            _paragraph(result["look"]),
            _paragraph(result["inventory"]),
            valid=tuple(sorted(result["validActions"])),
            score=result["score"],
            won=result["tasksuccess"],
            lost=result["taskfailure"],
        )

    def _failed(self, reason: object) -> RuntimeError:
        text = str(reason)[:500]  # asks Java, which may end with `close`
        code = self._java.process.poll() if self._java else None
        ended = "" if code is None else f"; Java ended with exit code {code}"
        self.close()
        return RuntimeError(f"TextWorldExpress failed: {text}{ended}")


class Java:
    """A Java process with TextWorldExpress. It ends with its last user, and with Python.

    Raises:
        RuntimeError: If Java does not start.
    """

    def __init__(self) -> None:
        if shutil.which("java") is None:
            raise RuntimeError(
                "TextWorldExpress needs Java, and there is no command java: install a Java runtime,"
                " such as version 17 (Debian, Ubuntu: apt-get install default-jre-headless)"
            )
        try:
            port, self.process = launch_gateway(
                classpath=JAR_PATH,
                cwd=BASEPATH,
                javaopts=list(JAVA_OPTIONS),
                die_on_exit=True,
                return_proc=True,
            )
        except (Py4JError, OSError, ValueError) as error:
            raise RuntimeError(f"Java does not start TextWorldExpress: {error}") from error
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        self._generators: dict[str, Any] = {}
        self._lock = Lock()
        self.parent = os.getpid()
        weakref.finalize(self, _end, self.process, self._gateway)

    def new_game(self, parameters: str) -> Any:
        """A `PythonInterface`; those with equal parameters share the generator of games."""
        interface = self._gateway.jvm.textworldexpress.runtime.PythonInterface()
        with self._lock:
            if parameters not in self._generators:
                if error := interface.load(GAME, parameters):
                    raise ValueError(error)
                self._generators[parameters] = interface.gameGenerator()
        getattr(interface, "gameGenerator_$eq")(self._generators[parameters])
        return interface


_starting: Final = Lock()
_java: weakref.ref[Java] | None = None


def shared_java() -> Java:
    """The Java process of this Python process, started if there is none."""
    global _java
    with _starting:
        java = _java() if _java else None
        if java is None or java.parent != os.getpid() or java.process.poll() is not None:
            java = Java()
            _java = weakref.ref(java)
        return java


def _end(process: Any, gateway: Any) -> None:
    process.kill()
    process.wait()
    gateway.close()


def _paragraph(text: str) -> str:
    """A text without empty lines and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

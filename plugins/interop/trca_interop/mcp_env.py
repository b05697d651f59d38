"""`MCPEnv`: a server of the Model Context Protocol as an environment with tools.

Messages of a server are untrusted input: the client checks their form, `ToolEnv` the schemas of the
tools, and long texts are cut. A fault of the server is an error that makes the rollout missing.
"""

from __future__ import annotations

import asyncio
import shlex
from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, ClassVar, Final, TypeVar

from trca.common.errors import short_line
from trca.common.extras import install
from trca.common.shared import Uncopied
from trca.envs.text_env import Outcome
from trca.envs.tool_env import Tool, ToolEnv, ToolError
from trca_interop import required

LONGEST: Final = 100_000
"""Largest number of characters of a result."""
_PAGES: Final = 100
"""Most pages of the list of tools."""
_INVALID: Final = (-32602, -32601)
"""Codes of errors in a call: invalid parameters, unknown method."""
_END_S: Final = 15.0
"""Seconds that a server may take to end; the client kills the server earlier."""

_T = TypeVar("_T")


class MCPEnv(Uncopied, ToolEnv):
    """The base class of environments that play with the tools of an MCP server.

    ::

        class Notes(MCPEnv):
            command = "npx -y @modelcontextprotocol/server-memory"
            variables = {"MEMORY_FILE_PATH": "{folder}/notes.json"}
            task_ids = ("Ann", "Bob")
            instruction = property(lambda self: f"note that {self.task} is a person.")

            def solved(self):
                return self.task in self.ask("read_graph")

    A subclass writes ``task_ids``, ``instruction`` and `solved`. Each episode has its own server
    process and its own empty folder, so that no episode sees the changes of another.

    Attributes:
        command: Command of the server, which speaks over its standard input and output. Here and in
            ``variables``, ``{folder}`` is the folder of the episode.
        variables: Environment variables of the server, besides ``PATH`` and ``HOME``.
        timeout_s: Most seconds for an answer of the server.
        task: Id of the current task.
        folder: Folder of the episode.
    """

    waits = True
    command: ClassVar[str] = ""
    variables: ClassVar[Mapping[str, str]] = {}
    timeout_s: ClassVar[float] = 60.0
    task: str
    folder: Path
    _connection: _Connection | None = None
    _place: TemporaryDirectory[str] | None = None

    @abstractmethod
    def solved(self) -> bool:
        """Whether the task is done, which ends the episode; called after each call of a tool."""

    def prepare(self) -> str:
        """Prepares the task, with `ask` or files in `folder`; returns the first observation."""
        return "Begin."

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of the server; a subclass may leave some out."""
        return self._connected().tools

    def ask(self, name: str, **arguments: Any) -> str:
        """Calls a tool of the server outside of the agent's actions; returns its text."""
        return self._connected().call(name, arguments)

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Starts a server for the task.

        Raises:
            RuntimeError: If the server does not start.
            ValueError: Without a command.
        """
        self.close()
        self.task = task_id
        self._place = TemporaryDirectory(prefix="trca-mcp-", ignore_cleanup_errors=True)
        self.folder = Path(self._place.name)
        filled = {k: v.replace("{folder}", str(self.folder)) for k, v in self.variables.items()}
        command = [p.replace("{folder}", str(self.folder)) for p in shlex.split(self.command)]
        if not command:
            raise ValueError(f"{type(self).__name__}.command is empty: write the server's command")
        self._connection = _Connection(command, filled, self.timeout_s)
        return self.prepare()

    def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        """Calls a tool of the server.

        Raises:
            RuntimeError: If `solved` meets an error of a tool, which is no fault of this call.
        """
        text = self._connected().call(name, arguments)
        try:
            won = self.solved()
        except ToolError as error:
            raise RuntimeError(
                f"{type(self).__name__}.solved() failed: {error}: catch ToolError there"
            ) from error
        return Outcome(text, float(won), terminated=won)

    def close(self) -> None:
        """Ends the server."""
        if self._connection is not None:
            self._connection.close()
        if self._place is not None:  # also after a server that did not start
            self._place.cleanup()
        self._connection = self._place = None

    def _connected(self) -> _Connection:
        if self._connection is None:
            raise RuntimeError("no server runs: call reset() first")
        return self._connection


class _Connection:
    """A running server. The event loop of its client runs only while a method waits."""

    def __init__(self, command: Sequence[str], variables: dict[str, str], timeout_s: float) -> None:
        self._mcp = required("mcp", "mcp")
        if not hasattr(self._mcp, "Client"):
            wanted = install("mcp", "./plugins/interop")
            raise ImportError(f"MCPEnv needs mcp 2.3 or later, and an older mcp is here: {wanted}")
        self._server = self._mcp.StdioServerParameters(
            command=command[0], args=list(command[1:]), env=variables
        )
        self._name, self._timeout_s = " ".join(command), timeout_s
        self._loop = asyncio.new_event_loop()
        self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 (open until close)
        ready: asyncio.Future[Any] = self._loop.create_future()
        self._task = self._loop.create_task(self._serve(ready))
        try:
            self._client = self._wait(ready, "to start")
            self.tools = self._wait(self._list(), "the list of tools")
        except BaseException:
            self.close()
            raise

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The text of the result of a call.

        Raises:
            ToolError: If the server reports an error of the call.
            RuntimeError: For any other failure.
        """
        try:
            result = self._wait(self._client.call_tool(name, arguments), name)
        except RuntimeError as failure:
            error = failure.__cause__
            if isinstance(error, self._mcp.MCPError) and error.code in _INVALID:
                raise ToolError(short_line(error, 400)) from None
            raise
        text = "\n".join(_text(part) for part in result.content)[:LONGEST]
        if result.is_error:
            raise ToolError(text)
        return text

    def close(self) -> None:
        """Ends the server; kills a server that does not end."""
        if self._loop.is_closed():
            return
        self._task.cancel()  # the client then ends the server
        self._loop.run_until_complete(asyncio.wait({self._task}, timeout=_END_S))
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # `_wait` has reported it
        self._loop.close()
        self._errors.close()

    async def _serve(self, ready: asyncio.Future[Any]) -> None:
        """Holds the connection: the client must be closed in the task that opened it."""
        transport = self._mcp.stdio_client(self._server, errlog=self._errors)
        async with self._mcp.Client(transport) as client:
            ready.set_result(client)
            await asyncio.Event().wait()

    async def _list(self) -> list[Tool]:
        tools: list[Tool] = []
        cursor = None
        for _ in range(_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            for each in page.tools:
                about = {"name": each.name, "description": each.description or ""}
                about |= {"parameters": each.input_schema}
                tools.append({"type": "function", "function": about})
            cursor = page.next_cursor
            if not cursor:
                break
        return tools

    def _wait(self, work: Coroutine[Any, Any, _T] | asyncio.Future[_T], what: str) -> _T:
        """The result of some work, if server and connection live and the time limit holds."""

        async def limited() -> _T:
            task = asyncio.ensure_future(work)
            tasks = {task, self._task}
            await asyncio.wait(tasks, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            ended: asyncio.Future[Any] = task if task.done() else self._task
            task.cancel()
            if not ended.done():
                raise RuntimeError(
                    f"the MCP server {self._name!r} has not answered in {self._timeout_s:g} s"
                    f" ({what}): raise timeout_s, or look for the reason in the server"
                )
            error = None if ended.cancelled() else ended.exception()
            if ended is task and error is None:
                return task.result()
            raise self._failure(what, error) from error

        return self._loop.run_until_complete(limited())

    def _failure(self, what: str, error: BaseException | None) -> RuntimeError:
        """The error of a server that failed, with the last line of the server's errors."""
        while isinstance(error, BaseExceptionGroup):  # of the client's tasks
            error = error.exceptions[0]
        self._errors.seek(0)
        last = self._errors.read()[-LONGEST:].strip().rpartition("\n")[2]
        reason = short_line(f"{error}; {last}" if last else f"{error}", 400)
        return RuntimeError(f"the MCP server {self._name!r} failed ({what}): {reason}")


def _text(part: Any) -> str:
    """What an agent reads of a part of a result: the text, the address of a link, or the kind."""
    part = getattr(part, "resource", part)
    for name in ("text", "uri"):
        if hasattr(part, name):
            return str(getattr(part, name))
    return f"[{part.type}]"

"""A server of the Model Context Protocol, written with its Python SDK: it counts."""

import os
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("counting")
count = int(os.environ.get("START", "0"))


@server.tool()
def add(number: int) -> str:
    """Adds a number."""
    global count
    if count + number < 0:
        raise ToolError("the count cannot be below 0")
    count += number
    return f"The count is {count}."


@server.tool()
def wait(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return "Waited."


@server.tool()
def crash() -> str:
    """Ends the server."""
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(3)


server.run("stdio")

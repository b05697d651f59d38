"""A FastAPI application on a free port, in a thread."""

import threading
from contextlib import contextmanager

import uvicorn


@contextmanager
def running(app):
    """Serves an application; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    ready = threading.Event()
    started = server.startup

    async def startup(sockets=None):
        await started(sockets)
        ready.set()

    server.startup = startup
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)

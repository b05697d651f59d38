"""Real servers for tests: ASGI applications under uvicorn, and raw replies on a socket."""

import re
import socketserver
import threading
from contextlib import contextmanager, suppress

import uvicorn


@contextmanager
def serving(app, port=0):
    """Serves an application in a thread and yields its base URL; port 0 selects a free port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    listening = threading.Event()
    started = server.startup

    async def startup(sockets=None):
        await started(sockets)
        listening.set()

    server.startup = startup
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert listening.wait(300)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def replying(*replies):
    """A server that sends raw replies, one per connection; the last reply is repeated.

    Yields its URL and the list of past requests. A reply of None is never sent.
    """
    requests = []
    stopping = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            request = b""
            while not whole(request) and (more := self.request.recv(1 << 20)):
                request += more
            requests.append(request)
            reply = replies[min(len(requests), len(replies)) - 1]
            if reply is None:
                stopping.wait(300)
            else:
                self.request.sendall(reply)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/retrieve", requests
        finally:
            stopping.set()
            server.shutdown()
            thread.join()


def whole(request):
    """Whether a request is complete."""
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def http(body, status="200 OK", length=None):
    """A raw HTTP reply."""
    content = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {length or len(content)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + content


@contextmanager
def dripping():
    """A server that sends a byte of its reply every 20 ms, for as long as anybody reads."""
    stopping = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1 << 20)
            with suppress(OSError):
                self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
                while not stopping.wait(0.02):
                    self.request.sendall(b" ")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            stopping.set()
            server.shutdown()
            thread.join()

"""Calls of the command in this process, and servers that commands ask."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typer.testing import CliRunner

from trca.cli import app


def trca(*arguments, **options):
    """The result of a call; options are those of `CliRunner.invoke`."""
    return CliRunner().invoke(app, [str(each) for each in arguments], **options)


def done(*arguments, **options):
    """The output of a call that succeeds."""
    result = trca(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments, code=2, **options):
    """The output of a call that is refused, or fails, on one line."""
    result = trca(*arguments, **options)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


ALL = (trca, done, refused)


@contextmanager
def serving(handler):
    """Answers requests on this machine by a handler of `http.server`; yields the address."""
    handler.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def chatting(answer):
    """A chat endpoint; yields its URL and the requests.

    `answer` gets the body of a request and returns a text, or an HTTP status.
    """
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            text = answer(requests[-1])
            message = {"index": 0, "finish_reason": "stop", "message": {"content": text}}
            usage = {"prompt_tokens": 100, "completion_tokens": 10}
            self.send_response(200 if isinstance(text, str) else text)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [message], "usage": usage}).encode())

    with serving(Handler) as address:
        yield f"{address}/v1", requests

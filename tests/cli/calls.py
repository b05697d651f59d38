"""Calls of the command in this process, and servers that commands ask."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

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


def refused(*arguments, **options):
    """The output of a call that is refused, on one line."""
    result = trca(*arguments, **options)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


ALL = (trca, done, refused)


@contextmanager
def serving(handler):
    """Answers requests on this machine by a handler of `http.server`; yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

"""The server of the page. It listens only at the local address and reads run folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from trca.cli.view.bundle import POLICY, read
from trca.cli.view.runs import KINDS, RecordedRun, stops
from trca.runs.rollout_files import Kind

HOST: Final = "127.0.0.1"
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FILES: Final = {"view.html": "text/html", "view.css": "text/css", "view.js": "text/javascript"}


def create_app(runs: Sequence[RecordedRun]) -> FastAPI:
    """Makes the application.

    The application refuses requests with a foreign ``Host``: with DNS rebinding, the name of
    another site points to this machine, and the browser sends that name as ``Host``.

    Args:
        runs: One run, or two runs to compare.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def protect(
        request: Request, go_on: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await go_on(request)
        response.headers.update(_HEADERS)
        return response

    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])

    @app.get("/")
    @app.get("/view.css")
    @app.get("/view.js")
    def file(request: Request) -> Response:
        name = request.url.path[1:] or "view.html"
        return Response(read(name), media_type=_FILES[name])

    @app.get("/api/runs")
    def about(request: Request) -> Response:
        # The tag is older than the answer: a change in between is news for the next request.
        tag = f'"{sha256(repr([run.version() for run in runs]).encode()).hexdigest()}"'
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        known = {
            "runs": [run.about() for run in runs],
            "stops": {kind: stops(runs, kind) for kind in KINDS},
        }
        return JSONResponse(known, headers={"ETag": tag})

    @app.get("/api/runs/{number}/{kind}/{iteration}/groups")
    def groups(number: int, kind: Kind, iteration: int) -> dict[str, Any]:
        return _asked(number, lambda run: run.groups(kind, iteration))

    @app.get("/api/runs/{number}/{kind}/{iteration}/groups/{group}")
    def group(number: int, kind: Kind, iteration: int, group: int) -> dict[str, Any]:
        return _asked(number, lambda run: run.group(kind, iteration, group))

    def _asked(number: int, answer: Callable[[RecordedRun], dict[str, Any]]) -> dict[str, Any]:
        try:
            return answer(dict(enumerate(runs))[number])
        except KeyError:
            raise HTTPException(404, "this is not recorded") from None
        except (ValueError, OSError) as error:
            raise HTTPException(422, str(error)) from None

    return app

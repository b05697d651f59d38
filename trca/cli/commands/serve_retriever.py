"""``trca serve-retriever``: a retriever behind HTTP, for environments on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trca.cli.show.console import console, errors, fail, need_server, refusing, use_one_thread

if TYPE_CHECKING:
    from trca.envs.retrieval.retriever import Retriever


def serve_retriever(
    retriever: Annotated[str, typer.Argument(help="bm25, lucene or dense.")],
    index: Annotated[Path, typer.Option("--index", help="The folder of its index.")],
    model: Annotated[
        str | None, typer.Option("--model", help="dense: the encoder, a folder or hub name.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="dense: where it runs, such as cuda.")
    ] = None,
    topk: Annotated[
        int, typer.Option("--topk", min=1, help="Passages for a query that does not say.")
    ] = 3,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen at.")
    ] = 8000,
) -> None:
    """Serve a retriever at `POST /retrieve`, in the shapes of Search-R1 and of verl-agent.

    `GET /health` answers 200 once the index is loaded. The server has no password: open it to
    other machines only if everybody there may search.

    - `trca serve-retriever bm25 --index wiki`
    - `trca serve-retriever dense --index wiki --model intfloat/e5-base-v2 --device cuda`
    """
    need_server()
    use_one_thread()
    import uvicorn

    from trca.envs.retrieval.retriever import RETRIEVERS, open_retriever
    from trca.envs.retrieval.server import create_app

    with refusing(ValueError):
        if retriever not in RETRIEVERS:
            raise ValueError(f"unknown retriever {retriever!r}: choose {', '.join(RETRIEVERS)}")
    options = {"index": index, "model": model, "device": device}
    given = {name: value for name, value in options.items() if value is not None}
    problem: Exception | None = None

    def load() -> Retriever:
        nonlocal problem
        try:
            opened = open_retriever(retriever, **given)
        except Exception as error:
            problem = error
            server.should_exit = True
            raise
        console.print(f"ready: {retriever} over {index}", markup=False)
        return opened

    server = uvicorn.Server(
        uvicorn.Config(create_app(load, topk), host=host, port=port, log_level="warning")
    )
    errors.print(f"loading {index}; serving at http://{host}:{port}/retrieve", markup=False)
    server.run()
    if problem is not None:
        fail(str(problem))

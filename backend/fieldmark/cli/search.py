"""`fieldmark search`: full-text search over all documents."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, show_lines, steps

PATIENCE_SECONDS: Final = 10
LOOK_SECONDS: Final = 0.2


@command()
def search(
    target: Target,
    query: Annotated[str, typer.Argument(help="Words. Matches any word; rare words rank higher.")],
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help='Only documents that match, such as "total > 1000". Repeatable.'),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only documents with this tag. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of results.")] = 10,
) -> None:
    """Search all documents. Prints name, page and the text around each match."""

    async def ask(client: Client) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            return await client.get("/api/search", q=query, filter=where, tag=tag, limit=limit)

        found = await once()
        if found["not_indexed"] and not target.is_elsewhere:
            # The embedded database has no worker unless a command runs one.
            async with client.working():
                until = time.monotonic() + PATIENCE_SECONDS
                while found["not_indexed"] and time.monotonic() < until:
                    await asyncio.sleep(LOOK_SECONDS)
                    found = await once()
        return found

    found = run_with_client(target, ask)
    if print_json(target, found):
        return
    rows = ((f"{hit['filename']}, page {hit['page']}:", hit["snippet"]) for hit in found["hits"])
    show_lines(rows, "No results.")
    if found["not_indexed"]:
        said = steps() if found["hits"] else err
        said.print(f"{found['not_indexed']} documents are still being indexed and may be missing.")
    if found["semantic"] == "unavailable":
        err.print("Semantic search is unavailable. Only words were searched.")

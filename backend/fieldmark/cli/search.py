"""`fieldmark search`: what of the documents answers a question."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final

import typer

from fieldmark.cli.client import Client, asked
from fieldmark.cli.files import print_json
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, show_lines, steps

PATIENCE_SECONDS: Final = 10
LOOK_SECONDS: Final = 0.2


@command()
def search(
    target: Target,
    query: Annotated[str, typer.Argument(help="Words. Any of them may do, rare ones say most.")],
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help='What a field must be like: "total > 1000". May be said several times.'),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag. May be said several times.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at the most.")] = 10,
) -> None:
    """Search the documents: name, page and the words around what was found."""

    async def ask(client: Client) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            return await client.get("/api/search", q=query, filter=where, tag=tag, limit=limit)

        found = await once()
        if found["not_indexed"] and not target.is_elsewhere:
            # No other worker need be there: the embedded database has none when no command runs.
            async with client.working():
                until = time.monotonic() + PATIENCE_SECONDS
                while found["not_indexed"] and time.monotonic() < until:
                    await asyncio.sleep(LOOK_SECONDS)
                    found = await once()
        return found

    found = asked(target, ask)
    if print_json(target, found):
        return
    rows = ((f"{hit['filename']}, page {hit['page']}:", hit["snippet"]) for hit in found["hits"])
    show_lines(rows, "Nothing was found.")
    if found["not_indexed"]:
        said = steps() if found["hits"] else err
        said.print(f"{found['not_indexed']} documents are not indexed as they are now: they may be missing.")
    if found["semantic"] == "unavailable":
        err.print("The embedder does not answer: only words were searched for.")

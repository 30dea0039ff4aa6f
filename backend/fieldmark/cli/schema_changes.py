"""`fieldmark schema diff`: what a schema in a file would do to the extractions of one that is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import Client, asked
from fieldmark.cli.files import json_of, read_schema, write
from fieldmark.cli.schemas import kept
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import show_lines, steps

_MOST_NAMED = 10


@command()
def diff(
    target: Target,
    name: Annotated[str, typer.Argument(help="The schema's name, in capitals or not, or its id.")],
    file: Annotated[Path, typer.Argument(help="The schema as it would be.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many extractions at the most.")] = 200,
) -> None:
    """Show how a schema in a file differs from the one that is kept, and what it would do to the extractions that
    follow it: what stays, what is read again, what is in conflict. Nothing is changed."""
    given = read_schema(file)
    found = asked(target, lambda client: _changes(client, name, given, limit))
    if target.as_json:
        write(json_of(found, indented=True), None)
        return
    show_lines(_lines(found), "Nothing changes, and no extraction follows it.")
    if found["next"] is not None:
        steps().print(f"There are more extractions than these {limit}: --limit shows them.")


async def _changes(client: Client, name: str, given: object, limit: int) -> dict[str, Any]:
    """All pages as one."""
    schema_id = await _id_of(client, name)
    path, items = f"/api/schemas/{schema_id}/changes", list[Any]()
    page = await client.send("POST", path, {"schema": given, "limit": min(limit, 200)})
    summary = page["summary"]
    items += page["items"]
    while page["next"] is not None and len(items) < limit:
        asks = {"schema": given, "limit": min(limit - len(items), 200), "before": page["next"]}
        page = await client.send("POST", path, asks)
        items += page["items"]
    return {"summary": summary, "items": items, "next": page["next"]}


async def _id_of(client: Client, name: str) -> str:
    try:
        return str(UUID(name))
    except ValueError:
        return str((await kept(client, "schema", name))["id"])


def _lines(found: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for difference in found["summary"]["differences"]:
        yield ("since", difference["schema_revid"])
        for sign, kind in (("+", "added"), ("-", "removed"), ("~", "changed")):
            yield from ((f"  {sign}", path) for path in difference[kind])
        if difference["rules"]:
            yield ("  ~", "its rules")
    for one in found["items"]:
        counts = one["counts"]
        yield (one["extraction_id"], one["filename"], *(f"{kind} {count}" for kind, count in counts.items()))
        yield from (("  again", path) for path in one["read_again"][:_MOST_NAMED])
        yield from (("  conflict", of["path"], of["why"]) for of in one["conflicts"][:_MOST_NAMED])
        yield from (("  broken", of["message"]) for of in one["violations"][:_MOST_NAMED])

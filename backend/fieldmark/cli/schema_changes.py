"""`fieldmark schema diff` and `apply`: what a change of a schema would do to extractions, and doing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import typer

from fieldmark.cli.client import Client, asked
from fieldmark.cli.files import json_of, read_schema, write
from fieldmark.cli.process import WAITS
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


@command()
def apply(
    target: Target,
    name: Annotated[str, typer.Argument(help="The schema's name, in capitals or not, or its id.")],
    conflicts: Annotated[
        Literal["skip", "keep", "remove"],
        typer.Option(
            help="What becomes of an extraction with values that do not fit: it stays as it is; it follows, and they "
            "stay; or they are taken away in your name."
        ),
    ] = "skip",
) -> None:
    """Bring all extractions that follow another version of a schema to its latest. What has to be read for that is
    read in the background. To ask again does no harm."""
    done = asked(target, lambda client: _apply(client, name, conflicts))
    if target.as_json:
        write(json_of(done, indented=True), None)
    else:
        show_lines(((one["extraction_id"], one["why"]) for one in done["skipped"]), "None was left out.")
        steps().print(f"Brought to the latest version: {done['followed']}. To be read again: {len(done['runs'])}.")
        if done["stopped"] is not None:
            steps().print(f"It stopped ({done['stopped']}): ask again later, and it goes on.")
    if done["skipped"] or done["stopped"] is not None:
        raise typer.Exit(WAITS)


async def _apply(client: Client, name: str, conflicts: str) -> dict[str, Any]:
    """All answers as one."""
    path = f"/api/schemas/{await _id_of(client, name)}/apply"
    done = await client.send("POST", path, {"conflicts": conflicts})
    while done["next"] is not None and done["stopped"] is None:
        more = await client.send("POST", path, {"conflicts": conflicts, "before": done["next"]})
        done = {
            "followed": done["followed"] + more["followed"],
            "runs": done["runs"] + more["runs"],
            "skipped": done["skipped"] + more["skipped"],
            "next": more["next"],
            "stopped": more["stopped"],
        }
    return done


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

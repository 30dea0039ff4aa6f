"""`fieldmark schema diff` and `apply`: preview and apply a schema change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import print_json, read_schema
from fieldmark.cli.process import WAITS
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import show_lines, steps


@command()
def diff(
    target: Target,
    name: Annotated[str, typer.Argument(help="The schema's name (case-insensitive) or id.")],
    file: Annotated[Path, typer.Argument(help="The changed schema.")],
) -> None:
    """Compare a schema file with the stored versions in use: which fields differ, how many extractions would be read
    again, and the estimated cost. Changes nothing."""
    given = read_schema(file)
    found = run_with_client(target, lambda client: _changes(client, name, given))
    if print_json(target, found):
        return
    show_lines(_lines(found), "No extraction uses this schema.")
    cost = found["estimated_cost_usd"]
    estimate = "cost not known" if cost is None else f"about ${cost:.2f}"
    steps().print(f"Extractions: {found['extractions']}. To be read again: {found['read_again']} ({estimate}).")


@command()
def apply(
    target: Target,
    name: Annotated[str, typer.Argument(help="The schema's name (case-insensitive) or id.")],
) -> None:
    """Update all extractions of a schema to its latest version. Changed fields are read again in the background. No
    value is removed, and values set by people are kept. Safe to repeat."""
    done = run_with_client(target, lambda client: _apply(client, name))
    if not print_json(target, done):
        show_lines(((one["extraction_id"], one["why"]) for one in done["skipped"]), "No extraction was skipped.")
        steps().print(f"Updated: {done['followed']}. To be read again: {len(done['runs'])}.")
        if done["stopped"] is not None:
            steps().print(f"Stopped ({done['stopped']}). Repeat the command later to continue.")
    if done["skipped"] or done["stopped"] is not None:
        raise typer.Exit(WAITS)


async def _apply(client: Client, name: str) -> dict[str, Any]:
    """Merge the responses of all requests."""
    path = f"/api/schemas/{quote(name, safe='')}/apply"
    done = await client.send("POST", path, {})
    while done["next"] is not None and done["stopped"] is None:
        more = await client.send("POST", path, {"before": done["next"]})
        done = {
            "followed": done["followed"] + more["followed"],
            "runs": done["runs"] + more["runs"],
            "skipped": done["skipped"] + more["skipped"],
            "next": more["next"],
            "stopped": more["stopped"],
        }
    return done


async def _changes(client: Client, name: str, given: object) -> dict[str, Any]:
    return await client.send("POST", f"/api/schemas/{quote(name, safe='')}/changes", {"schema": given})


def _lines(found: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for version in found["versions"]:
        yield ("since", f"version {version['number']}", f"{version['extractions']} extractions")
        for sign, kind in (("+", "added"), ("-", "removed"), ("~", "changed")):
            yield from ((f"  {sign}", name) for name in version[kind])
        if version["everything"]:
            yield ("  ~", "all fields")
        if version["rules"]:
            yield ("  ~", "its rules")

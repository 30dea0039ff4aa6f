"""`fieldmark schema`: stored schemas; and looking up stored items by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fieldmark.cli.client import Client, ErrorResponse, fetch_items, run_with_client
from fieldmark.cli.files import print_json, read_schema, to_json_bytes, write
from fieldmark.cli.process import FAILED, exit_with
from fieldmark.cli.target import HelpedCommand, HelpedGroup, Target, command
from fieldmark.cli.terminal import plain, say_if_more, show_lines, steps
from fieldmark.domain.formatting import list_names
from fieldmark.domain.ids import as_uuid

schema = typer.Typer(cls=HelpedGroup, help="Manage stored schemas and their versions.", no_args_is_help=True)

Kind = Literal["schema", "prompt", "tag"]
Name = Annotated[str, typer.Argument(help="The schema's name (case-insensitive) or id.")]


@schema.command("list", cls=HelpedCommand)
@command()
def list_schemas(
    target: Target,
    name: Annotated[str | None, typer.Option(help="Only schemas whose name contains this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows.")] = 50,
) -> None:
    """List schemas, newest first."""
    found, is_more = run_with_client(
        target, lambda client: fetch_items(client, "/api/schemas", limit, {"name_contains": name})
    )
    say_if_more(found, is_more)
    if print_json(target, found):
        return
    rows = (
        (row["id"], f"version {row['number']:<4}", row["name"], "proposed" if row["proposed"] else "") for row in found
    )
    show_lines(rows, "No schemas.")


@schema.command("show", cls=HelpedCommand)
@command()
def show_schema(
    target: Target,
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="The version number, from 1. Default: the latest.")] = None,
) -> None:
    """Print a schema to standard output. With --json: with its metadata."""
    found = run_with_client(target, lambda client: _version(client, name, version))
    if print_json(target, found):
        return
    steps().print(plain(f"{found['name']}, version {found['number']} ({found['schema_revid']})."))
    write(to_json_bytes(found["schema"], indented=True), None)


@schema.command("push", cls=HelpedCommand)
@command()
def push_schema(
    target: Target,
    file: Annotated[Path | None, typer.Argument(help="A JSON Schema.")] = None,
    name: Annotated[str | None, typer.Option(help="The schema's name. Default: the file's or template's name.")] = None,
    template: Annotated[
        str | None, typer.Option(help="Store this template instead of a file: invoice, receipt, contract …")
    ] = None,
) -> None:
    """Store a schema, or a new version if the name exists. Prints the version id."""
    if (file is None) == (template is None):
        raise typer.BadParameter("Give either a file or --template.")
    text = None if file is None else read_schema(file)
    own_name = (template or "").replace("_", " ") if file is None else file.stem.removesuffix(".schema")

    async def push(client: Client) -> tuple[dict[str, Any], int | None]:
        shown = text if template is None else await _template(client, template)
        return await _push(client, name or own_name, shown)

    made, before = run_with_client(target, push)
    if print_json(target, made):
        return
    typer.echo(made["schema_revid"])
    if before is None:
        message = f"Created schema {made['name']}."
    elif before == made["number"]:
        message = f"No changes. {made['name']} is at version {before}."
    else:
        message = f"Created version {made['number']} of {made['name']}."
    steps().print(plain(message))


async def find(client: Client, kind: Kind, name: str) -> dict[str, Any] | None:
    """Return the stored item with this name (case-insensitive), id or version's id, or None."""
    items = (await client.get(f"/api/{kind}s", name=name))["items"]
    if items or as_uuid(name) is None:
        return items[0] if items else None
    for path in ([] if kind == "tag" else [f"{kind}_versions"]) + [f"{kind}s"]:
        try:
            return await client.get(f"/api/{path}/{name}")
        except ErrorResponse as refused:
            if refused.answered != 404:
                raise
    return None


async def find_or_exit(client: Client, kind: Kind, name: str) -> dict[str, Any]:
    """Return the stored item with this name (case-insensitive), id or version's id. Ends the command if there is
    none."""
    found = await find(client, kind, name)
    if found is not None:
        return found
    stored = [item["name"] for item in (await client.get(f"/api/{kind}s", limit=100))["items"]]
    there = f"There are: {list_names(stored, characters=300, most=20)}." if stored else "None is stored yet."
    return exit_with(f"There is no {kind} {name!r}. {there}", FAILED)


def is_file(text: str) -> bool:
    """Whether a text is a file rather than a schema name: the file exists, or the text looks like a path."""
    return os.sep in text or text.endswith(".json") or os.path.exists(text)  # noqa: PTH110 - Path raises for a long name


async def _version(client: Client, name: str, number: int | None) -> dict[str, Any]:
    found = await find_or_exit(client, "schema", name)
    if number is not None:
        path = f"/api/schemas/{found['id']}/versions"
        items = (await client.get(path, limit=1, before=number + 1))["items"]
        if not items or items[0]["number"] != number:
            exit_with(f"{found['name']} has no version {number}. The latest is {found['number']}.", FAILED)
        found = items[0]
    return await client.get(f"/api/schema_versions/{found['schema_revid']}")


async def _template(client: Client, name: str) -> object:
    """Return the schema of a template. Ends the command if there is none of this name."""
    templates = {one["name"]: one["schema"] for one in (await client.get("/api/schema_templates"))["items"]}
    if (found := templates.get(name.replace(" ", "_"))) is None:
        exit_with(
            f"There is no template {name!r}. There are: {list_names(list(templates), characters=300, most=20)}.", FAILED
        )
    return found


async def _push(client: Client, name: str, text: object) -> tuple[dict[str, Any], int | None]:
    """Return the new current version and the number of the previous one."""
    found = await find(client, "schema", name)
    if found is None:
        return await client.send("POST", "/api/schemas", {"name": name, "schema": text}), None
    return await client.send("PATCH", f"/api/schemas/{found['id']}", {"schema": text}), found["number"]

"""`fieldmark table` and `view`: the documents of a schema or a stack as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import check_out, format_of, print_json, write
from fieldmark.cli.schemas import find_or_exit
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import plain, show_lines, steps
from fieldmark.domain.status_text import status_text
from fieldmark.domain.statuses import FieldStatus

Name = Annotated[str, typer.Argument(help="The name of the schema or stack (case-insensitive).")]
FORMATS: Final = ("csv", "xlsx", "json", "parquet")


@command()
def table(
    target: Target,
    name: Name,
    list_name: Annotated[str | None, typer.Option("--list", help="A row for each item of this list.")] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", help='Only rows that match, such as "total > 1000". Repeatable.')
    ] = None,
    status: Annotated[
        FieldStatus | None, typer.Option(help="Only rows with a cell of this status, in the column --column if given.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="The column that --status is about.")] = None,
    sort: Annotated[str | None, typer.Option(help="The column to sort by. Default: newest document first.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Sort from the highest value.")] = False,
    by_status: Annotated[
        bool, typer.Option("--by-status", help="Sort by the status of the cells, the most urgent first.")
    ] = False,
    marks: Annotated[bool, typer.Option("--marks", help="Also print likely duplicates and outliers.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of rows to print.")] = 50,
    out: Annotated[
        Path | None, typer.Option(help="Write all rows to this file: .csv, .xlsx (with locations), .json or .parquet.")
    ] = None,
) -> None:
    """Print or export the table of a schema or a stack, with a row for each document."""
    file_format = None if out is None else format_of(out, FORMATS)
    check_out(out)
    options: dict[str, Any] = {"list": list_name, "filter": where, "cell_status": status, "column": column}
    options |= {"sort": sort, "descending": descending, "by_status": by_status}

    async def ask(client: Client) -> Any:
        path = _path_of(name)
        if file_format is not None:
            return await client.file(f"{path}/export", format=file_format, **options)
        return await client.get(f"{path}/rows", limit=limit, marks=marks, **options)

    found = run_with_client(target, ask)
    if out is not None:
        write(found, out)
        return
    if marks:
        for row in found["items"]:
            row["marks"] = [one for one in found["marks"] if _is_on(one, row)]
    if print_json(target, found["items"]):
        return
    show_lines(_lines(found), "No rows.")
    if found["total"] > len(found["items"]):
        steps().print(plain(f"{len(found['items'])} of {found['total']} rows. Use --out to write all rows to a file."))
    if found["has_more_columns"]:
        steps().print(plain(f"The first {len(found['columns'])} fields of the schema. A table shows no more."))


@command()
def view(
    target: Target,
    name: Name,
    list_name: Annotated[str | None, typer.Option("--list", help="A row for each item of this list.")] = None,
    view_name: Annotated[
        str | None, typer.Option("--name", help="The view's name. Default: `records_` and the table's name.")
    ] = None,
) -> None:
    """Print the SQL of a view of a table, with typed columns. Run it with psql or in a migration."""

    async def ask(client: Client) -> Any:
        return await client.get(f"{_path_of(name)}/view", list=list_name, name=view_name)

    found = run_with_client(target, ask)
    if not print_json(target, found):
        write(found["sql"].encode(), None)


async def find_table(client: Client, name: str) -> dict[str, Any]:
    """Return the stack (which has a `schema_id`), or else the schema, with this name. Ends the command without one."""
    stacks = (await client.get("/api/stacks", name=name))["items"]  # before schemas: that of a stack has its name
    return stacks[0] if stacks else await find_or_exit(client, "schema", name)


def _path_of(name: str) -> str:
    return f"/api/tables/{quote(name, safe='')}"


def _lines(found: dict[str, Any]) -> list[list[str]]:
    """Return the header and the rows as texts in padded columns."""
    if not found["items"]:
        return []
    names: list[str] = [column["path"] for column in found["columns"]]
    lines = [["document", "to review", *names, *(["marks"] if "marks" in found["items"][0] else [])]]
    for row in found["items"]:
        document = f"{row['filename']} {row['path'] or ''}".rstrip()
        line = [document, str(row["review_count"] or ""), *(_cell_text(row["cells"][name]) for name in names)]
        lines.append([*line, *(["; ".join(map(_mark_text, row["marks"]))] if "marks" in row else [])])
    return pad_columns(lines)


def pad_columns(lines: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return lines of texts with each column padded to its widest text, up to 40 characters."""
    lines = list(lines)
    widths = [min(max(map(len, column)), 40) for column in zip(*lines, strict=True)]
    return [[text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines]


def _is_on(mark: dict[str, Any], row: dict[str, Any]) -> bool:
    paths = [None, *(cell["path"] for cell in row["cells"].values())]
    return mark["extraction_id"] == row["extraction_id"] and mark["path"] in paths


def _mark_text(mark: dict[str, Any]) -> str:
    if mark["code"] == "duplicate":
        return f"duplicate of {mark['of']['filename']}"
    return f"{mark['path']} is not within {mark['low']} and {mark['high']}"


def _cell_text(cell: dict[str, Any]) -> str:
    """Return a value as text, with its status in words if a person has to look at it, it is outdated, or a person
    accepted it."""
    value = "" if cell["value"] is None else str(cell["value"])
    status = FieldStatus(cell["status"])
    if status.needs_person or status is FieldStatus.STALE:
        return f"{value} ? {status_text(status, cell['reason'])}".lstrip()
    return f"{value} ({status_text(status, cell['reason'])})".lstrip() if status is FieldStatus.ACCEPTED else value

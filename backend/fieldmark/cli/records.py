"""`fieldmark records`: the extractions under a schema as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fieldmark.cli.client import Client, asked
from fieldmark.cli.files import check_out, print_json, write
from fieldmark.cli.process import MISUSED, stop
from fieldmark.cli.schemas import Name, kept
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import plain, show_lines, steps

_FORMATS: Final = {".csv": "csv", ".xlsx": "xlsx", ".json": "json"}


@command()
def records(
    target: Target,
    schema: Name,
    list_name: Annotated[str | None, typer.Option("--list", help="A row for each item of this list.")] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", help='Only rows that match, such as "total > 1000". Repeatable.')
    ] = None,
    sort: Annotated[str | None, typer.Option(help="The column to sort by. Default: newest document first.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Sort from the highest value.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of rows to print.")] = 50,
    out: Annotated[
        Path | None, typer.Option(help="Write all rows to this file: .csv, .xlsx (with locations) or .json.")
    ] = None,
) -> None:
    """Print or export the extractions under a schema as a table, with a row for each document."""
    if out is not None and out.suffix.lower() not in _FORMATS:
        stop(f"Unknown file type {out.suffix!r}. Use {', '.join(_FORMATS)}.", MISUSED)
    check_out(out)
    options = {"list": list_name, "filter": where, "sort": sort, "descending": descending}

    async def ask(client: Client) -> Any:
        path = f"/api/schemas/{(await kept(client, 'schema', schema))['id']}/records"
        if out is not None:
            return await client.file(f"{path}/export", format=_FORMATS[out.suffix.lower()], **options)
        return await client.get(path, limit=limit, **options)

    found = asked(target, ask)
    if out is not None:
        write(found, out)
        return
    if print_json(target, found):
        return
    names = [column["path"] for column in found["columns"]]
    rows = [
        [f"{row['filename']} {row['path'] or ''}".strip(), *(_text(row["cells"].get(name)) for name in names)]
        for row in found["items"]
    ]
    show_lines([["document", *names], *rows] if rows else [], "No records.")
    if found["total"] > len(rows):
        steps().print(plain(f"{len(rows)} of {found['total']} rows. Write all rows to a file with --out."))


def _text(cell: dict[str, Any] | None) -> str:
    """Return a value as text. A question mark follows an unverified value."""
    return "" if cell is None else f"{cell['value']}{'' if cell['is_verified'] else ' ?'}"

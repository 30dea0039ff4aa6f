"""`fieldmark export`: writes an extraction as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from fieldmark.cli.client import asked
from fieldmark.cli.files import check_out, write
from fieldmark.cli.process import MISUSED, stop
from fieldmark.cli.target import Target, command


@command()
def export(
    target: Target,
    extraction: Annotated[UUID, typer.Argument(help="The extraction, as `extract` names it.")],
    wanted: Annotated[str, typer.Option("--format", help="json, csv, xlsx or html.")] = "json",
    list_name: Annotated[
        str | None, typer.Option("--list", help="With csv: the rows of this list of objects, such as items.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it into this file; to standard output if left out.")] = None,
) -> None:
    """Write an extraction as JSON, CSV, a workbook, or an HTML page that shows where each value stands."""
    from fieldmark.services.exports.export import FORMATS

    if wanted not in FORMATS:
        stop(f"There is no format {wanted!r}. There are: {', '.join(FORMATS)}.", MISUSED)
    if target.as_json and wanted != "json":
        stop("Say --json or --format.", MISUSED)
    if out is None and wanted == "xlsx" and sys.stdout.isatty():
        stop("A workbook is nothing for a terminal: name a file with --out.", MISUSED)
    check_out(out)
    path = f"/api/extractions/{extraction}/export"
    write(asked(target, lambda client: client.file(path, format=wanted, list=list_name)), out)

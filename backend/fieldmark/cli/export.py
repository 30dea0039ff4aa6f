"""`fieldmark export`: writes an extraction as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from fieldmark.cli.client import run_with_client
from fieldmark.cli.files import check_out, format_of, write
from fieldmark.cli.process import MISUSED, exit_with
from fieldmark.cli.target import Target, command


@command()
def export(
    target: Target,
    extraction: Annotated[UUID, typer.Argument(help="The extraction id, as printed by `extract`.")],
    wanted: Annotated[
        str | None,
        typer.Option("--format", help="json, csv, xlsx or html. Default: by the ending of --out, otherwise json."),
    ] = None,
    list_name: Annotated[
        str | None, typer.Option("--list", help="With csv: write the rows of this list, such as items.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output file. Default: standard output.")] = None,
) -> None:
    """Write an extraction as JSON, CSV, XLSX, or an annotated HTML page."""
    from fieldmark.services.exports.export import FORMATS

    if wanted not in (None, *FORMATS):
        exit_with(f"Unknown format {wanted!r}. Choose from: {', '.join(FORMATS)}.", MISUSED)
    named = None if out is None or not out.suffix else format_of(out, FORMATS)
    if None not in (wanted, named) and wanted != named:
        exit_with(f"--format {wanted} contradicts the name {out}. Leave --format out, or use .{wanted}.", MISUSED)
    wanted = wanted or named or "json"
    if target.as_json and wanted != "json":
        exit_with("Use either --json or --format.", MISUSED)
    if out is None and wanted == "xlsx" and sys.stdout.isatty():
        exit_with("XLSX cannot be printed to a terminal. Pass a file with --out.", MISUSED)
    check_out(out)
    path = f"/api/extractions/{extraction}/export"
    write(run_with_client(target, lambda client: client.file(path, format=wanted, list=list_name)), out)

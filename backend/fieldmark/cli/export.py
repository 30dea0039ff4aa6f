"""`fieldmark export`: writes an extraction as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from fieldmark.cli.files import check_out, write
from fieldmark.cli.process import FAILED, LOCAL_USER, MISUSED, opened, read_settings, run, stop
from fieldmark.errors import Invalid, NotFound
from fieldmark.settings import Settings

if TYPE_CHECKING:
    from fieldmark.services.exports.export import Format


def export(
    extraction: Annotated[UUID, typer.Argument(help="The extraction, as `extract` names it.")],
    wanted: Annotated[str, typer.Option("--format", help="json, csv, xlsx or html.")] = "json",
    list_name: Annotated[
        str | None, typer.Option("--list", help="With csv: the rows of this list of objects, such as items.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it into this file; to standard output if left out.")] = None,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Write an extraction as JSON, CSV, a workbook, or an HTML page that shows where each value stands."""
    from fieldmark.services.exports.export import FORMATS

    if wanted not in FORMATS:
        stop(f"There is no format {wanted!r}. There are: {', '.join(FORMATS)}.", MISUSED)
    if out is None and wanted == "xlsx" and sys.stdout.isatty():
        stop("A workbook is nothing for a terminal: name a file with --out.", MISUSED)
    check_out(out)
    write(run(_export(read_settings("warning"), extraction, wanted, list_name, user)), out)


async def _export(settings: Settings, extraction_id: UUID, wanted: Format, list_name: str | None, user: UUID) -> bytes:
    from fieldmark.services.exports.export import export

    async with opened(settings, user) as (runtime, scope):
        try:
            made = await export(
                runtime.database, runtime.files, runtime.reading_limits, scope, extraction_id, wanted, list_name
            )
        except (NotFound, Invalid) as fault:
            stop(str(fault), FAILED)
    return made.content

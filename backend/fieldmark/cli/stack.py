"""`fieldmark stack`: fill a table from the files in a folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fieldmark.cli.asking import TerminalUser
from fieldmark.cli.client import Client, ErrorResponse, error_text, run_with_client
from fieldmark.cli.files import check_out, print_json, write
from fieldmark.cli.follow import Runs, RunState, running
from fieldmark.cli.process import FAILED, MISUSED, WAITS, exit_with
from fieldmark.cli.records import FORMATS
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, plain, show_step, steps
from fieldmark.domain.column_definitions import ColumnDefinition, parse_definitions
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.errors import Invalid

_PAGE: Final = 500
_IDS_AT_ONCE: Final = 50
_POLL_SECONDS: Final = 1
_MAX_LISTED: Final = 50


@command()
def stack(
    target: Target,
    folder: Annotated[Path, typer.Argument(help="The folder with the documents, subfolders included.")],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:TYPE],…",
            help='The columns: "vendor,date:date,total:number,items[].price:number". Types: text, number, date, '
            "boolean, currency. Default: those of the stack, or else the agent proposes columns.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the stack. Default: the folder's name.")] = None,
    instructions: Annotated[str | None, typer.Option(help="Instructions for the agent.")] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="Correct the table in words, instead of filling it.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the table to this file: .csv, .xlsx or .json.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Stop when the run has cost this much, in US dollars.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve all that the agent proposes.")] = False,
) -> None:
    """Fill a table from the files in a folder, a row for each. Run it again to continue, to read new files, and to
    repeat failed ones. Ctrl-C stops; finished rows stay. Exit code 1 if a row failed."""
    if not folder.is_dir():
        exit_with(f"Folder not found: {folder}", MISUSED)
    if out is not None and out.suffix.lower() not in FORMATS:
        exit_with(f"Unknown file type {out.suffix!r}. Use {', '.join(FORMATS)}.", MISUSED)
    check_out(out)
    try:
        definitions = None if columns is None else parse_definitions(columns)
    except Invalid as error:
        exit_with(f"Invalid --columns: {error}", MISUSED)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not _is_hidden(file, folder))
    stack_name = name or folder.resolve().name or "stack"

    async def work(client: Client) -> tuple[RunState | None, dict[str, Any], bytes | None]:
        async with running(client) as runs:
            found = await _find_or_create(client, stack_name, definitions)
            await _upload_new(client, runs, found["id"], files)
            if correct is not None:
                task, body = "stack_correct", {"stack_id": found["id"], "message": correct}
            else:
                task, body = "stack", {"stack_id": found["id"], "instructions": instructions}
            # A user who names or corrects the columns has decided; otherwise the agent's proposal is shown.
            approval = "auto" if yes or columns is not None or correct is not None else "ask"
            if found["columns"] and correct is None:
                approval = "auto"
            options = {"approval": approval, "max_cost_usd": max_cost}
            state = await runs.follow_to_end(
                await runs.start(task, {**body, **options}),
                TerminalUser(err, client.settings.editor) if approval == "ask" else None,
            )
            path = f"/api/stacks/{found['id']}"
            content = None
            if out is not None:
                content = await client.file(f"{path}/rows/export", format=FORMATS[out.suffix.lower()])
            return state, await _report(client, path), content

    state, report, content = run_with_client(target, work)
    if out is not None and content is not None:
        write(content, out)
    if not print_json(target, report):
        _show(report, out)
    if state is not None and state.waits:
        raise typer.Exit(WAITS)
    if report["progress"]["failed"] or (state is not None and state.run["status"] != "completed"):
        raise typer.Exit(FAILED)


async def _find_or_create(client: Client, name: str, definitions: list[ColumnDefinition] | None) -> dict[str, Any]:
    """Return the stack of this name with these columns. Create it if there is none."""
    columns = None if definitions is None else [one.model_dump(exclude_none=True) for one in definitions]
    listed = await client.get("/api/stacks", name=name)
    if not listed["items"]:
        return await client.send("POST", "/api/stacks", {"name": name, "columns": columns})
    (found,) = listed["items"]
    known = [{key: value for key, value in one.items() if key != "description"} for one in found["columns"]]
    if columns is not None and columns != known:
        changed = await client.send("PUT", f"/api/stacks/{found['id']}/columns", {"columns": columns})
        if (changes := changed["changes"]) is not None and changes["read_again"]:
            steps().print(f"  [yellow]![/yellow] The columns changed: {changes['read_again']} rows are read again.")
        found["columns"] = changed["columns"]
    return found


async def _upload_new(client: Client, runs: Runs, stack_id: str, files: list[Path]) -> None:
    """Upload the files that are not in the stack yet, and wait until all are read."""
    known = await _known_files(client, stack_id)
    for file in files:
        key = (file.name, _sha256(file))
        if known[key]:
            known[key] -= 1
            continue
        try:
            await runs.upload(file, stack_id=stack_id, auto_create=False)
        except ErrorResponse as refused:
            err.print(f"[red]✗[/red] {plain(file.name)}: {plain(error_text(refused))}")
            raise
    shown = 0
    while reading := await _count_reading(client, stack_id):
        if reading != shown:
            show_step(runs.status, f"Reading documents: {reading} to go…")
        shown = reading
        await asyncio.sleep(_POLL_SECONDS)


async def _known_files(client: Client, stack_id: str) -> Counter[tuple[str, str | None]]:
    """Return how often each file, by name and hash, is in the stack."""
    ids = [row["document_id"] for row in await _rows(client, stack_id)]
    found: Counter[tuple[str, str | None]] = Counter()
    for one in await _documents(client, ids):
        found[one["filename"], one["content_sha256"]] += 1
    return found


async def _count_reading(client: Client, stack_id: str) -> int:
    waiting = await _rows(client, stack_id, row_status=["waiting"])
    ids = [row["document_id"] for row in waiting]
    return sum(one["status"] == DocumentStatus.READING for one in await _documents(client, ids))


async def _documents(client: Client, ids: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for first in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[first : first + _IDS_AT_ONCE]
        found += (await client.get("/api/documents", document_id=some, limit=len(some)))["items"]
    return found


async def _rows(client: Client, stack_id: str, **query: object) -> list[dict[str, Any]]:
    """Return the first row of each document of a stack."""
    found: dict[str, dict[str, Any]] = {}
    offset = 0
    while True:
        page = await client.get(f"/api/stacks/{stack_id}/rows", limit=_PAGE, offset=offset, **query)
        for row in page["items"]:
            found.setdefault(row["document_id"], row)
        offset += _PAGE
        if len(page["items"]) < _PAGE:
            return list(found.values())


async def _report(client: Client, path: str) -> dict[str, Any]:
    """Return the stack, with its rows that failed and its duplicates."""
    found = await client.get(path)
    listed = await _rows(client, found["id"], row_status=["failed", "duplicate"])
    return {
        **found,
        "failed": [
            {key: row[key] for key in ("document_id", "filename", "error", "error_code")}
            for row in listed
            if row["status"] == "failed"
        ],
        "duplicates": [
            {key: row[key] for key in ("document_id", "filename", "duplicate_of")}
            for row in listed
            if row["status"] == "duplicate"
        ],
    }


def _show(report: dict[str, Any], out: Path | None) -> None:
    progress = report["progress"]
    for row in report["failed"][:_MAX_LISTED]:
        err.print(f"[red]✗[/red] {plain(row['filename'])}: {plain(row['error'] or '')} [dim]{row['error_code']}[/dim]")
    for row in report["duplicates"][:_MAX_LISTED]:
        err.print(f"[yellow]=[/yellow] {plain(row['filename'])}: a copy of another document of the stack.")
    counts = [(progress["done"] + progress["incomplete"], "rows"), (progress["failed"], "failed")]
    counts += [(progress["duplicates"], "duplicates"), (progress["waiting"] + progress["stale"], "left")]
    said = ", ".join(f"{number} {what}" for number, what in counts if number or what == "rows")
    cost = f", ${progress['cost_usd']:.2f}" if progress["cost_usd"] else ""
    steps().print(f"{plain(report['name'])}: {said}{cost}." + (f" Written to {plain(str(out))}." if out else ""))


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

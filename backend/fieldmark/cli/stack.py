"""`fieldmark stack`: fill a table from the files in a folder."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.status import Status

from fieldmark.cli.asking import TerminalUser
from fieldmark.cli.client import Client, Disconnected, ErrorResponse, error_text, run_with_client
from fieldmark.cli.files import check_out, format_of, print_json, write
from fieldmark.cli.follow import RunState, StartedRuns, running, show_event
from fieldmark.cli.process import FAILED, MISUSED, WAITS, exit_with
from fieldmark.cli.tables import FORMATS
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, plain, show_progress, show_step, steps
from fieldmark.domain.column_definitions import ColumnDefinition, parse_definitions
from fieldmark.domain.formatting import counted, list_names
from fieldmark.domain.names import name_problem
from fieldmark.domain.status_text import status_text
from fieldmark.domain.statuses import DocumentStatus, FieldStatus, RunStatus
from fieldmark.errors import Invalid, NameTaken

_PAGE: Final = 500
_IDS_AT_ONCE: Final = 50
_POLL_SECONDS: Final = 1
_POLL_ROWS_SECONDS: Final = 3
_MAX_LISTED: Final = 50
_REFUSED_FILE: Final = (400, 413, 415, 422)
"""Statuses of an upload with which the service refuses the file itself."""


@command()
def stack(
    target: Target,
    folder: Annotated[Path, typer.Argument(help="The folder with the documents, subfolders included.")],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:TYPE[:UNIT]],…",
            help='The columns: "vendor,date:date,weight:number:kg,items[].price:number". Types: text, number, date, '
            "boolean, currency (a code, such as EUR). Default: those of the stack, or else the agent proposes columns.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the stack. Default: the folder's name.")] = None,
    instructions: Annotated[str | None, typer.Option(help="Instructions for the agent.")] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="Correct the table in words, instead of filling it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the table to this file: .csv, .xlsx, .json or .parquet.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(help="Stop when the run has cost this much, in US dollars.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Approve everything. Default: ask before columns or values are set.")
    ] = False,
) -> None:
    """Fill a table from the files in a folder, a row for each. Run it again to continue, to read new files, and to
    repeat failed and incomplete ones. Ctrl-C stops; finished rows stay. Hidden files are left out. Exit code 1 if a
    file was not uploaded, or a row failed, is incomplete or is left."""
    if not folder.is_dir():
        exit_with(f"Folder not found: {folder}", MISUSED)
    file_format = None if out is None else format_of(out, FORMATS)
    check_out(out)
    try:
        definitions = None if columns is None else parse_definitions(columns)
    except Invalid as error:
        exit_with(f"Invalid --columns: {error}", MISUSED)
    files, not_uploaded = _find_files(folder, out)
    if name is not None and (problem := name_problem(name)):
        exit_with(f"Invalid --name: {problem}", MISUSED)
    stack_name = name or folder.resolve().name or "stack"

    async def work(client: Client) -> tuple[RunState | None, dict[str, Any], bytes | None]:
        if not files and not await _has_documents(client, stack_name):
            message = f"No documents in {folder}. Put files in it, or name another folder. Hidden files are left out."
            exit_with(message, MISUSED)
        async with running(client) as runs:
            person = None if yes else TerminalUser(err, client.settings.editor)
            found = await _find_or_create(client, stack_name, definitions, runs.status, person)
            not_uploaded.extend(await _upload_new(client, runs, found["id"], files))
            await _wait_until_read(client, runs, found["id"])
            if correct is not None:
                task, body = "stack_correct", {"stack_id": found["id"], "message": correct}
            else:
                task, body = "stack", {"stack_id": found["id"], "instructions": instructions}
            options: dict[str, Any] = {"approval": "auto" if yes else "ask", "max_cost_usd": max_cost}
            if found["columns"] and correct is None and not yes:  # the command itself asks to read these columns
                options["auto_approved_tools"] = ["extract_row"]
            path = f"/api/stacks/{found['id']}"
            async with _showing_rows(client, runs.status, path):
                state = await runs.follow_to_end(await runs.start(task, {**body, **options}), person, show=_show_event)
            content = None
            if out is not None:
                content = await client.file(f"/api/tables/{found['id']}/export", format=file_format)
            report = await _report(client, path)
            if not _count_left(report["progress"]):
                _show_rows(runs.status, report["progress"])
            return state, {**report, "not_uploaded": not_uploaded}, content

    state, report, content = run_with_client(target, work)
    if out is not None and content is not None:
        write(content, out)
    if not print_json(target, report):
        _show(report, out)
    if state is not None and state.waits:
        raise typer.Exit(WAITS)
    progress = report["progress"]
    is_complete = not (not_uploaded or progress["failed"] or progress["incomplete"] or _count_left(progress))
    if not is_complete or (state is not None and state.run["status"] != RunStatus.COMPLETED):
        raise typer.Exit(FAILED)


def _find_files(folder: Path, out: Path | None) -> tuple[list[Path], list[dict[str, str]]]:
    """Return the files below a folder, and what cannot be read there: {file, error}. Hidden files and the result file
    are left out. Links are not followed: a downloaded folder may link to any file of this computer."""
    files: list[Path] = []
    problems: list[dict[str, str]] = []

    def report(error: OSError) -> None:
        problems.append(_problem(Path(os.fsdecode(error.filename)), error.strerror or "Cannot be read."))

    for parent, folders, names in os.walk(folder, onerror=report):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in (*folders, *names) if not name.startswith(".")):
            if path.is_symlink():
                problems.append(_problem(path, "Symbolic links are not followed."))
            elif path.is_file() and (out is None or path.resolve() != out.resolve()):
                files.append(path)
    return sorted(files), problems


def _problem(file: Path, error: str) -> dict[str, str]:
    """Print why a file is not uploaded, and return it for the report."""
    name = os.fsencode(file).decode(errors="replace")
    err.print(f"[red]✗[/red] {plain(name)}: {plain(error)}")
    return {"file": name, "error": error}


async def _has_documents(client: Client, name: str) -> bool:
    return any(one["progress"]["documents"] for one in (await client.get("/api/stacks", name=name))["items"])


async def _find_or_create(
    client: Client, name: str, definitions: list[ColumnDefinition] | None, status: Status, person: TerminalUser | None
) -> dict[str, Any]:
    """Return the stack of this name with these columns. Create it if there is none. Ask the person, if any, before
    columns of rows that were read are removed."""
    columns = None if definitions is None else [one.model_dump(exclude_none=True) for one in definitions]
    listed = await client.get("/api/stacks", name=name)
    if not listed["items"]:
        try:
            return await client.send("POST", "/api/stacks", {"name": name, "columns": columns})
        except ErrorResponse as refused:
            if refused.reason != NameTaken.code:
                raise
            listed = await client.get("/api/stacks", name=name)  # another command has just created it
    (found,) = listed["items"]
    known = {(one["name"], one["type"]): one for one in found["columns"]}
    # A column that stays keeps its description and unit. Otherwise all rows would be read again.
    columns = [{**known.get((one["name"], one["type"]), {}), **one} for one in columns or ()]
    removed = [one["name"] for one in found["columns"] if one["name"] not in {kept["name"] for kept in columns}]
    if columns and removed and found["progress"]["done"] + found["progress"]["stale"] and person is not None:
        status.stop()
        names = plain(list_names(removed, characters=300, most=20))
        if not await person.agrees(f"--columns removes {names} from the table, with the values. Go on?"):
            exit_with("The table was not changed. Answer y, pass --yes, or name all columns in --columns.", FAILED)
        status.start()
    if columns and columns != found["columns"]:
        changed = await client.send("PUT", f"/api/stacks/{found['id']}/columns", {"columns": columns})
        if (changes := changed["changes"]) is not None and changes["read_again"]:
            steps().print(f"  [yellow]![/yellow] The columns changed: {changes['read_again']} rows are read again.")
        found["columns"] = changed["columns"]
    return found


async def _upload_new(client: Client, runs: StartedRuns, stack_id: str, files: list[Path]) -> list[dict[str, str]]:
    """Upload the files that are not in the stack yet. Return those that cannot be read or are refused."""
    known = await _known_files(client, stack_id)
    problems: list[dict[str, str]] = []
    for file in files:
        try:
            content_sha256 = await asyncio.to_thread(_sha256, file)
            if known[content_sha256]:
                known[content_sha256] -= 1
                continue
            await runs.upload(file, stack_id=stack_id, auto_create=False)
        except BrokenPipeError:
            raise
        except OSError as error:
            problems.append(_problem(file, error.strerror or "Cannot be read."))
        except ErrorResponse as refused:
            if refused.answered not in _REFUSED_FILE:
                raise
            problems.append(_problem(file, error_text(refused)))
    return problems


async def _wait_until_read(client: Client, runs: StartedRuns, stack_id: str) -> None:
    """Wait until no document of the stack is being read, nor any file inside one."""
    waited: set[str] = set()
    ids: list[str] = []
    while ids or (ids := await _waiting(client, stack_id, waited)):
        if not waited:
            show_step(runs.status, "Reading documents…")
        waited.update(ids)
        first = ids[:_IDS_AT_ONCE]
        listed = await _documents(client, first)
        reading = [one["id"] for one in listed if one["status"] == DocumentStatus.READING]
        ids = reading + ids[_IDS_AT_ONCE:]
        if ids:
            show_progress(runs.status, len(waited) - len(ids), len(waited), "files read")
        if len(reading) == len(first):
            await asyncio.sleep(_POLL_SECONDS)
    if waited:
        show_progress(runs.status, len(waited), len(waited), "files read")


@contextlib.asynccontextmanager
async def _showing_rows(client: Client, status: Status, path: str) -> AsyncGenerator[None]:
    """Show how many rows of the stack are read. Also those that the run of a killed command still reads, which has no
    events in the new run."""

    async def show() -> None:
        while True:
            await asyncio.sleep(_POLL_ROWS_SECONDS)
            with contextlib.suppress(ErrorResponse, Disconnected):
                progress = (await client.get(path))["progress"]
                if _count_left(progress):
                    _show_rows(status, progress)

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _show_rows(status: Status, progress: dict[str, Any]) -> None:
    total = progress["documents"] - progress["duplicates"] - progress["containers"]
    failed = f", {progress['failed']} failed" if progress["failed"] else ""
    show_progress(status, total - _count_left(progress), total, f"documents{failed}")


def _show_event(event: Mapping[str, Any], status: Status) -> None:
    if event.get("type") != "progress":  # which counts only the rows of one call
        show_event(event, status)


async def _waiting(client: Client, stack_id: str, known: set[str]) -> list[str]:
    rows = await _rows(client, stack_id, row_status=["waiting"])
    return [row["document_id"] for row in rows if row["document_id"] not in known]


async def _known_files(client: Client, stack_id: str) -> Counter[str | None]:
    """Return how often each file is in the stack, by its hash. (The service may change a name.)"""
    ids = [row["document_id"] for row in await _rows(client, stack_id)]
    return Counter(one["content_sha256"] for one in await _documents(client, ids))


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
        page = await client.get(f"/api/tables/{stack_id}/rows", limit=_PAGE, offset=offset, **query)
        for row in page["items"]:
            found.setdefault(row["document_id"], row)
        offset += _PAGE
        if len(page["items"]) < _PAGE:
            return list(found.values())


async def _report(client: Client, path: str) -> dict[str, Any]:
    """Return the stack, with its rows that failed or are incomplete, its duplicates, and the cells that a person has to
    look at."""
    found = await client.get(path)
    unsure = await _rows(client, found["id"], cell_status=[one for one in FieldStatus if one.needs_person])
    listed = await _rows(client, found["id"], row_status=["failed", "incomplete", "duplicate"])
    return {
        **found,
        "incomplete": [
            {key: row[key] for key in ("document_id", "filename", "extraction_id")}
            for row in listed
            if row["status"] == "incomplete"
        ],
        "failed": [
            {key: row[key] for key in ("document_id", "filename", "error", "error_code")}
            for row in listed
            if row["status"] == "failed"
        ],
        "duplicates": [
            {key: row[key] for key in ("document_id", "filename", "duplicate_of", "duplicate_of_filename")}
            for row in listed
            if row["status"] == "duplicate"
        ],
        "to_review": [
            {key: row[key] for key in ("document_id", "filename", "extraction_id", "path")} | {"cells": cells}
            for row in unsure
            if (
                cells := {name: cell for name, cell in row["cells"].items() if FieldStatus(cell["status"]).needs_person}
            )
        ],
    }


def _show(report: dict[str, Any], out: Path | None) -> None:
    progress = report["progress"]
    for row in report["failed"][:_MAX_LISTED]:
        err.print(f"[red]✗[/red] {plain(row['filename'])}: {plain(row['error'] or row['error_code'])}")
    for row in report["incomplete"][:_MAX_LISTED]:
        problem = "incomplete: the agent found nothing, or did not finish. Run the command again to read it again."
        err.print(f"[yellow]?[/yellow] {plain(row['filename'])}: {problem}")
    for row in report["to_review"][:_MAX_LISTED]:
        cells = ", ".join(f"{name} {status_text(one['status'], one['reason'])}" for name, one in row["cells"].items())
        err.print(f"[yellow]?[/yellow] {plain(row['filename'])}: {plain(cells)}")
    for row in report["duplicates"][:_MAX_LISTED]:
        err.print(f"[yellow]=[/yellow] {plain(row['filename'])}: a copy of {plain(row['duplicate_of_filename'])}.")
    said = ", ".join(_counts(progress))
    skipped = f" {counted(len(report['not_uploaded']), 'file')} not uploaded." if report["not_uploaded"] else ""
    cost = f" ${progress['cost_usd']:.2f}." if progress["cost_usd"] else ""
    written = f" Written to {plain(str(out))}." if out else ""
    total = counted(progress["documents"], "document")
    steps().print(f"{plain(report['name'])}: {total}{': ' if said else ''}{said}.{skipped}{cost}{written}")


def _counts(progress: dict[str, Any]) -> list[str]:
    """Return the number of documents in each state, which add up to those of the stack."""
    read, stale = progress["done"] + progress["stale"], progress["stale"]
    counts = [
        (read, f"{read} read" + (f" ({stale} outdated: read under other columns)" if stale else "")),
        (progress["incomplete"], f"{progress['incomplete']} incomplete"),
        (progress["failed"], f"{progress['failed']} failed"),
        (progress["duplicates"], counted(progress["duplicates"], "duplicate")),
        (progress["containers"], counted(progress["containers"], "archive")),
        (progress["awaiting_approval"], f"{progress['awaiting_approval']} waiting for approval"),
        (progress["waiting"] + progress["running"], f"{progress['waiting'] + progress['running']} left"),
    ]
    return [text for number, text in counts if number]


def _count_left(progress: dict[str, Any]) -> int:
    return progress["waiting"] + progress["stale"] + progress["running"] + progress["awaiting_approval"]


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

"""The command line: serve, extract, export, runs, approve, eval, worker, migrate, token.

Exit codes: 0 done (`serve` and `worker`: told to end); 1 a document could not be read, a run failed, what was to be
decided waits no more, or an evaluation got worse; 2 wrong usage; 3 the service cannot work (settings, database); 4
nothing failed, but a run waits for a person's decision; 130 interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Coroutine, Generator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_args
from uuid import UUID, uuid4

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from fieldmark.domain.fields import leaves
from fieldmark.errors import Conflict, FieldmarkError, Invalid, Misconfigured, NotFound, Unavailable
from fieldmark.logs import set_up_logs
from fieldmark.settings import Settings
from fieldmark.terminal import plain

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from fieldmark.asking import Person
    from fieldmark.db.pool import Database
    from fieldmark.evaluation import Case
    from fieldmark.exports.export import Format
    from fieldmark.runs.decisions import Decision, Proposal
    from fieldmark.scope import Scope

app = typer.Typer(
    help="Fieldmark reads documents and fills databases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Who acts on this machine where nobody else is named. Not a secret, and the same everywhere.
LOCAL_USER = UUID("00000000-0000-4000-8000-000000000001")

FAILED, MISUSED, CANNOT_WORK, WAITS, INTERRUPTED = 1, 2, 3, 4, 130

MAX_WARNINGS = 5

Result = TypeVar("Result")

_err = Console(stderr=True, highlight=False, soft_wrap=True)
_out = Console(highlight=False)


def main() -> None:
    """The entry point of `fieldmark`."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        app()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else what is not written yet is tried again at the end
        _err.print(f"[red]Not all could be written: {error.strerror}.[/red]")
        sys.exit(FAILED)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _open_what_is_closed() -> None:
    """Give a process that was started without a standard stream (`2>&-`) an empty one: what it opens first would take
    the stream's number, and get what is written there."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


@app.command()
def extract(
    files: Annotated[list[Path], typer.Argument(help="Documents: PDF, image, DOCX, XLSX, HTML, EML, TXT, CSV.")],
    schema: Annotated[Path | None, typer.Option(help="A JSON Schema that the fields shall follow.")] = None,
    instructions: Annotated[str | None, typer.Option(help="What to look for, in words.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The extraction alone on standard output; for several files one a line.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the extraction as JSON into this file.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask before each write: approve, reject or edit it.")] = False,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Read documents, extract their fields, show each step. Ctrl-C cancels the runs that it has started."""
    for file in files:
        if fault := _unreadable(file):
            _stop(fault, MISUSED)
    _check_out(out)
    wanted = _read_schema(schema)
    settings = _at_once(_settings("warning"))
    done, waiting = _run(_extract(settings, files, wanted, instructions, as_json, ask, user))
    if as_json:
        # JSON is UTF-8 whatever the terminal's locale is.
        sys.stdout.buffer.write(_as_lines(done).encode())
        sys.stdout.buffer.flush()
    if out is not None and done:
        _write(out, _as_lines(done).encode())
    if len(done) + waiting < len(files):
        raise typer.Exit(FAILED)
    if waiting:
        raise typer.Exit(WAITS)


@app.command("export")
def export_extraction(
    extraction: Annotated[UUID, typer.Argument(help="The extraction, as `extract` names it.")],
    wanted: Annotated[str, typer.Option("--format", help="json, csv, xlsx or html.")] = "json",
    list_name: Annotated[
        str | None, typer.Option("--list", help="With csv: the rows of this list of objects, such as items.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it into this file; to standard output if left out.")] = None,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Write an extraction as JSON, CSV, a workbook, or an HTML page that shows where each value stands."""
    from fieldmark.exports.export import FORMATS

    if wanted not in FORMATS:
        _stop(f"There is no format {wanted!r}. There are: {', '.join(FORMATS)}.", MISUSED)
    if out is None and wanted == "xlsx" and sys.stdout.isatty():
        _stop("A workbook is nothing for a terminal: name a file with --out.", MISUSED)
    _check_out(out)
    content = _run(_export(_settings("warning"), extraction, wanted, list_name, user))
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    _write(out, content)


@app.command("runs")
def list_runs(
    status: Annotated[
        str | None, typer.Option(help="Only those: queued, running, awaiting_approval, completed, failed, cancelled.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    user: Annotated[UUID, typer.Option(help="Whose; the local user's if left out.")] = LOCAL_USER,
) -> None:
    """List runs, newest first, and what they wait for."""
    from fieldmark.routes.runs import Status

    if status is not None and status not in get_args(Status):
        _stop(f"There is no status {status!r}. There are: {', '.join(get_args(Status))}.", MISUSED)
    _run(_list_runs(_settings("warning"), status, limit, as_json, user))


@app.command()
def approve(
    run: Annotated[UUID, typer.Argument(help="The run that waits.")],
    call: Annotated[str | None, typer.Argument(help="The call; the one that the run waits for if left out.")] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Do not let it happen.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why it is rejected: the agent is told.")] = None,
    arguments: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Approve it with other arguments.")
    ] = None,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Decide what a run waits for, and watch what follows."""
    from fieldmark.runs.decisions import Decision

    if reject and arguments is not None:
        _stop("A rejected call needs no --input.", MISUSED)
    if reason is not None and not reject:
        _stop("--reason goes with --reject.", MISUSED)
    try:
        given = None if arguments is None else TypeAdapter(dict[str, JsonValue]).validate_json(arguments)
    except ValidationError as error:
        _stop(f"--input is no JSON object: {error.errors()[0]['msg']}.", MISUSED)
    settings = _at_once(_settings("warning"))
    code = _run(_approve(settings, run, Decision(call or "", not reject, given, reason), user))
    if code:
        raise typer.Exit(code)


@app.command("eval")
def evaluate(
    folder: Annotated[
        Path | None, typer.Argument(help="Documents, each with what is right for it: invoice.pdf, invoice.gold.json.")
    ] = None,
    corrections: Annotated[
        bool, typer.Option("--corrections", help="Instead: the completed extractions that people have corrected.")
    ] = False,
    schema: Annotated[Path | None, typer.Option(help="Score this JSON Schema, instead of each case's own.")] = None,
    instructions: Annotated[str | None, typer.Option(help="Score these instructions.")] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="A report to compare with: exit code 1 if it got worse.")
    ] = None,
    tolerance: Annotated[float, typer.Option(min=0, max=1, help="How much worse a share may get: 0.02 is 2 %.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write the report as JSON into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON on standard output.")] = False,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Read documents again and score what comes out against what is right: exactly the same, the same to a reader, and
    found on the page."""
    if (folder is None) is not corrections:
        _stop("Name a folder, or say --corrections.", MISUSED)
    _check_out(save)
    from fieldmark.evaluation import cases_of, regressions

    wanted = _read_schema(schema)
    try:
        before = None if baseline is None else _read_object(baseline)
        if before is not None:
            regressions(before, before, 0)  # what is no report is refused now, not when all has been read and paid for
        cases = None if folder is None else cases_of(folder)
    except (Invalid, OSError) as error:
        _stop(str(error) if isinstance(error, Invalid) else f"{baseline} cannot be read: {error.strerror}.", MISUSED)
    report = _run(_evaluate(_settings("warning"), cases, wanted, instructions, user))
    text = _as_lines([report])
    if save is not None:
        _write(save, text.encode())
    if as_json:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        _show_report(report)
    worse = [] if before is None else regressions(before, report, tolerance)
    for sentence in worse:
        _err.print(f"[red]Worse than the baseline: {plain(sentence)}[/red]")
    if worse or report["failed"]:
        raise typer.Exit(FAILED)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port to listen on; 0 for any free one.")
    ] = None,
    with_worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Do the jobs in this process too, or leave them to others.")
    ] = True,
) -> None:
    """Serve the HTTP API, with a worker and (if no other is named) the embedded Postgres."""
    settings = _settings()
    _run(_serve(settings, host or settings.host, settings.port if port is None else port, with_worker), endless=True)


@app.command()
def worker(
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=64, help="Agents at work at once, instead of FIELDMARK_MAX_LIVE_AGENTS.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Answer /healthz, /readyz and /metrics at this port (FIELDMARK_HOST)."),
    ] = None,
) -> None:
    """Do jobs: execute runs, read documents. As many processes as you like, on as many machines."""
    settings = _settings()
    if concurrency is not None:
        settings = settings.model_copy(update={"max_live_agents": concurrency})
    _run(_work(settings, port), endless=True)


@app.command()
def migrate() -> None:
    """Bring the database up to date, as its owner (DATABASE_OWNER_URL, else DATABASE_URL)."""
    from fieldmark.service import migrate_as_owner

    settings = _settings()
    applied = _run(migrate_as_owner(settings))
    for name in applied:
        typer.echo(name)
    _err.print(f"{len(applied)} migrations applied." if applied else "Nothing to apply: the database is up to date.")


@app.command()
def token(
    user: Annotated[UUID, typer.Option(help="The user's id.")] = LOCAL_USER,
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 365, help="How long it is valid.")] = 12,
) -> None:
    """Print a token of the local key, alone on standard output."""
    from fieldmark.routes.tokens import LocalTokens

    settings = _settings()
    if settings.supabase_url:
        _stop("With SUPABASE_URL set, tokens come from Supabase Auth.", CANNOT_WORK)
    with _sentences():
        typer.echo(LocalTokens(settings.home).sign(user, timedelta(hours=hours)))


# Extracting ---------------------------------------------------------------------------------------------------------


async def _extract(
    settings: Settings,
    files: list[Path],
    schema: dict[str, Any] | None,
    instructions: str | None,
    as_json: bool,
    ask: bool,
    user: UUID,
) -> tuple[list[dict[str, Any]], int]:
    """The extractions that were completed, and how many wait for a person."""
    from fieldmark.asking import Person
    from fieldmark.runs import launch
    from fieldmark.service import open_service
    from fieldmark.worker import working

    done: list[dict[str, Any]] = []
    waiting = 0
    started: list[tuple[Path, UUID]] = []
    keys: list[str] = []
    person = Person(_err, settings.editor) if ask else None
    with _err.status("") as status:
        _tell(status, "Starting…")
        async with open_service(settings) as service:
            scope = await _scope(service.database, user)
            _say_offline(settings)
            async with working(service):
                try:
                    for file in files:
                        _tell(status, f"Taking in {plain(file.name)}…")
                        try:
                            document = await service.ingest.upload(scope, file, file.name)
                            # Known by its key before it is there, and so found again however this is interrupted.
                            keys.append(str(uuid4()))
                            wish = launch.Wish(approval="ask" if ask else None, idempotency_key=keys[-1])
                            run_id = await launch.extract(
                                service.database,
                                scope,
                                document["id"],
                                prices=service.prices,
                                schema=schema,
                                instructions=instructions,
                                wish=wish,
                            )
                        except (Unavailable, Misconfigured):
                            raise
                        except FieldmarkError as error:
                            _err.print(f"[red]✗[/red] {plain(file.name)}: {plain(str(error))}")
                            continue
                        started.append((file, run_id))
                    for file, run_id in started:
                        _err.print(f"[bold]{plain(file.name)}[/bold]")
                        _tell(status, "Reading the document…")
                        extraction, waits = await _to_the_end(service.database, scope, run_id, status, person)
                        waiting += waits
                        await _warn(service.database, scope, run_id)
                        if extraction is not None:
                            done.append(extraction)
                            if not as_json:
                                status.stop()
                                _show(extraction, file.name)
                                status.start()
                except BaseException:
                    # Interrupted: whoever works next would otherwise do, and pay for, what nobody waits for any more.
                    await _cancel_all(service.database, scope, keys)
                    raise
    return done, waiting


async def _scope(database: Database, user: UUID) -> Scope:
    from fieldmark.routes.auth import enter
    from fieldmark.scope import Scope

    org_id = await enter(database, user)
    assert org_id is not None
    return Scope(user, org_id)


def _say_offline(settings: Settings) -> None:
    if settings.offline:
        _err.print(
            "[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules. It is no language model.[/yellow]"
        )


async def _cancel_all(database: Database, scope: Scope, keys: list[str]) -> None:
    from fieldmark.runs import decisions
    from fieldmark.stores import runs

    with contextlib.suppress(FieldmarkError):
        for key in keys:
            async with database.as_user(scope) as conn:
                run = await runs.by_key(conn, scope, key)
            if run is not None:
                await decisions.cancel(database, scope, run["id"])


async def _to_the_end(
    database: Database, scope: Scope, run_id: UUID, status: Status, person: Person | None, after: int = 0
) -> tuple[dict[str, Any] | None, bool]:
    """Watch a run, and let the person decide what it waits for. The extraction if it was completed, and whether it
    waits still."""
    from fieldmark.routes.extractions import Extraction
    from fieldmark.runs import decisions
    from fieldmark.stores import extractions, runs

    while True:
        after = await _watch(database, scope, run_id, status, after)
        proposal = await decisions.waiting(database, scope, run_id)
        if proposal is None:
            break
        status.stop()
        try:
            if person is None or not await _decided(database, scope, run_id, proposal, person):
                _say_how_to_decide(scope, run_id, None if person else proposal)
                return None, True
        finally:
            status.start()
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        row = None if run is None else await extractions.get(conn, run["extraction_id"])
    if run is None or row is None or run["status"] != "completed":
        return None, False
    return Extraction.model_validate(row).model_dump(mode="json"), False


async def _warn(database: Database, scope: Scope, run_id: UUID) -> None:
    """Say what the run's document hides from whoever looks at it."""
    from fieldmark.routes.documents import warning
    from fieldmark.stores import documents, runs

    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        pages = await documents.hidden(conn, run["document_id"]) if run else []
    for page in pages[:MAX_WARNINGS]:
        said = warning(page)
        _err.print(f"  [yellow]! {plain(said.message)}[/yellow] [dim]{plain(said.excerpt)}[/dim]")
    if len(pages) > MAX_WARNINGS:
        _err.print(f"  [yellow]! {len(pages) - MAX_WARNINGS} more pages hold such words.[/yellow]")


async def _decided(database: Database, scope: Scope, run_id: UUID, proposal: Proposal, person: Person) -> bool:
    from fieldmark.runs import decisions

    while (said := await person.decide(proposal)) is not None:
        try:
            await decisions.decide(database, scope, run_id, said)
        except Invalid as fault:
            _err.print(f"[red]{plain(str(fault))}[/red]")
        except Conflict as fault:  # somebody else has decided, or cancelled it: that is followed instead
            _err.print(plain(str(fault)))
            return True
        else:
            return True
    return False


def _say_how_to_decide(scope: Scope, run_id: UUID, proposal: Proposal | None) -> None:
    from fieldmark.asking import show

    if proposal is not None:
        show(_err, proposal)
    whose = "" if scope.user_id == LOCAL_USER else f" --user {scope.user_id}"
    _err.print(f"[yellow]The run waits for a decision:[/yellow] fieldmark approve {run_id}{whose}")
    _err.print('  (or with --reject --reason "why", or with --input and other arguments as JSON)', markup=False)


def _tell(status: Status, words: str) -> None:
    """Say what begins now: in the line that moves on a terminal, as a line of its own elsewhere."""
    status.update(words)
    if not _err.is_terminal:
        _err.print(words)


async def _watch(database: Database, scope: Scope, run_id: UUID, status: Status, after: int) -> int:
    """Show a run's events behind `after` until it has ended or waits; answers the last one's number."""
    from fieldmark.runs.stream import follow

    async for event in follow(database, scope, run_id, after):
        if event is None:
            continue
        after, said = event[0], json.loads(event[1])
        if said.get("status") == "running":
            status.update(plain(said["message"]) + "…")
        elif said.get("status") == "complete":
            _err.print(f"  [green]✓[/green] {plain(said['message'])} [dim]{said['duration_ms']} ms[/dim]")
        elif said.get("status") == "error":
            _err.print(f"  [red]✗[/red] {plain(said['message'])}: {plain(said['error'][:300])}")
        elif "retry" in said:
            _err.print(f"  [yellow]…[/yellow] {plain(said['retry'])} ({said['wait_s']} s)")
        elif "text" in said:
            _err.print(f"  {plain(said['text'])}")
        elif "error" in said:
            _err.print(f"  [red]✗ {plain(said['error'])}[/red]")
        elif "thinking" in said:
            status.update("Thinking…")
    return after


async def _filename(database: Database, scope: Scope, extraction: dict[str, Any]) -> str:
    from fieldmark.stores import documents

    async with database.as_user(scope) as conn:
        document = await documents.get(conn, UUID(extraction["document_id"]))
    return document["filename"] if document else ""


def _show(extraction: dict[str, Any], filename: str) -> None:
    about = [extraction["document_type"] or "document", f"extraction {extraction['id']}", filename]
    if extraction["status"] != "completed":
        about.append("not complete")
    # A line and no title: a table breaks its title where the table ends.
    _out.print(f"[italic]{plain(' · '.join(about))}[/italic]", soft_wrap=True)
    table = Table()
    table.add_column("field", style="bold", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("confidence", justify="right")
    table.add_column("where", overflow="fold")
    for path, value in leaves(extraction["extracted_fields"]):
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        score = extraction["confidence_scores"].get(path)
        proof = extraction["evidence"].get(path)
        table.add_row(plain(path), plain(shown), "" if score is None else f"{score:.2f}", _where(proof, shown))
    _out.print(table)


def _where(proof: dict[str, Any] | None, shown: str) -> str:
    """Where a value stands, and how it is printed there if not as it is shown."""
    if proof is None:
        return ""
    if proof["state"] != "found":
        return "[dim]left blank[/dim]" if proof["state"] == "blank" else "[red]on no page[/red]"
    quote = proof["quote"]
    printed = "" if quote == shown else f" [dim]“{plain(quote if len(quote) <= 60 else quote[:59] + '…')}”[/dim]"
    return f"page {proof['page']}{printed}"


def _as_lines(done: list[dict[str, Any]]) -> str:
    if len(done) == 1:
        text = json.dumps(done[0], ensure_ascii=False, indent=2) + "\n"
    else:
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in done)
    return re.sub(
        "[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text
    )  # the controls that JSON leaves as they are


def _read_schema(file: Path | None) -> dict[str, Any] | None:
    from fieldmark.domain.schema import check_schema

    if file is None:
        return None
    try:
        schema = _read_object(file)
        check_schema(schema)
    except (OSError, FieldmarkError) as error:
        said = f"{error.strerror}." if isinstance(error, OSError) else str(error)
        _stop(f"The schema {file} cannot be used: {said}", MISUSED)
    return schema


# Files --------------------------------------------------------------------------------------------------------------


def _unreadable(file: Path) -> str | None:
    """Why a document cannot be taken in, if it cannot."""
    try:
        if file.is_dir():
            return f"{file} is a folder: name the files in it."
        if not file.is_file():
            return f"There is no file {file}."
    except OSError as error:  # a folder on the way that is closed to this user
        return f"The file {file} cannot be read: {error.strerror}."
    return None if os.access(file, os.R_OK) else f"The file {file} may not be read by this user."


def _read_object(file: Path) -> dict[str, Any]:
    """A JSON object; a byte order mark, as some editors write it, is no fault. Raises Invalid, OSError."""
    try:
        return TypeAdapter(dict[str, Any]).validate_json(file.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        raise Invalid(f"{file} is no JSON object: {error.errors()[0]['msg']}.") from None


def _check_out(out: Path | None) -> None:
    """Stop now, rather than when the work is done, if a file cannot be written."""
    if out is None:
        return
    if out.is_dir() or not out.absolute().parent.is_dir():
        _stop(f"Nothing can be written to {out}: name a file in a folder that exists.", MISUSED)
    if not os.access(out if out.exists() else out.absolute().parent, os.W_OK):
        _stop(f"Nothing can be written to {out}: this user may not.", MISUSED)


def _write(out: Path, content: bytes) -> None:
    try:
        out.write_bytes(content)
    except OSError as error:
        _stop(f"{out} could not be written: {error.strerror}.", FAILED)


# Exporting ----------------------------------------------------------------------------------------------------------


async def _export(settings: Settings, extraction_id: UUID, wanted: Format, list_name: str | None, user: UUID) -> bytes:
    from fieldmark.exports.export import export
    from fieldmark.service import open_service

    async with open_service(settings) as service:
        scope = await _scope(service.database, user)
        try:
            made = await export(
                service.database, service.files, service.reading_limits, scope, extraction_id, wanted, list_name
            )
        except (NotFound, Invalid) as fault:
            _stop(str(fault), FAILED)
    return made.content


# Deciding -----------------------------------------------------------------------------------------------------------


async def _list_runs(settings: Settings, status: str | None, limit: int, as_json: bool, user: UUID) -> None:
    from fieldmark.routes.runs import described
    from fieldmark.service import open_service
    from fieldmark.stores import documents, runs

    async with open_service(settings) as service:
        scope = await _scope(service.database, user)
        async with service.database.as_user(scope) as conn:
            rows = await runs.page_of(conn, scope, status=status, limit=limit, before=None)
            files = {row["document_id"]: await documents.get(conn, row["document_id"]) for row in rows}
            listed = await described(conn, rows)
        if as_json:
            for run in listed:
                typer.echo(run.model_dump_json())
            return
        for run in listed:
            file = files[run.document_id]
            begun = run.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
            said = run.waits_for.message if run.waits_for else run.error or ""
            cells = (
                run.id,
                f"{run.status:<17}",
                f"{run.task:<7}",
                begun,
                file["filename"] if file else "",
                said,
            )
            # Lines and no table: a narrow terminal breaks them, and what reads a pipe gets them whole.
            _out.print(plain("  ".join(map(str, cells)).rstrip()), soft_wrap=True)
    if not rows:
        _err.print("There are no such runs." if status else "There are no runs.")


async def _approve(settings: Settings, run_id: UUID, decision: Decision, user: UUID) -> int:
    from fieldmark.runs import decisions
    from fieldmark.service import open_service
    from fieldmark.worker import working

    with _err.status("") as status:
        _tell(status, "Starting…")
        async with open_service(settings) as service:
            scope = await _scope(service.database, user)
            try:
                if not decision.call_id:
                    proposal = await decisions.waiting(service.database, scope, run_id)
                    if proposal is None:
                        raise Conflict("The run waits for nothing.")
                    decision = replace(decision, call_id=proposal.call_id)
                after = await decisions.decide(service.database, scope, run_id, decision)
            except (NotFound, Conflict, Invalid) as fault:
                _stop(str(fault), FAILED)
            _say_offline(settings)
            # No other worker need be there: the embedded database has none when no command runs.
            async with working(service):
                extraction, waits = await _to_the_end(service.database, scope, run_id, status, None, after)
            filename = "" if extraction is None else await _filename(service.database, scope, extraction)
    if extraction is not None:
        _show(extraction, filename)
        return 0
    return WAITS if waits else FAILED


# Evaluating ---------------------------------------------------------------------------------------------------------


async def _evaluate(
    settings: Settings,
    cases: list[Case] | None,
    schema: dict[str, Any] | None,
    instructions: str | None,
    user: UUID,
) -> dict[str, Any]:
    from fieldmark import evaluation
    from fieldmark.service import open_service
    from fieldmark.worker import working

    with _err.status("") as status:
        _tell(status, "Starting…")
        async with open_service(settings) as service:
            scope = await _scope(service.database, user)
            try:
                found = cases if cases is not None else await evaluation.corrected_cases(service, scope)
            except Invalid as fault:
                _stop(str(fault), FAILED)
            _say_offline(settings)
            async with working(service):
                return await evaluation.evaluate(
                    service,
                    scope,
                    found,
                    schema=schema,
                    instructions=instructions,
                    tell=lambda words: _tell(status, plain(words)),
                )


def _show_report(report: dict[str, Any]) -> None:
    from fieldmark.domain.scoring import MEASURES, Tally

    table = Table(
        title=f"{report['documents']} documents · {plain(report['model'])} · prompt {report['prompt']}",
        title_justify="left",
    )
    table.add_column("field", style="bold", overflow="fold")
    for name in ("gold", *MEASURES, "extra"):
        table.add_column(name, justify="right")
    for name, tally in [*report["fields"].items(), ("in all", report["total"])]:
        rates = [Tally(**tally).rate(measure) for measure in MEASURES]
        shares = ["" if rate is None else f"{rate:.1%}" for rate in rates]
        table.add_row(plain(name), str(tally["gold"]), *shares, str(tally["extra"] or ""), end_section=False)
    _out.print(table)
    for fault in report["faults"][:50]:
        wanted, got = (json.dumps(fault[key], ensure_ascii=False) if key in fault else "–" for key in ("gold", "got"))
        _err.print(
            f"[dim]{plain(fault['document'])}[/dim] {plain(fault['path'])}: {plain(got)}, right is {plain(wanted)}"
        )
    for failure in report["failed"]:
        _err.print(f"[red]✗[/red] {plain(failure['document'])}: {plain(failure['error'])}")


# Serving ------------------------------------------------------------------------------------------------------------


async def _serve(settings: Settings, host: str, port: int, with_worker: bool) -> None:
    from fieldmark.app import create_app, serve_app

    # Before anything is started: a port that is taken is the likeliest thing to be wrong.
    with _listen(host, port) as listener:
        app = create_app(settings, with_worker=with_worker)
        async with app.router.lifespan_context(app):
            _announce(settings, *listener.getsockname()[:2])
            await serve_app(app, listener)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise Misconfigured(f"The service cannot listen: {error.strerror}.") from error
    # Else each event of a stream waits 40 ms for the reader's acknowledgement of the one before: asyncio sees to that
    # for sockets of its own making only.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(host: str, port: int) -> str:
    return escape(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")


def _announce(settings: Settings, host: str, port: int) -> None:
    url = _url(host, port)
    _err.print(f"Fieldmark serves at [bold]{url}[/bold] (API: {url}/docs)")
    if settings.offline:
        _err.print("[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules.[/yellow]")
    if settings.supabase_url:
        _err.print(f"Tokens: Supabase Auth at {settings.supabase_url}")
    else:
        from fieldmark.routes.tokens import LocalTokens

        _err.print("Token of the local user, valid for 12 hours:")
        typer.echo(LocalTokens(settings.home).sign(LOCAL_USER))


async def _work(settings: Settings, port: int | None) -> None:
    from fieldmark.app import create_worker_app, serve_app
    from fieldmark.service import open_service
    from fieldmark.worker import working

    async with AsyncExitStack() as stack:
        listener = None if port is None else stack.enter_context(_listen(settings.host, port))
        service = await stack.enter_async_context(open_service(settings))
        task = await stack.enter_async_context(working(service))
        _err.print("The worker works. Ctrl-C ends it.")
        if listener is None:
            await task
        else:
            _err.print(f"/healthz, /readyz and /metrics at {_url(*listener.getsockname()[:2])}")
            await serve_app(create_worker_app(service, task), listener)


# Common -------------------------------------------------------------------------------------------------------------


def _at_once(settings: Settings) -> Settings:
    """For a command that is gone when its runs are: nothing is got ready for runs that nobody has asked for."""
    return settings.model_copy(update={"warm_spares": 0})


def _settings(log_level: str | None = None) -> Settings:
    try:
        settings = Settings()
    except ValidationError as error:
        faults = "; ".join(f"{_variable(str(fault['loc'][0]))}: {fault['msg']}" for fault in error.errors())
        _stop(f"The settings cannot be used: {faults}.", CANNOT_WORK)
    except ValueError as error:  # a list that is no JSON, a .env that is no text
        field = re.search(r'field "(\w+)"', str(error))
        said = f"{_variable(field[1])}: it is no JSON" if field else str(error)
        _stop(f"The settings cannot be used: {said}.", CANNOT_WORK)
    set_up_logs(log_level if log_level and settings.log_level == "info" else settings.log_level)
    return settings


def _variable(name: str) -> str:
    """What a setting is called in the environment. (Those with names of their own are told by them already.)"""
    return name if name.isupper() else f"FIELDMARK_{name.upper()}"


def _run(work: Coroutine[Any, Any, Result], *, endless: bool = False) -> Result:
    """Run to the end, or until Ctrl-C, SIGTERM or the terminal's end; in any case everything that was opened is closed
    in order. `endless`: being told to end is the way it ends."""

    async def until_told() -> Result:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work

    with _sentences():
        try:
            return asyncio.run(until_told())
        except (KeyboardInterrupt, asyncio.CancelledError):
            _err.print("Ended." if endless else "Interrupted.")
            raise typer.Exit(0 if endless else INTERRUPTED) from None


@contextlib.contextmanager
def _sentences() -> Generator[None]:
    """Expected failures end the command with their sentence, not with a traceback."""
    try:
        yield
    except FieldmarkError as error:
        _stop(str(error), CANNOT_WORK)


def _stop(sentence: str, code: int) -> NoReturn:
    _err.print(f"[red]{plain(sentence)}[/red]")
    raise typer.Exit(code)

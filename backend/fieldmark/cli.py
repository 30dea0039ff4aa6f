"""The command line: serve, extract, worker, migrate, token.

Exit codes: 0 done (`serve` and `worker`: told to end); 1 a document could not be read or a run failed; 2 wrong usage;
3 the service cannot work (settings, database); 130 interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import socket
import sys
import unicodedata
from collections.abc import Coroutine, Generator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar
from uuid import UUID

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from fieldmark.domain.fields import leaves
from fieldmark.errors import FieldmarkError, Misconfigured, Unavailable
from fieldmark.logs import set_up_logs
from fieldmark.settings import Settings

app = typer.Typer(
    help="Fieldmark reads documents and fills databases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Who acts on this machine where nobody else is named. Not a secret, and the same everywhere.
LOCAL_USER = UUID("00000000-0000-4000-8000-000000000001")

FAILED, MISUSED, CANNOT_WORK, INTERRUPTED = 1, 2, 3, 130

Result = TypeVar("Result")

_err = Console(stderr=True, highlight=False, soft_wrap=True)
_out = Console(highlight=False)


def main() -> None:
    """The entry point of `fieldmark`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    app()


@app.command()
def extract(
    files: Annotated[list[Path], typer.Argument(help="Documents: PDF, image, DOCX, XLSX, HTML, EML, TXT, CSV.")],
    schema: Annotated[Path | None, typer.Option(help="A JSON Schema that the fields shall follow.")] = None,
    instructions: Annotated[str | None, typer.Option(help="What to look for, in words.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The extraction alone on standard output; for several files one a line.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the extraction as JSON into this file.")] = None,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Read documents, extract their fields, show each step."""
    for file in files:
        if not file.is_file():
            _stop(f"There is no file {file}.", MISUSED)
        if not os.access(file, os.R_OK):
            _stop(f"The file {file} may not be read by this user.", MISUSED)
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        _stop(f"Nothing can be written to {out}: name a file in a folder that exists.", MISUSED)
    wanted = _read_schema(schema)
    settings = _settings("warning")
    done = _run(_extract(settings, files, wanted, instructions, as_json, user))
    if as_json:
        # JSON is UTF-8 whatever the terminal's locale is.
        sys.stdout.buffer.write(_as_lines(done).encode())
        sys.stdout.buffer.flush()
    if out is not None and done:
        try:
            out.write_text(_as_lines(done), encoding="utf-8")
        except OSError as error:
            _stop(f"The extraction could not be written to {out}: {error.strerror}.", FAILED)
    if len(done) < len(files):
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
def worker() -> None:
    """Do jobs: execute runs, read documents. As many processes as you like, on as many machines."""
    settings = _settings()
    _run(_work(settings), endless=True)


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
    user: UUID,
) -> list[dict[str, Any]]:
    from fieldmark.routes.auth import enter
    from fieldmark.routes.extractions import Extraction
    from fieldmark.runs import launch
    from fieldmark.scope import Scope
    from fieldmark.service import open_service
    from fieldmark.stores import extractions, runs
    from fieldmark.worker import working

    done: list[dict[str, Any]] = []
    started: list[tuple[Path, UUID]] = []
    with _err.status("") as status:
        _tell(status, "Starting…")
        async with open_service(settings) as service:
            org_id = await enter(service.database, user)
            assert org_id is not None
            scope = Scope(user, org_id)
            if settings.offline:
                _err.print(
                    "[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules. It is no language "
                    "model.[/yellow]"
                )
            try:
                async with working(service):
                    for file in files:
                        _tell(status, f"Taking in {_plain(file.name)}…")
                        try:
                            document = await service.ingest.upload(scope, file, file.name)
                            run_id = await launch.extract(
                                service.database, scope, document["id"], schema=schema, instructions=instructions
                            )
                        except (Unavailable, Misconfigured):
                            raise
                        except FieldmarkError as error:
                            _err.print(f"[red]✗[/red] {_plain(file.name)}: {_plain(str(error))}")
                            continue
                        started.append((file, run_id))
                    for file, run_id in started:
                        _err.print(f"[bold]{_plain(file.name)}[/bold]")
                        await _watch(service.database, scope, run_id, status)
                        async with service.database.as_user(scope) as conn:
                            run = await runs.get(conn, run_id)
                            assert run is not None
                            row = await extractions.get(conn, run["extraction_id"])
                        if run["status"] != "completed":
                            continue
                        extraction = Extraction.model_validate(row).model_dump(mode="json")
                        done.append(extraction)
                        if not as_json:
                            status.stop()
                            _show(extraction)
                            status.start()
            finally:
                # Interrupted: what waits in the queue would otherwise be done, and paid for, by the next worker.
                with contextlib.suppress(Unavailable):
                    async with service.database.as_service() as conn:
                        for _, run_id in started:
                            await runs.fail(
                                conn, run_id, "The command that asked for it was interrupted.", "interrupted"
                            )
    return done


def _tell(status: Status, words: str) -> None:
    """Say what begins now: in the line that moves on a terminal, as a line of its own elsewhere."""
    status.update(words)
    if not _err.is_terminal:
        _err.print(words)


async def _watch(database: Any, scope: Any, run_id: UUID, status: Status) -> None:
    from fieldmark.runs.stream import follow

    _tell(status, "Reading the document…")
    async for event in follow(database, scope, run_id):
        if event is None:
            continue
        said = json.loads(event[1])
        if said.get("status") == "running":
            status.update(_plain(said["message"]) + "…")
        elif said.get("status") == "complete":
            _err.print(f"  [green]✓[/green] {_plain(said['message'])} [dim]{said['duration_ms']} ms[/dim]")
        elif said.get("status") == "error":
            _err.print(f"  [red]✗[/red] {_plain(said['message'])}: {_plain(said['error'][:300])}")
        elif "retry" in said:
            _err.print(f"  [yellow]…[/yellow] {_plain(said['retry'])} ({said['wait_s']} s)")
        elif "text" in said:
            _err.print(f"  {_plain(said['text'])}")
        elif "error" in said:
            _err.print(f"  [red]✗ {_plain(said['error'])}[/red]")
        elif "thinking" in said:
            status.update("Thinking…")


def _show(extraction: dict[str, Any]) -> None:
    table = Table(
        title=f"{_plain(extraction['document_type'] or 'document')} · extraction {extraction['id']}",
        title_justify="left",
    )
    table.add_column("field", style="bold")
    table.add_column("value", overflow="fold")
    table.add_column("confidence", justify="right")
    for path, value in leaves(extraction["extracted_fields"]):
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        score = extraction["confidence_scores"].get(path)
        table.add_row(_plain(path), _plain(shown), "" if score is None else f"{score:.2f}")
    _out.print(table)


def _as_lines(done: list[dict[str, Any]]) -> str:
    if len(done) == 1:
        text = json.dumps(done[0], ensure_ascii=False, indent=2) + "\n"
    else:
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in done)
    return re.sub(
        "[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text
    )  # the controls that JSON leaves as they are


def _plain(text: str) -> str:
    """Foreign text for the terminal: without control characters, which are commands to it, and without markup."""
    return escape("".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t" else c for c in text))


def _read_schema(file: Path | None) -> dict[str, Any] | None:
    from fieldmark.domain.schema import check_schema

    if file is None:
        return None
    try:
        schema = TypeAdapter(dict[str, Any]).validate_json(file.read_bytes())
        check_schema(schema)
    except (OSError, ValueError, FieldmarkError) as error:
        _stop(f"The schema {file} cannot be used: {error}", MISUSED)
    return schema


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
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise Misconfigured(f"The service cannot listen: {error.strerror}.") from error


def _announce(settings: Settings, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    url = _plain(f"http://{shown}:{port}")
    _err.print(f"Fieldmark serves at [bold]{url}[/bold] (API: {url}/docs)")
    if settings.offline:
        _err.print("[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules.[/yellow]")
    if settings.supabase_url:
        _err.print(f"Tokens: Supabase Auth at {settings.supabase_url}")
    else:
        from fieldmark.routes.tokens import LocalTokens

        _err.print("Token of the local user, valid for 12 hours:")
        typer.echo(LocalTokens(settings.home).sign(LOCAL_USER))


async def _work(settings: Settings) -> None:
    from fieldmark.service import open_service
    from fieldmark.worker import working

    async with open_service(settings) as service, working(service) as task:
        _err.print("The worker works. Ctrl-C ends it.")
        await task


# Common -------------------------------------------------------------------------------------------------------------


def _settings(log_level: str | None = None) -> Settings:
    try:
        settings = Settings()
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors())
        _stop(f"The settings cannot be used: {faults}", CANNOT_WORK)
    except ValueError as error:  # a list that is no JSON, a .env that is no text
        _stop(f"The settings cannot be used: {error}", CANNOT_WORK)
    set_up_logs(log_level if log_level and settings.log_level == "info" else settings.log_level)
    return settings


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
    _err.print(f"[red]{_plain(sentence)}[/red]")
    raise typer.Exit(code)

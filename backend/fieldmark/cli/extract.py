"""`fieldmark extract`: takes documents in, runs the agent on each, and shows what it does and finds."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID, uuid4

import typer

from fieldmark.cli.files import ask_password, check_in, check_out, json_of, read_schema, write
from fieldmark.cli.process import FAILED, LOCAL_USER, WAITS, at_once, opened, read_settings, run, say_offline
from fieldmark.cli.terminal import err, plain, tell
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import FieldmarkError, Misconfigured, QueueFull, Unavailable
from fieldmark.settings import Settings

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from rich.status import Status

    from fieldmark.cli.watching import Seen
    from fieldmark.db.pool import Database
    from fieldmark.identity.scope import Scope
    from fieldmark.stores.rows import DocumentRow
    from fieldmark.stores.runs import RunRow

MAX_WARNINGS = 5
ROOM_SECONDS = 2
"""Sooner than HTTP's clients are told to come again: there is only this one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """How a file ended. Without an extraction: `error` and `code` say why it failed, or the run waits for a person."""

    file: Path
    exit_code: int
    run: RunRow | None = None
    extraction: dict[str, Any] | None = None
    error: str | None = None
    code: str | None = None

    def as_json(self, *, named: bool) -> dict[str, Any]:
        """The extraction as the API has it, or what became of it instead. `named`: with the file in front."""
        name = {"file": os.fsencode(self.file).decode(errors="replace")}
        if self.extraction is not None:
            return (name if named else {}) | self.extraction
        known = {"run_id": str(self.run.id), "document_id": str(self.run.document_id)} if self.run else {}
        status = self.run.status if self.run else RunStatus.FAILED
        return {**name, **known, "status": status, "code": self.code, "error": self.error}


def extract(
    files: Annotated[list[Path], typer.Argument(help="Documents: PDF, image, Office, mail, HTML, ZIP, text.")],
    schema: Annotated[Path | None, typer.Option(help="A JSON Schema that the fields shall follow.")] = None,
    instructions: Annotated[str | None, typer.Option(help="What to look for, in words.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The extraction alone on standard output; for several files a line each.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the extraction as JSON into this file.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask before each write: approve, reject or edit it.")] = False,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for the password of protected files, or read it from a pipe.")
    ] = False,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Read documents, extract their fields, show each step. Ctrl-C cancels the runs that it has started."""
    for file in files:
        check_in(file)
    check_out(out)
    wanted = read_schema(schema)
    settings = at_once(read_settings("warning"))
    secret = ask_password() if password else None
    several = len(files) > 1
    results: list[Result] = []

    def told(result: Result) -> None:
        results.append(result)
        if as_json:
            write(json_of(result.as_json(named=several), indented=not several), None)

    run(_extract(settings, files, wanted, instructions, ask, user, secret, told, show=not as_json))
    if out is not None and any(result.extraction is not None for result in results):
        write(b"".join(json_of(one.as_json(named=several), indented=not several) for one in results), out)
    codes = {result.exit_code for result in results}
    for code in (FAILED, WAITS):
        if code in codes:
            raise typer.Exit(code)


async def _extract(
    settings: Settings,
    files: list[Path],
    schema: dict[str, Any] | None,
    instructions: str | None,
    ask: bool,
    user: UUID,
    password: str | None,
    told: Callable[[Result], None],
    *,
    show: bool,
) -> None:
    """Tell how each file ended, in the order of the files."""
    from fieldmark.cli.asking import Person
    from fieldmark.cli.watching import show_extraction, to_the_end
    from fieldmark.runs.lifecycle import launch
    from fieldmark.worker.jobs import working

    started: list[tuple[Path, UUID | FieldmarkError]] = []
    keys: list[str] = []
    person = Person(err, settings.editor) if ask else None
    with err.status("") as status:
        tell(status, "Starting…")
        async with opened(settings, user) as (runtime, scope):
            say_offline(settings)
            async with working(runtime):
                try:
                    for file in files:
                        tell(status, f"Taking in {plain(file.name)}…")
                        try:
                            document = await _when_there_is_room(
                                status, lambda file=file: runtime.documents.upload(scope, file, file.name, password)
                            )
                            # Known by its key before it is there, and so found again however this is interrupted.
                            keys.append(str(uuid4()))
                            options = launch.RunOptions(approval="ask" if ask else None, idempotency_key=keys[-1])
                            wanted = {"document_id": document.id, "schema": schema, "instructions": instructions}
                            start = partial(
                                launch.start_by_name,
                                *(runtime.database, scope, "extract", wanted),
                                prices=runtime.prices,
                                options=options,
                            )
                            run_id = await _when_there_is_room(status, start)
                        except (Unavailable, Misconfigured):
                            raise
                        except FieldmarkError as error:
                            err.print(f"[red]✗[/red] {plain(file.name)}: {plain(str(error))}")
                            run_id = error
                        started.append((file, run_id))
                    for file, run_id in started:
                        if isinstance(run_id, FieldmarkError):
                            told(Result(file, FAILED, error=str(run_id), code=run_id.code))
                            continue
                        err.print(f"[bold]{plain(file.name)}[/bold]")
                        tell(status, "Reading the document…")
                        seen = await to_the_end(runtime.database, scope, run_id, status, person)
                        document = await _warn(runtime.database, scope, run_id)
                        if show and seen.extraction is not None:
                            status.stop()
                            show_extraction(seen.extraction, file.name)
                            status.start()
                        told(_result(file, seen, document))
                except BaseException:
                    # Interrupted: whoever works next would otherwise do, and pay for, what nobody waits for any more.
                    await _cancel_all(runtime.database, scope, keys)
                    raise


def _result(file: Path, seen: Seen, document: DocumentRow | None) -> Result:
    code, error = (None, None) if seen.run is None else (seen.run.error_code, seen.run.error)
    if document is not None and document.error_code is not None:
        code = document.error_code  # why, rather than that it could not be read
    return Result(file, seen.exit_code, seen.run, seen.extraction, error, code)


async def _when_there_is_room(status: Status, act: Callable[[], Awaitable[T]]) -> T:
    """What the action answers, begun again for as long as too much of the organisation waits. Raises what it raises
    otherwise."""
    told = False
    while True:
        try:
            return await act()
        except QueueFull as full:
            if not told:
                err.print(f"  [yellow]! {plain(str(full))}[/yellow] [dim]Waiting for room.[/dim]")
                told = True
                tell(status, "Waiting for room in the queue…")
            await asyncio.sleep(ROOM_SECONDS)


async def _warn(database: Database, scope: Scope, run_id: UUID) -> DocumentRow | None:
    """Say what of the run's document was not read, or not read well; answers the document."""
    from fieldmark.services import documents
    from fieldmark.stores import documents as rows
    from fieldmark.stores import runs

    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        document = await rows.get(conn, run.document_id) if run and run.document_id else None
        warnings = await documents.warnings(conn, document.id) if document else []
    for said in warnings[:MAX_WARNINGS]:
        err.print(f"  [yellow]! {plain(said.message)}[/yellow] [dim]{plain(said.excerpt)}[/dim]")
    if len(warnings) > MAX_WARNINGS:
        err.print(f"  [yellow]! {len(warnings) - MAX_WARNINGS} more warnings.[/yellow]")
    return document


async def _cancel_all(database: Database, scope: Scope, keys: list[str]) -> None:
    from fieldmark.runs.lifecycle import decisions
    from fieldmark.stores import runs

    with contextlib.suppress(FieldmarkError):
        for key in keys:
            async with database.as_user(scope) as conn:
                run = await runs.by_key(conn, scope, key)
            if run is not None:
                await decisions.cancel(database, scope, run.id)

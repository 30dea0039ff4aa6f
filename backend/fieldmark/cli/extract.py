"""`fieldmark extract` and `fieldmark correct`: run the agent and show its steps and results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from fieldmark.cli.asking import TerminalUser
from fieldmark.cli.client import Client, ErrorResponse, error_text, run_with_client
from fieldmark.cli.files import ask_password, check_input_file, check_out, read_schema, to_json_bytes, write
from fieldmark.cli.follow import RunState, running, show_extraction, show_second_reading, warn
from fieldmark.cli.process import CANNOT_WORK, FAILED, WAITS, exit_with
from fieldmark.cli.schemas import Kind, find_or_exit, is_file
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, plain, show_step, steps
from fieldmark.domain.statuses import RunStatus, SecondReadingMode

_CORRECTED: Final = ("version", "document_type", "locks", "proposals")
"""The members of an extraction of which a correction changes at least one."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result for a file. Without an extraction, `error` and `code` are set, or the run waits for a decision."""

    file: Path
    exit_code: int
    run: Mapping[str, Any] | None = None
    extraction: dict[str, Any] | None = None
    error: str | None = None
    code: str | None = None
    document_id: str | None = None

    def as_json(self, *, named: bool) -> dict[str, Any]:
        """Return the extraction as in the API, or the error or waiting call. `named`: include the file name."""
        name = {"file": os.fsencode(self.file).decode(errors="replace")}
        if self.extraction is not None:
            return (name if named else {}) | self.extraction
        known = {"run_id": self.run["id"]} if self.run else {}
        known |= {"document_id": self.document_id} if self.document_id else {}
        status = self.run["status"] if self.run else RunStatus.FAILED
        return {**name, **known, "status": status, "code": self.code, "error": self.error}


@command()
def extract(
    target: Target,
    files: Annotated[list[Path], typer.Argument(help="Documents: PDF, image, Office, mail, HTML, ZIP, text.")],
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME", help="A JSON Schema for the fields: a file, or a stored schema: its name or id."
        ),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The name of a stored prompt.")] = None,
    instructions: Annotated[str | None, typer.Option(help="Instructions for the agent.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the extraction as JSON to this file.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask before each write: approve, reject or edit it.")] = False,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for the password of protected files, or read it from a pipe.")
    ] = False,
    second_reading: Annotated[
        SecondReadingMode | None,
        typer.Option(help="What a second model reads again to compare. Default: as the schema or organisation says."),
    ] = None,
) -> None:
    """Read documents, extract their fields and show each step. Ctrl-C cancels the runs."""
    for file in files:
        check_input_file(file)
    check_out(out)
    names_file = schema is not None and is_file(schema)
    text = read_schema(Path(schema)) if schema is not None and names_file else None
    wanted = {
        "schema": text,
        "instructions": instructions,
        "approval": "ask" if ask else None,
        "second_reading": second_reading,
    }
    named: dict[Kind, str | None] = {"schema": None if names_file else schema, "prompt": prompt}
    secret = ask_password() if password else None
    several = len(files) > 1
    results: list[Result] = []

    def report(result: Result) -> None:
        results.append(result)
        if target.as_json:
            write(to_json_bytes(result.as_json(named=several), indented=not several), None)

    run_with_client(
        target,
        lambda client: _extract(client, files, wanted, named, secret, report, show=not target.as_json),
        None if ask else "extract",  # with approvals, it needs another CLI
    )
    if out is not None and any(result.extraction is not None for result in results):
        write(b"".join(to_json_bytes(one.as_json(named=several), indented=not several) for one in results), out)
    codes = {result.exit_code for result in results}
    for code in (FAILED, WAITS):
        if code in codes:
            raise typer.Exit(code)


@command()
def correct(
    target: Target,
    extraction: Annotated[UUID, typer.Argument(help="The extraction id, as printed by `extract`.")],
    message: Annotated[str, typer.Argument(help="The correction, in words.")],
    ask: Annotated[bool, typer.Option("--ask", help="Ask before each write: approve, reject or edit it.")] = False,
) -> None:
    """Correct an extraction in words. Exit code 1 if nothing was changed. Ctrl-C cancels the run."""
    wanted = {"extraction_id": str(extraction), "message": message, "approval": "ask" if ask else None}
    before, seen = run_with_client(target, lambda client: _correct(client, wanted), None if ask else "correct")
    seen.end(target)
    if seen.extraction is not None and all(seen.extraction[key] == before[key] for key in _CORRECTED):
        exit_with("Nothing was changed.", FAILED)


async def _extract(
    client: Client,
    files: list[Path],
    wanted: Mapping[str, object],
    named: Mapping[Kind, str | None],
    password: str | None,
    report: Callable[[Result], None],
    *,
    show: bool,
) -> None:
    """Extract each file, in order, and report its result. `named`: ids of the stored schema and prompt."""
    for kind, name in named.items():
        if name is not None:
            wanted = {**wanted, f"{kind}_revid": (await find_or_exit(client, kind, name))[f"{kind}_revid"]}
    started: list[tuple[Path, str | None, str | ErrorResponse]] = []
    person = TerminalUser(err, client.settings.editor) if wanted["approval"] else None
    async with running(client) as runs:
        for file in files:
            document_id: str | None = None
            try:
                document_id = str((await runs.upload(file, password))["id"])
                run_id = await runs.start("extract", {**wanted, "document_id": document_id})
            except ErrorResponse as refused:
                if refused.exit_code == CANNOT_WORK:
                    raise
                err.print(f"[red]✗[/red] {plain(file.name)}: {plain(error_text(refused))}")
                run_id = refused
            started.append((file, document_id, run_id))
        for file, document_id, run_id in started:
            if isinstance(run_id, ErrorResponse):
                # A file whose reading fails before its run begins is refused for the same reason as a run fails later.
                document = await warn(client, document_id) if document_id else {"error_code": None}
                code = document["error_code"] or run_id.reason
                report(Result(file, FAILED, error=str(run_id), code=code, document_id=document_id))
                continue
            steps().print(f"[bold]{plain(file.name)}[/bold]")
            show_step(runs.status, "Reading the document…")
            seen = await runs.follow_to_end(run_id, person)
            document = await warn(client, seen.run["document_id"])
            if show and seen.extraction is not None:
                runs.status.stop()
                show_extraction(seen.extraction, file.name, seen.problems)
                show_second_reading(seen.run["second_reading"])
                runs.status.start()
            # Why, rather than that it could not be read.
            code = document["error_code"] or seen.run["error_code"]
            report(Result(file, seen.exit_code, seen.run, seen.extraction, seen.run["error"], code, document_id))


async def _correct(client: Client, wanted: Mapping[str, object]) -> tuple[dict[str, Any], RunState]:
    """Return the extraction before, and the run."""
    person = TerminalUser(err, client.settings.editor) if wanted["approval"] else None
    before = await client.get(f"/api/extractions/{wanted['extraction_id']}")
    async with running(client) as runs:
        return before, await runs.follow_to_end(await runs.start("correct", wanted), person)

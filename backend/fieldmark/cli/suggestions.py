"""`fieldmark propose`, `accept`, `reject` and `organisation`: suggested schemas and extractions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import check_out, file_or_document, print_json
from fieldmark.cli.follow import running, show_extraction
from fieldmark.cli.process import FAILED
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import plain, show_lines, steps
from fieldmark.domain.statuses import Approvers, AutoCreationStatus

_SETTINGS = ("approvers", "second_person", "auto_approved_tools", "examples", "auto_create", "max_error")

Document = Annotated[UUID, typer.Argument(help="The document id, as printed by `propose`.")]


@command()
def propose(
    target: Target,
    what: Annotated[str, typer.Argument(metavar="FILE|DOCUMENT", help="A file to upload, or a document id.")],
) -> None:
    """Suggest a schema, a prompt and an extraction for a document, to accept or reject."""
    about = file_or_document(what)
    document, extraction, exit_code = run_with_client(target, lambda client: _propose(client, about), "auto_create")
    if extraction is not None and not target.as_json:
        show_extraction(extraction, document["filename"])
    _show(target, document)
    if exit_code:
        raise typer.Exit(exit_code)


@command()
def accept(target: Target, document: Document) -> None:
    """Accept the suggestion for a document."""
    _decide(target, document, "accept")


@command()
def reject(target: Target, document: Document) -> None:
    """Reject the suggestion for a document and delete what its run created."""
    _decide(target, document, "reject")


@command()
def organisation(
    target: Target,
    auto_create: Annotated[
        bool | None,
        typer.Option(help="Suggest a schema for each upload by default."),
    ] = None,
    examples: Annotated[bool | None, typer.Option(help="Show the agent past corrections.")] = None,
    max_error: Annotated[
        float | None,
        typer.Option(help="Share of wrong values to accept among those that no one looks at: 0.01 is 1 %. 1: any."),
    ] = None,
    second_person: Annotated[bool | None, typer.Option(help="Require a second person to approve.")] = None,
    approvers: Annotated[Approvers | None, typer.Option(help="Who can approve.")] = None,
    auto_approved_tools: Annotated[
        str | None, typer.Option(help='Tools that need no approval, separated by commas. "": all need it.')
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write all rows and original files to this ZIP file (owners only).")
    ] = None,
) -> None:
    """Show the organisation's settings, or change the ones given (owners only). With --export, write all its data."""
    if export is not None:
        run_with_client(target, lambda client: _export(client, export))
        steps().print(f"{export}: {export.stat().st_size:,} bytes")
        return
    tools = (
        None
        if auto_approved_tools is None
        else [name for one in auto_approved_tools.split(",") if (name := one.strip())]
    )
    given = (approvers, second_person, tools, examples, auto_create, max_error)
    changes = {name: value for name, value in zip(_SETTINGS, given, strict=True) if value is not None}
    found = run_with_client(target, lambda client: client.organisation("PATCH" if changes else "GET", changes or None))
    if not print_json(target, found):
        rows = ((name, _text(found[name])) for name in _SETTINGS)
        show_lines([("name", found["name"]), *rows], "")


async def _export(client: Client, out: Path) -> None:
    check_out(out)
    org_id = (await client.organisation("GET"))["id"]
    await client.download(f"/api/organisations/{org_id}/export", out)


def _text(setting: str | bool | float | list[str]) -> str:
    return ", ".join(setting) if isinstance(setting, list) else str(setting).lower()


async def _propose(client: Client, about: Path | UUID) -> tuple[dict[str, Any], dict[str, Any] | None, int]:
    async with running(client) as runs:
        document_id = str(about)
        if isinstance(about, Path):
            # (Not asked for at the upload: so its run is one that this command has started.)
            document_id = (await runs.upload(about, auto_create=False))["id"]
        run_id = await runs.start("auto_create", {"document_id": document_id})
        exit_code = (await runs.follow_to_end(run_id)).exit_code
        document = await client.get(f"/api/documents/{document_id}")
    proposal = document["auto_create"]
    if proposal is None or proposal["status"] != AutoCreationStatus.PROPOSED:
        return document, None, exit_code or FAILED
    return document, await client.get(f"/api/extractions/{proposal['extraction_id']}"), 0


def _decide(target: Target, document: UUID, decision: str) -> None:
    path = f"/api/documents/{document}/auto_create/{decision}"
    _show(target, run_with_client(target, lambda client: client.send("POST", path)))


def _show(target: Target, document: Mapping[str, Any]) -> None:
    if not print_json(target, document):
        steps().print(plain(_sentence(document)), soft_wrap=True)


def _sentence(document: Mapping[str, Any]) -> str:
    proposal = document["auto_create"]
    if proposal is None:
        return f"No suggestion. {document['error'] or ''}".strip()
    match proposal["status"]:
        case AutoCreationStatus.PROPOSED:
            matched = f" {proposal['matched']['why']}" if proposal["matched"] else ""
            return (
                f"This is proposed, with schema {proposal['schema_revid']}.{matched} "
                f"`fieldmark accept {document['id']}` keeps it, `fieldmark reject {document['id']}` removes it."
            )
        case AutoCreationStatus.ACCEPTED:
            return "Accepted."
        case AutoCreationStatus.REJECTED:
            return "Rejected and deleted."
        case AutoCreationStatus.FAILED:
            return f"No suggestion. {proposal['error']}"
        case _:
            return f"Run {proposal['run_id']} is still running or waiting for a decision."

"""`fieldmark propose`, `accept`, `reject` and `organisation`: what an agent makes for a document by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import Client, asked, say_offline
from fieldmark.cli.extract import Started
from fieldmark.cli.files import check_in, json_of, write
from fieldmark.cli.process import FAILED
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import plain, show_lines, steps, tell
from fieldmark.cli.watching import show_extraction, to_the_end, when_there_is_room
from fieldmark.domain.statuses import Approvers, AutoCreationStatus

_SETTINGS = ("approvers", "second_person", "examples", "auto_create")

Document = Annotated[UUID, typer.Argument(help="The document, as `propose` names it.")]


@command()
def propose(
    target: Target,
    what: Annotated[str, typer.Argument(metavar="FILE|DOCUMENT", help="A file to take in, or a document's id.")],
) -> None:
    """Propose a schema, a prompt and an extraction for a document: accept or reject them then."""
    document_id = None if Path(what).exists() else _id_of(what)
    if document_id is None:
        check_in(Path(what))
    about = Path(what) if document_id is None else document_id
    document, extraction, exit_code = asked(target, lambda client: _propose(client, about))
    if target.as_json:
        write(json_of(document, indented=True), None)
    else:
        if extraction is not None:
            show_extraction(extraction, document["filename"])
        steps().print(plain(_sentence(document)), soft_wrap=True)
    if exit_code:
        raise typer.Exit(exit_code)


@command()
def accept(target: Target, document: Document) -> None:
    """Accept what was proposed for a document."""
    _decided(target, document, "accept")


@command()
def reject(target: Target, document: Document) -> None:
    """Reject what was proposed for a document: what its run made is gone, and nothing else."""
    _decided(target, document, "reject")


@command()
def organisation(
    target: Target,
    auto_create: Annotated[
        bool | None,
        typer.Option(help="Whether each document gets a proposal, if its upload does not say."),
    ] = None,
    examples: Annotated[bool | None, typer.Option(help="Whether the agent is shown what people put right.")] = None,
    second_person: Annotated[bool | None, typer.Option(help="Whether somebody else decides a run's calls.")] = None,
    approvers: Annotated[Approvers | None, typer.Option(help="Who decides what runs wait for.")] = None,
) -> None:
    """Show the organisation's settings, or change those that are named: an owner may."""
    given = (approvers, second_person, examples, auto_create)
    changes = {name: value for name, value in zip(_SETTINGS, given, strict=True) if value is not None}
    found = asked(target, lambda client: _settings(client, changes))
    if target.as_json:
        write(json_of(found, indented=True), None)
        return
    rows = ((name, str(found[name]).lower()) for name in _SETTINGS)
    show_lines([("name", found["name"]), *rows], "")


async def _propose(client: Client, about: Path | UUID) -> tuple[dict[str, Any], dict[str, Any] | None, int]:
    say_offline(client)
    with steps().status("") as status:
        tell(status, "Starting…")
        async with client.working(), Started(client) as runs:
            document_id = str(about)
            if isinstance(about, Path):
                # (Not asked for at the upload: so its run is one that this command has started.)
                taken = await when_there_is_room(status, lambda: client.upload(about, None, auto_create=False))
                document_id = taken["id"]
            run_id = await when_there_is_room(status, lambda: runs.start("auto_create", {"document_id": document_id}))
            exit_code = (await to_the_end(client, run_id, status, None)).exit_code
            document = await client.get(f"/api/documents/{document_id}")
    told = document["auto_create"]
    if told is None or told["status"] != AutoCreationStatus.PROPOSED:
        return document, None, exit_code or FAILED
    return document, await client.get(f"/api/extractions/{told['extraction_id']}"), 0


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def _settings(client: Client, changes: Mapping[str, object]) -> Any:
    path = f"/api/organisations/{await client.org_id()}"
    return await (client.send("PATCH", path, dict(changes)) if changes else client.get(path))


def _decided(target: Target, document: UUID, decision: str) -> None:
    found = asked(target, lambda client: client.send("POST", f"/api/documents/{document}/auto_create/{decision}"))
    if target.as_json:
        write(json_of(found, indented=True), None)
    else:
        steps().print(plain(_sentence(found)), soft_wrap=True)


def _sentence(document: Mapping[str, Any]) -> str:
    told = document["auto_create"]
    if told is None:
        return f"Nothing is proposed. {document['error'] or ''}".strip()
    match told["status"]:
        case AutoCreationStatus.PROPOSED:
            taken = f" {told['matched']['why']}" if told["matched"] else ""
            return (
                f"This is proposed, with schema {told['schema_revid']}.{taken} "
                f"`fieldmark accept {document['id']}` keeps it, `fieldmark reject {document['id']}` removes it."
            )
        case AutoCreationStatus.ACCEPTED:
            return "It is accepted."
        case AutoCreationStatus.REJECTED:
            return "It is rejected, and gone."
        case AutoCreationStatus.FAILED:
            return f"Nothing is proposed. {told['error']}"
        case _:
            return f"The run {told['run_id']} goes on, or waits for a person."

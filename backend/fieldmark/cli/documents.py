"""`fieldmark documents`, `show`, `delete` and `usage`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.asking import TerminalUser
from fieldmark.cli.client import Client, ErrorResponse, error_text, fetch_items, run_with_client
from fieldmark.cli.erasure import delete_account, delete_organisation
from fieldmark.cli.files import print_json
from fieldmark.cli.follow import list_problems, show_extraction
from fieldmark.cli.process import FAILED, MISUSED, exit_with
from fieldmark.cli.schemas import find_or_exit
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, out, plain, say_if_more, show_lines, steps
from fieldmark.domain.formatting import value_text


class Kind(StrEnum):
    DOCUMENT = "document"
    EXTRACTION = "extraction"
    RUN = "run"
    ORGANISATION = "organisation"
    ACCOUNT = "account"


@command()
def documents(
    target: Target,
    parent: Annotated[UUID | None, typer.Option(help="Only files inside this document.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only documents with this tag.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows.")] = 50,
) -> None:
    """List documents, newest first."""

    async def list_filtered(client: Client) -> tuple[list[dict[str, Any]], bool]:
        tag_id = None if tag is None else (await find_or_exit(client, "tag", tag))["id"]
        return await fetch_items(client, "/api/documents", limit, {"parent_document_id": parent, "tag_id": tag_id})

    found, is_more = run_with_client(target, list_filtered)
    say_if_more(found, is_more)
    if print_json(target, found):
        return
    rows = (
        (
            row["id"],
            f"{_stage(row):<17}",
            f"{'' if row['page_count'] is None else row['page_count']:>4}",
            _when(row["created_at"]),
            row["filename"],
            ", ".join(tag["name"] for tag in row["tags"]),
            row["error"] or "",
        )
        for row in found
    )
    show_lines(rows, "No documents.")


@command()
def show(
    target: Target,
    extraction: Annotated[UUID, typer.Argument(help="The extraction id, as printed by `extract`.")],
    version: Annotated[int | None, typer.Option(min=0, help="Show the fields of this version.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show the changes instead, newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="With --history: maximum number of changes.")] = 50,
) -> None:
    """Show an extraction: fields, confidence and location."""
    if history and version is not None:
        exit_with("Use either --history or --version.", MISUSED)
    path = f"/api/extractions/{extraction}"
    if history:
        changes, is_more = run_with_client(target, lambda client: fetch_items(client, f"{path}/history", limit, {}))
        say_if_more(changes, is_more)
        if not print_json(target, changes):
            show_lines(map(_change, changes), "No changes.")
        return
    found, filename, problems = run_with_client(target, lambda client: _extraction(client, path, version))
    if not print_json(target, found):
        show_extraction(found, filename, problems)


@command()
def delete(
    target: Target,
    kind: Annotated[Kind, typer.Argument(help="What to delete.")],
    ids: Annotated[list[UUID], typer.Argument(metavar="id...", help="The ids.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete documents, extractions, runs, an organisation or your account, with everything that belongs to them. This
    cannot be undone."""
    if kind in (Kind.ORGANISATION, Kind.ACCOUNT):
        if len(ids) > 1:
            exit_with("Delete one organisation or account at a time.", MISUSED)
        delete_one = delete_organisation if kind is Kind.ORGANISATION else delete_account
        run_with_client(target, lambda client: delete_one(client, target, ids[0], yes=yes))
        return
    left = run_with_client(target, lambda client: _delete(client, target, kind, ids, yes=yes))
    if left:
        raise typer.Exit(FAILED)


@command()
def usage(
    target: Target,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day (UTC).")] = None,
) -> None:
    """Show model usage by day and the remaining budget. Default: this month."""
    first, last = (None if day is None else day.date() for day in (since, until))
    found = run_with_client(target, lambda client: client.get("/api/usage", since=first, until=last))
    if print_json(target, found):
        return
    rows = (
        (
            row["day"],
            f"{row['agent']:<12}",
            f"{row['model']:<24}",
            f"{row['messages']:>6} messages",
            f"{row['input_tokens']:>9} in",
            f"{row['output_tokens']:>8} out",
            "price unknown" if row["cost_usd"] is None else f"{row['cost_usd']:>10.4f} $",
        )
        for row in found["items"]
    )
    show_lines(rows, f"No usage from {found['since']} to {found['until']}.")
    credit = found["credit"]
    if credit is not None:
        most = "no limit" if credit["max_usd"] is None else f"{credit['max_usd']:.2f} $ a month"
        out.print(plain(f"spent this month: {credit['spent_usd']:.4f} $, of {most}"), soft_wrap=True)


def _stage(row: Mapping[str, Any]) -> str:
    """Return the stage, with the number of fields that a person has to look at."""
    return f"{row['stage']} ({row['to_review']})" if row["to_review"] else row["stage"]


async def _extraction(client: Client, path: str, version: int | None) -> tuple[dict[str, Any], str, Sequence[str]]:
    found = await client.get(path, version=version)
    return found, await client.filename(found["document_id"]), await list_problems(client, path, found)


async def _delete(client: Client, target: Target, kind: Kind, ids: list[UUID], *, yes: bool) -> int:
    """Return the number of items that were not deleted."""
    left = 0
    if not yes:
        what = f"{kind} {ids[0]}" if len(ids) == 1 else f"{len(ids)} {kind}s"
        if not await TerminalUser(err, None).agrees(f"Delete {what} with everything that belongs to it?"):
            exit_with("Nothing was deleted. Answer y, or pass --yes.", FAILED)
    for one in ids:
        try:
            await client.send("DELETE", f"/api/{kind}s/{one}")
        except ErrorResponse as refused:
            if refused.exit_code != FAILED:
                raise
            err.print(f"[red]✗[/red] {one}: {plain(error_text(refused))}")
            left += 1
            continue
        if not print_json(target, [{"id": str(one), "deleted": True}]):
            steps().print(f"[green]✓[/green] {kind} {one} is deleted.")
    return left


def _change(row: Mapping[str, Any]) -> tuple[object, ...]:
    old = "nothing" if row["added"] else value_text(row["old"])
    new = "removed" if row["removed"] else value_text(row["new"])
    author = "user via agent" if row["dictated_by"] else row["actor"]
    return row["version"], _when(row["created_at"]), f"{author:<14}", f"{row['path']}: {old} → {new}"


def _when(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"

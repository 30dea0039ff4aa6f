"""`fieldmark runs`, `approve` and `cancel`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from fieldmark.cli import follow
from fieldmark.cli.asking import TerminalUser, UserDecision, show_pending_call
from fieldmark.cli.client import Client, fetch_items, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.follow import Follower, PendingDecision, RunState, running
from fieldmark.cli.process import FAILED, MISUSED, exit_with
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, say_if_more, show_lines, steps
from fieldmark.domain.statuses import RunStatus

RunId = Annotated[UUID, typer.Argument(metavar="run", help="The run id, as listed by `runs`.")]


@dataclass(frozen=True, slots=True)
class DecisionOptions:
    """The decision given on the command line."""

    yes: str | None
    reject: bool
    reason: str | None
    arguments: dict[str, JsonValue] | None


@command()
def runs(
    target: Target,
    status: Annotated[RunStatus | None, typer.Option(help="Only runs with this status.")] = None,
    everyone: Annotated[bool, typer.Option("--everyone", help="Also runs of other members and of keys.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows.")] = 20,
) -> None:
    """List your runs, newest first, with the calls they wait for."""
    found, is_more, names = run_with_client(target, lambda client: _list(client, status, limit, everyone=everyone))
    say_if_more(found, is_more)
    if print_json(target, found):
        return
    rows = (
        (
            one["id"],
            f"{one['status']:<17}",
            f"{one['task']:<7}",
            f"{datetime.fromisoformat(one['created_at']).astimezone():%Y-%m-%d %H:%M}",
            names.get(one["document_id"], ""),
            one["waits_for"]["message"] if one["waits_for"] else one["error"] or "",
        )
        for one in found
    )
    everyone_hint = "" if everyone else " Add --everyone for those of other members and of keys."
    show_lines(rows, ("No matching runs." if status else "No runs.") + everyone_hint)


@command()
def approve(
    target: Target,
    run_id: RunId,
    yes: Annotated[
        str | None, typer.Option("--yes", metavar="CALL_ID", help="Approve this call without asking.")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject the call.")] = False,
    reason: Annotated[str | None, typer.Option(help="The reason for rejecting, sent to the agent.")] = None,
    arguments: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Approve with these arguments instead.")
    ] = None,
) -> None:
    """Show the call that a run waits for, decide it, and follow the run."""
    if reject and arguments is not None:
        exit_with("--input cannot be combined with --reject.", MISUSED)
    if reject and yes is not None:
        exit_with("Use either --yes or --reject.", MISUSED)
    if reason is not None and not reject:
        exit_with("--reason goes with --reject.", MISUSED)
    try:
        given = None if arguments is None else TypeAdapter(dict[str, JsonValue]).validate_json(arguments)
    except ValidationError as error:
        exit_with(f"--input is not a JSON object: {error.errors()[0]['msg']}.", MISUSED)
    seen, filename = run_with_client(
        target, lambda client: _approve(client, str(run_id), DecisionOptions(yes, reject, reason, given))
    )
    seen.end(target, filename)


@command()
def cancel(target: Target, run_id: RunId) -> None:
    """Cancel a run. Values that it wrote are kept."""
    run = run_with_client(target, lambda client: follow.cancel(client, str(run_id)))
    if not print_json(target, run):
        steps().print(f"Run {run['status']}.")


async def _list(
    client: Client, status: RunStatus | None, limit: int, *, everyone: bool
) -> tuple[list[dict[str, Any]], bool, dict[str, str]]:
    """Return runs, whether there are more, and their documents' names."""
    found, is_more = await fetch_items(client, "/api/runs", limit, {"status": status, "everyone": everyone})
    # Not a part of the list: a key that only decides does not see documents.
    return found, is_more, await client.filenames({one["document_id"] for one in found if one["document_id"]})


async def _approve(client: Client, run_id: str, wanted: DecisionOptions) -> tuple[RunState, str]:
    """Return the run's last state and its document's name."""
    # The embedded database has no worker unless a command runs one.
    async with running(client) as runs:
        follower = Follower(client, runs.status, run_id)
        await follower.refresh()
        if follower.waiting is None:
            exit_with("The run is not waiting for a decision.", FAILED)
        runs.status.stop()
        decision = await _decision(client, follower.waiting, wanted)
        if decision is None:
            return RunState(follower.run, waits=True), ""
        runs.status.start()
        await follower.skip()
        if not await follower.decide(decision):
            raise typer.Exit(FAILED)
        seen = await runs.follow_to_end(run_id, follower=follower)
        if seen.extraction is None:
            return seen, ""
        return seen, await client.filename(seen.extraction["document_id"])


async def _decision(client: Client, waiting: PendingDecision, wanted: DecisionOptions) -> UserDecision | None:
    """Return the decision from the command line, or ask the user."""
    call = waiting.call
    if wanted.yes is not None:
        if wanted.yes != call.call_id:
            exit_with(f"The run is waiting for another call: {call.call_id}.", FAILED)
        return UserDecision(call.call_id, True, wanted.arguments)
    person = TerminalUser(err, client.settings.editor)
    if not wanted.reject and wanted.arguments is None:
        return await person.decide(call)
    show_pending_call(err, call)
    if wanted.reject:
        return UserDecision(call.call_id, False, reason=wanted.reason)
    is_agreed = await person.agrees("Approve with your arguments instead?")
    return UserDecision(call.call_id, True, wanted.arguments) if is_agreed else None

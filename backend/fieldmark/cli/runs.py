"""`fieldmark runs`, `approve` and `cancel`: lists runs, decides what one waits for, ends one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from fieldmark.cli.asking import Decision, Person, show_pending_call
from fieldmark.cli.client import Client, Refused, asked, say_offline
from fieldmark.cli.files import json_lines_of, json_of, write
from fieldmark.cli.process import FAILED, MISUSED, WAITS, stop
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, show_lines, steps, tell
from fieldmark.cli.watching import show_extraction, to_the_end, waiting_call
from fieldmark.domain.events import ProposedCall
from fieldmark.domain.statuses import RunStatus

RunId = Annotated[UUID, typer.Argument(metavar="run", help="The run, as `runs` lists it.")]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of the call that waits."""

    yes: str | None
    reject: bool
    reason: str | None
    arguments: dict[str, JsonValue] | None


@command()
def runs(
    target: Target,
    status: Annotated[RunStatus | None, typer.Option(help="Only those of this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
) -> None:
    """List runs, newest first, and what they wait for."""
    found = asked(target, lambda client: _list(client, status, limit))
    if target.as_json:
        write(json_lines_of([one for one, _ in found]), None)
        return
    show_lines(
        (
            (
                one["id"],
                f"{one['status']:<17}",
                f"{one['task']:<7}",
                f"{datetime.fromisoformat(one['created_at']).astimezone():%Y-%m-%d %H:%M}",
                filename,
                one["waits_for"]["message"] if one["waits_for"] else one["error"] or "",
            )
            for one, filename in found
        ),
        "There are no such runs." if status else "There are no runs.",
    )


@command()
def approve(
    target: Target,
    run_id: RunId,
    yes: Annotated[
        str | None, typer.Option("--yes", metavar="CALL_ID", help="Approve this call without being asked.")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Do not let it happen.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why it is rejected: the agent is told.")] = None,
    arguments: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Approve it with other arguments.")
    ] = None,
) -> None:
    """Show what a run waits for, decide it, and watch what follows."""
    if reject and arguments is not None:
        stop("A rejected call needs no --input.", MISUSED)
    if reject and yes is not None:
        stop("Say --yes or --reject.", MISUSED)
    if reason is not None and not reject:
        stop("--reason goes with --reject.", MISUSED)
    try:
        given = None if arguments is None else TypeAdapter(dict[str, JsonValue]).validate_json(arguments)
    except ValidationError as error:
        stop(f"--input is no JSON object: {error.errors()[0]['msg']}.", MISUSED)
    wanted = Wanted(yes, reject, reason, given)
    code = asked(target, lambda client: _approve(client, str(run_id), wanted, as_json=target.as_json))
    if code:
        raise typer.Exit(code)


@command()
def cancel(target: Target, run_id: RunId) -> None:
    """End a run, whatever it is at. What it wrote stays."""
    run = asked(target, lambda client: client.send("POST", f"/api/runs/{run_id}/cancel"))
    if target.as_json:
        write(json_of(run, indented=True), None)
    else:
        steps().print(f"The run is {run['status']}.")


async def _list(client: Client, status: RunStatus | None, limit: int) -> list[tuple[dict[str, Any], str]]:
    """Runs, each with the name of its document."""
    found = (await client.get("/api/runs", status=status, limit=limit))["items"]
    named = {one["document_id"] for one in found if one["document_id"]}
    names = {document_id: await _name_of(client, document_id) for document_id in named}
    return [(one, names.get(one["document_id"], "")) for one in found]


async def _name_of(client: Client, document_id: str) -> str:
    """The name of a document's file, empty where the key may not read documents, or it is gone since."""
    try:
        return (await client.get(f"/api/documents/{document_id}"))["filename"]
    except Refused:
        return ""


async def _approve(client: Client, run_id: str, wanted: Wanted, *, as_json: bool) -> int:
    with steps().status("") as status:
        tell(status, "Starting…")
        pending = waiting_call(await client.get(f"/api/runs/{run_id}"))
        if pending is None:
            stop("The run waits for nothing.", FAILED)
        status.stop()
        decision = await _decision(client, pending, wanted)
        status.start()
        if decision is None:
            return WAITS
        async with client.events(run_id) as events:  # it waits, so that these are all there are
            after = max([number async for number, _ in events], default=0)
        await client.decide(run_id, decision.as_json())
        say_offline(client)
        # No other worker need be there: the embedded database has none when no command runs.
        async with client.working():
            seen = await to_the_end(client, run_id, status, None, after)
        if seen.extraction is not None:
            if as_json:
                write(json_of(seen.extraction, indented=True), None)
            else:
                show_extraction(seen.extraction, await _name_of(client, seen.extraction["document_id"]))
    return seen.exit_code


async def _decision(client: Client, pending: ProposedCall, wanted: Wanted) -> Decision | None:
    """What becomes of a call: as the command line says, else as the person answers who was shown it."""
    if wanted.yes is not None:
        if wanted.yes != pending.call_id:
            stop(f"The run waits for another call: {pending.call_id}.", FAILED)
        return Decision(pending.call_id, True, wanted.arguments)
    person = Person(err, client.settings.editor)
    if wanted.reject:
        show_pending_call(err, pending)
        return Decision(pending.call_id, False, reason=wanted.reason)
    if wanted.arguments is None:
        return await person.decide(pending)
    show_pending_call(err, pending)
    if not await person.agrees("Approve it with your arguments instead?"):
        return None
    return Decision(pending.call_id, True, wanted.arguments)

"""`fieldmark runs` and `fieldmark approve`: lists runs, and decides what one waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from fieldmark.cli.process import (
    FAILED,
    LOCAL_USER,
    MISUSED,
    WAITS,
    at_once,
    opened,
    read_settings,
    run,
    say_offline,
    stop,
)
from fieldmark.cli.terminal import err, out, plain, tell
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Conflict, Forbidden, Invalid, NotFound
from fieldmark.settings import Settings

if TYPE_CHECKING:
    from fieldmark.runs.lifecycle.decisions import Decision, PendingCall


def runs(
    status: Annotated[RunStatus | None, typer.Option(help="Only those of this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    user: Annotated[UUID, typer.Option(help="Whose; the local user's if left out.")] = LOCAL_USER,
) -> None:
    """List runs, newest first, and what they wait for."""
    run(_list(read_settings("warning"), status, limit, as_json, user))


def approve(
    run_id: Annotated[UUID, typer.Argument(metavar="run", help="The run that waits.")],
    yes: Annotated[
        str | None, typer.Option("--yes", metavar="CALL_ID", help="Approve this call without being asked.")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Do not let it happen.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why it is rejected: the agent is told.")] = None,
    arguments: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Approve it with other arguments.")
    ] = None,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
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
    settings = at_once(read_settings("warning"))
    code = run(_approve(settings, run_id, Wanted(yes, reject, reason, given), user))
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of the call that waits."""

    yes: str | None
    reject: bool
    reason: str | None
    arguments: dict[str, JsonValue] | None


async def _list(settings: Settings, status: RunStatus | None, limit: int, as_json: bool, user: UUID) -> None:
    from fieldmark.runs.lifecycle.views import listed
    from fieldmark.stores import runs

    async with opened(settings, user) as (runtime, scope):
        async with runtime.database.as_user(scope) as conn:
            rows = await runs.list_runs(conn, scope, status=status, limit=limit, after=None)
        if as_json:
            for one in listed(rows):
                typer.echo(one.model_dump_json())
            return
        for row, one in zip(rows, listed(rows), strict=True):
            begun = one.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
            said = one.waits_for.message if one.waits_for else one.error or ""
            cells = (one.id, f"{one.status:<17}", f"{one.task:<7}", begun, row.filename or "", said)
            # Lines and no table: a narrow terminal breaks them, and what reads a pipe gets them whole.
            out.print(plain("  ".join(map(str, cells)).rstrip()), soft_wrap=True)
    if not rows:
        err.print("There are no such runs." if status else "There are no runs.")


async def _approve(settings: Settings, run_id: UUID, wanted: Wanted, user: UUID) -> int:
    from fieldmark.cli.watching import show_extraction, to_the_end
    from fieldmark.runs.lifecycle import decisions
    from fieldmark.stores import documents

    with err.status("") as status:
        tell(status, "Starting…")
        async with opened(settings, user) as (runtime, scope):
            try:
                pending = await decisions.pending_call(runtime.database, scope, run_id)
                if pending is None:
                    raise Conflict("The run waits for nothing.")
                status.stop()
                decision = await _decision(pending, wanted, settings)
                status.start()
                if decision is None:
                    return WAITS
                after = await decisions.decide(runtime.database, scope, run_id, decision)
            except (NotFound, Forbidden, Conflict, Invalid) as fault:
                stop(str(fault), FAILED)
            from fieldmark.worker.jobs import working  # here: a decision that is refused need not wait for it

            say_offline(settings)
            # No other worker need be there: the embedded database has none when no command runs.
            async with working(runtime):
                seen = await to_the_end(runtime.database, scope, run_id, status, None, after)
            if seen.extraction is not None:
                async with runtime.database.as_user(scope) as conn:
                    document = await documents.get(conn, UUID(str(seen.extraction["document_id"])))
                show_extraction(seen.extraction, document.filename if document else "")
    return seen.exit_code


async def _decision(pending: PendingCall, wanted: Wanted, settings: Settings) -> Decision | None:
    """What becomes of a call: as the command line says, else as the person answers who was shown it."""
    from fieldmark.cli.asking import Person, show_pending_call
    from fieldmark.runs.lifecycle.decisions import Decision

    if wanted.yes is not None:
        if wanted.yes != pending.call_id:
            raise Conflict(f"The run waits for another call: {pending.call_id}.")
        return Decision(pending.call_id, True, wanted.arguments)
    person = Person(err, settings.editor)
    if wanted.reject:
        show_pending_call(err, pending)
        return Decision(pending.call_id, False, reason=wanted.reason)
    if wanted.arguments is None:
        return await person.decide(pending)
    show_pending_call(err, pending)
    if not await person.agrees("Approve it with your arguments instead?"):
        return None
    return Decision(pending.call_id, True, wanted.arguments)

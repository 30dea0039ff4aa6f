"""`fieldmark runs` and `fieldmark approve`: lists runs, and decides what one waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, get_args
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
from fieldmark.errors import Conflict, Invalid, NotFound
from fieldmark.settings import Settings

if TYPE_CHECKING:
    from fieldmark.runs.lifecycle.decisions import Decision


def runs(
    status: Annotated[
        str | None, typer.Option(help="Only those: queued, running, awaiting_approval, completed, failed, cancelled.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    user: Annotated[UUID, typer.Option(help="Whose; the local user's if left out.")] = LOCAL_USER,
) -> None:
    """List runs, newest first, and what they wait for."""
    from fieldmark.api.runs import Status

    if status is not None and status not in get_args(Status):
        stop(f"There is no status {status!r}. There are: {', '.join(get_args(Status))}.", MISUSED)
    run(_list(read_settings("warning"), status, limit, as_json, user))


def approve(
    run_id: Annotated[UUID, typer.Argument(metavar="run", help="The run that waits.")],
    call: Annotated[str | None, typer.Argument(help="The call; the one that the run waits for if left out.")] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Do not let it happen.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why it is rejected: the agent is told.")] = None,
    arguments: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Approve it with other arguments.")
    ] = None,
    user: Annotated[UUID, typer.Option(help="On whose behalf; the local user if left out.")] = LOCAL_USER,
) -> None:
    """Decide what a run waits for, and watch what follows."""
    from fieldmark.runs.lifecycle.decisions import Decision

    if reject and arguments is not None:
        stop("A rejected call needs no --input.", MISUSED)
    if reason is not None and not reject:
        stop("--reason goes with --reject.", MISUSED)
    try:
        given = None if arguments is None else TypeAdapter(dict[str, JsonValue]).validate_json(arguments)
    except ValidationError as error:
        stop(f"--input is no JSON object: {error.errors()[0]['msg']}.", MISUSED)
    settings = at_once(read_settings("warning"))
    code = run(_approve(settings, run_id, Decision(call or "", not reject, given, reason), user))
    if code:
        raise typer.Exit(code)


async def _list(settings: Settings, status: str | None, limit: int, as_json: bool, user: UUID) -> None:
    from fieldmark.api.runs import described
    from fieldmark.stores import documents, runs

    async with opened(settings, user) as (runtime, scope):
        async with runtime.database.as_user(scope) as conn:
            rows = await runs.list_runs(conn, scope, status=status, limit=limit, before=None)
            files = {row["document_id"]: await documents.get(conn, row["document_id"]) for row in rows}
            listed = await described(conn, rows)
        if as_json:
            for one in listed:
                typer.echo(one.model_dump_json())
            return
        for one in listed:
            file = files[one.document_id]
            begun = one.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
            said = one.waits_for.message if one.waits_for else one.error or ""
            cells = (
                one.id,
                f"{one.status:<17}",
                f"{one.task:<7}",
                begun,
                file.filename if file else "",
                said,
            )
            # Lines and no table: a narrow terminal breaks them, and what reads a pipe gets them whole.
            out.print(plain("  ".join(map(str, cells)).rstrip()), soft_wrap=True)
    if not rows:
        err.print("There are no such runs." if status else "There are no runs.")


async def _approve(settings: Settings, run_id: UUID, decision: Decision, user: UUID) -> int:
    from fieldmark.cli.watching import show_extraction, to_the_end
    from fieldmark.runs.lifecycle import decisions
    from fieldmark.stores import documents

    with err.status("") as status:
        tell(status, "Starting…")
        async with opened(settings, user) as (runtime, scope):
            try:
                if not decision.call_id:
                    proposal = await decisions.waiting(runtime.database, scope, run_id)
                    if proposal is None:
                        raise Conflict("The run waits for nothing.")
                    decision = replace(decision, call_id=proposal.call_id)
                after = await decisions.decide(runtime.database, scope, run_id, decision)
            except (NotFound, Conflict, Invalid) as fault:
                stop(str(fault), FAILED)
            from fieldmark.worker.jobs import (
                working,  # here, because a decision that is refused need not wait for it
            )

            say_offline(settings)
            # No other worker need be there: the embedded database has none when no command runs.
            async with working(runtime):
                extraction, waits = await to_the_end(runtime.database, scope, run_id, status, None, after)
            if extraction is not None:
                async with runtime.database.as_user(scope) as conn:
                    document = await documents.get(conn, UUID(extraction["document_id"]))
                show_extraction(extraction, document.filename if document else "")
                return 0
    return WAITS if waits else FAILED

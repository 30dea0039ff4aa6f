"""Claims a run for a worker, and releases it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.events import RunStartedEvent
from fieldmark.domain.statuses import RunError, RunStatus
from fieldmark.errors import FieldmarkError
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import LIMIT_MESSAGES
from fieldmark.runs.billing.prices import Prices
from fieldmark.stores import runs, usage
from fieldmark.stores.runs import RunRow

log = structlog.get_logger()

MAX_CONSECUTIVE_FAILURES = 10
"""How many attempts in a row may be interrupted without a completed call. A worker that dies interrupts all its runs;
only a run that crashes its worker itself fails this often without completing a call."""
MAX_CLAIMS = 1000
"""Limit for a run that completes a call in every attempt and then crashes its worker."""


async def claim(
    database: Database, scope: Scope, run_id: UUID, prices: Prices, model_of: Callable[[RunRow], str]
) -> RunRow | None:
    """Claim a run for this worker. Return None if the run has ended, waits for a slot of its organisation, or may not
    continue; the latter is recorded as failed."""
    async with database.as_user(scope) as conn:
        run = await runs.find(conn, run_id)
        priced = run is not None and prices.are_known(model_of(run))
        room = await usage.check_capacity(conn, run_id, priced=priced)
        run = await runs.claim(conn, run_id) if room == "granted" else None
        if run is not None and run.consecutive_failures <= MAX_CONSECUTIVE_FAILURES and run.fencing_token <= MAX_CLAIMS:
            return await _start_first_attempt(conn, run) if run.fencing_token == 1 else run
        if room is None and await runs.get_if_creator_may_write(conn, run_id) is not None:
            await runs.record_dead_worker(conn, run_id)
            return None
    if room == "held":
        log.info("the run waits until another run of its organisation ends")
    elif room is not None and room in LIMIT_MESSAGES:
        async with database.as_service() as conn:
            await runs.fail(conn, run_id, LIMIT_MESSAGES[room], RunError(room))
    else:
        # Its user is no longer a member or may only read, or the run was claimed too often.
        await _abandon(database, run_id)
    return None


async def status_or_abandon(database: Database, scope: Scope, run_id: UUID) -> RunStatus | None:
    """Return the current status of a run that this worker lost. A run that its user can't see any more is failed."""
    async with database.as_user(scope) as conn:
        run = await runs.get_if_creator_may_write(conn, run_id)
    if run is None:
        await _abandon(database, run_id)
    return None if run is None else run.status


async def release(database: Database, scope: Scope, run: RunRow) -> None:
    """Release a run, so that another worker continues it: now, or once a person has decided its pending call."""
    try:
        async with database.as_user(scope) as conn:
            await runs.fence(conn, run.id, run.fencing_token)
            await runs.release(conn, run.id)
            await runs.detach(conn, run.id, run.fencing_token)
    except FieldmarkError as error:
        log.warning("the run could not be released; maintenance will requeue it", reason=str(error))


async def _start_first_attempt(conn: Connection, run: RunRow) -> RunRow:
    if await runs.last_event(conn, run.id) == 0:  # inserted with SQL, or by a call of another run
        started = RunStartedEvent(
            run_id=run.id,
            extraction_id=run.extraction_id,
            thread_id=run.thread_id,
            parent_run_id=run.parent_run_id,
            parent_call_id=run.parent_call_id,
        )
        await runs.append_event(conn, run.id, started)
    return run


async def _abandon(database: Database, run_id: UUID) -> None:
    async with database.as_service() as conn:
        await runs.fail(
            conn,
            run_id,
            "The run was interrupted too often, or its user may no longer change it. Start it again.",
            RunError.ABANDONED,
        )

"""Runs and their events in Postgres."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.events import EventBase, ReadingEvent, WaitingEvent
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.statuses import Approval, RunError, RunStatus
from fieldmark.errors import IdempotencyKeyReused, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores.channels import tell_of_events
from fieldmark.stores.paging import Page, PageRequest
from fieldmark.stores.rows import Conditions, asked, fetch_all, fetch_one, value_of


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run is about. Which of these a task must and may have stands in private.agent_tasks."""

    document_id: UUID | None = None
    extraction_id: UUID | None = None
    thread_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person may ask of a run besides its task."""

    approval: str | None = None
    model: str | None = None
    max_cost_usd: Decimal | None = None
    max_turns: int | None = None
    auto_approved_tools: tuple[str, ...] = ()
    background: bool = False
    with_examples: bool | None = None
    idempotency_key: str | None = None


_NO_OPTIONS: Final = RunOptions()


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `cost_usd` is what it and its child runs cost, null where a price is not known; `usage` is its own."""

    id: UUID
    org_id: UUID
    created_by: UUID
    agent: str
    task: str
    input: dict[str, JsonValue]
    thread_id: UUID | None
    document_id: UUID | None
    extraction_id: UUID | None
    parent_run_id: UUID | None
    parent_call_id: str | None
    root_run_id: UUID
    approval: Approval
    auto_approved_tools: list[str]
    model: str | None
    max_cost_usd: Decimal | None
    max_turns: int | None
    background: bool
    status: RunStatus
    # Rises each time a worker claims the run: a worker with a lower one can write nothing more.
    fencing_token: int
    # How often in a row it was claimed without getting a call done.
    consecutive_failures: int
    # Whether a worker's CLI still waits while a person decides.
    attached: bool
    session_id: UUID | None
    # The call that the run waits for, or went on from.
    waiting_call: str | None
    # Whether corrections are shown to it as examples, None as the organisation says; and which were.
    with_examples: bool | None
    examples: list[dict[str, str]] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    answer: str | None
    # The same for programs, of a task with typed answers.
    result: dict[str, JsonValue] | None
    error: str | None
    error_code: str | None
    cost_usd: Decimal | None
    usage: dict[str, JsonValue]

    @property
    def subject(self) -> Subject:
        return Subject(self.document_id, self.extraction_id, self.thread_id)

    @property
    def turns(self) -> int:
        """How many whole messages of the model it has had."""
        turns = self.usage["turns"]
        assert isinstance(turns, int)
        return turns


# Of a root the messages of all its tree, of a part those of the runs below it, each found by an index. (It is what
# private.cost_of_run says, for as many rows as there are and without a call for each.)
_USED: Final = """
    cross join lateral (
      with recursive tree as (
        select r.id where r.parent_run_id is not null
        union all
        select part.id from public.runs as part join tree on part.parent_run_id = tree.id
      ), message as (
        select * from public.usage where root_run_id = r.id
        union all
        select u.* from tree join public.usage as u on u.run_id = tree.id
      )
      select case when count(*) = count(cost_usd) then coalesce(sum(cost_usd), 0) end as cost_usd,
        jsonb_build_object(
          'turns', count(*) filter (where own and left(message_id, 1) <> '~'),
          'input_tokens', coalesce(sum(input_tokens) filter (where own), 0),
          'output_tokens', coalesce(sum(output_tokens) filter (where own), 0),
          'cache_creation_input_tokens',
            coalesce(sum(cache_write_5m_tokens + cache_write_1h_tokens) filter (where own), 0),
          'cache_read_input_tokens', coalesce(sum(cache_read_tokens) filter (where own), 0)) as usage
      from (select *, run_id = r.id as own from message) as charged
    ) as used
"""
_COLUMNS: Final = ", ".join(
    f"{'used' if column.name in ('cost_usd', 'usage') else 'r'}.{column.name}" for column in fields(RunRow)
)


async def add(
    conn: Connection,
    scope: Scope,
    *,
    id: UUID,
    agent: str,
    task: str,
    task_input: Mapping[str, JsonValue],
    subject: Subject,
    options: RunOptions = _NO_OPTIONS,
    request_hash: str | None = None,
    parent: tuple[UUID, str] | None = None,
) -> UUID:
    """Insert a run; triggers fill in what the request leaves open and put it into the queue. Answers its id.

    With an idempotency key that this user has used before, nothing is inserted and the earlier run's id is answered.
    Raises IdempotencyKeyReused if that run had a different request, NotFound for a subject that does not exist,
    QueueFull if too many jobs of the organisation wait.
    `parent` is a run and its call that waits for this one.
    """
    given = {
        "id": id,
        "org_id": scope.org_id,
        "agent": agent,
        "task": task,
        "input": Jsonb(dict(task_input)),
        "request_hash": request_hash,
        **asdict(subject),
        **asdict(options),
        "auto_approved_tools": list(options.auto_approved_tools),
    }
    if parent is not None:
        given |= {"parent_run_id": parent[0], "parent_call_id": parent[1]}
    query = sql.SQL(
        "insert into public.runs ({}) values ({}) on conflict (org_id, created_by, idempotency_key) do nothing "
        "returning id"
    ).format(sql.SQL(", ").join(map(sql.Identifier, given)), sql.SQL(", ").join(map(sql.Placeholder, given)))
    row = await (await conn.execute(query, given)).fetchone()
    if row is not None:
        return row["id"]
    assert options.idempotency_key is not None
    earlier = await started_before(conn, scope, options.idempotency_key, request_hash)
    assert earlier is not None
    return earlier


async def started_before(conn: Connection, scope: Scope, idempotency_key: str, request_hash: str | None) -> UUID | None:
    """Return the id of the run that this user started with an idempotency key. Raise IdempotencyKeyReused if its
    request differed."""
    cursor = await conn.execute(
        "select id, request_hash from public.runs where org_id = %s and created_by = %s and idempotency_key = %s",
        (scope.org_id, scope.user_id, idempotency_key),
    )
    earlier = await cursor.fetchone()
    if earlier is None:
        return None
    if earlier["request_hash"] != request_hash:
        raise IdempotencyKeyReused(
            "This Idempotency-Key has started a run with another request. Give a new request a key of its own."
        )
    return earlier["id"]


async def get(conn: Connection, run_id: UUID) -> RunRow | None:
    """One run of the caller's organisation."""
    return await _one(conn, f"select {_COLUMNS} from public.runs as r {_USED} where r.id = %s", (run_id,))


async def find(conn: Connection, run_id: UUID) -> RunRow:
    """Return one run of the caller's organisation. Raise NotFound if there is none."""
    run = await get(conn, run_id)
    if run is None:
        raise NotFound("There is no such run.")
    return run


async def get_in_reach(conn: Connection, run_id: UUID) -> RunRow | None:
    """A run whose user may still write in its organisation. None for one that is out of sight, or whose user left."""
    query = (
        f"select {_COLUMNS} from public.runs as r {_USED} where r.id = %s and not private.is_creator_without_access(r)"
    )
    return await _one(conn, query, (run_id,))


async def children(conn: Connection, run_id: UUID, call_id: str) -> list[RunRow]:
    """The runs that a call of a run has started, oldest first."""
    return await fetch_all(
        conn,
        RunRow,
        f"""select {_COLUMNS} from public.runs as r {_USED}
                where r.parent_run_id = %s and r.parent_call_id = %s order by r.created_at, r.id""".encode(),
        (run_id, call_id),
    )


async def approval_refusal_reason(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the code of why the caller does not decide the calls of runs that they see, by run id; empty if they
    do."""
    query = "select r.id, private.approval_refusal_reason(r) as why from public.runs as r where r.id = any(%s)"
    cursor = await conn.execute(query, (list(run_ids),))
    return {row["id"]: row["why"] for row in await cursor.fetchall()}


# Those of others that the caller decides. Who they are is looked up once, not for each run.
_OR_DECIDED = """or (select private.approval_refusal_reason_for(%(org)s, null)) = ''
  and r.created_by not in (select private.decided_by_others(%(org)s))"""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a list has; None asks for nothing. `name` is a part of the file's name, in capitals or not; `since` is
    the first moment at which they were started, `until` the first that is too late."""

    task: str | None = None
    document_id: UUID | None = None
    extraction_id: UUID | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def list_runs(
    conn: Connection,
    scope: Scope,
    *,
    status: str | None,
    limit: int,
    before: str | None = None,
    wanted: RunFilter | None = None,
) -> Page[RunRow]:
    """Return a page of the user's runs of a status (of any without one), newest first. With those that wait for a
    person come those of others that the user decides. Raise Invalid for an invalid cursor."""
    request = PageRequest("runs", limit, before)
    waiting = status == RunStatus.AWAITING_APPROVAL
    of_them = f"(r.created_by = %(user)s {_OR_DECIDED if waiting else ''})"
    wanted = wanted or RunFilter()
    optional: Conditions = {
        "r.status = %(status)s": status,
        "r.task = %(task)s": wanted.task,
        "r.document_id = %(document_id)s": wanted.document_id,
        "r.extraction_id = %(extraction_id)s": wanted.extraction_id,
        """exists (
            select from public.documents as d
            where d.id = r.document_id and position(lower(%(name)s) in lower(d.filename)) > 0)
        """: wanted.name,
        "r.created_at >= %(since)s": wanted.since,
        "r.created_at < %(until)s": wanted.until,
    }
    conditions = ["r.org_id = %(org)s", of_them, *asked(optional), *request.conditions("r.created_at, r.id")]
    rows = await fetch_all(
        conn,
        RunRow,
        f"""select {_COLUMNS}
            from (
              select * from public.runs as r
              where {" and ".join(conditions)} order by r.created_at desc, r.id desc limit %(limit)s
            ) as r
            {_USED}
            order by r.created_at desc, r.id desc""".encode(),
        {"org": scope.org_id, "user": scope.user_id, "status": status, **asdict(wanted), **request.parameters()},
    )
    return request.page(rows)


async def last_event(conn: Connection, run_id: UUID) -> int:
    """The number of a run's last event; 0 before the first."""
    return await value_of(
        conn, "select coalesce(max(number), 0) as number from public.run_events where run_id = %s", (run_id,)
    )


async def count_waiting(conn: Connection) -> int:
    """How many runs wait for a person, of all tenants. Asked by the service, outside of any scope."""
    return await value_of(conn, "select private.waiting_runs() as waiting")


async def scope_of(conn: Connection, run_id: UUID) -> Scope | None:
    """On whose behalf a run acts. Asked by the service, outside of any scope."""
    return await fetch_one(conn, Scope, "select user_id, org_id from private.scope_of_run(%s)", (run_id,))


async def claim(conn: Connection, run_id: UUID) -> RunRow | None:
    """Claim a run for this worker: `running`, with the next fencing token. None if it has ended, waits, or is out of
    sight."""
    return await _one(
        conn,
        f"""with r as (
              update public.runs as r set status = 'running', fencing_token = fencing_token + 1,
                consecutive_failures = consecutive_failures + 1, attached = false, waiting_for_capacity_since = null,
                session_id = coalesce(session_id, gen_random_uuid()),
                started_at = coalesce(started_at, now())
            where id = %s and status in ('queued', 'running') returning r.*)
            select {_COLUMNS} from r {_USED}""",
        (run_id,),
    )


async def seconds_since_start(conn: Connection, run_id: UUID) -> float:
    """How long ago a run was first claimed, by the database's clock; 0 before that."""
    query = "select extract(epoch from clock_timestamp() - started_at)::float from public.runs where id = %s"
    return await value_of(conn, query, (run_id,)) or 0


async def disown(conn: Connection, run_id: UUID) -> None:
    """Note that no CLI waits any more with a run that waits: its job came again, so its worker is gone."""
    await conn.execute("select private.detach_dead_worker(%s)", (run_id,))


async def others_wait(conn: Connection) -> bool:
    """Whether runs of any tenant wait for a worker. Asked by the service, outside of any scope."""
    return bool(
        await value_of(
            conn,
            """select exists (
             select from queue.procrastinate_jobs
             where status = 'todo' and task_name = 'execute_run' and (scheduled_at is null or scheduled_at <= now())
           ) as waiting""",
        )
    )


async def fence(conn: Connection, run_id: UUID, fencing_token: int) -> None:
    """Hold the run for this transaction, or raise Fenced if this worker is not the one at work."""
    await conn.execute("select private.fence(%s, %s)", (run_id, fencing_token))


async def look(conn: Connection, run_id: UUID, fencing_token: int) -> RunStatus | None:
    """Return the status of a run for the worker that has it; None if another worker has it, or none."""
    query = "select status from public.runs where id = %s and fencing_token = %s"
    status = await value_of(conn, query, (run_id, fencing_token))
    return None if status is None else RunStatus(status)


async def delta_channel(conn: Connection) -> str:
    """Return the channel that carries deltas."""
    return await value_of(conn, "select private.delta_channel() as channel")


async def notify_deltas(conn: Connection, run_id: UUID, fencing_token: int, pieces: list[str]) -> None:
    """Send pieces of what the model says, each less than 7,900 bytes, to the run's readers. Raise Fenced."""
    await conn.execute("select private.notify_deltas(%s, %s, %s)", (run_id, fencing_token, pieces))


async def record_conversation(conn: Connection, run_id: UUID, session_id: UUID) -> None:
    """The conversation that a run is in, from where it is gone on with if it is broken off."""
    await conn.execute("update public.runs set session_id = %s where id = %s", (session_id, run_id))


async def record_examples(conn: Connection, run_id: UUID, shown: Sequence[Mapping[str, str]]) -> None:
    """Record which corrections a run is shown as examples."""
    await conn.execute("update public.runs set examples = %s where id = %s", (Jsonb([*map(dict, shown)]), run_id))


async def record_pages_read(conn: Connection, run_id: UUID, first: int, last: int) -> None:
    """The run has been shown pages `first` to `last`, to their ends."""
    await conn.execute(
        """update public.runs set pages_read = pages_read + int4multirange(int4range(%(first)s, %(last)s, '[]'))
           where id = %(id)s and not pages_read @> int4range(%(first)s, %(last)s, '[]')""",
        {"id": run_id, "first": first, "last": last},
    )


async def append_event(conn: Connection, run_id: UUID, event: EventBase) -> None:
    """Add one event to the run's; readers hear of it when the transaction commits."""
    await conn.execute("select private.append_event(%s, %s::json, false)", (run_id, json.dumps(event.flat())))
    tell_of_events(conn, run_id)


async def append_events(conn: Connection, run_id: UUID, fencing_token: int, events: Sequence[EventBase]) -> None:
    """Add several in their order, as the worker that has the run: raises Fenced if this one has not."""
    await conn.execute(
        """select private.fence(%s, %s), private.append_event(%s, said.body, false)
           from (select body from unnest(%s::json[]) with ordinality as one (body, n) order by n) as said""",
        (run_id, fencing_token, run_id, [json.dumps(event.flat()) for event in events]),
    )
    tell_of_events(conn, run_id)


class StoredEvent(NamedTuple):
    """An event as it lies there: its number in the run, and the flat object as JSON text."""

    number: int
    body: str


async def news(conn: Connection, run_id: UUID, number: int, limit: int) -> tuple[RunStatus, list[StoredEvent]] | None:
    """How a run stands, and its events behind `number` in order. One look: of a run that has ended, no event comes
    after the last of them. None if there is no such run."""
    cursor = await conn.execute(
        """select run.status, event.number, event.body
           from public.runs as run
           left join lateral (
             select number, body::text as body from public.run_events
             where run_id = run.id and number > %s order by number limit %s
           ) as event on true
           where run.id = %s order by event.number""",
        (number, limit, run_id),
    )
    rows = await cursor.fetchall()
    if not rows:
        return None
    told = [StoredEvent(row["number"], row["body"]) for row in rows if row["number"] is not None]
    return RunStatus(rows[0]["status"]), told


async def texts(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return what the agents of runs said, text by text in order, keyed by run id."""
    # Found by how an event is written: Postgres cannot take every text out of a json value (U+0000).
    cursor = await conn.execute(
        """select run_id, body::text as body from public.run_events
           where run_id = any (%s) and body::text ~ '^\\{"type" *: *"text"' order by run_id, number""",
        (list(run_ids),),
    )
    found: dict[UUID, list[str]] = {}
    for row in await cursor.fetchall():
        text: str = json.loads(row["body"])["text"]
        found.setdefault(row["run_id"], []).append(text.encode(errors="replace").decode())  # lone surrogates
    return found


async def progress_of(conn: Connection, run_id: UUID) -> list[EventBase]:
    """What a queued run waits for: which run it comes behind, and how far its document is read, as far as that is
    known."""
    cursor = await conn.execute(
        """select private.waits_behind(r) as behind, d.id, d.pages_read, d.pages_to_read
           from public.runs as r
           left join public.documents as d
             on d.id = r.document_id and d.status = 'reading' and d.pages_to_read is not null
           where r.id = %s""",
        (run_id,),
    )
    row = await cursor.fetchone()
    found: list[EventBase] = []
    if row is not None and row["behind"] is not None:
        found.append(WaitingEvent(run_id=row["behind"]))
    if row is not None and row["id"] is not None:
        found.append(ReadingEvent(document_id=row["id"], pages_read=row["pages_read"], page_count=row["pages_to_read"]))
    return found


async def waits_behind(conn: Connection, rows: Iterable[RunRow]) -> dict[UUID, UUID]:
    """The run that each of these comes right behind, of those that are queued behind one."""
    queued = [row.id for row in rows if row.status is RunStatus.QUEUED]
    if not queued:
        return {}
    cursor = await conn.execute(
        """select id, behind from (
             select r.id, private.waits_behind(r) as behind from public.runs as r where r.id = any(%s)) as queued
           where behind is not null""",
        (queued,),
    )
    return {row["id"]: row["behind"] for row in await cursor.fetchall()}


async def finish(
    conn: Connection,
    run_id: UUID,
    status: RunStatus,
    *,
    answer: str | None = None,
    result: JsonObject | None = None,
    error: str | None = None,
    error_code: str | None = None,
) -> None:
    """Record how a run ended. A call that no person decided is refused."""
    await conn.execute(
        """with undecided as (
             update public.tool_calls set status = 'refused', reason = %(error)s, decided_at = clock_timestamp()
             where run_id = %(id)s and status = 'pending')
           update public.runs set status = %(status)s, answer = %(answer)s, result = %(result)s, error = %(error)s,
               error_code = %(code)s, attached = false, waiting_call = null, finished_at = now()
           where id = %(id)s""",
        {
            "id": run_id,
            "status": status,
            "answer": answer,
            "result": None if result is None else Jsonb(result),
            "error": error,
            "code": error_code,
        },
    )


async def await_approval(
    conn: Connection, run_id: UUID, fencing_token: int, call_id: str, *, attached: bool, event: EventBase
) -> None:
    """The run waits for a person to decide a call, and says so. `attached`: its CLI waits too. Raises Fenced."""
    await conn.execute(
        "select private.await_approval(%s, %s, %s, %s, %s::json)",
        (run_id, fencing_token, call_id, attached, json.dumps(event.flat())),
    )
    tell_of_events(conn, run_id)


async def await_runs(conn: Connection, run_id: UUID, call_id: str) -> None:
    """The run waits for the child runs that a call has started."""
    await conn.execute("select private.await_runs(%s, %s)", (run_id, call_id))


async def approve_later_calls(conn: Connection, run_id: UUID, tools: Sequence[str]) -> bool:
    """Approve what a run that waits asks with these tools from here on. False where each call is decided by itself."""
    return bool(await value_of(conn, "select private.approve_later_calls(%s, %s) as approved", (run_id, list(tools))))


async def pre_approved_tools(conn: Connection, run_id: UUID) -> frozenset[str]:
    """The tools whose calls were approved in advance, when the run was started or with a decision since."""
    return frozenset(await value_of(conn, "select auto_approved_tools from public.runs where id = %s", (run_id,)) or ())


async def resume(conn: Connection, run_id: UUID) -> RunStatus:
    """The run goes on after a decision: `running` where its CLI has waited and there is room, else `queued`."""
    return RunStatus(await value_of(conn, "select private.resume_run(%s) as status", (run_id,)))


async def detach(conn: Connection, run_id: UUID, fencing_token: int) -> RunStatus:
    """The CLI of a run that waits has ended; a run that was decided meanwhile goes back into the queue. Answers how it
    stands now. Raises Fenced."""
    return RunStatus(await value_of(conn, "select private.detach_run(%s, %s) as status", (run_id, fencing_token)))


async def release(conn: Connection, run_id: UUID) -> None:
    """Put a run back into the queue, for another worker; it was not at fault, so the failure does not count."""
    await conn.execute(
        """update public.runs set status = 'queued', consecutive_failures = greatest(consecutive_failures - 1, 0)
           where id = %s and status = 'running'""",
        (run_id,),
    )


async def cancel(conn: Connection, run_id: UUID, reason: str) -> bool:
    """End a run and its child runs, whoever is at work on them. False if it has ended before."""
    return bool(await value_of(conn, "select private.cancel_run(%s, %s) as cancelled", (run_id, reason)))


async def supersede(conn: Connection, subject: Subject, reason: str) -> None:
    """End the runs that wait for a person on the same extraction, or else in the same thread: a turn of a thread also
    where a run that is part of it waits."""
    if subject.extraction_id is not None:
        await conn.execute(
            """select private.cancel_run(id, %s) from public.runs
               where extraction_id = %s and status = 'awaiting_approval'""",
            (reason, subject.extraction_id),
        )
        return
    await conn.execute(
        """select private.cancel_run(r.id, %s) from public.runs as r
           where r.thread_id = %s and r.status in ('awaiting_approval', 'awaiting_runs') and exists (
             select from public.runs as part
             where part.id = any (private.tree_of_run(r.id)) and part.status = 'awaiting_approval')""",
        (reason, subject.thread_id),
    )


async def remove(conn: Connection, run_id: UUID) -> None:
    """Delete a run that has ended, with its events and calls. Raises NotFound, and Conflict for one that has not."""
    await conn.execute("select public.delete_run(%s)", (run_id,))


async def fail(conn: Connection, run_id: UUID, error: str, code: RunError) -> None:
    """End a run that nobody is working on. Called by the service, outside of any scope."""
    await conn.execute("select private.fail_run(%s, %s, %s)", (run_id, error, code))


async def _one(conn: Connection, query: str, parameters: tuple[object, ...]) -> RunRow | None:
    return await fetch_one(conn, RunRow, query.encode(), parameters)

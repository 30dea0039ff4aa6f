"""Runs and their events in Postgres. `find` returns None and `get` raises NotFound for a run that the caller cannot
see."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Final, LiteralString, NamedTuple
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
from fieldmark.stores.channels import notify_of_events
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import Conditions, active_conditions, fetch_all, fetch_one, value_of


@dataclass(frozen=True, slots=True)
class Subject:
    """The document, extraction, thread or stack that a run works on. A task requires or allows some of them
    (private.agent_tasks)."""

    document_id: UUID | None = None
    extraction_id: UUID | None = None
    thread_id: UUID | None = None
    stack_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    approval: str | None = None
    model: str | None = None
    max_cost_usd: Decimal | None = None
    max_turns: int | None = None
    auto_approved_tools: tuple[str, ...] = ()
    background: bool = False
    by_agent: bool = False
    idempotency_key: str | None = None


_NO_OPTIONS: Final = RunOptions()


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `cost_usd` includes child runs and is null if a price is unknown; `usage` does not include them."""

    id: UUID
    org_id: UUID
    created_by: UUID
    agent: str
    task: str
    input: dict[str, JsonValue]
    thread_id: UUID | None
    document_id: UUID | None
    extraction_id: UUID | None
    stack_id: UUID | None
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
    # Incremented each time a worker claims the run. Writes of a worker with a lower token are rejected.
    fencing_token: int
    # How many times in a row the run was claimed without completing a call.
    consecutive_failures: int
    # Whether a worker's CLI process is still waiting for the user's decision.
    attached: bool
    session_id: UUID | None
    # The call that the run waits for or resumed from.
    waiting_call: str | None
    # The corrections that the agent saw as examples.
    examples: list[dict[str, str]] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    answer: str | None
    # The answer as JSON, for tasks with a typed answer.
    result: dict[str, JsonValue] | None
    error: str | None
    error_code: str | None
    cost_usd: Decimal | None
    usage: dict[str, JsonValue]

    @property
    def subject(self) -> Subject:
        return Subject(self.document_id, self.extraction_id, self.thread_id, self.stack_id)

    @property
    def turns(self) -> int:
        """The number of complete model messages."""
        turns = self.usage["turns"]
        assert isinstance(turns, int)
        return turns


# For a root run, the messages of its tree; for a child run, its own and those of the runs below it. Both use an index.
# Same result as private.cost_of_run, without one call per row.
_USAGE_JOIN: Final = """
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
    """Insert a run and return its id. Triggers set defaults and queue the run.

    If this user has used the idempotency key before, insert nothing and return the earlier run's id. `parent` is the
    run and its tool call that wait for this run.

    Raise IdempotencyKeyReused if the earlier run had a different request, NotFound if the subject does not exist,
    QueueFull if too many jobs of the organisation are queued.
    """
    columns = {
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
        columns |= {"parent_run_id": parent[0], "parent_call_id": parent[1]}
    query = sql.SQL(
        "insert into public.runs ({}) values ({}) on conflict (org_id, created_by, idempotency_key) do nothing "
        "returning id"
    ).format(sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(map(sql.Placeholder, columns)))
    row = await (await conn.execute(query, columns)).fetchone()
    if row is not None:
        return row["id"]
    assert options.idempotency_key is not None
    earlier = await find_by_idempotency_key(conn, scope, options.idempotency_key, request_hash)
    assert earlier is not None
    return earlier


async def find_by_idempotency_key(
    conn: Connection, scope: Scope, idempotency_key: str, request_hash: str | None
) -> UUID | None:
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
            "This Idempotency-Key was used for a run with a different request. Use a new key for a new request."
        )
    return earlier["id"]


async def find(conn: Connection, run_id: UUID) -> RunRow | None:
    return await _fetch_run(conn, f"select {_COLUMNS} from public.runs as r {_USAGE_JOIN} where r.id = %s", (run_id,))


async def get(conn: Connection, run_id: UUID) -> RunRow:
    run = await find(conn, run_id)
    if run is None:
        raise NotFound("The run does not exist.")
    return run


async def get_if_creator_may_write(conn: Connection, run_id: UUID) -> RunRow | None:
    """Return a run, or None if it does not exist or its creator may no longer write in the organisation."""
    may_write = "private.role_of(r.org_id, r.created_by) in ('owner', 'member')"
    query = f"select {_COLUMNS} from public.runs as r {_USAGE_JOIN} where r.id = %s and {may_write}"
    return await _fetch_run(conn, query, (run_id,))


async def children(conn: Connection, run_id: UUID, call_id: str) -> list[RunRow]:
    """Return the runs that a tool call started, oldest first."""
    return await fetch_all(
        conn,
        RunRow,
        f"""select {_COLUMNS} from public.runs as r {_USAGE_JOIN}
                where r.parent_run_id = %s and r.parent_call_id = %s order by r.created_at, r.id""".encode(),
        (run_id, call_id),
    )


async def approval_refusal_reason(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return by run id why the caller may not decide its calls, as a code. The code is empty if the caller may."""
    query = "select r.id, private.approval_refusal_reason(r) as why from public.runs as r where r.id = any(%s)"
    cursor = await conn.execute(query, (list(run_ids),))
    return {row["id"]: row["why"] for row in await cursor.fetchall()}


async def is_started_by_callers_agent(conn: Connection, run_id: UUID) -> bool:
    """Return whether an agent of the caller, or of another key or session of the same person, started a run or the run
    that it is a part of."""
    query = """
        select exists (
          select from public.runs as r join public.runs as root on root.id = r.root_run_id
          where r.id = %s and root.by_agent
            and private.user_of(root.created_by) = private.user_of((select auth.uid())))"""
    return await value_of(conn, query, (run_id,))


# Runs of other users that the caller decides. The subqueries run once, not once per run.
_OR_DECIDED: LiteralString = """or (select private.approval_refusal_reason_for(%(org)s, null)) = ''
  and r.created_by not in (select private.decided_by_others(%(org)s))"""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Filters of a list of runs; None matches all. `everyone`: also runs of others. `is_root`: only runs that no other
    run started. `stack_id` also matches the runs that read its rows. `name` is
    part of the filename, ignoring case. Runs were created from `since` (inclusive) to `until` (exclusive)."""

    task: str | None = None
    document_id: UUID | None = None
    extraction_id: UUID | None = None
    stack_id: UUID | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    schema_id: UUID | None = None
    created_by: UUID | None = None
    assignee_id: UUID | None = None
    everyone: bool = False
    is_root: bool | None = None
    changed_since: datetime | None = None

    def conditions(self, status: str | None) -> list[LiteralString]:
        """Return the conditions for runs `r` of the user and for the filters that are set, with parameters named after
        them. `awaiting_approval` includes runs of other users that this user decides."""
        waiting = status == RunStatus.AWAITING_APPROVAL
        optional: Conditions = {
            "r.status = %(status)s": status,
            "r.task = %(task)s": self.task,
            "r.document_id = %(document_id)s": self.document_id,
            "r.extraction_id = %(extraction_id)s": self.extraction_id,
            """(r.root_run_id in (select id from public.runs where stack_id = %(stack_id)s) or r.extraction_id in (
                select e.id from public.stack_tables as t join public.schema_versions as v on v.schema_id = t.schema_id
                join public.extractions as e on e.schema_revid = v.id where t.stack_id = %(stack_id)s))
            """: self.stack_id,
            """r.extraction_id in (
                select e.id from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
                where v.schema_id = %(schema_id)s)
            """: self.schema_id,
            """exists (
                select from public.documents as d
                where d.id = r.document_id and position(lower(%(name)s) in lower(d.filename)) > 0)
            """: self.name,
            "r.created_by = %(created_by)s": self.created_by,
            """r.document_id in (
                select id from public.documents where org_id = %(org)s and assignee_id = %(assignee_id)s)
            """: self.assignee_id,
            "r.parent_run_id is null": self.is_root or None,
            "r.created_at >= %(since)s": self.since,
            "r.created_at < %(until)s": self.until,
            """(coalesce(r.finished_at, r.started_at, r.created_at) >= %(changed_since)s or r.id in (
                select run_id from public.changes where org_id = %(org)s and created_at >= %(changed_since)s))
            """: self.changed_since,
        }
        visible: LiteralString = f"(r.created_by = %(user)s {_OR_DECIDED if waiting else ''})"
        return ["r.org_id = %(org)s", *([] if self.everyone else [visible]), *active_conditions(optional)]


async def list_runs(
    conn: Connection,
    scope: Scope,
    *,
    status: str | None,
    limit: int,
    before: str | None = None,
    filters: RunFilter | None = None,
) -> ListPage[RunRow]:
    """Return a page of runs with a status (None: any), newest first: the user's own, unless the filter says otherwise.
    `awaiting_approval` includes runs of other users that this user decides. Raise Invalid for an invalid cursor."""
    request = PageRequest("runs", limit, before)
    filters = filters or RunFilter()
    conditions = [*filters.conditions(status), *request.conditions("r.created_at, r.id")]
    rows = await fetch_all(
        conn,
        RunRow,
        f"""select {_COLUMNS}
            from (
              select * from public.runs as r
              where {" and ".join(conditions)} order by r.created_at desc, r.id desc limit %(limit)s
            ) as r
            {_USAGE_JOIN}
            order by r.created_at desc, r.id desc""".encode(),
        {"org": scope.org_id, "user": scope.user_id, "status": status, **asdict(filters), **request.parameters()},
    )
    return request.page(rows)


async def last_event(conn: Connection, run_id: UUID) -> int:
    return await value_of(
        conn, "select coalesce(max(number), 0) as number from public.run_events where run_id = %s", (run_id,)
    )


async def count_waiting(conn: Connection) -> int:
    """Return how many runs of all tenants await approval. Needs a connection as the service."""
    return await value_of(conn, "select private.count_waiting_runs() as waiting")


async def scope_of(conn: Connection, run_id: UUID) -> Scope | None:
    """Return the user and organisation that a run acts for. Needs a connection as the service."""
    return await fetch_one(conn, Scope, "select user_id, org_id from private.scope_of_run(%s)", (run_id,))


async def claim(conn: Connection, run_id: UUID) -> RunRow | None:
    """Claim a run for this worker: set it to `running` and increment its fencing token. Return None if the run has
    ended, is waiting, or is not visible."""
    return await _fetch_run(
        conn,
        f"""with r as (
              update public.runs as r set status = 'running', fencing_token = fencing_token + 1,
                consecutive_failures = consecutive_failures + 1, attached = false, waiting_for_capacity_since = null,
                session_id = coalesce(session_id, gen_random_uuid()),
                started_at = coalesce(started_at, now())
            where id = %s and status in ('queued', 'running') returning r.*)
            select {_COLUMNS} from r {_USAGE_JOIN}""",
        (run_id,),
    )


async def seconds_since_start(conn: Connection, run_id: UUID) -> float:
    """Return the seconds since a run was first claimed, by the database's clock; 0 if it was not."""
    query = "select extract(epoch from clock_timestamp() - started_at)::float from public.runs where id = %s"
    return await value_of(conn, query, (run_id,)) or 0


async def record_dead_worker(conn: Connection, run_id: UUID) -> None:
    """Record that the worker of a waiting run is dead: the queue has delivered its job again."""
    await conn.execute("select private.detach_dead_worker(%s)", (run_id,))


async def are_runs_queued(conn: Connection) -> bool:
    """Return whether runs of any tenant are due in the queue. Needs a connection as the service."""
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
    """Lock the run for this transaction. Raise Fenced if another worker has claimed it."""
    await conn.execute("select private.fence(%s, %s)", (run_id, fencing_token))


async def status_if_held(conn: Connection, run_id: UUID, fencing_token: int) -> RunStatus | None:
    """Return the status of a run, or None if another worker has claimed it."""
    query = "select status from public.runs where id = %s and fencing_token = %s"
    status = await value_of(conn, query, (run_id, fencing_token))
    return None if status is None else RunStatus(status)


async def delta_channel(conn: Connection) -> str:
    return await value_of(conn, "select private.delta_channel() as channel")


async def notify_deltas(conn: Connection, run_id: UUID, fencing_token: int, chunks: list[str]) -> None:
    """Send chunks of the model's output, each below 7,900 bytes, to the run's readers. Raise Fenced."""
    await conn.execute("select private.notify_deltas(%s, %s, %s)", (run_id, fencing_token, chunks))


async def record_conversation(conn: Connection, run_id: UUID, session_id: UUID) -> None:
    """Store the conversation that a run continues from if it is interrupted."""
    await conn.execute("update public.runs set session_id = %s where id = %s", (session_id, run_id))


async def record_examples(conn: Connection, run_id: UUID, shown: Sequence[Mapping[str, str]]) -> None:
    """Store the corrections that a run's agent sees as examples."""
    await conn.execute("update public.runs set examples = %s where id = %s", (Jsonb([*map(dict, shown)]), run_id))


async def record_pages_read(conn: Connection, run_id: UUID, first: int, last: int) -> None:
    """Record that the agent has read pages `first` to `last` completely."""
    await conn.execute(
        """update public.runs set pages_read = pages_read + int4multirange(int4range(%(first)s, %(last)s, '[]'))
           where id = %(id)s and not pages_read @> int4range(%(first)s, %(last)s, '[]')""",
        {"id": run_id, "first": first, "last": last},
    )


async def append_event(conn: Connection, run_id: UUID, event: EventBase) -> None:
    """Append an event to a run and notify its readers."""
    await conn.execute("select private.append_event(%s, %s::json, false)", (run_id, json.dumps(event.flat())))
    notify_of_events(conn, run_id)


async def append_events(conn: Connection, run_id: UUID, fencing_token: int, events: Sequence[EventBase]) -> None:
    await conn.execute(
        """select private.fence(%s, %s), private.append_event(%s, event.body, false)
           from (select body from unnest(%s::json[]) with ordinality as one (body, n) order by n) as event""",
        (run_id, fencing_token, run_id, [json.dumps(event.flat()) for event in events]),
    )
    notify_of_events(conn, run_id)


class StoredEvent(NamedTuple):
    """An event with its number in the run. `body` is the event as JSON text."""

    number: int
    body: str


async def events_after(
    conn: Connection, run_id: UUID, number: int, limit: int
) -> tuple[RunStatus, list[StoredEvent]] | None:
    """Return the status of a run and up to `limit` events after `number`, or None if the run does not exist.

    Both are from one snapshot: if the run has ended, no further events will follow.
    """
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
    events = [StoredEvent(row["number"], row["body"]) for row in rows if row["number"] is not None]
    return RunStatus(rows[0]["status"]), events


async def texts_by_run(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return the texts that agents wrote in these runs, in order."""
    # Matched as text, because Postgres cannot read JSON strings that contain U+0000.
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


async def waiting_events(conn: Connection, run_id: UUID) -> list[EventBase]:
    """Return the events that report what a queued run waits for: an earlier run, or the reading of its document."""
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
    """Return, for each queued run that waits for an earlier run, the id of that run."""
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
    """Record how a run ended. Undecided calls are refused."""
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
    """Set a run to wait for approval of a call, and append `event`. `attached`: the CLI process keeps running. Raise
    Fenced."""
    await conn.execute(
        "select private.await_approval(%s, %s, %s, %s, %s::json)",
        (run_id, fencing_token, call_id, attached, json.dumps(event.flat())),
    )
    notify_of_events(conn, run_id)


async def await_runs(conn: Connection, run_id: UUID, call_id: str) -> None:
    """Set a run to wait for the child runs that a call started."""
    await conn.execute("select private.await_runs(%s, %s)", (run_id, call_id))


async def approve_later_calls(conn: Connection, run_id: UUID, tools: Sequence[str]) -> bool:
    """Approve all later calls of a waiting run to these tools. Return False if each call needs its own decision."""
    return bool(await value_of(conn, "select private.approve_later_calls(%s, %s) as approved", (run_id, list(tools))))


async def pre_approved_tools(conn: Connection, run_id: UUID) -> frozenset[str]:
    """Return the tools whose calls were approved in advance: at the start of the run, or with a later decision."""
    return frozenset(await value_of(conn, "select auto_approved_tools from public.runs where id = %s", (run_id,)) or ())


async def resume(conn: Connection, run_id: UUID) -> RunStatus:
    """Resume a run after a decision and return its status: `running` if its CLI process waited and capacity is free,
    else `queued`."""
    return RunStatus(await value_of(conn, "select private.resume_run(%s) as status", (run_id,)))


async def detach(conn: Connection, run_id: UUID, fencing_token: int) -> RunStatus:
    """Record that the CLI process of a waiting run has ended, and return the run's status. A run that was decided in
    the meantime is queued again. Raise Fenced."""
    return RunStatus(await value_of(conn, "select private.detach_run(%s, %s) as status", (run_id, fencing_token)))


async def release(conn: Connection, run_id: UUID) -> None:
    """Queue a run again for another worker, without counting a failure."""
    await conn.execute(
        """update public.runs set status = 'queued', consecutive_failures = greatest(consecutive_failures - 1, 0)
           where id = %s and status = 'running'""",
        (run_id,),
    )


async def postpone(conn: Connection, run_id: UUID) -> None:
    """Record that this attempt does not count as a failure. The run's job will be executed again."""
    await conn.execute(
        "update public.runs set consecutive_failures = greatest(consecutive_failures - 1, 0) where id = %s", (run_id,)
    )


async def cancel(conn: Connection, run_id: UUID, reason: str) -> bool:
    """Cancel a run and its child runs, even while a worker holds them. Return False if the run had already ended."""
    return bool(await value_of(conn, "select private.cancel_run(%s, %s) as cancelled", (run_id, reason)))


async def cancel_waiting(conn: Connection, subject: Subject, reason: str) -> None:
    """Cancel the runs that await approval on the same extraction, or else in the same thread or stack. A run in a
    thread or on a stack is also cancelled if one of its child runs awaits approval."""
    if subject.extraction_id is not None:
        await conn.execute(
            """select private.cancel_run(id, %s) from public.runs
               where extraction_id = %s and status = 'awaiting_approval'""",
            (reason, subject.extraction_id),
        )
        return
    await conn.execute(
        """select private.cancel_run(r.id, %s) from public.runs as r
           where (r.thread_id = %s or r.stack_id = %s) and r.status in ('awaiting_approval', 'awaiting_runs')
             and exists (select from public.runs as part
             where part.id = any (private.tree_of_run(r.id)) and part.status = 'awaiting_approval')""",
        (reason, subject.thread_id, subject.stack_id),
    )


async def remove(conn: Connection, run_id: UUID) -> None:
    """Delete a finished run with its events and calls. Raise NotFound, Conflict if the run has not ended."""
    await conn.execute("select public.delete_run(%s)", (run_id,))


async def fail(conn: Connection, run_id: UUID, error: str, code: RunError) -> None:
    """Fail a run that no worker holds. Needs a connection as the service."""
    await conn.execute("select private.fail_run(%s, %s, %s)", (run_id, error, code))


async def _fetch_run(conn: Connection, query: str, parameters: tuple[object, ...]) -> RunRow | None:
    return await fetch_one(conn, RunRow, query.encode(), parameters)

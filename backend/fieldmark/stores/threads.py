"""Threads in Postgres: conversations over several runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from psycopg import errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.names import thread_title
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Conflict, Forbidden, Invalid, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import SHOWN_EXTRACTION, Conditions, active_conditions, fetch_all, fetch_one, value_of


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A conversation with an agent. `working_state` holds what its tools remember between turns."""

    id: UUID
    org_id: UUID
    created_by: UUID
    created_at: datetime
    updated_at: datetime
    agent: str
    document_id: UUID | None
    title: str | None
    shared: bool
    working_state: dict[str, JsonValue]


_NO_TITLE: Final = "The title is invalid. Use one line of 1 to 200 visible characters, without spaces around it."

_COLUMNS = ", ".join(ThreadRow.__dataclass_fields__)


async def add(
    conn: Connection, scope: Scope, *, agent: str, document_id: UUID | None = None, title: str | None = None
) -> ThreadRow:
    """Insert a thread. Raise NotFound if the document or the agent does not exist, Invalid for the title."""
    async with conn.cursor(row_factory=class_row(ThreadRow)) as cursor:
        try:
            await cursor.execute(
                f"""insert into public.threads (org_id, agent, document_id, title) values (%s, %s, %s, %s)
                    returning {_COLUMNS}""".encode(),
                (scope.org_id, agent, document_id, title),
            )
        except errors.CheckViolation as error:
            raise Invalid(_NO_TITLE) from error
        row = await cursor.fetchone()
    assert row is not None
    return row


async def create(
    conn: Connection, scope: Scope, document_id: UUID | None, *, agent: str | None = None, title: str | None = None
) -> ThreadRow:
    """Create a thread about one document or all documents. `agent` defaults to the first agent that supports threads.
    Raise NotFound for the document or the agent, Invalid for the title."""
    thread_agent = await value_of(
        conn,
        """select agent from private.agent_tasks
           where 'thread_id' = any(needs) and ('document_id' = any(needs)) = %s and agent = coalesce(%s, agent)
           order by agent limit 1""",
        (document_id is not None, agent),
    )
    if thread_agent is None:
        about = "all documents. Give a document_id." if document_id is None else "one document. Omit document_id."
        raise NotFound(f"There is no such agent that supports conversations about {about}")
    return await add(conn, scope, agent=thread_agent, document_id=document_id, title=title)


async def find(conn: Connection, thread_id: UUID) -> ThreadRow | None:
    return await fetch_one(
        conn, ThreadRow, f"select {_COLUMNS} from public.threads where id = %s".encode(), (thread_id,)
    )


async def get(conn: Connection, thread_id: UUID) -> ThreadRow:
    """Return a thread of the caller, or one shared with them. Raise NotFound."""
    row = await find(conn, thread_id)
    if row is None:
        raise NotFound("The thread does not exist.")
    return row


async def for_message(
    conn: Connection,
    scope: Scope,
    thread_id: UUID | None,
    message: str,
    *,
    agent: str,
    document_id: UUID | None = None,
) -> ThreadRow:
    """Return the caller's thread for a message. Without `thread_id`, create one with the start of the message as its
    title. Raise NotFound, Conflict if the thread belongs to another agent."""
    if thread_id is None:
        return await add(conn, scope, agent=agent, document_id=document_id, title=thread_title(message))
    row = await find(conn, thread_id)
    if row is None or row.created_by != scope.user_id or row.document_id != document_id:
        raise NotFound("You have no such thread" + (" about this document." if document_id else "."))
    if row.agent != agent:
        raise Conflict("The thread belongs to another agent. Start a new thread.")
    return row


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """Filters of a list of threads; None matches all. `mine`: the caller's own threads, or those shared by others."""

    document_id: UUID | None = None
    agent: str | None = None
    mine: bool | None = None


async def list_threads(
    conn: Connection, scope: Scope, filters: ThreadFilter, *, limit: int, before: str | None = None
) -> ListPage[ThreadRow]:
    request = PageRequest("threads", limit, before)
    optional: Conditions = {
        "document_id = %(document_id)s": filters.document_id,
        "agent = %(agent)s": filters.agent,
    }
    where: list[LiteralString] = ["org_id = %(org)s", *active_conditions(optional), *request.conditions()]
    parameters = {"org": scope.org_id, "user": scope.user_id, **asdict(filters), **request.parameters()}
    # Own and shared threads are queried separately, each by its index: most threads of an organisation are neither.
    queries: list[LiteralString] = []
    if filters.mine is not False:
        queries.append("created_by = %(user)s")
    if filters.mine is not True:
        queries.append("shared and created_by is distinct from %(user)s")
    order: LiteralString = "order by created_at desc, id desc limit %(limit)s"
    parts = " union all ".join(
        f"(select * from public.threads where {' and '.join([*where, query])} {order})" for query in queries
    )
    rows = await fetch_all(conn, ThreadRow, f"select {_COLUMNS} from ({parts}) as t {order}".encode(), parameters)
    return request.page(rows)


async def change(conn: Connection, scope: Scope, thread_id: UUID, changes: dict[str, str | bool | None]) -> ThreadRow:
    """Change `title` or `shared` of one of the caller's threads, and return the thread. Raise NotFound, Forbidden if it
    belongs to another user, Invalid for the title."""
    row = await _find_own(conn, scope, thread_id)
    if not changes:
        return row
    columns = ", ".join(f"{name} = %({name})s" for name in ("title", "shared") if name in changes)
    try:
        await conn.execute(
            f"update public.threads set {columns} where id = %(id)s and created_by = %(user)s".encode(),
            {**changes, "id": thread_id, "user": scope.user_id},
        )
    except errors.CheckViolation as error:
        raise Invalid(_NO_TITLE) from error
    return await get(conn, thread_id)


async def _find_own(conn: Connection, scope: Scope, thread_id: UUID) -> ThreadRow:
    row = await get(conn, thread_id)
    if row.created_by != scope.user_id:
        raise Forbidden("Only the user who created a thread can rename, share or delete it.")
    return row


async def remove(conn: Connection, scope: Scope, thread_id: UUID) -> None:
    """Delete one of the caller's threads with its runs and its conversation. Raise NotFound, Forbidden if it belongs to
    another user."""
    await _find_own(conn, scope, thread_id)
    await conn.execute("select public.delete_thread(%s)", (thread_id,))


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn of a thread: the run that answers one message. `waiting_run` is the run that awaits approval: this run or
    a child run."""

    id: UUID
    created_by: UUID
    created_at: datetime
    finished_at: datetime | None
    agent: str
    input: dict[str, JsonValue]
    status: RunStatus
    answer: str | None
    result: dict[str, JsonValue] | None
    error: str | None
    error_code: str | None
    waits_behind: UUID | None
    waiting_run: UUID | None
    waiting_agent: str | None


async def turns(conn: Connection, thread_id: UUID, *, limit: int, before: str | None = None) -> ListPage[TurnRow]:
    request = PageRequest("turns", limit, before)
    where = " and ".join(["thread_id = %(thread)s", "parent_run_id is null", *request.conditions()])
    rows = await fetch_all(
        conn,
        TurnRow,
        f"""select r.id, r.created_by, r.created_at, r.finished_at, r.agent, r.input, r.status, r.answer, r.result,
              r.error, r.error_code, private.waits_behind(r) as waits_behind, w.id as waiting_run,
              w.agent as waiting_agent
            from (
              select * from public.runs as r where {where}
              order by created_at desc, id desc limit %(limit)s
            ) as r
            left join lateral (
              select part.id, part.agent from public.runs as part
              where r.status in ('awaiting_approval', 'awaiting_runs')
                and part.id = any (private.tree_of_run(r.id)) and part.status = 'awaiting_approval'
              order by part.created_at, part.id limit 1
            ) as w on true
            order by r.created_at desc, r.id desc""".encode(),
        {"thread": thread_id, **request.parameters()},
    )
    return request.page(rows)


async def save_state(conn: Connection, thread_id: UUID, state: dict[str, JsonValue]) -> None:
    """Merge `state` into the thread's working state. Users who decide a call in a shared thread may do so, too."""
    await conn.execute("select private.save_thread_state(%s, %s)", (thread_id, Jsonb(state)))


async def starting_state(conn: Connection, document_id: UUID) -> dict[str, UUID | None]:
    """Return the `schema_revid`, `prompt_revid` and `extraction_id` that a conversation about a document starts with:
    those of an undecided suggestion, else those of the shown extraction."""
    current = SHOWN_EXTRACTION.format(which="e.document_id = %(document)s")
    cursor = await conn.execute(
        f"""select coalesce(suggestion.extraction_id, e.id) as extraction_id,
              case when suggestion is null then e.schema_revid else suggestion.schema_revid end as schema_revid,
              case when suggestion is null then e.prompt_revid else suggestion.prompt_revid end as prompt_revid
            from (values (1)) as one
            left join public.auto_creations as suggestion
              on suggestion.document_id = %(document)s and suggestion.status = 'proposed'
            left join lateral (select * {current}) as e on true""".encode(),
        {"document": document_id},
    )
    row = await cursor.fetchone()
    assert row is not None
    return dict(row)


async def was_mentioned(conn: Connection, thread_id: UUID, kind: str, mentioned_id: UUID) -> bool:
    """Return whether a message of the thread mentions the object `mentioned_id`."""
    cursor = await conn.execute(
        """select from public.runs where thread_id = %s and jsonb_path_exists(
             input, '$.mentions[*] ? (@.type == $type && @.id == $id)',
             jsonb_build_object('type', %s::text, 'id', %s::text))
           limit 1""",
        (thread_id, kind, str(mentioned_id)),
    )
    return await cursor.fetchone() is not None

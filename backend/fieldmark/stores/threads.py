"""Threads in Postgres: conversations that outlive their runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.stores.rows import Conditions, Position, asked
from fieldmark.stores.tool_calls import CallRow


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """One thread. `session_id` is the agent's conversation, null before its first turn; `working_state` is what its
    tools remember from turn to turn."""

    id: UUID
    org_id: UUID
    created_by: UUID
    created_at: datetime
    updated_at: datetime
    agent: str
    document_id: UUID | None
    title: str | None
    shared: bool
    session_id: UUID | None
    working_state: dict[str, JsonValue]


_NO_TITLE: Final = "A title is one line of 1 to 200 characters that are seen, without spaces around them."

_COLUMNS = ", ".join(ThreadRow.__dataclass_fields__)


async def add(
    conn: Connection, scope: Scope, *, agent: str, document_id: UUID | None = None, title: str | None = None
) -> ThreadRow:
    """Begin a thread. Raises NotFound for a document that is not of the organisation, or an agent that is none."""
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


async def get(conn: Connection, thread_id: UUID) -> ThreadRow | None:
    """One thread that the caller may see."""
    async with conn.cursor(row_factory=class_row(ThreadRow)) as cursor:
        await cursor.execute(f"select {_COLUMNS} from public.threads where id = %s".encode(), (thread_id,))
        return await cursor.fetchone()


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """Which threads a list has; None asks for nothing. `mine` True: the caller's own; False: what others share."""

    document_id: UUID | None = None
    agent: str | None = None
    mine: bool | None = None


async def list_threads(
    conn: Connection, scope: Scope, *, limit: int, behind: Position | None, wanted: ThreadFilter
) -> list[ThreadRow]:
    """The newest `limit` threads that the caller may see, or those that come behind a position in that order."""
    optional: Conditions = {
        "document_id = %(document_id)s": wanted.document_id,
        "agent = %(agent)s": wanted.agent,
    }
    where: list[LiteralString] = ["org_id = %(org)s", *asked(optional)]
    parameters: dict[str, Any] = {"org": scope.org_id, "user": scope.user_id, "limit": limit, **asdict(wanted)}
    if behind is not None:
        where.append("(created_at, id) < (%(created_at)s, %(id)s)")
        parameters |= behind._asdict()
    # Each half is found by an index of its own: of all that an organisation has, most is somebody else's.
    halves: list[LiteralString] = []
    if wanted.mine is not False:
        halves.append("created_by = %(user)s")
    if wanted.mine is not True:
        halves.append("shared and created_by is distinct from %(user)s")
    order: LiteralString = "order by created_at desc, id desc limit %(limit)s"
    parts = " union all ".join(
        f"(select * from public.threads where {' and '.join([*where, half])} {order})" for half in halves
    )
    async with conn.cursor(row_factory=class_row(ThreadRow)) as cursor:
        await cursor.execute(f"select {_COLUMNS} from ({parts}) as t {order}".encode(), parameters)
        return await cursor.fetchall()


async def talker(conn: Connection, agent: str | None, *, about_one: bool) -> str | None:
    """The agent that can be talked with about one document, or about all: that one, or the first of them; None where
    none can."""
    cursor = await conn.execute(
        """select agent from private.agent_tasks
           where 'thread_id' = any(needs) and ('document_id' = any(needs)) = %s and agent = coalesce(%s, agent)
           order by agent limit 1""",
        (about_one, agent),
    )
    row = await cursor.fetchone()
    return None if row is None else row["agent"]


async def change(conn: Connection, thread_id: UUID, scope: Scope, given: dict[str, str | bool | None]) -> bool:
    """Set the title of one of the caller's threads, or whether it is shared. False where it is none of theirs. Raises
    Invalid for a title that nobody could read."""
    if not given:
        return True
    wanted = ", ".join(f"{name} = %({name})s" for name in ("title", "shared") if name in given)
    try:
        cursor = await conn.execute(
            f"update public.threads set {wanted} where id = %(id)s and created_by = %(user)s".encode(),
            {**given, "id": thread_id, "user": scope.user_id},
        )
    except errors.CheckViolation as error:
        raise Invalid(_NO_TITLE) from error
    return cursor.rowcount > 0


async def remove(conn: Connection, thread_id: UUID) -> None:
    """Delete one of the caller's threads, with its runs and its conversation. Raises NotFound."""
    await conn.execute("select public.delete_thread(%s)", (thread_id,))


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn: a run of the thread. `waiting_run` is the run that waits for a person, it or one that is part of it;
    `call` is the call that it waits for."""

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
    call: CallRow | None


_TURN: Final = [column.name for column in fields(TurnRow) if column.name not in ("call", "status")]
_CALL: Final = ", ".join(f"c.{column.name} as call_{column.name}" for column in fields(CallRow))


async def turns(conn: Connection, thread_id: UUID, *, limit: int, behind: Position | None) -> list[TurnRow]:
    """The newest `limit` turns of a thread, or those that come behind a position in that order."""
    place = "and (created_at, id) < (%(created_at)s, %(id)s)" if behind is not None else ""
    cursor = await conn.execute(
        f"""select r.*, private.waits_behind(r) as waits_behind, w.id as waiting_run, w.agent as waiting_agent, {_CALL}
            from (
              select * from public.runs as r where thread_id = %(thread)s and parent_run_id is null {place}
              order by created_at desc, id desc limit %(limit)s
            ) as r
            left join lateral (
              select part.id, part.agent, part.waiting_call from public.runs as part
              where r.status in ('awaiting_approval', 'awaiting_runs')
                and part.id = any (private.tree_of_run(r.id)) and part.status = 'awaiting_approval'
              order by part.created_at, part.id limit 1
            ) as w on true
            left join public.tool_calls as c on c.run_id = w.id and c.id = w.waiting_call
            order by r.created_at desc, r.id desc""".encode(),
        {"thread": thread_id, "limit": limit, **({} if behind is None else behind._asdict())},
    )
    return [_turn(row) for row in await cursor.fetchall()]


def _turn(row: dict[str, Any]) -> TurnRow:
    call = {column.name: row[f"call_{column.name}"] for column in fields(CallRow)}
    return TurnRow(
        **{name: row[name] for name in _TURN},
        status=RunStatus(row["status"]),
        call=None if call["id"] is None else CallRow(**call),
    )


async def record_conversation(conn: Connection, thread_id: UUID, session_id: UUID) -> None:
    """The conversation that the thread's next turn goes on with."""
    await conn.execute("select private.keep_in_thread(%s, %s, null)", (thread_id, session_id))


async def remember(conn: Connection, thread_id: UUID, state: dict[str, JsonValue]) -> None:
    """Merge into what the thread's tools remember: also in the name of who decides a call in a shared one."""
    await conn.execute("select private.keep_in_thread(%s, null, %s)", (thread_id, Jsonb(state)))


async def was_mentioned(conn: Connection, thread_id: UUID, kind: str, mentioned_id: UUID) -> bool:
    """Whether a person has mentioned something in a message of the thread."""
    cursor = await conn.execute(
        """select from public.runs where thread_id = %s and jsonb_path_exists(
             input, '$.mentions[*] ? (@.type == $type && @.id == $id)',
             jsonb_build_object('type', %s::text, 'id', %s::text))
           limit 1""",
        (thread_id, kind, str(mentioned_id)),
    )
    return await cursor.fetchone() is not None

"""Threads in Postgres: conversations that outlive their runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.identity.scope import Scope


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
    summary: str | None


_COLUMNS = ", ".join(ThreadRow.__dataclass_fields__)


async def add(
    conn: Connection, scope: Scope, *, agent: str, document_id: UUID | None = None, title: str | None = None
) -> ThreadRow:
    """Begin a thread."""
    async with conn.cursor(row_factory=class_row(ThreadRow)) as cursor:
        await cursor.execute(
            f"""insert into public.threads (org_id, agent, document_id, title) values (%s, %s, %s, %s)
                returning {_COLUMNS}""".encode(),
            (scope.org_id, agent, document_id, title),
        )
        row = await cursor.fetchone()
    assert row is not None
    return row


async def get(conn: Connection, thread_id: UUID) -> ThreadRow | None:
    """One thread that the caller may see."""
    async with conn.cursor(row_factory=class_row(ThreadRow)) as cursor:
        await cursor.execute(f"select {_COLUMNS} from public.threads where id = %s".encode(), (thread_id,))
        return await cursor.fetchone()


async def record_conversation(conn: Connection, thread_id: UUID, session_id: UUID) -> None:
    """The conversation that the thread's next turn goes on with."""
    await conn.execute("update public.threads set session_id = %s where id = %s", (session_id, thread_id))


async def remember(conn: Connection, thread_id: UUID, state: dict[str, JsonValue]) -> None:
    """Merge into what the thread's tools remember, whoever of those who see the thread has admitted their calls."""
    await conn.execute("select private.remember_in_thread(%s, %s)", (thread_id, Jsonb(state)))


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

"""Agents' conversations in Postgres, as the lines that the CLI writes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from fieldmark.domain.json_values import JsonObject

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A conversation of an organisation, or a part of one: the subpath is empty for the conversation itself."""

    org_id: UUID
    session_id: str
    subpath: str = ""


_HERE = "org_id = %s and session_id = %s"


async def append(conn: AsyncConnection[Row], part: Part, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add entries in order. One that is there, told by its uuid, is not added again. The caller's fence lets in one
    writer of a conversation at a time: the order of numbers is the order in which entries were appended."""
    await conn.execute(
        """insert into public.agent_sessions (org_id, session_id, subpath, uuid, entry)
           select %(org)s, %(session)s, %(subpath)s, uuid, entry
           from unnest(%(uuids)s::text[], %(entries)s::json[]) with ordinality as given (uuid, entry, n)
           order by n
           on conflict (org_id, session_id, subpath, uuid) where uuid is not null do nothing""",
        {
            "org": part.org_id,
            "session": part.session_id,
            "subpath": part.subpath,
            "uuids": [entry.get("uuid") for entry in entries],
            "entries": [json.dumps(entry) for entry in entries],
        },
    )


async def load(conn: AsyncConnection[Row], part: Part) -> list[JsonObject]:
    """The entries of a conversation, in order; none for one that never was."""
    cursor = await conn.execute(
        f"select entry from public.agent_sessions where {_HERE} and subpath = %s order by number",
        (part.org_id, part.session_id, part.subpath),
    )
    return [row["entry"] for row in await cursor.fetchall()]


async def has_begun(conn: AsyncConnection[Row], part: Part) -> bool:
    """Whether a message of a conversation is stored. The CLI's own notes do not count, although it stores those of a
    `/clear` as messages of the user: a run that continued from them would not know its task."""
    cursor = await conn.execute(
        f"""select 1 as there from public.agent_sessions
            where {_HERE} and (entry ->> 'type' = 'assistant'
              or entry ->> 'type' = 'user' and coalesce(entry ->> 'isMeta', 'false') <> 'true'
                and coalesce(entry -> 'message' ->> 'content', '') not like '<command-name>%%') limit 1""",
        (part.org_id, part.session_id),
    )
    return await cursor.fetchone() is not None


async def deferred_call(conn: AsyncConnection[Row], part: Part) -> str | None:
    """The last call of a conversation that was deferred, if nothing in it tells what became of that."""
    cursor = await conn.execute(
        f"""select entry -> 'attachment' ->> 'toolUseID' as id, number from public.agent_sessions
            where {_HERE} and subpath = '' and entry ->> 'type' = 'attachment'
              and entry -> 'attachment' ->> 'type' = 'hook_deferred_tool'
            order by number desc limit 1""",
        (part.org_id, part.session_id),
    )
    deferred = await cursor.fetchone()
    if deferred is None or deferred["id"] is None:
        return None
    # As text, because the entry may hold what jsonb cannot; `append` has written it, so its spelling is known.
    cursor = await conn.execute(
        f"""select 1 as there from public.agent_sessions
            where {_HERE} and subpath = '' and number > %s and entry ->> 'type' = 'user'
              and position(%s in entry::text) > 0 limit 1""",
        (
            *(part.org_id, part.session_id, deferred["number"]),
            json.dumps({"tool_use_id": deferred["id"]})[1:-1],
        ),
    )
    return None if await cursor.fetchone() else deferred["id"]


async def subpaths(conn: AsyncConnection[Row], part: Part) -> list[str]:
    """The parts of a conversation besides itself."""
    cursor = await conn.execute(
        f"select distinct subpath from public.agent_sessions where {_HERE} and subpath <> ''",
        (part.org_id, part.session_id),
    )
    return [row["subpath"] for row in await cursor.fetchall()]

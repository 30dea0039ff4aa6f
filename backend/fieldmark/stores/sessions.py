"""Agents' conversations in Postgres, as the JSON lines that the CLI writes."""

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
class Transcript:
    """Identifies a conversation of an organisation, or one of its parts. `subpath` is empty for the conversation."""

    org_id: UUID
    session_id: str
    subpath: str = ""


_IN_CONVERSATION = "org_id = %s and session_id = %s"


async def append(conn: AsyncConnection[Row], transcript: Transcript, entries: Sequence[Mapping[str, Any]]) -> None:
    """Append entries in order, except those whose uuid is stored already. The caller's fence allows one writer at a
    time, so entries are numbered in the order of the calls."""
    await conn.execute(
        """insert into public.agent_sessions (org_id, session_id, subpath, uuid, entry)
           select %(org)s, %(session)s, %(subpath)s, uuid, entry
           from unnest(%(uuids)s::text[], %(entries)s::json[]) with ordinality as entries (uuid, entry, n)
           order by n
           on conflict (org_id, session_id, subpath, uuid) where uuid is not null do nothing""",
        {
            "org": transcript.org_id,
            "session": transcript.session_id,
            "subpath": transcript.subpath,
            "uuids": [entry.get("uuid") for entry in entries],
            "entries": [json.dumps(entry) for entry in entries],
        },
    )


async def load(conn: AsyncConnection[Row], transcript: Transcript) -> list[JsonObject]:
    """Return the entries of a conversation in order. The list is empty for an unknown conversation."""
    cursor = await conn.execute(
        f"select entry from public.agent_sessions where {_IN_CONVERSATION} and subpath = %s order by number",
        (transcript.org_id, transcript.session_id, transcript.subpath),
    )
    return [row["entry"] for row in await cursor.fetchall()]


async def has_messages(conn: AsyncConnection[Row], transcript: Transcript) -> bool:
    """Return whether a conversation has stored messages. The CLI's own notes, such as a `/clear` stored as a user
    message, do not count: a run that continued from them would not know its task."""
    cursor = await conn.execute(
        f"""select 1 as found from public.agent_sessions
            where {_IN_CONVERSATION} and (entry ->> 'type' = 'assistant'
              or entry ->> 'type' = 'user' and coalesce(entry ->> 'isMeta', 'false') <> 'true'
                and coalesce(entry -> 'message' ->> 'content', '') not like '<command-name>%%') limit 1""",
        (transcript.org_id, transcript.session_id),
    )
    return await cursor.fetchone() is not None


async def deferred_call(conn: AsyncConnection[Row], transcript: Transcript) -> str | None:
    """Return the id of a conversation's last deferred call if the conversation has no result for it, else None."""
    cursor = await conn.execute(
        f"""select entry -> 'attachment' ->> 'toolUseID' as id, number from public.agent_sessions
            where {_IN_CONVERSATION} and subpath = '' and entry ->> 'type' = 'attachment'
              and entry -> 'attachment' ->> 'type' = 'hook_deferred_tool'
            order by number desc limit 1""",
        (transcript.org_id, transcript.session_id),
    )
    deferred = await cursor.fetchone()
    if deferred is None or deferred["id"] is None:
        return None
    # Compared as text, because jsonb cannot represent every entry; `append` serialised it, so its format is known.
    cursor = await conn.execute(
        f"""select 1 as found from public.agent_sessions
            where {_IN_CONVERSATION} and subpath = '' and number > %s and entry ->> 'type' = 'user'
              and position(%s in entry::text) > 0 limit 1""",
        (
            *(transcript.org_id, transcript.session_id, deferred["number"]),
            json.dumps({"tool_use_id": deferred["id"]})[1:-1],
        ),
    )
    return None if await cursor.fetchone() else deferred["id"]


async def subpaths(conn: AsyncConnection[Row], transcript: Transcript) -> list[str]:
    cursor = await conn.execute(
        f"select distinct subpath from public.agent_sessions where {_IN_CONVERSATION} and subpath <> ''",
        (transcript.org_id, transcript.session_id),
    )
    return [row["subpath"] for row in await cursor.fetchall()]

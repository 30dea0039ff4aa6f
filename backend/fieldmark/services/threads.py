"""Threads: begun, listed, renamed, shared, deleted; and what was said in them, turn by turn."""

from __future__ import annotations

import re
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.invisible import IN_A_KEY
from fieldmark.errors import Conflict, Forbidden, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import threads
from fieldmark.stores.paging import Cursor, Page, page_of
from fieldmark.stores.threads import ThreadFilter, ThreadRow, TurnRow

MAX_TITLE = 100
"""Characters of a title that is made of a message."""
_UNSEEN = re.compile(IN_A_KEY)


def title_of(message: str) -> str | None:
    """A title made of a message: its beginning in one line, of characters that are seen; None where it has none."""
    line = " ".join(_UNSEEN.sub("", message).split())
    return "".join(character for character in line if character.isprintable())[:MAX_TITLE].strip() or None


async def create(
    conn: Connection, scope: Scope, document_id: UUID | None, *, agent: str | None = None, title: str | None = None
) -> ThreadRow:
    """A new thread about a document, or about all, with the agent that can be talked with if none is named. Raises
    NotFound for the document or the agent, Invalid for the title."""
    talker = await threads.talker(conn, agent, about_one=document_id is not None)
    if talker is None:
        about = "all documents: give a document_id" if document_id is None else "a document"
        raise NotFound(f"There is no such agent that can be talked with about {about}.")
    return await threads.add(conn, scope, agent=talker, document_id=document_id, title=title)


async def for_message(
    conn: Connection,
    scope: Scope,
    thread_id: UUID | None,
    message: str,
    *,
    agent: str,
    document_id: UUID | None = None,
) -> ThreadRow:
    """The caller's own thread that a message goes on with, or a new one with its beginning as the title. Raises
    NotFound, and Conflict for one with another agent."""
    if thread_id is None:
        return await threads.add(conn, scope, agent=agent, document_id=document_id, title=title_of(message))
    row = await threads.get(conn, thread_id)
    if row is None or row.created_by != scope.user_id or row.document_id != document_id:
        raise NotFound("There is no such conversation of yours" + (" on this document." if document_id else "."))
    if row.agent != agent:
        raise Conflict("The conversation is one with another agent.")
    return row


async def get(conn: Connection, thread_id: UUID) -> ThreadRow:
    """One thread, of the caller or shared with them. Raises NotFound."""
    row = await threads.get(conn, thread_id)
    if row is None:
        raise NotFound("There is no such thread.")
    return row


async def list_page(
    conn: Connection, scope: Scope, wanted: ThreadFilter, *, limit: int, before: str | None = None
) -> Page[ThreadRow]:
    """A page of the threads that the caller may see, the newest first. Raises Invalid for a cursor that is none."""
    behind = None if before is None else Cursor.parse(before, "threads").position
    rows = await threads.list_threads(conn, scope, limit=limit + 1, behind=behind, wanted=wanted)
    return page_of(rows, limit, "threads")


async def turns_page(conn: Connection, thread_id: UUID, *, limit: int, before: str | None = None) -> Page[TurnRow]:
    """A page of what was said in a thread, the newest first. Raises Invalid for a cursor that is none."""
    behind = None if before is None else Cursor.parse(before, "turns").position
    return page_of(await threads.turns(conn, thread_id, limit=limit + 1, behind=behind), limit, "turns")


async def change(conn: Connection, scope: Scope, thread_id: UUID, given: dict[str, str | bool | None]) -> ThreadRow:
    """A thread after its `title` was set, or whether it is `shared`. Raises NotFound, Forbidden for somebody else's,
    Invalid for the title."""
    await _own(conn, scope, thread_id)
    if not await threads.change(conn, thread_id, scope, given):
        raise NotFound("There is no such thread.")
    return await get(conn, thread_id)


async def remove(conn: Connection, scope: Scope, thread_id: UUID) -> None:
    """Delete a thread with all that was said in it; runs at work end. Raises NotFound, Forbidden for another's."""
    await _own(conn, scope, thread_id)
    await threads.remove(conn, thread_id)


async def _own(conn: Connection, scope: Scope, thread_id: UUID) -> None:
    if (await get(conn, thread_id)).created_by != scope.user_id:
        raise Forbidden("Only who has begun a thread renames, shares or deletes it.")

"""Who checks a document, and what members write to each other about it, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.errors import NotFound
from fieldmark.stores.rows import fetch_all, fetch_one, value_of

MAX_COMMENTS: Final = 200
"""Comments of a document that are returned, the newest ones."""

_COLUMNS: Final = "id, path, body, created_by, created_at"
_NO_DOCUMENT: Final = "There is no such document."


@dataclass(frozen=True, slots=True)
class Comment:
    """What a member wrote about a document, or about one of its values."""

    id: UUID
    path: Annotated[str | None, Field(description="The path of the value. null: about the document.")]
    body: str
    created_by: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Discussion:
    """Who checks a document, and its newest 200 comments, the oldest first."""

    assignee_id: Annotated[UUID | None, Field(description="null: no one in particular.")]
    comments: Sequence[Comment]


async def discussion_of(conn: Connection, document_id: UUID) -> Discussion:
    """Raise NotFound."""
    if not await value_of(conn, "select exists (select from public.documents where id = %s)", (document_id,)):
        raise NotFound(_NO_DOCUMENT)
    rows = await fetch_all(
        conn,
        Comment,
        f"""select {_COLUMNS} from (
              select {_COLUMNS} from public.comments where document_id = %s
              order by created_at desc, id desc limit %s) as newest
            order by created_at, id""",
        (document_id, MAX_COMMENTS),
    )
    assignee = await value_of(conn, "select assignee_id from public.documents where id = %s", (document_id,))
    return Discussion(assignee, rows)


async def assign(conn: Connection, document_id: UUID, user_id: UUID | None) -> None:
    """Assign a document to a member who may write, or to no one. Raise NotFound for the document or the member."""
    await conn.execute("select public.assign_document(%s, %s)", (document_id, user_id))


async def add(conn: Connection, document_id: UUID, path: str | None, body: str) -> Comment:
    """Raise NotFound."""
    row = await fetch_one(
        conn,
        Comment,
        f"""insert into public.comments (org_id, document_id, path, body)
            select org_id, id, %s, %s from public.documents where id = %s returning {_COLUMNS}""",
        (path, body, document_id),
    )
    if row is None:
        raise NotFound(_NO_DOCUMENT)
    return row


async def remove(conn: Connection, document_id: UUID, comment_id: UUID) -> None:
    """Delete a comment. A member can delete their own, an owner any. Raise NotFound."""
    query = "select public.delete_comment(id) from public.comments where id = %s and document_id = %s"
    if not (await conn.execute(query, (comment_id, document_id))).rowcount:
        raise NotFound("There is no such comment.")

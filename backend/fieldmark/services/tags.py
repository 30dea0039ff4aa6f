"""Tags: made, changed, listed, deleted, put on documents and taken off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services.paging import Cursor, Page, page_of
from fieldmark.stores import tags
from fieldmark.stores.rows import TagRow

GREY = "#808080"


@dataclass(frozen=True, slots=True)
class TagReferences:
    """On how many documents and in how many prompts a tag is."""

    documents: int
    prompts: int


async def create(conn: Connection, scope: Scope, name: str, colour: str = GREY) -> TagRow:
    """A new tag. Raises NameTaken, Invalid."""
    return await get(conn, await tags.add(conn, scope.org_id, name, colour))


async def update(conn: Connection, tag_id: UUID, *, name: str | None = None, colour: str | None = None) -> TagRow:
    """A tag after its name or its colour has changed. Raises NotFound, NameTaken, Invalid."""
    await tags.update(conn, tag_id, name=name, colour=colour)
    return await get(conn, tag_id)


async def get(conn: Connection, tag_id: UUID) -> TagRow:
    """One tag, also a deleted one. Raises NotFound."""
    row = await tags.get(conn, tag_id)
    if row is None:
        raise NotFound("There is no such tag.")
    return row


async def named(conn: Connection, scope: Scope, name: str) -> Page[TagRow]:
    """The tag that has a name, in capitals or not, as a list of one; else an empty one."""
    row = await tags.by_name(conn, scope.org_id, name)
    return Page([] if row is None else [row], None)


async def list_page(
    conn: Connection, scope: Scope, *, name: str | None = None, limit: int, before: str | None = None
) -> Page[TagRow]:
    """A page of the organisation's tags, the newest first. Raises Invalid for a cursor that is none."""
    behind = None if before is None else Cursor.parse(before, "tags").position
    rows = await tags.list_tags(conn, scope.org_id, name=name, limit=limit + 1, behind=behind)
    return page_of(rows, limit, "tags")


async def remove(conn: Connection, tag_id: UUID) -> TagReferences:
    """Hide a tag: it stands on no document any more. Raises NotFound."""
    return TagReferences(*await tags.remove(conn, tag_id))


async def references(conn: Connection, tag_id: UUID) -> TagReferences:
    """Where a tag is."""
    return TagReferences(*await tags.references(conn, tag_id))


async def of_document(conn: Connection, document_id: UUID) -> list[TagRow]:
    """The tags of a document, by name."""
    return (await tags.of_documents(conn, [document_id])).get(document_id, [])


async def set_of_document(conn: Connection, document_id: UUID, wanted: Sequence[UUID]) -> None:
    """Let a document have these tags and no others. Raises NotFound for a document or a tag, Invalid for too many."""
    await tags.set_of_document(conn, document_id)  # which nobody else tags until this transaction ends
    had = {tag.id for tag in await of_document(conn, document_id)}
    await tags.set_of_document(
        conn, document_id, add=[one for one in wanted if one not in had], remove=list(had - set(wanted))
    )

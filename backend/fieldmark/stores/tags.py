"""Tags in Postgres, and which documents have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import Conditions, Position, TagRow, asked, cursor_of

_COLUMNS: Final[LiteralString] = """
    t.id, t.name, t.colour, t.created_by, t.created_at, t.deleted_at is not null as is_deleted,
    private.is_proposed(t.run_id) as is_proposed"""


async def add(conn: Connection, org_id: UUID, name: str, colour: str) -> UUID:
    """The id of a new tag. Raises NotFound, NameTaken, Invalid."""
    cursor = await conn.execute("select public.create_tag(%s, %s, %s) as id", (org_id, name, colour))
    row = await cursor.fetchone()
    assert row is not None
    return row["id"]


async def update(conn: Connection, tag_id: UUID, *, name: str | None, colour: str | None) -> None:
    """Change a tag's name, or its colour, or both. Raises NotFound, NameTaken, Invalid."""
    await conn.execute("select public.update_tag(%s, %s, %s)", (tag_id, name, colour))


async def remove(conn: Connection, tag_id: UUID) -> tuple[int, int]:
    """Hide a tag. On how many documents and in how many prompts it was. Raises NotFound."""
    cursor = await conn.execute("select documents, prompts from public.delete_tag(%s)", (tag_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["documents"], row["prompts"]


async def references(conn: Connection, tag_id: UUID) -> tuple[int, int]:
    """On how many documents and in how many prompts a tag is."""
    cursor = await conn.execute("select documents, prompts from private.references_to_tag(%s)", (tag_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["documents"], row["prompts"]


async def get(conn: Connection, tag_id: UUID) -> TagRow | None:
    """One tag, also one that is deleted."""
    cursor = await cursor_of(conn, TagRow, f"select {_COLUMNS} from public.tags as t where t.id = %s", (tag_id,))
    return await cursor.fetchone()


async def by_name(conn: Connection, org_id: UUID, name: str) -> TagRow | None:
    """The tag that has a name, in capitals or not."""
    cursor = await cursor_of(
        conn,
        TagRow,
        f"""select {_COLUMNS} from public.tags as t
            where t.org_id = %s and lower(t.name) = lower(%s) and t.deleted_at is null""",
        (org_id, name),
    )
    return await cursor.fetchone()


async def list_tags(
    conn: Connection, org_id: UUID, *, name: str | None, limit: int, behind: Position | None
) -> list[TagRow]:
    """The newest `limit` tags of an organisation, or those that come behind a position in that order. `name` is a part
    of theirs."""
    conditions: Conditions = {"position(lower(%(name)s) in lower(t.name)) > 0": name}
    where: list[LiteralString] = ["t.org_id = %(org)s", "t.deleted_at is null", *asked(conditions)]
    parameters: dict[str, Any] = {"org": org_id, "name": name, "limit": limit}
    if behind is not None:
        where.append("(t.created_at, t.id) < (%(created_at)s, %(id)s)")
        parameters |= behind._asdict()
    cursor = await cursor_of(
        conn,
        TagRow,
        f"""select {_COLUMNS} from public.tags as t where {" and ".join(where)}
            order by t.created_at desc, t.id desc limit %(limit)s""",
        parameters,
    )
    return await cursor.fetchall()


async def of_documents(conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, list[TagRow]]:
    """The tags of documents, by name; a document without any is left out."""
    cursor = await conn.execute(
        f"""select d.document_id, {_COLUMNS} from public.document_tags as d join public.tags as t on t.id = d.tag_id
            where d.document_id = any(%s) and t.deleted_at is null order by lower(t.name), t.id""",
        (list(document_ids),),
    )
    found: dict[UUID, list[TagRow]] = {}
    for row in await cursor.fetchall():
        found.setdefault(row.pop("document_id"), []).append(TagRow(**row))
    return found


async def set_of_document(
    conn: Connection, document_id: UUID, *, add: Sequence[UUID] = (), remove: Sequence[UUID] = ()
) -> None:
    """Put tags on a document and take others off. Raises NotFound for a document or a tag, Invalid for too many."""
    await conn.execute("select public.tag_document(%s, %s, %s)", (document_id, list(add), list(remove)))

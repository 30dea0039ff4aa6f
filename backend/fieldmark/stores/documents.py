"""Documents and their pages in Postgres."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from fieldmark.identity.scope import Scope

Row = dict[str, Any]

_COLUMNS = "id, filename, media_type, byte_size, page_count, status, error, created_at, storage_path"


async def add(
    conn: AsyncConnection[Row], *, document_id: UUID, org_id: UUID, filename: str, storage_path: str, byte_size: int
) -> Row | None:
    """Insert a document; its trigger puts the reading into the queue in the same transaction. None where the id is
    taken, by whomever."""
    cursor = await conn.execute(
        f"""insert into public.documents (id, org_id, filename, storage_path, byte_size)
            values (%s, %s, %s, %s, %s) on conflict (id) do nothing returning {_COLUMNS}""",
        (document_id, org_id, filename, storage_path, byte_size),
    )
    return await cursor.fetchone()


async def get(conn: AsyncConnection[Row], document_id: UUID) -> Row | None:
    """One document of the caller's organisation."""
    cursor = await conn.execute(f"select {_COLUMNS} from public.documents where id = %s", (document_id,))
    return await cursor.fetchone()


async def scope_of(conn: AsyncConnection[Row], document_id: UUID) -> Scope | None:
    """On whose behalf a document is read. Asked by the service, outside of any scope."""
    cursor = await conn.execute("select user_id, org_id from private.scope_of_document(%s)", (document_id,))
    row = await cursor.fetchone()
    return Scope(row["user_id"], row["org_id"]) if row else None


async def abandon(conn: AsyncConnection[Row], document_id: UUID, reason: str) -> None:
    """Fail a document that no worker can read. Called by the service, outside of any scope."""
    await conn.execute("select private.fail_document(%s, %s)", (document_id, reason))


async def list_documents(conn: AsyncConnection[Row], org_id: UUID, *, limit: int, before: UUID | None) -> list[Row]:
    """The newest `limit` documents of an organisation, or those that follow `before` in that order."""
    cursor = await conn.execute(
        f"""select {_COLUMNS} from public.documents
            where org_id = %(org)s and (
                %(before)s::uuid is null
                or (created_at, id) < (select created_at, id from public.documents where id = %(before)s))
            order by created_at desc, id desc limit %(limit)s""",
        {"org": org_id, "before": before, "limit": limit},
    )
    return await cursor.fetchall()


async def remove(conn: AsyncConnection[Row], document_id: UUID) -> str | None:
    """Delete a document with all that hangs on it; answers where its original lies, None if there was none."""
    cursor = await conn.execute("delete from public.documents where id = %s returning storage_path", (document_id,))
    row = await cursor.fetchone()
    return row["storage_path"] if row else None


async def begin_reading(conn: AsyncConnection[Row], document_id: UUID) -> Row | None:
    """Lock a document that is to be read and drop what an interrupted reading left; None if there is none."""
    cursor = await conn.execute(
        f"select {_COLUMNS} from public.documents where id = %s and status = 'reading' for update", (document_id,)
    )
    row = await cursor.fetchone()
    if row is not None:
        await conn.execute("delete from public.document_pages where document_id = %s", (document_id,))
    return row


async def add_pages(conn: AsyncConnection[Row], document_id: UUID, org_id: UUID, pages: list[Row]) -> None:
    """Write pages: {number, width, height, text, words, engine, hidden_words?, hidden_excerpt?} each."""
    async with conn.cursor() as cursor:
        await cursor.executemany(
            """insert into public.document_pages
                 (document_id, org_id, number, width, height, text, words, engine, hidden_words, hidden_excerpt)
               values (%(document_id)s, %(org_id)s, %(number)s, %(width)s, %(height)s, %(text)s, %(words)s, %(engine)s,
                       %(hidden_words)s, %(hidden_excerpt)s)""",
            [
                {"hidden_words": 0, "hidden_excerpt": ""}
                | page
                | {"document_id": document_id, "org_id": org_id, "words": Jsonb(page["words"])}
                for page in pages
            ],
        )


async def finish_reading(conn: AsyncConnection[Row], document_id: UUID, *, media_type: str, page_count: int) -> None:
    """The document is ready; its trigger puts waiting runs into the queue in the same transaction."""
    await conn.execute(
        "update public.documents set status = 'ready', media_type = %s, page_count = %s where id = %s",
        (media_type, page_count, document_id),
    )


async def fail_reading(conn: AsyncConnection[Row], document_id: UUID, reason: str) -> None:
    """The document cannot be read; its trigger fails the runs that wait for it."""
    await conn.execute(
        "update public.documents set status = 'failed', error = %s where id = %s and status = 'reading'",
        (reason, document_id),
    )


async def pages(conn: AsyncConnection[Row], document_id: UUID, first: int = 1, last: int | None = None) -> list[Row]:
    """{number, text} of pages `first` to `last`, in order."""
    cursor = await conn.execute(
        """select number, text from public.document_pages
           where document_id = %s and number between %s and %s order by number""",
        (document_id, first, 2**31 - 1 if last is None else last),
    )
    return await cursor.fetchall()


async def words(conn: AsyncConnection[Row], document_id: UUID) -> list[Row]:
    """{number, words} of every page, in order."""
    cursor = await conn.execute(
        "select number, words from public.document_pages where document_id = %s order by number", (document_id,)
    )
    return await cursor.fetchall()


async def unread_pages(conn: AsyncConnection[Row], run_id: UUID) -> list[int]:
    """The pages with text that a run has not read to their end. None where it is not asked to read: a correction."""
    cursor = await conn.execute(
        """select page.number from public.runs as run
           join public.document_pages as page using (document_id)
           where run.id = %s and run.task = 'extract' and not run.pages_read @> page.number and page.text ~ '\\S'
           order by page.number""",
        (run_id,),
    )
    return [row["number"] for row in await cursor.fetchall()]


async def page(conn: AsyncConnection[Row], document_id: UUID, number: int) -> Row | None:
    """One page with its words: {number, width, height, text, words, engine}."""
    cursor = await conn.execute(
        """select number, width, height, text, words, engine from public.document_pages
           where document_id = %s and number = %s""",
        (document_id, number),
    )
    return await cursor.fetchone()


async def hidden(conn: AsyncConnection[Row], document_id: UUID) -> list[Row]:
    """{number, hidden_words, hidden_excerpt} of the pages from which words were left out, in order."""
    cursor = await conn.execute(
        """select number, hidden_words, hidden_excerpt from public.document_pages
           where document_id = %s and hidden_words > 0 order by number""",
        (document_id,),
    )
    return await cursor.fetchall()

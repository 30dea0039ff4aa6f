"""Documents and their pages in Postgres. For a document that the caller cannot see, `find` returns None and `get`
raises NotFound."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import DocumentOrder, DocumentStage, DocumentStatus
from fieldmark.errors import Conflict, DocumentFailed, ExternalIdTaken, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores.paging import ListPage, OffsetPageRequest, PageRequest
from fieldmark.stores.rows import (
    SHOWN_EXTRACTION,
    Conditions,
    DocumentRow,
    NewChildDocument,
    PageText,
    active_conditions,
    fetch_all,
    fetch_one,
    large_json,
    large_rows,
    value_of,
)
from pagewords import Page, ReadingWarning, Word
from valuegrounding import PageWords

_STAGE: LiteralString = """(case documents.status when 'reading' then 'processing' when 'failed' then 'failed'
  else coalesce(
    (select stage from private.document_activities where document_id = documents.id order by precedence limit 1),
    documents.extraction_stage) end)"""
"""Computes the `DocumentStage` of a row of documents."""

FIRST_COPY: LiteralString = """select first.id from public.documents as first
  where first.org_id = {document}.org_id and first.content_sha256 = {document}.content_sha256
    and (first.created_at, first.id) < ({document}.created_at, {document}.id)
  order by first.created_at, first.id limit 1"""
"""Selects the first upload of a document's bytes, unless it is the document. (Not a view: a row that is inserted has to
be asked before other statements see it. In stacks the first copy that was added counts: private.stack_copies.)"""

_COLUMNS = (
    "id, filename, media_type, byte_size, page_count, status, error, error_code, parent_document_id, created_at, "
    "created_by, assignee_id, "
    "storage_path, unlocked_path, content_sha256, external_id, metadata, "
    f"({FIRST_COPY.format(document='documents')}) as duplicate_of, "
    "(select jsonb_build_object('status', a.status, 'schema_revid', a.schema_revid, 'prompt_revid', a.prompt_revid, "
    "'extraction_id', a.extraction_id, 'run_id', a.run_id, 'error', a.error, 'matched', a.matched, "
    "'error_code', case when a.status = 'failed' then coalesce(r.error_code, case r.status when 'completed' "
    "then 'agent_stopped' end) end) "
    "from public.auto_creations as a left join public.runs as r on r.id = a.run_id "
    "where a.document_id = documents.id) as auto_create, "
    "(select coalesce(jsonb_agg(jsonb_build_object("
    "'id', t.id, 'name', t.name, 'color', t.color) order by lower(t.name), t.id), '[]') "
    "from public.document_tags as has join public.tags as t on t.id = has.tag_id "
    "where has.document_id = documents.id and t.deleted_at is null) as tags, "
    f"(select e.id {SHOWN_EXTRACTION.format(which='e.document_id = documents.id')}) as shown_extraction_id, "
    "(select coalesce(sum(review_count), 0)::integer from private.current_by_schema where document_id = documents.id) "
    f"as to_review, {_STAGE} as stage"
)
_ORDERS: Mapping[DocumentOrder, LiteralString] = {
    DocumentOrder.ADDED: "created_at",
    DocumentOrder.NAME: "lower(filename)",
    DocumentOrder.PAGES: "page_count",
    # The mean chance that a value which waits for a look is wrong, times the share of the document's looks that one is.
    DocumentOrder.REVIEW: """(
        select sum(case f.status when 'needs_review' then 1 else 1 - coalesce(f.confidence, 0) end) / count(*) ^ 2
        from private.current_by_schema as e join public.fields as f on f.extraction_id = e.id
        where e.document_id = documents.id and f.status in ('needs_review', 'unclear'))""",
}
_MOST_BY_REVIEW = 1000
"""The newest documents, of which the order REVIEW is computed."""

# How an index finds the documents at a stage. (With `in`, the planner may read all documents in order.)
_AT_STAGE: Mapping[DocumentStage, LiteralString] = {
    DocumentStage.PROCESSING: "status = 'reading'",
    DocumentStage.FAILED: "status = 'failed'",
    **dict.fromkeys(
        (DocumentStage.EXTRACTING, DocumentStage.AWAITING_APPROVAL, DocumentStage.PROPOSED),
        f"""id = any (array(
            select document_id from private.document_activities where org_id = %(org)s and stage = %(stage)s))
          and {_STAGE} = %(stage)s""",
    ),
    **dict.fromkeys(
        (DocumentStage.READY, DocumentStage.NEEDS_REVIEW, DocumentStage.EXTRACTED, DocumentStage.REVIEWED),
        """extraction_stage = %(stage)s and status = 'ready'
          and id not in (select document_id from private.document_activities where org_id = %(org)s)""",
    ),
}

# Sorted by an index on the creation time of the documents.
_TAGGED: LiteralString = """public.documents join (
    select document_id, document_created_at as tagged_at from public.document_tags
    where tag_id = (select t.id from public.tags as t where t.id = %(tag_id)s and t.deleted_at is null)
  ) as tagged on tagged.document_id = documents.id"""


@dataclass(frozen=True, slots=True)
class RequestedExtraction:
    """That a document is extracted once it is read, under a version of a schema or without one."""

    schema_revid: UUID | None


async def add(
    conn: Connection,
    *,
    document_id: UUID,
    org_id: UUID,
    filename: str,
    storage_path: str,
    byte_size: int,
    unlocked_path: str | None = None,
    content_sha256: str | None = None,
    auto_create: bool | None = None,
    external_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    extraction: RequestedExtraction | None = None,
) -> DocumentRow | None:
    """Insert a document and return it; a trigger queues its reading. Return None if the id or the external id is
    taken. Raise QuotaExceeded, QueueFull."""
    # Without a conflict target: of two inserts at once, the later may meet `unique (id, org_id)` before the key.
    return await fetch_one(
        conn,
        DocumentRow,
        f"""insert into public.documents (id, org_id, filename, storage_path, byte_size, unlocked_path, content_sha256,
              auto_create, external_id, metadata, extract_when_read, extract_revid)
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing returning {_COLUMNS}""",
        (
            document_id,
            org_id,
            filename,
            storage_path,
            byte_size,
            unlocked_path,
            content_sha256,
            auto_create,
            external_id,
            Jsonb(dict(metadata or {})),
            extraction is not None,
            extraction and extraction.schema_revid,
        ),
    )


async def has_target(conn: Connection, document_id: UUID) -> bool:
    """Return whether it has been said what a document becomes: an extraction, a row of a stack's table, a suggestion,
    or nothing yet (`auto_create` is false)."""
    return await value_of(
        conn,
        """select auto_create is not null or extract_when_read
             or exists (select from public.stack_documents where document_id = d.id)
             or exists (select from public.extractions where document_id = d.id)
           from public.documents as d where id = %s""",
        (document_id,),
    )


async def request_extraction(conn: Connection, document_id: UUID, extraction: RequestedExtraction) -> None:
    """Have a document extracted once it is read, and the files inside it."""
    await conn.execute(
        "update public.documents set extract_when_read = true, extract_revid = %s where id = %s",
        (extraction.schema_revid, document_id),
    )


async def check_external_id(conn: Connection, org_id: UUID, external_id: str | None) -> None:
    """Raise ExternalIdTaken if a document of the organisation has this external id."""
    query = "select id from public.documents where org_id = %s and external_id = %s"
    if (taken := await value_of(conn, query, (org_id, external_id))) is not None:
        raise ExternalIdTaken(
            f"Another document has the external id {external_id!r}. Read it with GET /api/documents/{taken}.",
            {"document_id": str(taken)},
        )


@dataclass(frozen=True, slots=True)
class OwnData:
    """The caller's own key and data of a document."""

    external_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


async def own_data(conn: Connection, document_ids: Sequence[UUID | None]) -> dict[UUID | None, OwnData]:
    """Return the caller's own key and data of each of these documents, of which None has none."""
    query = "select id, external_id, metadata from public.documents where id = any (%s::uuid[])"
    rows = await (await conn.execute(query, (list(document_ids),))).fetchall()
    return {row["id"]: OwnData(row["external_id"], row["metadata"]) for row in rows}


async def set_own_data(
    conn: Connection, document_id: UUID, *, external_id: str | None, metadata: Mapping[str, Any] | None
) -> None:
    """Replace the caller's own key and data of a document, of which None stays unchanged. Raise NotFound, and
    ExternalIdTaken."""
    row = await get(conn, document_id)
    if external_id is not None and external_id != row.external_id:
        org_id = await value_of(conn, "select org_id from public.documents where id = %s", (document_id,))
        await check_external_id(conn, org_id, external_id)
    await conn.execute(
        """update public.documents set external_id = coalesce(%s, external_id), metadata = coalesce(%s, metadata)
           where id = %s""",
        (external_id, None if metadata is None else Jsonb(dict(metadata)), document_id),
    )


async def add_children(conn: Connection, parent_id: UUID, org_id: UUID, children: Sequence[NewChildDocument]) -> None:
    """Insert documents for the files found inside a document, in order. They inherit its `auto_create` choice, its
    requested extraction and its stacks. Raise QueueFull, QuotaExceeded."""
    await conn.execute(
        """with added as (
             insert into public.documents
               (id, org_id, filename, storage_path, byte_size, content_sha256, parent_document_id, number_in_parent,
                auto_create, extract_when_read, extract_revid)
             select child.id, %(org)s, child.filename, path, size, sha256, %(parent)s, number, p.auto_create,
               p.extract_when_read, p.extract_revid
             from public.documents as p cross join unnest(
               %(ids)s::uuid[], %(names)s::text[], %(paths)s::text[], %(sizes)s::bigint[], %(hashes)s::text[])
               with ordinality as child (id, filename, path, size, sha256, number)
             where p.id = %(parent)s returning id)
           insert into public.stack_documents (org_id, stack_id, document_id)
           select %(org)s, s.stack_id, added.id from public.stack_documents as s cross join added
           where s.document_id = %(parent)s""",
        {
            "org": org_id,
            "parent": parent_id,
            "ids": [child.id for child in children],
            "names": [child.filename for child in children],
            "paths": [child.storage_path for child in children],
            "sizes": [child.byte_size for child in children],
            "hashes": [child.content_sha256 for child in children],
        },
    )


async def record_size(conn: Connection, document_id: UUID, byte_size: int) -> None:
    """Correct the size of a document's file. Raise QuotaExceeded."""
    await conn.execute("update public.documents set byte_size = %s where id = %s", (byte_size, document_id))


async def children(conn: Connection, document_id: UUID) -> list[DocumentRow]:
    return await fetch_all(
        conn,
        DocumentRow,
        f"select {_COLUMNS} from public.documents where parent_document_id = %s order by number_in_parent",
        (document_id,),
    )


async def count_enclosed(conn: Connection, document_id: UUID) -> tuple[int, int, int]:
    """Return the number, the total bytes and the pages read so far of the documents inside a document, at any depth."""
    cursor = await conn.execute("select files, bytes, pages from private.count_enclosed(%s)", (document_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["files"], row["bytes"], row["pages"]


async def lock(conn: Connection, document_id: UUID) -> bool:
    """Lock a document until the transaction ends. Return whether it exists."""
    cursor = await conn.execute("select from public.documents where id = %s for update", (document_id,))
    return await cursor.fetchone() is not None


async def find(conn: Connection, document_id: UUID) -> DocumentRow | None:
    return await fetch_one(conn, DocumentRow, f"select {_COLUMNS} from public.documents where id = %s", (document_id,))


async def get(conn: Connection, document_id: UUID) -> DocumentRow:
    row = await find(conn, document_id)
    if row is None:
        raise NotFound("The document does not exist.")
    return row


async def status_of(conn: Connection, document_id: UUID) -> DocumentStatus | None:
    return await value_of(conn, "select status from public.documents where id = %s", (document_id,))


async def find_read(conn: Connection, document_id: UUID) -> DocumentRow:
    """Return a document that has been read. Raise NotFound, DocumentFailed with the reason, or Conflict while it is
    being read."""
    row = await get(conn, document_id)
    if row.status is DocumentStatus.FAILED:
        raise DocumentFailed(row.error or "The document could not be read.")
    if row.status is not DocumentStatus.READY:
        raise Conflict("The document is still being read. Try again when its status is ready.")
    return row


async def filenames_of_identical_documents(conn: Connection, document_ids: Collection[UUID]) -> list[str]:
    """Return the filenames of those of these documents that are byte-identical to another one, grouped by content."""
    cursor = await conn.execute(
        """select filename from (
             select *, count(*) over (partition by content_sha256) as copies from public.documents
             where id = any (%s) and content_sha256 is not null) as d
           where copies > 1 order by content_sha256, created_at, id""",
        (list(document_ids),),
    )
    return [row["filename"] async for row in cursor]


async def scope_of(conn: Connection, document_id: UUID) -> Scope | None:
    """Return the user and organisation that a document is read for. Needs a connection as the service."""
    return await fetch_one(conn, Scope, "select user_id, org_id from private.scope_of_document(%s)", (document_id,))


async def abandon(conn: Connection, document_id: UUID, reason: str) -> None:
    """Fail a document that no worker can read. Needs a connection as the service."""
    await conn.execute("select private.fail_document(%s, %s)", (document_id, reason))


@dataclass(frozen=True, slots=True)
class DocumentListFilter:
    """Filters of a list of documents; None matches all. `name` is part of the filename, ignoring case. Documents were
    uploaded from `since` (inclusive) to `until` (exclusive). `open_field` is the pattern of a field, such as
    `items[].price`, that a person has to look at."""

    parent_id: UUID | None = None
    status: DocumentStatus | None = None
    media_type: str | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tag_id: UUID | None = None
    ids: list[UUID] | None = None
    stage: DocumentStage | None = None
    stack_id: UUID | None = None
    schema_id: UUID | None = None
    created_by: UUID | None = None
    assignee_id: UUID | None = None
    open_field: str | None = None
    external_id: str | None = None
    changed_since: datetime | None = None

    def conditions(self) -> list[LiteralString]:
        """Return the conditions of the filters that are set, with parameters named after them."""
        conditions: Conditions = {
            "parent_document_id = %(parent_id)s": self.parent_id,
            "status = %(status)s": self.status,
            "media_type = %(media_type)s": self.media_type,
            "position(lower(%(name)s) in lower(filename)) > 0": self.name,
            "created_at >= %(since)s": self.since,
            "created_at < %(until)s": self.until,
            "id = any (%(ids)s)": self.ids,
            "id in (select document_id from public.stack_documents where stack_id = %(stack_id)s)": self.stack_id,
            """id in (
                select e.document_id
                from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
                where v.schema_id = %(schema_id)s)
            """: self.schema_id,
            "created_by = %(created_by)s": self.created_by,
            "assignee_id = %(assignee_id)s": self.assignee_id,
            """exists (
                select from private.current_by_schema as e join public.fields as f on f.extraction_id = e.id
                where e.document_id = documents.id and f.status in ('needs_review', 'unclear')
                  and f.pattern = %(open_field)s)
            """: self.open_field,
            "external_id = %(external_id)s": self.external_id,
            """(created_at >= %(changed_since)s or id in (
                select document_id from public.changes where org_id = %(org)s and created_at >= %(changed_since)s))
            """: self.changed_since,
        }
        return [
            "org_id = %(org)s",
            *active_conditions(conditions),
            *([] if self.stage is None else [_AT_STAGE[self.stage]]),
        ]


@dataclass(frozen=True, slots=True)
class DocumentTotals:
    """How many documents there are, with the sums of their pages and bytes."""

    count: int
    pages: int
    bytes: int


async def count_documents(conn: Connection, org_id: UUID, filters: DocumentListFilter) -> DocumentTotals:
    conditions = " and ".join(filters.conditions())
    query: LiteralString = f"""select count(*), coalesce(sum(page_count), 0)::bigint as pages,
          coalesce(sum(byte_size), 0)::bigint as bytes
        from {_table(filters)} where {conditions}"""
    totals = await fetch_one(conn, DocumentTotals, query, {"org": org_id, **asdict(filters)})
    assert totals is not None
    return totals


def _table(filters: DocumentListFilter) -> LiteralString:
    return "public.documents" if filters.tag_id is None else _TAGGED


async def list_documents(
    conn: Connection,
    org_id: UUID,
    *,
    limit: int,
    before: str | None = None,
    filters: DocumentListFilter | None = None,
    sort: DocumentOrder | None = None,
    descending: bool = False,
) -> ListPage[DocumentRow]:
    """Return a page of documents, newest first, or in the order `sort`. Raise Invalid for an invalid cursor."""
    filters = filters or DocumentListFilter()
    given = {"org": org_id, **asdict(filters)}
    if sort is not None:
        by_offset = OffsetPageRequest(limit, before)
        direction: LiteralString = "desc nulls last" if descending else "asc nulls last"
        found: LiteralString = f"{_table(filters)} where {' and '.join(filters.conditions())}"
        if sort is DocumentOrder.REVIEW:
            found = f"""(
                select documents.* from {found} order by created_at desc, id desc limit %(newest)s) as documents"""
        query: LiteralString = f"""select {_COLUMNS} from {found}
            order by {_ORDERS[sort]} {direction}, created_at desc, id desc limit %(limit)s offset %(offset)s"""
        parameters = {**given, **by_offset.parameters(), "newest": _MOST_BY_REVIEW}
        return by_offset.page(await fetch_all(conn, DocumentRow, query, parameters))
    request = PageRequest("documents", limit, before)
    sort_columns: LiteralString = "created_at, id" if filters.tag_id is None else "tagged_at, document_id"
    where: list[LiteralString] = [
        *filters.conditions(),
        *request.conditions(sort_columns),
    ]
    order = sort_columns.replace(",", " desc,")
    rows = await fetch_all(
        conn,
        DocumentRow,
        f"select {_COLUMNS} from {_table(filters)} where {' and '.join(where)} order by {order} desc limit %(limit)s",
        {**given, **request.parameters()},
    )
    return request.page(rows)


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """A table that a document is in."""

    table_id: UUID
    is_stack: Annotated[bool, Field(description="Whether it is the table of a stack, or that of a schema.")]
    name: str


async def tables_of(conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, list[DocumentTable]]:
    """Return the tables of each document, by name. Documents without one are left out."""
    cursor = await conn.execute(
        """select document_id, table_id, is_stack, name from (
             select d.document_id, s.id as table_id, true as is_stack, s.name
             from public.stack_documents as d join public.stacks as s on s.id = d.stack_id
             where d.document_id = any (%(ids)s)
             union
             select e.document_id, s.id, false, s.name
             from private.current_by_schema as e join public.extractions as x on x.id = e.id
             join public.schema_versions as v on v.id = x.schema_revid join public.schemas as s on s.id = v.schema_id
             where e.document_id = any (%(ids)s) and s.deleted_at is null
               and not exists (select from public.stack_tables where schema_id = s.id)) as t
           order by lower(name), table_id""",
        {"ids": list(document_ids)},
    )
    found: dict[UUID, list[DocumentTable]] = {}
    for row in await cursor.fetchall():
        found.setdefault(row.pop("document_id"), []).append(DocumentTable(**row))
    return found


async def values_outside_lists(conn: Connection, extraction_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the values of each extraction that are in no list, by path."""
    cursor = await conn.execute(
        """select extraction_id, jsonb_object_agg(path, coalesce(to_jsonb(number), to_jsonb(left(text, 200)))) as found
           from public.fields
           where extraction_id = any (%s) and indexes = '{}' and kind in ('number', 'day', 'text')
           group by extraction_id""",
        (list(extraction_ids),),
    )
    return {row["extraction_id"]: row["found"] async for row in cursor}


async def is_inside(conn: Connection, document_id: UUID, container_id: UUID) -> bool:
    """Return whether a document was found inside another, at any depth."""
    cursor = await conn.execute(
        """with recursive above as (
             select parent_document_id as id from public.documents where id = %s
             union
             select d.parent_document_id from above join public.documents as d on d.id = above.id)
           select from above where id = %s""",
        (document_id, container_id),
    )
    return await cursor.fetchone() is not None


async def rename(conn: Connection, document_id: UUID, filename: str) -> None:
    """Rename a document. Raise NotFound, Invalid."""
    await conn.execute("select public.rename_document(%s, %s)", (document_id, filename))


async def remove(conn: Connection, document_id: UUID) -> str:
    """Delete a document and all rows that refer to it. Return the storage path of its original. Raise NotFound."""
    return await value_of(conn, "select public.delete_document(%s) as path", (document_id,))


async def start_reading(conn: Connection, document_id: UUID) -> DocumentRow | None:
    """Lock a document that is to be read, delete pages of an interrupted reading, and return the document. Return None
    if it need not be read."""
    row = await fetch_one(
        conn,
        DocumentRow,
        f"select {_COLUMNS} from public.documents where id = %s and status = 'reading' for update",
        (document_id,),
    )
    if row is not None:
        await conn.execute("select private.clear_pages(%s)", (document_id,))
    return row


async def add_pages(conn: Connection, document_id: UUID, org_id: UUID, pages: Sequence[Page]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "document_id": document_id,
            "org_id": org_id,
            "number": page.number,
            "width": page.width,
            "height": page.height,
            "text": page.text,
            "words": await large_json([word.to_json() for word in page.words]),
            "engine": page.engine,
        }
        for page in pages
    ]
    async with conn.cursor() as cursor:
        await cursor.executemany(
            """insert into public.document_pages
                 (document_id, org_id, number, width, height, text, words, engine)
               values (%(document_id)s, %(org_id)s, %(number)s, %(width)s, %(height)s, %(text)s, %(words)s, %(engine)s)
            """,
            rows,
        )


async def record_reading(conn: Connection, document_id: UUID, pages_read: int, pages_to_read: int) -> None:
    """Record how many pages are read, and notify watchers of runs that wait for the document."""
    await conn.execute("select private.record_reading(%s, %s, %s)", (document_id, pages_read, pages_to_read))


async def finish_reading(
    conn: Connection,
    document_id: UUID,
    *,
    media_type: str,
    page_count: int,
    content_sha256: str | None = None,
    warnings: Sequence[ReadingWarning] = (),
) -> None:
    """Set a document to ready. A trigger queues the runs that wait for it."""
    await conn.execute(
        """update public.documents set status = 'ready', media_type = %s, page_count = %s, warnings = %s,
             content_sha256 = coalesce(content_sha256, %s)
           where id = %s""",
        (media_type, page_count, Jsonb([warning.to_json() for warning in warnings]), content_sha256, document_id),
    )


async def replace_warnings(conn: Connection, document_id: UUID, warnings: Sequence[ReadingWarning]) -> None:
    await conn.execute(
        "update public.documents set warnings = %s where id = %s",
        (Jsonb([warning.to_json() for warning in warnings]), document_id),
    )


async def queue_unlocked_copy(conn: Connection, document_id: UUID, unlocked_path: str) -> bool:
    """Queue another reading of a document that needed a password, now with its unlocked copy. Return whether it was
    queued. Raise QueueFull."""
    return await value_of(conn, "select private.queue_unlocked_copy(%s, %s) as waits", (document_id, unlocked_path))


async def fail_reading(conn: Connection, document_id: UUID, reason: str, code: str) -> None:
    """Set a document to failed. A trigger fails the runs that wait for it."""
    await conn.execute(
        """update public.documents set status = 'failed', error = %s, error_code = %s
           where id = %s and status = 'reading'""",
        (reason, code, document_id),
    )


async def pages(conn: Connection, document_id: UUID, first: int = 1, last: int | None = None) -> list[PageText]:
    return await fetch_all(
        conn,
        PageText,
        """select number, text, engine = 'xml' as is_xml from public.document_pages
           where document_id = %s and number between %s and %s order by number""",
        (document_id, first, 2**31 - 1 if last is None else last),
    )


async def first_texts(conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the printed text of the first 3 pages of each document, at most 20,000 characters. Each page starts with a
    line `--- page 1 of 3 ---`. Documents without pages are left out."""
    cursor = await conn.execute(
        """select document_id, left(string_agg(
             format(E'--- page %%s of %%s ---\n%%s', number, pages, left(text, 20000)), E'\n' order by number),
             20000) as text
           from (select document_id, number, text, count(*) over (partition by document_id) as pages
             from public.document_pages
             where document_id = any (%s) and number <= 3 and engine <> 'xml') as p
           group by document_id""",
        (list(document_ids),),
    )
    return {row["document_id"]: row["text"] async for row in cursor}


class FirstPage(NamedTuple):
    """The text of a document's first page, and that of the nearest document around it that has pages, or empty."""

    text: str
    outer_text: str


async def first_pages(conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, FirstPage]:
    """Return the texts by which rules for uploads find their documents. Documents that are gone are left out."""
    cursor = await conn.execute(
        """with recursive around as (
             select id, id as at, 0 as depth from public.documents where id = any (%s)
             union all
             select a.id, d.parent_document_id, a.depth + 1 from around as a
             join public.documents as d on d.id = a.at where d.parent_document_id is not null)
           select a.id, coalesce(min(left(p.text, 20000)) filter (where a.depth = 0), '') as text,
             coalesce((array_agg(left(p.text, 20000) order by a.depth)
               filter (where a.depth > 0 and p.text is not null))[1], '') as outer_text
           from around as a left join public.document_pages as p on p.document_id = a.at and p.number = 1
           group by a.id""",
        (list(document_ids),),
    )
    return {row["id"]: FirstPage(row["text"], row["outer_text"]) async for row in cursor}


async def words(conn: Connection, document_id: UUID) -> list[PageWords]:
    return await large_rows(
        conn,
        PageWords,
        """select number, words, engine = 'xml' as is_xml
           from public.document_pages where document_id = %s order by number""",
        (document_id,),
    )


async def register_pending_files(conn: Connection, paths: Sequence[str]) -> None:
    """Register files before they are stored. Those that belong to no document after a day are deleted. Needs a
    connection as the service."""
    await conn.execute("select private.register_pending_files(%s)", (list(paths),))


async def files_to_delete(conn: Connection, limit: int) -> list[str]:
    """Return up to `most` storage paths of deleted documents of all tenants, oldest first. Needs a connection as the
    service."""
    cursor = await conn.execute("select path from private.files_to_delete(%s) as path", (limit,))
    return [row["path"] for row in await cursor.fetchall()]


async def unregister_deleted_files(conn: Connection, paths: Sequence[str]) -> None:
    await conn.execute("select private.unregister_deleted_files(%s)", (list(paths),))


async def unread_pages(conn: Connection, run_id: UUID) -> list[int]:
    """Return the pages with text that a run has not read completely."""
    cursor = await conn.execute(
        """select page.number from public.runs as run
           join public.document_pages as page using (document_id)
           where run.id = %s and not run.pages_read @> page.number and page.text ~ '\\S'
           order by page.number""",
        (run_id,),
    )
    return [row["number"] for row in await cursor.fetchall()]


async def page_sizes(conn: Connection, document_id: UUID, numbers: Sequence[int]) -> list[tuple[int, float, float]]:
    """Return (number, width, height) of pages in order. Missing pages are left out."""
    cursor = await conn.execute(
        """select number, width, height from public.document_pages
           where document_id = %s and number = any (%s) order by number""",
        (document_id, list(numbers)),
    )
    return [(row["number"], row["width"], row["height"]) for row in await cursor.fetchall()]


async def page(conn: Connection, document_id: UUID, number: int) -> Page | None:
    rows = await large_rows(
        conn,
        _stored_page,
        """select number, width, height, text, words, engine from public.document_pages
           where document_id = %s and number = %s""",
        (document_id, number),
    )
    return rows[0] if rows else None


def _stored_page(words: list[list[Any]], **columns: Any) -> Page:
    return Page(words=[Word(*word) for word in words], **columns)


@dataclass(frozen=True, slots=True)
class DocumentHead:
    """What an agent sees of a document besides its text."""

    id: UUID
    filename: str
    media_type: str | None
    page_count: int
    warnings: Sequence[ReadingWarning]


async def find_head(conn: Connection, document_id: UUID) -> DocumentHead | None:
    query = """select id, filename, media_type, coalesce(page_count, 0) as page_count, warnings
               from public.documents where id = %s"""
    row = await (await conn.execute(query, (document_id,))).fetchone()
    if row is None:
        return None
    warnings = [ReadingWarning.from_json(warning) for warning in row.pop("warnings")]
    return DocumentHead(**row, warnings=warnings)


async def warnings(conn: Connection, document_id: UUID) -> list[ReadingWarning]:
    cursor = await conn.execute("select warnings from public.documents where id = %s", (document_id,))
    row = await cursor.fetchone()
    return [ReadingWarning.from_json(warning) for warning in row["warnings"]] if row else []

"""New documents with what is needed to group them, and the tables that they may fit into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import DocumentStatus
from fieldmark.stores.documents import FIRST_COPY
from fieldmark.stores.rows import fetch_all

_MAX_TABLES = 50


@dataclass(frozen=True, slots=True)
class GroupedDocument:
    """A document. `duplicate_of` and `original` are the id and name of the first document with the same bytes."""

    id: UUID
    filename: str
    status: DocumentStatus
    media_type: str | None
    page_count: int | None
    error: str | None
    error_code: str | None
    duplicate_of: UUID | None
    original: str | None

    @property
    def is_readable(self) -> bool:
        """Whether it has fields: an archive has none, only the files in it."""
        return self.status is DocumentStatus.READY and self.media_type != "application/zip"


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table, with the document type that most of its newest documents have, and the newest three of them. `stack_id`
    is None for the table of a schema without a stack."""

    stack_id: UUID | None
    schema_id: UUID
    name: str
    documents: int
    kind: str | None
    sample_ids: list[UUID]


async def with_enclosed(conn: Connection, org_id: UUID, document_ids: Sequence[UUID]) -> list[GroupedDocument]:
    """Return these documents and the files inside them at any depth, in the order of the ids."""
    return await fetch_all(
        conn,
        GroupedDocument,
        f"""with recursive wanted as (
             select d.id, array[g.number] as place from public.documents as d
             join unnest(%s::uuid[]) with ordinality as g (id, number) using (id) where d.org_id = %s
             union all
             select d.id, w.place || d.number_in_parent::bigint from wanted as w
             join public.documents as d on d.parent_document_id = w.id
           )
           select d.id, d.filename, d.status, d.media_type, d.page_count, d.error, d.error_code,
             first.id as duplicate_of, first.filename as original
           from (select id, min(place) as place from wanted group by id) as w
           join public.documents as d using (id)
           left join public.documents as first on first.id = ({FIRST_COPY.format(document="d")})
           order by w.place""",
        (list(document_ids), org_id),
    )


async def known_tables(conn: Connection, org_id: UUID) -> list[KnownTable]:
    """Return the newest tables of an organisation that have a type: those of stacks, then those of other schemas."""
    return await fetch_all(
        conn,
        KnownTable,
        """select t.stack_id, t.schema_id, t.name, t.documents, newest.kind, newest.sample_ids
           from (
             select s.id as stack_id, st.schema_id, s.name, s.created_at,
               (select count(*) from public.stack_documents where stack_id = s.id) as documents
             from public.stacks as s join public.stack_tables as st on st.stack_id = s.id
             join public.schemas as x on x.id = st.schema_id and x.deleted_at is null
             where s.org_id = %(org)s
             union all
             select null, x.id, x.name, x.created_at,
               (select count(distinct e.document_id) from public.schema_versions as v
                join public.extractions as e on e.schema_revid = v.id
                where v.schema_id = x.id and e.precedence < 2)
             from public.schemas as x
             where x.org_id = %(org)s and x.deleted_at is null and not private.is_proposed(x.run_id)
               and not exists (select from public.stack_tables where schema_id = x.id)
           ) as t
           cross join lateral (
             select mode() within group (order by document_type) as kind,
               (array_agg(document_id order by created_at desc))[:3] as sample_ids
             from (
               select e.document_id, e.document_type, e.created_at
               from public.schema_versions as v join public.extractions as e on e.schema_revid = v.id
               where v.schema_id = t.schema_id and e.precedence < 2 order by e.created_at desc limit 50) as e
           ) as newest
           where newest.kind is not null
           order by t.stack_id is null, t.created_at desc limit %(limit)s""",
        {"org": org_id, "limit": _MAX_TABLES},
    )

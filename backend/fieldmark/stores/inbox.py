"""What waits for a person, in Postgres: the questions of documents, and how many there are of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, LiteralString
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import RunStatus
from fieldmark.identity.scope import Scope
from fieldmark.stores.documents import DocumentListFilter
from fieldmark.stores.rows import fetch_all, value_of
from fieldmark.stores.runs import RunFilter

MAX_QUESTIONS: Final = 100
"""Questions of one extraction that are listed. The others follow when these are answered."""

MAX_COUNT: Final = 1000
"""What is counted of each kind."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A field that a person has to look at. Without a path: no one has completed the extraction."""

    document_id: UUID
    extraction_id: UUID
    schema_id: UUID | None
    table: str | None
    path: str | None
    status: str | None
    reason: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class CallRow:
    """What a run that waits is about: its document, and its stack or the schema of its extraction."""

    run_id: UUID
    filename: str | None
    schema_id: UUID | None
    table: str | None


@dataclass(frozen=True, slots=True)
class SuggestionRow:
    """A version of a schema that is suggested: the name of the schema, and the number of its fields."""

    schema_revid: UUID
    schema_id: UUID
    name: str
    fields: int


_QUESTIONS: LiteralString = """private.current_by_schema as e
  join public.extractions as x on x.id = e.id
  left join public.schema_versions as v on v.id = x.schema_revid
  left join public.schemas as s on s.id = v.schema_id
  where (e.status <> 'completed' or e.review_count > 0)
    and (%(schema_id)s::uuid is null or v.schema_id = %(schema_id)s)"""


async def list_questions(
    conn: Connection,
    document_ids: Sequence[UUID],
    schema_id: UUID | None = None,
    field: str | None = None,
    *,
    least_certain_first: bool = False,
) -> list[QuestionRow]:
    """Return the questions of documents, of one table and of one field if given: at most 100 of each extraction, most
    urgent first."""
    return await fetch_all(
        conn,
        QuestionRow,
        f"""select q.document_id, q.extraction_id, q.schema_id, q.name as table, f.path, f.status, f.reason, f.text
            from (
              select e.document_id, e.id as extraction_id, e.created_at, v.schema_id, s.name
              from {_QUESTIONS} and e.document_id = any (%(documents)s)) as q
            left join lateral (
              select * from public.fields
              where extraction_id = q.extraction_id and status in ('needs_review', 'unclear')
                and (%(field)s::text is null or pattern = %(field)s)
              order by status, case when %(by_confidence)s then coalesce(confidence, 0) end, id limit %(most)s
            ) as f on true
            where %(field)s::text is null or f.path is not null
            order by q.created_at, q.extraction_id, f.status,
              case when %(by_confidence)s then coalesce(f.confidence, 0) end, f.id""",
        {
            "documents": list(document_ids),
            "schema_id": schema_id,
            "field": field,
            "by_confidence": least_certain_first,
            "most": MAX_QUESTIONS,
        },
    )


async def calls_of_runs(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, CallRow]:
    rows = await fetch_all(
        conn,
        CallRow,
        """select r.id as run_id, d.filename, v.schema_id, coalesce(t.name, s.name) as table
           from public.runs as r
             left join public.documents as d on d.id = r.document_id
             left join public.stacks as t on t.id = r.stack_id
             left join public.extractions as e on e.id = r.extraction_id
             left join public.schema_versions as v on v.id = e.schema_revid
             left join public.schemas as s on s.id = v.schema_id
           where r.id = any (%s)""",
        (list(run_ids),),
    )
    return {row.run_id: row for row in rows}


async def suggested_schemas(conn: Connection, schema_revids: Sequence[UUID]) -> dict[UUID, SuggestionRow]:
    rows = await fetch_all(
        conn,
        SuggestionRow,
        """select v.id as schema_revid, s.id as schema_id, s.name,
             (select count(*) from json_object_keys(v.schema -> 'properties'))::integer as fields
           from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
           where v.id = any (%s)""",
        (list(schema_revids),),
    )
    return {row.schema_revid: row for row in rows}


async def count_questions(conn: Connection, org_id: UUID, filters: DocumentListFilter) -> int:
    """Return the number of questions of the newest 1,000 documents that have one, at most 1,001."""
    where = " and ".join(filters.conditions())
    return await value_of(
        conn,
        f"""select least(coalesce(sum(case
              when %(open_field)s::text is null then greatest(e.review_count, 1)
              else (
                select count(*) from public.fields where extraction_id = e.id
                  and status in ('needs_review', 'unclear') and pattern = %(open_field)s)
              end), 0), %(most)s)::integer
            from (
              select id from public.documents where {where} order by created_at desc, id desc limit %(most)s) as d
            cross join lateral (select e.id, e.review_count from {_QUESTIONS} and e.document_id = d.id) as e""",
        {"org": org_id, **asdict(filters), "most": MAX_COUNT + 1},
    )


async def count_documents(conn: Connection, org_id: UUID, filters: DocumentListFilter) -> int:
    """Return the number of documents, at most 1,001."""
    where = " and ".join(filters.conditions())
    return await value_of(
        conn,
        f"select count(*) from (select from public.documents where {where} limit %(most)s) as d",
        {"org": org_id, **asdict(filters), "most": MAX_COUNT + 1},
    )


async def count_waiting_calls(conn: Connection, scope: Scope, filters: RunFilter) -> int:
    """Return the number of runs that wait for a decision of the caller, at most 1,001."""
    where = " and ".join(filters.conditions(RunStatus.AWAITING_APPROVAL))
    return await value_of(
        conn,
        f"select count(*) from (select from public.runs as r where {where} limit %(most)s) as r",
        {
            "org": scope.org_id,
            "user": scope.user_id,
            "status": RunStatus.AWAITING_APPROVAL,
            **asdict(filters),
            "most": MAX_COUNT + 1,
        },
    )

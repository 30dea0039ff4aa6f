"""Automatic proposals in Postgres: an agent suggests a schema, prompt and extraction for a new document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from fieldmark.db.pool import Connection
from fieldmark.domain.likeness import KINDS_OF_ONE_TABLE, MIN_SHARED_LABELS, MIN_SIMILARITY
from fieldmark.stores.rows import Fields, fetch_one

_COLUMNS: Final[LiteralString] = "document_id, run_id, kind, matched, schema_revid, prompt_revid, extraction_id"
_MAX_COMPARED: Final = 200
"""A document is compared with at most this many of the newest documents of its kind."""


@dataclass(frozen=True, slots=True)
class AutoCreationRow:
    """The proposal of a run: the schema, prompt and extraction it created last or took from a similar document. `kind`
    is None until the document was classified."""

    document_id: UUID
    run_id: UUID
    kind: str | None
    matched: Fields | None
    schema_revid: UUID | None
    prompt_revid: UUID | None
    extraction_id: UUID | None


@dataclass(frozen=True, slots=True)
class SimilarDocument:
    """A similar earlier document with the latest versions of its schema and prompt. `shared_labels` counts the labels
    that are in both documents, `all_labels` those in either."""

    document_id: UUID
    schema_id: UUID
    schema_revid: UUID
    prompt_revid: UUID | None
    shared_labels: int
    all_labels: int


async def find_by_run(conn: Connection, run_id: UUID) -> AutoCreationRow | None:
    query: LiteralString = f"select {_COLUMNS} from public.auto_creations where run_id = %s"
    return await fetch_one(conn, AutoCreationRow, query, (run_id,))


async def decide(conn: Connection, document_id: UUID, *, accepted: bool) -> None:
    """Accept or reject the proposal for a document. Raise NotFound, Conflict."""
    await conn.execute("select public.decide_auto_creation(%s, %s)", (document_id, accepted))


async def save_ids(conn: Connection, run_id: UUID, **ids: UUID | None) -> None:
    """Store ids of the proposal: `schema_revid`, `prompt_revid`, `extraction_id`."""
    columns = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), one) for name, one in ids.items())
    await conn.execute(
        sql.SQL("update public.auto_creations set {} where run_id = {} and status = 'running'").format(columns, run_id)
    )


async def save_match(
    conn: Connection,
    run_id: UUID,
    kind: str,
    labels: Sequence[str],
    matched: Fields | None,
    similar: SimilarDocument | None,
) -> None:
    """Store the kind and labels of a document, and the schema and prompt of the similar document, if there is one."""
    await conn.execute(
        """update public.auto_creations set kind = %s, labels = %s, matched = %s, schema_revid = %s, prompt_revid = %s
           where run_id = %s and status = 'running'""",
        (
            kind,
            list(labels),
            None if matched is None else Jsonb(matched),
            None if similar is None else similar.schema_revid,
            None if similar is None else similar.prompt_revid,
            run_id,
        ),
    )


async def most_similar(
    conn: Connection, org_id: UUID, document_id: UUID, kind: str, labels: Sequence[str]
) -> SimilarDocument | None:
    """Return the most similar document that is alike and whose schema still exists, or None. Accepted proposals come
    first. The prompt is included only if a user accepted it, because it may quote the document."""
    return await fetch_one(
        conn,
        SimilarDocument,
        """select a.document_id, s.id as schema_id,
             private.schema_revid_of(s.id, prompt.schema_version) as schema_revid, prompt.id as prompt_revid,
             a.shared_labels, a.label_count + cardinality(%(labels)s::text[]) - a.shared_labels as all_labels
           from (
             select document_id, status, created_at, schema_revid, prompt_revid, cardinality(labels) as label_count,
               (select count(*) from unnest(labels) as l where l = any (%(labels)s::text[]))::integer as shared_labels
             from public.auto_creations
             where org_id = %(org)s and kind = %(kind)s and status in ('proposed', 'accepted')
               and schema_revid is not null and document_id <> %(document)s
             order by created_at desc limit %(most)s
           ) as a
           -- (The limits keep the planner, which overestimates the number of rows here, from reading all versions.)
           cross join lateral (
             select s.id from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
             where v.id = a.schema_revid and s.deleted_at is null limit 1) as s
           left join lateral (
             select newest.id, newest.schema_version
             from public.prompt_versions as old
             join public.prompts as p on p.id = old.prompt_id and p.deleted_at is null
             cross join lateral (
               select id, schema_id, schema_version from public.prompt_versions
               where prompt_id = p.id order by number desc limit 1
             ) as newest
             where a.status = 'accepted' and old.id = a.prompt_revid and newest.schema_id = s.id limit 1
           ) as prompt on true
           -- (As in domain/likeness.py.)
           where %(one_table)s or a.shared_labels >= %(least)s
             and a.shared_labels >= %(alike)s * (a.label_count + cardinality(%(labels)s::text[]) - a.shared_labels)
           order by a.status = 'accepted' desc,
             a.shared_labels::float
               / greatest(a.label_count + cardinality(%(labels)s::text[]) - a.shared_labels, 1) desc,
             a.created_at
           limit 1""",
        {
            "org": org_id,
            "document": document_id,
            "kind": kind,
            "labels": list(labels),
            "most": _MAX_COMPARED,
            "one_table": kind in KINDS_OF_ONE_TABLE,
            "least": MIN_SHARED_LABELS,
            "alike": MIN_SIMILARITY,
        },
    )

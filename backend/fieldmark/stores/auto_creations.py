"""What an agent proposes for a document when that is read, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import Fields, fetch_one

_COLUMNS: Final[LiteralString] = "document_id, run_id, kind, matched, schema_revid, prompt_revid, extraction_id"
_COMPARED: Final = 200
"""With so many earlier documents of its kind a document is compared, the newest."""
ALIKE: Final = 0.6
"""What part of the labels of two documents they must have in common to be of one form."""
IN_COMMON: Final = 4
"""And how many at least."""


@dataclass(frozen=True, slots=True)
class AutoCreationRow:
    """What a run does for its document, as its tools need it: what it made last, or took of an earlier document.
    `kind` is None before the document was looked at."""

    document_id: UUID
    run_id: UUID
    kind: str | None
    matched: Fields | None
    schema_revid: UUID | None
    prompt_revid: UUID | None
    extraction_id: UUID | None


@dataclass(frozen=True, slots=True)
class Likeness:
    """An earlier document, the latest versions of its schema and of its prompt, how many labels the two documents have
    in common, and how many they have between them."""

    document_id: UUID
    schema_id: UUID
    schema_revid: UUID
    prompt_revid: UUID | None
    common: int
    together: int


async def of_run(conn: Connection, run_id: UUID) -> AutoCreationRow | None:
    """What a run proposes so far; None for any other run."""
    query: LiteralString = f"select {_COLUMNS} from public.auto_creations where run_id = %s"
    return await fetch_one(conn, AutoCreationRow, query, (run_id,))


async def decide(conn: Connection, document_id: UUID, *, accepted: bool) -> None:
    """Accept or reject what is proposed for a document. Raises NotFound, Conflict."""
    await conn.execute("select public.decide_auto_creation(%s, %s)", (document_id, accepted))


async def remember(conn: Connection, run_id: UUID, **ids: UUID | None) -> None:
    """Keep what the run has made or taken: `schema_revid`, `prompt_revid`, `extraction_id`."""
    columns = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), one) for name, one in ids.items())
    await conn.execute(
        sql.SQL("update public.auto_creations set {} where run_id = {} and status = 'running'").format(columns, run_id)
    )


async def recognise(
    conn: Connection, run_id: UUID, kind: str, labels: Sequence[str], matched: Fields | None, likeness: Likeness | None
) -> None:
    """Record by what the document is known again, and what an earlier one lends it."""
    await conn.execute(
        """update public.auto_creations set kind = %s, labels = %s, matched = %s, schema_revid = %s, prompt_revid = %s
           where run_id = %s and status = 'running'""",
        (
            kind,
            list(labels),
            None if matched is None else Jsonb(matched),
            None if likeness is None else likeness.schema_revid,
            None if likeness is None else likeness.prompt_revid,
            run_id,
        ),
    )


async def likest(
    conn: Connection, org_id: UUID, document_id: UUID, kind: str, labels: Sequence[str]
) -> Likeness | None:
    """The document that is most like this one, of those whose schema is there; accepted ones first. Its prompt
    comes with it where a person has accepted that: its words may be the document's."""
    return await fetch_one(
        conn,
        Likeness,
        """select a.document_id, s.id as schema_id, latest.id as schema_revid, prompt.id as prompt_revid, a.common,
             a.labelled + cardinality(%(labels)s::text[]) - a.common as together
           from (
             select document_id, status, created_at, schema_revid, prompt_revid, cardinality(labels) as labelled,
               (select count(*) from unnest(labels) as label where label = any (%(labels)s::text[]))::integer as common
             from public.auto_creations
             where org_id = %(org)s and kind = %(kind)s and status in ('proposed', 'accepted')
               and schema_revid is not null and document_id <> %(document)s
             order by created_at desc limit %(most)s
           ) as a
           -- (With limits: else the planner, which does not know how few are left, would read all versions.)
           cross join lateral (
             select s.id from public.schema_versions as v join public.schemas as s on s.id = v.schema_id
             where v.id = a.schema_revid and s.deleted_at is null limit 1) as s
           cross join lateral (
             select id from public.schema_versions where schema_id = s.id order by number desc limit 1) as latest
           left join lateral (
             select newest.id
             from public.prompt_versions as old
             join public.prompts as p on p.id = old.prompt_id and p.deleted_at is null
             cross join lateral (
               select id, schema_id from public.prompt_versions where prompt_id = p.id order by number desc limit 1
             ) as newest
             where a.status = 'accepted' and old.id = a.prompt_revid and newest.schema_id = s.id limit 1
           ) as prompt on true
           where a.common >= %(least)s
             and a.common >= %(alike)s * (a.labelled + cardinality(%(labels)s::text[]) - a.common)
           order by a.status = 'accepted' desc,
             a.common::float / (a.labelled + cardinality(%(labels)s::text[]) - a.common) desc, a.created_at
           limit 1""",
        {
            "org": org_id,
            "document": document_id,
            "kind": kind,
            "labels": list(labels),
            "most": _COMPARED,
            "least": IN_COMMON,
            "alike": ALIKE,
        },
    )

"""Users' corrections in Postgres, which the agent sees as examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import JsonObject
from fieldmark.stores.rows import fetch_all, value_of

MAX_EXTRACTIONS: Final = 30
MAX_PER_EXTRACTION: Final = 20
MAX_JOURNAL_ENTRIES: Final = 500
"""Only this many of the newest journal entries of an extraction are read."""


@dataclass(frozen=True, slots=True)
class CorrectionRow:
    """A value of an agent (`old`) that a user replaced (`new`). `locked` has the names of the locked paths of this
    extraction."""

    extraction_id: UUID
    path: list[str]
    steps: str
    old: JsonValue
    new: JsonValue
    locked: list[str]


async def are_enabled(conn: Connection, org_id: UUID) -> bool:
    return bool(await value_of(conn, "select examples from public.organisations where id = %s", (org_id,)))


async def corrections(
    conn: Connection, org_id: UUID, schema: JsonObject, excluded_document_id: UUID
) -> list[CorrectionRow]:
    """Return current corrections in extractions of other documents with the same schema, newest first.

    Byte-identical duplicates of the document are excluded. So are values in list items if the same change added or
    removed items: such values may only have moved.
    """
    return await fetch_all(
        conn,
        CorrectionRow,
        """select e.id as extraction_id, j.path, j.steps, j.old, j.new,
               array(select jsonb_object_keys(e.locks)) as locked
           from (
             select * from public.extractions
             where org_id = %(org)s and md5(schema::jsonb::text) = md5(%(schema)s::jsonb::text)
               and schema::jsonb = %(schema)s
               and schema is not null and locks <> '{}' and document_id <> %(but)s
             order by updated_at desc limit %(most)s
           ) as e
           join public.documents as d on d.id = e.document_id and not exists (
             select from public.documents as own where own.id = %(but)s and own.content_sha256 = d.content_sha256)
           cross join lateral (
             select * from (
               select *, lag(actor) over (partition by path, steps order by id) as actor_before,
                 bool_or((old is null or new is null) and steps like '%%i%%') over (partition by version) as moves
               from (
                 select * from public.extraction_journal
                 where extraction_id = e.id order by version desc, id desc limit %(entries)s
               ) as newest
             ) as change
             where change.actor = 'user' and change.actor_before = 'agent' and change.old is not null
               and change.new is not null and change.new = e.extracted_fields #> change.path
               and not (change.moves and change.steps like '%%i%%')
             order by change.id desc limit %(of_one)s
           ) as j
           order by e.updated_at desc, j.id desc""",
        {
            "org": org_id,
            "schema": Jsonb(schema),
            "but": excluded_document_id,
            "most": MAX_EXTRACTIONS,
            "of_one": MAX_PER_EXTRACTION,
            "entries": MAX_JOURNAL_ENTRIES,
        },
    )

"""Corrections that people made, as examples for the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import JsonObject
from fieldmark.stores.rows import fetch_all, value_of

MOST_EXTRACTIONS: Final = 30
MOST_OF_ONE: Final = 20
MOST_ENTRIES: Final = 500
"""Of an extraction's journal, the newest: that of one with thousands of rows is not looked through."""


@dataclass(frozen=True, slots=True)
class CorrectionRow:
    """A value that an agent wrote, and what a person has put in its place. `withdrawn` has the names of the paths that
    were taken out in this extraction."""

    extraction_id: UUID
    path: list[str]
    steps: str
    old: JsonValue
    new: JsonValue
    withdrawn: list[str]


async def is_on(conn: Connection, org_id: UUID) -> bool:
    """Whether an organisation has examples shown."""
    return bool(await value_of(conn, "select examples from public.organisations where id = %s", (org_id,)))


async def corrections(conn: Connection, org_id: UUID, schema: JsonObject, but_document_id: UUID) -> list[CorrectionRow]:
    """The corrections that stand, in extractions of other documents with the same schema that the caller sees: newest
    extraction first, its newest correction first. A document of the same bytes is no other. Where a change brings items
    of a list or takes some away, what stands in the others may only have moved, and is none."""
    return await fetch_all(
        conn,
        CorrectionRow,
        """select e.id as extraction_id, j.path, j.steps, j.old, j.new,
               array(select w.name from public.withdrawn_examples as w where w.extraction_id = e.id) as withdrawn
           from (
             select * from public.extractions
             where org_id = %(org)s and md5(schema::text) = md5(%(schema)s::jsonb::text) and schema = %(schema)s
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
             ) as said
             where said.actor = 'user' and said.actor_before = 'agent' and said.old is not null
               and said.new is not null and said.new = e.extracted_fields #> said.path
               and not (said.moves and said.steps like '%%i%%')
             order by said.id desc limit %(of_one)s
           ) as j
           order by e.updated_at desc, j.id desc""",
        {
            "org": org_id,
            "schema": Jsonb(schema),
            "but": but_document_id,
            "most": MOST_EXTRACTIONS,
            "of_one": MOST_OF_ONE,
            "entries": MOST_ENTRIES,
        },
    )


async def withdraw(conn: Connection, org_id: UUID, extraction_id: UUID, name: str) -> None:
    """Take out what stands at a path, by its name. Taken out twice it is out."""
    await conn.execute(
        """insert into public.withdrawn_examples (org_id, extraction_id, name) values (%s, %s, %s)
           on conflict do nothing""",
        (org_id, extraction_id, name),
    )

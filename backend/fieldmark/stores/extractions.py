"""Extractions in Postgres. Each change is one SQL function, which the journal records and PostgREST offers too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.domain import paths

Row = dict[str, Any]

_COLUMNS = """
    id, document_id, document_type, status, extracted_fields, confidence_scores, evidence, locks, (
        select coalesce(jsonb_agg(jsonb_build_object(
            'id', p.id, 'path', p.name, 'old', p.old, 'new', p.new, 'removed', p.new is null,
            'confidence_scores', p.confidence_scores, 'evidence', p.evidence,
            'run_id', p.run_id, 'created_at', p.created_at) order by p.created_at, p.name), '[]')
        from public.extraction_proposals as p where p.extraction_id = e.id and p.status = 'pending'
    ) as proposals, version, created_at, updated_at
"""


async def add(
    conn: AsyncConnection[Row], *, org_id: UUID, document_id: UUID, schema: dict[str, JsonValue] | None
) -> UUID:
    """Begin an empty extraction of a document."""
    cursor = await conn.execute(
        "insert into public.extractions (org_id, document_id, schema) values (%s, %s, %s) returning id",
        (org_id, document_id, None if schema is None else Jsonb(schema)),
    )
    row = await cursor.fetchone()
    assert row is not None
    return row["id"]


async def get(conn: AsyncConnection[Row], extraction_id: UUID) -> Row | None:
    """One extraction, in the shape that `GET /api/extractions/{id}` answers."""
    cursor = await conn.execute(f"select {_COLUMNS} from public.extractions as e where id = %s", (extraction_id,))
    return await cursor.fetchone()


async def list_extractions(
    conn: AsyncConnection[Row], org_id: UUID, *, document_id: UUID | None, limit: int, before: UUID | None
) -> list[Row]:
    """The newest `limit` extractions of an organisation (of one document, if it is given), or those that follow
    `before` in that order. Without their fields, and with the number of proposals that wait in each."""
    cursor = await conn.execute(
        """select id, document_id, document_type, status, version, created_at, updated_at, (
                select count(*) from public.extraction_proposals as p
                where p.extraction_id = e.id and p.status = 'pending') as proposals
            from public.extractions as e
            where org_id = %(org)s and (%(document)s::uuid is null or document_id = %(document)s) and (
                %(before)s::uuid is null
                or (created_at, id) < (select created_at, id from public.extractions where id = %(before)s))
            order by created_at desc, id desc limit %(limit)s""",
        {"org": org_id, "document": document_id, "before": before, "limit": limit},
    )
    return await cursor.fetchall()


async def locked(conn: AsyncConnection[Row], extraction_id: UUID) -> Row | None:
    """{version, status, schema, extracted_fields, evidence, locks} of an extraction, which nobody else changes until
    this transaction ends."""
    cursor = await conn.execute(
        """select version, status, schema, extracted_fields, evidence, locks from public.extractions
           where id = %s for no key update""",
        (extraction_id,),
    )
    return await cursor.fetchone()


async def as_of(conn: AsyncConnection[Row], extraction_id: UUID, version: int) -> Row | None:
    """The fields as they stood at a version: {id, document_id, version, latest_version, extracted_fields, changed_at},
    the fields None for a version that never was. None if there is no such extraction."""
    cursor = await conn.execute(
        """select id, document_id, %(version)s::integer as version, version as latest_version,
                case when %(version)s between 0 and version then private.fields_at(id, %(version)s) end
                    as extracted_fields,
                coalesce((
                    select max(created_at) from public.extraction_journal
                    where extraction_id = e.id and version = %(version)s), created_at) as changed_at
            from public.extractions as e where id = %(id)s""",
        {"id": extraction_id, "version": version},
    )
    return await cursor.fetchone()


async def history(
    conn: AsyncConnection[Row], extraction_id: UUID, *, path: paths.Path | None, limit: int, before: int | None
) -> list[Row]:
    """The journal's newest `limit` entries, or those before the entry `before`; of what stood at a path or below it, if
    one is given. `path` is its name, `added` and `removed` tell nothing from JSON's null."""
    under = None if path is None else (paths.to_sql(path), paths.steps_of(path))
    cursor = await conn.execute(
        """select id, version, path, steps, old, new, old is null as added, new is null as removed, actor,
                created_by as user_id, run_id, call_id, created_at
            from public.extraction_journal
            where extraction_id = %(id)s and (%(before)s::bigint is null or id < %(before)s) and (
                %(path)s::text[] is null
                or (path[:%(depth)s] = %(path)s::text[] and left(steps, %(depth)s) = %(steps)s))
            order by version desc, id desc limit %(limit)s""",
        {
            "id": extraction_id,
            "before": before,
            "path": under and under[0],
            "steps": under and under[1],
            "depth": under and len(under[1]),
            "limit": limit,
        },
    )
    return [{**row, "path": paths.name(paths.from_sql(row["path"], row["steps"]))} for row in await cursor.fetchall()]


async def schema_of(conn: AsyncConnection[Row], extraction_id: UUID) -> dict[str, Any] | None:
    """The JSON Schema that the extraction was begun with."""
    cursor = await conn.execute("select schema from public.extractions where id = %s", (extraction_id,))
    row = await cursor.fetchone()
    return row["schema"] if row else None


async def corrected(conn: AsyncConnection[Row], org_id: UUID, limit: int) -> list[Row]:
    """The completed extractions in which a person has set a value, newest first, with their documents' names."""
    cursor = await conn.execute(
        "select e.id, e.document_id, d.filename, e.schema, e.extracted_fields, e.evidence from public.extractions as e "
        "join public.documents as d on d.id = e.document_id "
        "where e.org_id = %s and e.status = 'completed' and e.locks <> '{}' order by e.created_at desc limit %s",
        (org_id, limit),
    )
    return await cursor.fetchall()


async def remove(conn: AsyncConnection[Row], extraction_id: UUID) -> None:
    """Delete an extraction with its runs."""
    await conn.execute("delete from public.extractions where id = %s", (extraction_id,))


async def save_fields(
    conn: AsyncConnection[Row],
    extraction_id: UUID,
    fields: dict[str, JsonValue],
    confidences: Mapping[str, float],
    evidence: Mapping[str, JsonValue],
) -> dict[str, Any]:
    """Merge fields into the extraction; answers {value: all fields, version, changed: [{path, value, confidence,
    evidence, removed?}], proposed?: the names of what stays as it is because a person set it}."""
    return await _call(
        conn,
        "select public.save_extraction_fields(%s, %s, %s, %s) as answer",
        (extraction_id, Jsonb(fields), Jsonb(confidences), Jsonb(dict(evidence))),
    )


async def update_field(
    conn: AsyncConnection[Row],
    extraction_id: UUID,
    path: Sequence[str],
    value: JsonValue,
    confidences: Mapping[str, float],
    evidence: Mapping[str, JsonValue],
) -> dict[str, Any]:
    """Write one value at a path, with confidences and evidence by path name; answers {path: its name, value: as stored,
    version, changed, proposed?} as `save_fields` does."""
    return await _call(
        conn,
        "select public.update_extraction_field(%s, %s::text[], %s, null, %s, %s) as answer",
        (extraction_id, list(path), Jsonb(value), Jsonb(dict(confidences)), Jsonb(dict(evidence))),
    )


async def remove_field(conn: AsyncConnection[Row], extraction_id: UUID, path: Sequence[str]) -> dict[str, Any]:
    """Remove what stands at a path; answers {path, removed, version}, or {path, proposed, version} where a person's
    lock keeps it."""
    return await _call(
        conn, "select public.remove_extraction_field(%s, %s::text[]) as answer", (extraction_id, list(path))
    )


async def restore(
    conn: AsyncConnection[Row],
    extraction_id: UUID,
    version: int,
    confidences: Mapping[str, float],
    evidence: Mapping[str, JsonValue],
) -> dict[str, Any]:
    """Write the fields as they stood at a version, with confidences and evidence by path name of what that brings back;
    answers like `save_fields`."""
    return await _call(
        conn,
        "select public.restore_extraction(%s, %s, %s, %s) as answer",
        (extraction_id, version, Jsonb(dict(confidences)), Jsonb(dict(evidence))),
    )


async def unlock(conn: AsyncConnection[Row], extraction_id: UUID, path: Sequence[str]) -> dict[str, Any]:
    """Take the locks away at a path and below it; answers {path, unlocked: names, version}."""
    return await _call(
        conn, "select public.unlock_extraction_field(%s, %s::text[]) as answer", (extraction_id, list(path))
    )


async def decide(conn: AsyncConnection[Row], extraction_id: UUID, proposal_id: UUID, accepted: bool) -> dict[str, Any]:
    """Accept a proposal, which writes it as the caller's own, or reject it; answers {path, value, version}."""
    return await _call(
        conn, "select public.decide_extraction_proposal(%s, %s, %s) as answer", (extraction_id, proposal_id, accepted)
    )


async def identify(conn: AsyncConnection[Row], extraction_id: UUID, document_type: str) -> dict[str, Any]:
    """Say what kind of document it is; answers {value, version}."""
    return await _call(conn, "select public.identify_document(%s, %s) as answer", (extraction_id, document_type))


async def complete(conn: AsyncConnection[Row], extraction_id: UUID) -> dict[str, Any]:
    """Mark the extraction as completed; answers {value: status, version}."""
    return await _call(conn, "select public.complete_extraction(%s) as answer", (extraction_id,))


async def _call(conn: AsyncConnection[Row], query: Any, parameters: tuple[Any, ...]) -> dict[str, Any]:
    cursor = await conn.execute(query, parameters)
    row = await cursor.fetchone()
    assert row is not None
    return row["answer"]

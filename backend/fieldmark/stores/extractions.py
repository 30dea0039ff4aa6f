"""Extractions in Postgres. Each change is one SQL function, which the journal records and PostgREST offers too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from pydantic import JsonValue

Row = dict[str, Any]

_COLUMNS = (
    "id, document_id, document_type, status, extracted_fields, confidence_scores, evidence, version, "
    "created_at, updated_at"
)


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
    cursor = await conn.execute(f"select {_COLUMNS} from public.extractions where id = %s", (extraction_id,))
    return await cursor.fetchone()


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
        "where e.org_id = %s and e.status = 'completed' and exists (select from public.extraction_journal as j "
        "where j.extraction_id = e.id and j.actor = 'user') order by e.created_at desc limit %s",
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
    confidences: dict[str, float],
    evidence: Mapping[str, JsonValue],
) -> dict[str, Any]:
    """Merge fields into the extraction; answers {value: all fields, version}."""
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
    confidence: float | None,
    evidence: dict[str, JsonValue] | None,
) -> dict[str, Any]:
    """Write one value at a path; answers {path: its name, value: as stored, version}."""
    return await _call(
        conn,
        "select public.update_extraction_field(%s, %s::text[], %s, %s::numeric, %s::jsonb) as answer",
        (extraction_id, list(path), Jsonb(value), confidence, None if evidence is None else Jsonb(evidence)),
    )


async def remove_field(conn: AsyncConnection[Row], extraction_id: UUID, path: Sequence[str]) -> dict[str, Any]:
    """Remove what stands at a path; answers {path, removed, version}."""
    return await _call(
        conn, "select public.remove_extraction_field(%s, %s::text[]) as answer", (extraction_id, list(path))
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

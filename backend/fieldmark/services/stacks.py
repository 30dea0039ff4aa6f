"""Stacks: defines the columns of a stack's table, and starts what reads its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from fieldmark.db.pool import Connection, Database, savepoint
from fieldmark.domain.column_definitions import ColumnDefinition, list_of_rows, schema_of
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.names import MAX_CHARACTERS
from fieldmark.domain.statuses import ExtractionStatus, RowStatus
from fieldmark.errors import Conflict, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services import schema_changes
from fieldmark.services.documents import DocumentService
from fieldmark.services.fair_share import run_unqueued
from fieldmark.services.schema_changes import SchemaChanges, move_to_version
from fieldmark.services.schemas import check
from fieldmark.stores import extractions, stacks
from fieldmark.stores import schema_changes as changes_store
from fieldmark.stores.library import schemas
from fieldmark.stores.rows import Schema

MAX_READ_AT_ONCE: Final = 500
"""Rows that one call starts to read."""

SAMPLE_FILES: Final = Path(__file__).resolve().parent.parent / "sample_files"
SAMPLE_COLUMNS: Final = (
    ColumnDefinition.model_validate({"name": "vendor", "required": True}),
    ColumnDefinition.model_validate({"name": "date", "type": "date", "required": True}),
    ColumnDefinition.model_validate({"name": "total", "type": "number", "required": True}),
)


@dataclass(frozen=True, slots=True)
class RowReading:
    """A row that is to be read by a run: its extraction, and the fields to read (None: all)."""

    document_id: UUID
    extraction_id: UUID
    fields: Sequence[str] | None


async def create_samples(documents: DocumentService, database: Database, scope: Scope, name: str) -> tuple[UUID, bool]:
    """Create a stack of five sample receipts with this name, and return its id and True. If there is a stack with this
    name, return its id and False."""
    async with database.as_user(scope) as conn:
        existing = await stacks.list_page(conn, scope, limit=1, name=name)
        if existing.items:
            return existing.items[0].id, False
        stack_id = await stacks.add(conn, scope, name)
        await define_columns(conn, scope, stack_id, SAMPLE_COLUMNS)
    for file in sorted(SAMPLE_FILES.glob("*.pdf")):
        await documents.upload(scope, file, file.name, auto_create=False, stack_id=stack_id)
    return stack_id, True


async def define_columns(
    conn: Connection, scope: Scope, stack_id: UUID, definitions: Sequence[ColumnDefinition]
) -> Schema:
    """Set the columns of a stack: a schema of its own, named like the stack, or a new version of it. Raise NotFound,
    Invalid."""
    stack = await stacks.get_to_change(conn, stack_id)  # two first definitions would otherwise make two schemas
    current = stack.schema
    schema = await run_unqueued(schema_of, definitions, None if current is None else current.schema)
    await check(schema)
    if current is None:
        row = await _create_schema(conn, scope, stack.name, schema)
    else:
        row = await schemas.update(conn, current.id, schema=schema)
    await stacks.set_table(conn, scope, stack_id, row.id, list_of_rows(definitions))
    return row


async def _create_schema(conn: Connection, scope: Scope, name: str, schema: JsonObject) -> Schema:
    """Create a schema with this name, or with a number after it if the name is taken."""
    number, free_name = 1, name
    while await schemas.by_name(conn, scope.org_id, free_name) is not None:
        number += 1
        ending = f" ({number})"
        free_name = name[: MAX_CHARACTERS - len(ending)] + ending
    return await schemas.create(conn, scope.org_id, free_name, schema)


async def preview_columns(
    database: Database, scope: Scope, stack_id: UUID, definitions: Sequence[ColumnDefinition]
) -> SchemaChanges | None:
    """Return what other columns would change for the rows, or None if no columns are defined yet. Raise like
    `define_columns`."""
    async with database.as_user(scope) as conn:
        current = (await stacks.get(conn, stack_id)).schema
    schema = await run_unqueued(schema_of, definitions, None if current is None else current.schema)
    await check(schema)
    return None if current is None else await schema_changes.preview(database, scope, current.id, schema=schema)


async def start_rows(
    conn: Connection,
    scope: Scope,
    stack_id: UUID,
    schema: Schema,
    run_id: UUID,
    limit: int,
    document_id: UUID | None = None,
) -> list[RowReading]:
    """Prepare at most `limit` rows to be read: new extractions, or those under older columns. Return those that need a
    run. `document_id`: only the row of this document, whatever its state. Raise NotFound, or Conflict if a run is at
    work on it."""
    if document_id is not None:
        found = await stacks.rows(conn, stack_id, limit=1, document_id=document_id)
        if not found:
            raise NotFound("The stack has no such document.")
        extraction_id = found[0].extraction_id
        if extraction_id is not None and await changes_store.has_active_run(conn, extraction_id):
            raise Conflict("A run is at work on the row of this document. Wait until it has ended.")
        wanted = [stacks.RowToRead(document_id, extraction_id, found[0].state)]
    else:
        wanted = await stacks.rows_to_read(conn, stack_id, run_id, limit)
    readings: list[RowReading] = []
    for row in wanted:
        try:
            reading = await _start_row(conn, scope, schema, row)
        except NotFound:  # deleted in the meantime
            if document_id is not None:
                raise
            continue
        readings += [reading] if reading is not None else []
    return readings


async def _start_row(conn: Connection, scope: Scope, schema: Schema, row: stacks.RowToRead) -> RowReading | None:
    """Prepare a row to be read. Return None if it only moves to the new columns. Raise NotFound."""
    if row.extraction_id is None:
        async with savepoint(conn):
            added = await extractions.add(
                conn, org_id=scope.org_id, document_id=row.document_id, schema_revid=schema.schema_revid
            )
        return RowReading(row.document_id, added, None)
    extraction = await extractions.get(conn, row.extraction_id, lock=True)
    if extraction.schema_revid == schema.schema_revid:
        return RowReading(row.document_id, row.extraction_id, None)
    difference = await move_to_version(conn, extraction, schema)
    # If its last reading did not complete it, fields are missing that did not change.
    if row.state is not RowStatus.STALE or extraction.status is not ExtractionStatus.COMPLETED:
        return RowReading(row.document_id, row.extraction_id, None)
    return RowReading(row.document_id, row.extraction_id, difference.fields) if difference.needs_reading else None

"""Tools that read the documents of one stack, define the columns of its table, and fill its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.changes import Change, Preview
from fieldmark.domain.column_definitions import MAX_BYTES, ColumnDefinition, Definitions, schema_of
from fieldmark.domain.fields import leaves
from fieldmark.domain.formatting import counted, cut_text, list_names
from fieldmark.domain.json_values import as_object
from fieldmark.domain.paths import EACH
from fieldmark.domain.statuses import Approval, RowStatus, RunStatus
from fieldmark.errors import NotFound
from fieldmark.services import extractions, stacks
from fieldmark.services.extractions import Author, FieldRemoval, FieldsWrite, FieldWrite, PreparedWrite, Write
from fieldmark.services.fair_share import run_unqueued
from fieldmark.stores import organisations, schema_changes, tool_calls
from fieldmark.stores import stacks as stored
from fieldmark.stores.extractions import fields_to_review
from fieldmark.stores.rows import Schema
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.stores.stacks import RowToRead, StackTableRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.documents import GetDocumentText, read_pages
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.fields import FieldPath, cut, short, write_result
from fieldmark.tools.toolset import (
    ChildRun,
    RunAnswer,
    ShownResult,
    ToolEffect,
    ToolInput,
    ToolResult,
    tool,
)
from valuegrounding import Claim

_EXTRACT: Final = "extract"
_PAGE: Final = 100
_PAGE_WITH_VALUES: Final = 20
_MAX_LISTED: Final = 50
_MAX_BYTES: Final = 34_000
_MAX_COUNTED: Final = 10_000

Offset = Annotated[int, Field(ge=0, le=1_000_000, description="The number of documents to skip.")]


class ListDocuments(ToolInput):
    """List the documents of the stack with the states of their rows, 100 at a time."""

    name_search: Annotated[str | None, Field(max_length=300, description="A part of the filename.")] = None
    offset: Offset = 0


class GetStackDocumentText(GetDocumentText):
    """Read the text of a document of the stack, from its first page or the given `pages`. A long document is returned
    in parts; the last line says how to continue. [warning: …] marks what could not be read reliably on a page."""

    document_id: UUID


class DefineColumns(ToolInput):
    """Set all columns of the table, in order. Columns that you leave out are dropped from the table; their values stay
    with the documents. If a column is added or changed, the rows of documents read before become stale."""

    columns: Definitions


class ExtractRow(ToolInput):
    """Fill rows. Without arguments: other agents read every document whose row is missing, incomplete, stale or failed;
    the call ends when all are read. With `document_id` only: another agent reads that document, again if need be. With
    `values` too: save the row as you read it, nested by column path; `quotes` has the printed words of a value by its
    path, where the value alone cannot be found on the page."""

    document_id: UUID | None = None
    values: Annotated[dict[str, JsonValue] | None, Field(min_length=1)] = None
    quotes: dict[str, Annotated[str, Field(max_length=2000)]] | None = None


class UpdateCell(ToolInput):
    """Set one value of a row, such as vendor or items[2].price; null empties it."""

    document_id: UUID
    column: FieldPath
    value: JsonValue
    quote: Annotated[str | None, Field(max_length=2000)] = None


class GetTableState(ToolInput):
    """Read the columns, the number of rows in each state, and the rows that failed. With `with_values` also the values
    of 20 rows, or those of one document, and in `to_review` the fields that a person has to look at, with the reason:
    missing, not_found, ..."""

    with_values: bool = False
    document_id: UUID | None = None
    offset: Offset = 0


class CompleteTable(ToolInput):
    """Declare the table complete. Refused while documents have no row, or one that is stale or incomplete and was not
    read in this run. `summary` is your answer; left out: the number of rows in each state."""

    summary: Annotated[str | None, Field(min_length=1, max_length=4000)] = None


@dataclass(frozen=True, slots=True)
class _PreparedRow:
    """A row to save: its write, or None if other agents read the rows."""

    args: ExtractRow
    prepared: PreparedWrite | None

    @property
    def shown(self) -> object:
        return None if self.prepared is None else self.prepared.shown


def _rows_summary(args: ExtractRow) -> str:
    if args.document_id is None:
        return "Reading all documents without a current row"
    return "Reading a document" if args.values is None else f"Saving a row: {', '.join(args.values)[:200]}"


class StackTools:
    """The tools of one run, for its stack. No argument can name a document outside of it. A call starts to read at most
    `max_rows` rows."""

    def __init__(self, context: RunContext, stack_id: UUID, max_rows: int) -> None:
        self.context = context
        self.stack_id = stack_id
        self.max_rows = max_rows

    # Reading

    @tool(ListDocuments, lambda args: "Listing the documents of the stack")
    async def list_documents(self, conn: Connection, args: ListDocuments) -> ToolResult:
        rows = await stored.rows(conn, self.stack_id, limit=_PAGE + 1, offset=args.offset, name_search=args.name_search)
        shown = cut([row_json(row) for row in rows[:_PAGE]], _MAX_BYTES)
        data: dict[str, JsonValue] = {"documents": shown}
        text = f"{counted(len(shown), 'document')}."
        if len(shown) < len(rows):
            data["offset"] = args.offset + len(shown)
            text += f" There are more: call again with offset {args.offset + len(shown)}."
        message = ShownResult(f"Found {counted(len(shown), 'document')}", {"count": len(shown)})
        return ToolResult(text, "ok" if len(shown) == len(rows) else "more", data, shown=message)

    @tool(GetStackDocumentText, lambda args: "Reading a document")
    async def get_document_text(self, conn: Connection, args: GetStackDocumentText) -> ToolResult:
        await self._check_document(conn, args.document_id)

        def call_again(page: int, offset: int | None) -> str:
            at = "" if offset is None else f" and offset {offset}"
            return f'call get_document_text with this document_id, pages "{page}-"{at}'

        return await read_pages(conn, self.context, args.document_id, args.pages, args.offset, call_again)

    @tool(GetTableState, lambda args: "Looking at the table")
    async def get_table_state(self, conn: Connection, args: GetTableState) -> ToolResult:
        if args.document_id is not None:
            await self._check_document(conn, args.document_id)
        stack = await stored.get(conn, self.stack_id)
        progress = (await stored.progress(conn, [self.stack_id]))[self.stack_id]
        failed = await stored.rows(conn, self.stack_id, limit=_MAX_LISTED, states=[RowStatus.FAILED])
        text = "The state of the table."
        data: dict[str, JsonValue] = {
            "columns": columns_json(stack.columns),
            "rows_are": stack.row_path or "documents",
            "states": {str(state): number for state, number in progress.counts.items()},
            "failed": cut([row_json(row) for row in failed], 4_000),
        }
        if args.with_values or args.document_id is not None:
            rows = await stored.rows(
                conn,
                self.stack_id,
                limit=_PAGE_WITH_VALUES,
                offset=args.offset,
                document_id=args.document_id,
                with_values=True,
            )
            reasons = await fields_to_review(conn, [row.extraction_id for row in rows if row.extraction_id])
            listed: list[JsonValue] = [
                {
                    **row_json(row),
                    "values": row.extracted_fields or {},
                    "to_review": dict(reasons.get(row.extraction_id, {})) if row.extraction_id else {},
                }
                for row in rows
            ]
            shown_rows = cut(listed, _MAX_BYTES - len(json.dumps(data, ensure_ascii=False).encode()))
            data["rows"] = shown_rows
            following = args.offset + max(1, len(shown_rows))
            if args.document_id is None and following < sum(progress.counts.values()):
                data["offset"] = following
                text += f" There are more rows: call again with offset {following}."
        counts = ", ".join(f"{number} {state}" for state, number in progress.counts.items())
        shown = ShownResult(f"Looked at the table: {counts or 'no documents'}", {"states": data["states"]})
        return ToolResult(text, "ok", data, shown=shown)

    async def _check_document(self, conn: Connection, document_id: UUID) -> None:
        if not await stored.has_document(conn, self.stack_id, document_id):
            raise ModelRetry("The stack has no such document: list_documents has their ids.", "not_in_stack")

    # Columns

    async def preview_columns(self, conn: Connection, args: DefineColumns) -> Preview:
        stack = await stored.get(conn, self.stack_id)
        schema = stack.schema
        # Raises what makes the columns unusable.
        await run_unqueued(schema_of, args.columns, None if schema is None else schema.schema)
        before = {one.name: one for one in stack.columns}
        after = {one.name: one for one in args.columns}
        changes = [
            Change(
                name,
                _described(before.get(name)),
                _described(one),
                added=name not in before,
            )
            for name, one in after.items()
            if before.get(name) != one
        ]
        changes += [
            Change(name, _described(one), None, removed=True) for name, one in before.items() if name not in after
        ]
        return Preview(changes, None if schema is None else str(schema.schema_revid))

    @tool(
        DefineColumns,
        lambda args: f"Setting the columns: {list_names([one.name for one in args.columns], characters=300, most=20)}",
        ToolEffect.WRITE,
        preview=preview_columns,
    )
    async def define_columns(self, conn: Connection, args: DefineColumns) -> ToolResult:
        row = await stacks.define_columns(conn, self.context.scope, self.stack_id, args.columns)
        names = [one.name for one in (await stored.get(conn, self.stack_id)).columns]
        data: dict[str, JsonValue] = {"columns": [*names], "schema_revid": str(row.schema_revid)}
        return ToolResult(f"The table has {counted(len(names), 'column')}.", "defined", data)

    # Rows

    async def prepare_row(self, args: ExtractRow) -> _PreparedRow:
        if args.values is None:
            if args.quotes:
                raise ModelRetry("`quotes` needs `values`.")
            return _PreparedRow(args, None)
        if args.document_id is None:
            raise ModelRetry("`values` needs the document_id of their row.")
        async with self.context.database.as_user(self.context.scope) as conn:
            await self._check_document(conn, args.document_id)
            schema = await self._schema(conn)
            await self._check_columns(conn, [path for path, value in leaves(args.values) if value not in ([], {})])
        claims = {paths.name(paths.parse(path)): Claim(quote) for path, quote in (args.quotes or {}).items()}
        prepared = await extractions.prepare_first_write(
            self.context.database,
            self.context.scope,
            self.context.indexes,
            args.document_id,
            schema,
            FieldsWrite(args.values, claims),
            self._author(),
        )
        return _PreparedRow(args, prepared)

    async def is_sample(self, conn: Connection, args: ExtractRow) -> bool:
        """Return whether the call saves a row as the agent read it, after a person approved the columns in this run.
        Not if the organisation requires a second person or an owner for each write."""
        if args.values is None or (await organisations.get(conn, self.context.scope.org_id)).always_asks:
            return False
        return await tool_calls.has_approved_write(conn, self.context.run_id, "define_columns")

    async def preview_row(self, conn: Connection, args: ExtractRow) -> Preview:
        schema = await self._schema(conn)
        if args.document_id is not None:
            await self._check_document(conn, args.document_id)
            name = (await stored.rows(conn, self.stack_id, limit=1, document_id=args.document_id))[0].filename
            changes = [Change("document", None, name, added=True)]
            changes += [Change(path, None, value, added=True) for path, value in leaves(args.values or {})]
            return Preview(changes, str(schema.schema_revid))
        rows = await self._rows_to_read(conn)
        cost = await schema_changes.average_cost(conn, self.context.scope.org_id, schema.id)
        changes = [Change("documents to read", None, len(rows), added=True)]
        if cost is not None:
            changes.append(Change("estimated cost in US dollars", None, round(float(cost) * len(rows), 2), added=True))
        return Preview(changes, str(schema.schema_revid))

    async def collect_rows(self, conn: Connection, args: ExtractRow, runs: Sequence[RunRow]) -> ToolResult:
        left = await self._rows_to_read(conn)
        failed = [run for run in runs if run.status is not RunStatus.COMPLETED]
        ended = {run.document_id for run in runs if run.status is RunStatus.COMPLETED}
        incomplete = [row for row in await self._incomplete_rows(conn) if row.document_id in ended]
        read = len(ended) - len(incomplete)
        data: dict[str, JsonValue] = {
            "read": read,
            "left": len(left),
            "incomplete": [str(row.document_id) for row in incomplete[:_MAX_LISTED]],
            "failed": cut(
                [{"document_id": str(run.document_id), "code": run.error_code, "error": run.error} for run in failed],
                _MAX_BYTES,
            ),
        }
        text = f"Rows read: {read}; incomplete: {len(incomplete)}; failed: {len(failed)}; left to read: {len(left)}."
        if args.document_id is not None and failed:
            raise ToolFailed(f"The document was not read. {failed[0].error or ''}".strip(), "row_failed", data)
        return ToolResult(text, "read", data, needs_attention=bool(failed or left or incomplete))

    @tool(
        ExtractRow,
        _rows_summary,
        ToolEffect.WRITE,
        prepare=prepare_row,
        preview=preview_row,
        is_covered=is_sample,
        collect=collect_rows,
    )
    async def extract_row(self, conn: Connection, row: _PreparedRow) -> ToolResult | Sequence[ChildRun]:
        if row.prepared is not None:
            return await self._save_row(conn, row.prepared)
        schema = await self._schema(conn)
        if row.args.document_id is not None:
            await self._check_document(conn, row.args.document_id)
            await self._refuse_without_row(conn, row.args.document_id)
        readings = await stacks.start_rows(
            conn, self.context.scope, self.stack_id, schema, self.context.run_id, self.max_rows, row.args.document_id
        )
        if not readings and (left := await self._rows_to_read(conn)):
            text = f"Rows follow the new columns and need no reading; {len(left)} are left. Call extract_row again."
            return ToolResult(text, "read", {"read": 0, "left": len(left)}, needs_attention=True)
        if not readings:
            text = "No document is left to read."
            if incomplete := await self._incomplete_rows(conn):
                text += f" Rows that stayed incomplete when they were read in this run: {len(incomplete)}."
            return ToolResult(text, "nothing_to_read", {"incomplete": len(incomplete)})
        words = self.context.run.input.get("instructions")
        instructions: dict[str, JsonValue] = {"instructions": words} if isinstance(words, str) else {}
        return [
            ChildRun(
                f"Reading {counted(len(readings), 'document')}.",
                _EXTRACT,
                instructions if one.fields is None else {**instructions, "fields": list(one.fields)},
                Subject(one.document_id, one.extraction_id),
                # Approving this call also approves the writes of the runs that it starts.
                approval=Approval.AUTO,
                background=True,
            )
            for one in readings
        ]

    async def _save_row(self, conn: Connection, prepared: PreparedWrite) -> ToolResult:
        row = await self._refuse_without_row(conn, prepared.row.document_id)
        if row.extraction_id is not None:
            raise ModelRetry("The document has a row: change it with update_cell.", "row_exists")
        written = await extractions.apply_first(conn, self.context.scope, prepared)
        value = written.stored.value
        return write_result(self.context, written, value if isinstance(value, dict) else {})

    async def _refuse_without_row(self, conn: Connection, document_id: UUID) -> StackTableRow:
        """Return the row of a document. Raise ModelRetry if the table shows only another copy of the document, or the
        files in it."""
        found = await stored.rows(conn, self.stack_id, limit=1, document_id=document_id)
        if not found:
            raise NotFound("The document was removed from the stack.")
        if found[0].state is RowStatus.CONTAINER:
            raise ModelRetry("This is an archive: its files are documents of the stack, with rows.", "row_exists")
        if found[0].duplicate_of is not None:
            raise ModelRetry(f"This is a copy of document {found[0].duplicate_of}, which has the row.", "row_exists")
        return found[0]

    async def _rows_to_read(self, conn: Connection) -> list[RowToRead]:
        return await stored.rows_to_read(conn, self.stack_id, self.context.run_id, _MAX_COUNTED)

    async def _incomplete_rows(self, conn: Connection) -> list[StackTableRow]:
        return await stored.rows(conn, self.stack_id, limit=_MAX_COUNTED, states=[RowStatus.INCOMPLETE])

    async def prepare_cell(self, args: UpdateCell) -> PreparedWrite:
        async with self.context.database.as_user(self.context.scope) as conn:
            extraction_id = await self._extraction_of(conn, args)
        return await extractions.prepare_write(
            self.context.database,
            self.context.scope,
            self.context.indexes,
            extraction_id,
            _cell_write(args),
            self._author(),
        )

    async def preview_cell(self, conn: Connection, args: UpdateCell) -> Preview:
        extraction_id = await self._extraction_of(conn, args)
        return await extractions.preview(conn, extraction_id, _cell_write(args), self._author())

    @tool(
        UpdateCell,
        lambda args: f"Setting {cut_text(args.column, 80)}",
        ToolEffect.WRITE,
        prepare=prepare_cell,
        preview=preview_cell,
    )
    async def update_cell(self, conn: Connection, prepared: PreparedWrite) -> ToolResult:
        written = await extractions.apply(conn, prepared)
        written = await extractions.complete_again(conn, prepared, written)
        return write_result(self.context, written, {str(written.stored.path): written.stored.value})

    async def _extraction_of(self, conn: Connection, args: UpdateCell) -> UUID:
        """Return the extraction of a cell's row. Raise ModelRetry if there is none, or if the column is not defined."""
        await self._check_document(conn, args.document_id)
        (row,) = await stored.rows(conn, self.stack_id, limit=1, document_id=args.document_id)
        if row.extraction_id is None:
            raise ModelRetry("The document has no row yet: call extract_row.", "no_row")
        await self._check_columns(conn, [args.column])
        return row.extraction_id

    async def _check_columns(self, conn: Connection, written: Sequence[str]) -> None:
        """Raise ModelRetry if one of the paths is not a value of a column."""
        columns = [one.name for one in (await stored.get(conn, self.stack_id)).columns]
        for path in written:
            pattern = [EACH if isinstance(step, int) else step for step in paths.parse(path)]
            if paths.name(pattern) not in columns:
                text = f"The table has no column {path[:200]}. Its columns: {short(columns)}."
                raise ModelRetry(text, "no_such_column")

    # Completion

    async def needs_no_approval(self, conn: Connection, args: CompleteTable) -> bool:
        """Completing a table changes nothing, so no person is asked."""
        return True

    @tool(
        CompleteTable,
        lambda args: "Completing the table",
        ToolEffect.WRITE,
        answer=lambda args, data: RunAnswer(args.summary or _states_text(data)),
        is_covered=needs_no_approval,
    )
    async def complete_table(self, conn: Connection, args: CompleteTable) -> ToolResult:
        await self._schema(conn)
        data: dict[str, JsonValue]
        # Only rows that this run can still read: others would keep it from ending.
        missing = [row for row in await self._rows_to_read(conn) if row.state is not RowStatus.FAILED]
        if missing:
            data = {"missing": [str(row.document_id) for row in missing[:_MAX_LISTED]]}
            raise ModelRetry(
                f"Documents without a current row: {len(missing)}. Call extract_row without arguments.",
                "rows_missing",
                data,
            )
        counts = (await stored.progress(conn, [self.stack_id]))[self.stack_id].counts
        states: dict[str, JsonValue] = {str(state): number for state, number in counts.items()}
        data = {"states": states}
        return ToolResult(f"The table is closed. {_states_text(data)}", "completed", data)

    async def _schema(self, conn: Connection) -> Schema:
        schema = (await stored.get(conn, self.stack_id)).schema
        if schema is None:
            raise ModelRetry("The table has no columns yet: call define_columns.", "no_columns")
        return schema

    def _author(self) -> Author:
        return Author(is_person=False, message=self.context.message)


def columns_json(columns: Sequence[ColumnDefinition]) -> list[JsonValue]:
    """Return the columns of a table for the model. Those of an edited schema may be too long: then without their
    descriptions."""
    shown = cut([one.model_dump(exclude_none=True) for one in columns], MAX_BYTES)
    return (
        shown
        if len(shown) == len(columns)
        else cut([{"name": one.name, "type": one.type} for one in columns], MAX_BYTES)
    )


def _states_text(data: JsonValue) -> str:
    states = as_object(as_object(data).get("states"))
    return f"Rows: {', '.join(f'{number} {state}' for state, number in states.items())}."


def row_json(row: StackTableRow) -> dict[str, JsonValue]:
    """Return a document of a stack and the state of its row for the model."""
    found: dict[str, JsonValue] = {
        "document_id": str(row.document_id),
        "filename": row.filename,
        "pages": row.page_count,
        "state": str(row.state),
    }
    found |= {"error": row.error, "code": row.error_code} if row.error is not None else {}
    return found | ({} if row.duplicate_of is None else {"duplicate_of": str(row.duplicate_of)})


def _cell_write(args: UpdateCell) -> Write:
    path = paths.parse(args.column)
    if args.value is None:
        return FieldRemoval(path)
    return FieldWrite(path, args.value, {} if args.quote is None else {paths.name(path): Claim(args.quote)})


def _described(definition: ColumnDefinition | None) -> str | None:
    if definition is None:
        return None
    kind = definition.type if definition.unit is None else f"{definition.type} in {definition.unit}"
    return kind if definition.description is None else f"{kind}: {definition.description}"

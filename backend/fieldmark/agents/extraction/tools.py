"""Tools that read and write the extraction: its type, its fields, its completion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain import paths
from fieldmark.domain.changes import Preview
from fieldmark.domain.events import ChangedEvent, ChangedField
from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.formatting import cut_text, format_ranges, list_names
from fieldmark.domain.json_values import as_object
from fieldmark.domain.partial_json import WrittenLeaf
from fieldmark.errors import Invalid, NoFields, SchemaViolation
from fieldmark.services import extractions
from fieldmark.services.evidence import FoundEvidence
from fieldmark.services.extractions import (
    Author,
    FieldRemoval,
    FieldsWrite,
    FieldWrite,
    PreparedWrite,
    Write,
    WrittenFields,
)
from fieldmark.stores import documents, tool_calls
from fieldmark.stores import extractions as extraction_rows
from fieldmark.stores.rows import ExtractionRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.fields import (
    FieldPath,
    cut,
    fields_for_people,
    kept_values_text,
    outline,
    reopened_text,
    short,
    shorten_lists,
    write_result,
)
from fieldmark.tools.ledger import outcome_of_error
from fieldmark.tools.toolset import (
    MAX_RESULT_BYTES,
    Confidence,
    OptionalEnd,
    RunAnswer,
    ToolEffect,
    ToolInput,
    ToolResult,
    tool,
)
from valuegrounding import Claim

_MAX_WARNINGS = 20
_COMPLETE = "complete_extraction"
_COMPLETED = "completed"
_IN_PROGRESS = "\nThe extraction is not complete yet: call complete_extraction when all is saved."

Quote = Annotated[str, Field(max_length=2000)]
DocumentType = Annotated[str, Field(min_length=1, max_length=200)]


class Quoted(ToolInput):
    quote: Quote
    page: Annotated[int | None, Field(ge=1)] = None


class GetCurrentExtraction(ToolInput):
    """Read the fields saved so far; with a path, only the value there."""

    path: FieldPath | None = None


class IdentifyDocument(ToolInput):
    """Save what kind of document it is: invoice, receipt, contract, form or the like."""

    document_type: DocumentType
    confidence: Confidence | None = None
    reason: Annotated[str | None, Field(max_length=2000)] = None


class ExtractFields(ToolInput):
    """Save fields and the document's type. Objects merge with what is saved; other values, lists included, replace it.
    With a summary, also complete the extraction and end the task."""

    document_type: DocumentType | None = None
    fields: Annotated[dict[str, JsonValue], Field(min_length=1)]
    confidences: Annotated[
        dict[str, Confidence] | None, Field(description='Only those below 0.9, by path: {"items[0].price": 0.6}.')
    ] = None
    evidence: Annotated[
        dict[str, Quoted] | None,
        Field(
            description="Only for values that cannot be found on the page without it, by path: "
            '{"term": {"quote": "due within a month", "page": 1}}.'
        ),
    ] = None
    summary: Annotated[
        str | None,
        Field(max_length=4000, description="Your answer to the person: a short sentence; another for what is missing."),
    ] = None


class UpdateField(ToolInput):
    """Save one field. A list grows only at its end."""

    path: FieldPath
    value: JsonValue
    confidence: Confidence | None = None
    quote: Quote | None = None


class RemoveField(ToolInput):
    """Remove a field or an item of a list, with everything below it."""

    path: FieldPath
    reason: Annotated[str | None, Field(max_length=2000)] = None


class CompleteExtraction(ToolInput):
    """Complete the extraction, as the last call; with a summary it ends the task. Refused, with the reasons, if a
    field or a page is missing or a rule is broken."""

    document_type: DocumentType | None = None
    summary: Annotated[str | None, Field(max_length=4000, description="As in extract_fields.")] = None


@dataclass(frozen=True, slots=True)
class _PreparedFields:
    """Several prepared fields, their top-level keys, the document type if the call sets it too, and whether the call
    completes the extraction."""

    write: PreparedWrite
    keys: Sequence[str]
    document_type: str | None
    completes: bool

    @property
    def shown(self) -> FoundEvidence:
        return self.write.shown


# Reading --------------------------------------------------------------------------------------------------------------


def _partial_fields(leaves: Sequence[WrittenLeaf]) -> list[tuple[str, JsonValue]]:
    return _partial_write("fields", (), leaves)


def _partial_field(leaves: Sequence[WrittenLeaf]) -> list[tuple[str, JsonValue]]:
    at = next((value for path, value in leaves if path == ("path",)), None)
    try:
        return _partial_write("value", paths.parse(at), leaves) if isinstance(at, str) else []
    except Invalid:
        return []


def _partial_write(argument: str, at: paths.Path, leaves: Sequence[WrittenLeaf]) -> list[tuple[str, JsonValue]]:
    """Return the leaves of one argument as fields at a path, without those that a write would be refused for."""
    found = (((*at, *path[1:]), value) for path, value in leaves if path[:1] == (argument,))
    return [(paths.name(path), value) for path, value in found if path and extractions.can_be_written(path, value)]


class ExtractionTools:
    """The tools of one run for its extraction."""

    def __init__(self, context: RunContext, extraction_id: UUID) -> None:
        self.context = context
        self.extraction_id = extraction_id

    @tool(GetCurrentExtraction, lambda args: "Looking at what has been extracted")
    async def get_current_extraction(self, conn: Connection, args: GetCurrentExtraction) -> ToolResult:
        row = await extraction_rows.get(conn, self.extraction_id)
        if args.path is None:
            return await run_in_thread(current_extraction, row)
        at = paths.parse(args.path)
        found = value_at(row.extracted_fields, at)
        if isinstance(found, Missing):
            raise ModelRetry(f"There is no value at path {args.path}.", "nothing_there")
        text = await run_in_thread(json.dumps, found, ensure_ascii=False)
        if len(text.encode()) > MAX_RESULT_BYTES:
            raise ModelRetry(
                f"The value at {args.path} is too long to show. Request its parts by longer paths.", "too_long"
            )
        return ToolResult(text, shown=await run_in_thread(fields_for_people, "Read", row, found, at))

    async def adds_type(self, conn: Connection, args: IdentifyDocument | ExtractFields | CompleteExtraction) -> bool:
        """Return whether the call sets the document type for the first time, or leaves it unchanged."""
        row = await extraction_rows.get(conn, self.extraction_id)
        return row.document_type is None or args.document_type in (None, row.document_type)

    async def preview_type(self, conn: Connection, args: IdentifyDocument) -> Preview:
        author = self._author()
        return await extractions.preview_type(conn, self.extraction_id, args.document_type, author)

    @tool(
        IdentifyDocument,
        lambda args: f"It is a document of type {args.document_type}",
        ToolEffect.WRITE,
        is_independent=True,
        preview=preview_type,
        is_covered=adds_type,
    )
    async def identify_document(self, conn: Connection, args: IdentifyDocument) -> ToolResult:
        await self._refuse_once_completed(conn)
        data = await self._identify(conn, args.document_type)
        return ToolResult(f"The document type is now {data['document_type']!r}.", "identified", data)

    async def prepare_fields(self, args: ExtractFields) -> _PreparedFields:
        write = await self._prepare(_fields_write(args))
        return _PreparedFields(write, list(args.fields), args.document_type, args.summary is not None)

    async def preview_fields(self, conn: Connection, args: ExtractFields) -> Preview:
        return await self._add_type_change(conn, args.document_type, await self._preview(conn, _fields_write(args)))

    @tool(
        ExtractFields,
        lambda args: _saving_summary(args.document_type, list(args.fields), args.summary is not None),
        ToolEffect.WRITE,
        partial_write=_partial_fields,
        answer=lambda args, data: RunAnswer(args.summary or "") if _has_completed(data) else None,
        optional_end=OptionalEnd("summary", _COMPLETE),
        prepare=prepare_fields,
        preview=preview_fields,
    )
    async def extract_fields(self, conn: Connection, prepared: _PreparedFields) -> ToolResult:
        data = await self._identify(conn, prepared.document_type)
        written = await self._apply(conn, prepared.write)
        value = written.stored.value
        current = {key: value.get(key) for key in prepared.keys} if isinstance(value, dict) else {}
        if not prepared.completes:
            result = write_result(self.context, written, current, data)
            in_progress = _IN_PROGRESS if self.context.message is None else ""
            return replace(result, text=f"{result.text}{in_progress}")
        # Whether the extraction is completed again is the result of completing it.
        return await self._complete_after(
            conn, write_result(self.context, replace(written, reopened=False), current, data)
        )

    async def _complete_after(self, conn: Connection, result: ToolResult) -> ToolResult:
        """Complete the extraction in the transaction of a write that had this result. If that is refused, the write is
        kept, and the result gets the reasons."""
        try:
            if result.needs_attention:
                raise ModelRetry("report to the person what was not changed.", "answer_unread")
            done = await self._complete(conn)
            code, text, data = done.code, done.text, done.data
        except (ModelRetry, NoFields, SchemaViolation) as error:  # raised before completing writes anything
            refusal = outcome_of_error(error)
            code, text, data = refusal.code, f"Not completed: {refusal.sentence}", refusal.data
        return replace(
            result,
            text=f"{result.text}\n{text}",
            data={**as_object(result.data), **as_object(data), _COMPLETE: code},
            needs_attention=code != _COMPLETED,
        )

    async def prepare_field(self, args: UpdateField) -> PreparedWrite:
        return await self._prepare(_field_write(args))

    async def preview_field(self, conn: Connection, args: UpdateField) -> Preview:
        return await self._preview(conn, _field_write(args))

    @tool(
        UpdateField,
        lambda args: f"Updating {cut_text(args.path, 80)}",
        ToolEffect.WRITE,
        partial_write=_partial_field,
        prepare=prepare_field,
        preview=preview_field,
    )
    async def update_field(self, conn: Connection, prepared: PreparedWrite) -> ToolResult:
        written = await self._apply(conn, prepared)
        return write_result(self.context, written, {str(written.stored.path): written.stored.value})

    async def prepare_removal(self, args: RemoveField) -> PreparedWrite:
        return await self._prepare(FieldRemoval(paths.parse(args.path)))

    async def preview_removal(self, conn: Connection, args: RemoveField) -> Preview:
        return await self._preview(conn, FieldRemoval(paths.parse(args.path)))

    @tool(
        RemoveField,
        lambda args: f"Removing {cut_text(args.path, 80)}",
        ToolEffect.WRITE,
        prepare=prepare_removal,
        preview=preview_removal,
    )
    async def remove_field(self, conn: Connection, prepared: PreparedWrite) -> ToolResult:
        written = await self._apply(conn, prepared)
        stored = written.stored
        if stored.proposed:
            return ToolResult(
                f"Not removed, version {stored.version}: {kept_values_text(stored.proposed)}",
                "not_removed",
                {"version": stored.version, "proposed": list(stored.proposed)},
                needs_attention=self.context.message is not None,
            )
        assert isinstance(prepared.write, FieldRemoval)  # what `_prepare_removal` prepares
        gone = ChangedField(path=str(stored.path), value=None, confidence=None, evidence=None, removed=True)
        event = ChangedEvent(changed=[gone], version=stored.version)
        data: dict[str, JsonValue] = {"version": stored.version}
        data |= {"reopened": True} if written.reopened else {}
        return ToolResult(
            f"Removed {stored.path}, which was {short(stored.removed)}. Version {stored.version}."
            + reopened_text(written),
            "removed",
            data,
            [event],
        )

    async def completes_approved(self, conn: Connection, args: ExtractFields | CompleteExtraction) -> bool:
        """Return whether the call only completes what a person approved in this run."""
        return await self.adds_type(conn, args) and await tool_calls.has_approved_write(conn, self.context.run_id)

    async def preview_completion(self, conn: Connection, args: CompleteExtraction) -> Preview:
        completion = await extractions.preview_completion(conn, self.extraction_id)
        return await self._add_type_change(conn, args.document_type, completion)

    @tool(
        CompleteExtraction,
        lambda args: _prepend_document_type(args.document_type, "Completing the extraction"),
        ToolEffect.WRITE,
        answer=lambda args, _: RunAnswer(args.summary or ""),
        preview=preview_completion,
        is_covered=completes_approved,
    )
    async def complete_extraction(self, conn: Connection, args: CompleteExtraction) -> ToolResult:
        return await self._complete(conn, args.document_type)

    async def _complete(self, conn: Connection, document_type: str | None = None) -> ToolResult:
        """Complete the extraction. Raise ModelRetry if pages were not read, NoFields, or SchemaViolation."""
        row = await extraction_rows.get(conn, self.extraction_id, lock=True)
        found = await extractions.completion_violations(row)
        if unread := await self._asks_for_pages(conn):
            data: dict[str, JsonValue] = {"pages": list(unread)}
            data |= {"paths": list(extractions.violated_paths(found))} if found else {}
            raise ModelRetry(
                f"Not read in this run: {'page' if len(unread) == 1 else 'pages'} {format_ranges(unread)}. "
                "Read what can hold a field; if it holds none, complete again: this is asked once."
                + (f"\n{extractions.violations_text(found)}" if found else ""),
                "unread_pages",
                shorten_lists(data),
            )
        data = await self._identify(conn, document_type)
        stored = await extractions.complete(conn, row.id, self._author(), found)
        text = f"The extraction is {stored.value}. Version {stored.version}."
        warnings = [one for one in await documents.warnings(conn, row.document_id) if one.is_about_reading]
        if warnings:
            data["warnings"] = [{"code": one.code.value, "page": one.page} for one in warnings[:_MAX_WARNINGS]]
            text += "".join(f"\n[warning: {one.message}]" for one in warnings[:_MAX_WARNINGS])
            if len(warnings) > _MAX_WARNINGS:
                text += f"\n[{len(warnings) - _MAX_WARNINGS} more warnings]"
        return ToolResult(text, _COMPLETED, {"version": stored.version, **data})

    async def _asks_for_pages(self, conn: Connection) -> list[int]:
        """Return the unread pages for which completion is refused once. A correction need not read pages: it changes
        only what the person names."""
        unread = await documents.unread_pages(conn, self.context.run_id) if self.context.message is None else []
        asked = unread and await tool_calls.has_code(conn, self.context.run_id, _COMPLETE, "unread_pages")
        return [] if asked else unread

    async def _identify(self, conn: Connection, document_type: str | None) -> dict[str, JsonValue]:
        if document_type is None:
            return {}
        stored = await extractions.set_document_type(conn, self.extraction_id, document_type, self._author())
        return {"document_type": stored.value}

    async def _add_type_change(self, conn: Connection, document_type: str | None, preview: Preview) -> Preview:
        """Return a preview with the change of the document type added, if the call sets one."""
        if document_type is None:
            return preview
        first = await extractions.preview_type(conn, self.extraction_id, document_type, self._author())
        assert isinstance(preview.target, dict)
        return replace(
            preview,
            changes=[*first.changes, *preview.changes],
            target={**preview.target, "document type": first.target},  # no path is written so
        )

    def _author(self) -> Author:
        fields = self.context.run.input.get("fields")
        only = tuple(paths.parse(str(name)) for name in fields) if isinstance(fields, list) else None
        return Author(is_person=False, message=self.context.message, only=only)

    async def _prepare(self, write: Write) -> PreparedWrite:
        return await extractions.prepare_write(
            self.context.database,
            self.context.scope,
            self.context.indexes,
            self.extraction_id,
            write,
            self._author(),
        )

    async def _apply(self, conn: Connection, prepared: PreparedWrite) -> WrittenFields:
        await self._refuse_once_completed(conn)
        return await extractions.apply(conn, prepared)

    async def _preview(self, conn: Connection, write: Write) -> Preview:
        return await extractions.preview(conn, self.extraction_id, write, self._author())

    async def _refuse_once_completed(self, conn: Connection) -> None:
        """Refuse writes after this run has completed the extraction, unless the run carries out a person's message."""
        if self.context.message is None and await tool_calls.has_code(conn, self.context.run_id, _COMPLETE, _COMPLETED):
            raise ToolFailed(
                "This run has declared the extraction complete, so it writes no more.", "already_completed"
            )


def current_extraction(row: ExtractionRow) -> ToolResult:
    """Return an extraction for the model, or the paths to read it by if it is too long."""
    text = json.dumps(
        {
            "document_type": row.document_type,
            "status": row.status,
            "version": row.version,
            "extracted_fields": row.extracted_fields,
            "confidence_scores": row.confidence_scores,
        },
        ensure_ascii=False,
    )
    shown = fields_for_people("Read", row, row.extracted_fields)
    if len(text.encode()) > MAX_RESULT_BYTES:
        listed = cut(outline(row.extracted_fields), MAX_RESULT_BYTES - 2000)
        text = "It is too long to show at once: read it by path."
        return ToolResult(text, "too_long", {"paths": listed}, shown=shown)
    return ToolResult(text, shown=shown)


# Writing --------------------------------------------------------------------------------------------------------------


def _fields_write(args: ExtractFields) -> FieldsWrite:
    claims = _claims_by_path(
        args.fields,
        {name: Claim(confidence=confidence) for name, confidence in (args.confidences or {}).items()},
        {name: Claim(given.quote, given.page) for name, given in (args.evidence or {}).items()},
    )
    return FieldsWrite(args.fields, claims)


def _field_write(args: UpdateField) -> FieldWrite:
    path = paths.parse(args.path)
    return FieldWrite(path, args.value, {paths.name(path): Claim(args.quote, None, args.confidence)})


# What they share ------------------------------------------------------------------------------------------------------


def _claims_by_path(fields: dict[str, JsonValue], *sources: dict[str, Claim]) -> dict[str, Claim]:
    """Return the model's claims by canonical path name. Raise ModelRetry for a path at which `fields` has no value."""
    claims: dict[str, Claim] = {}
    for key, claim in (item for source in sources for item in source.items()):
        path = paths.parse(key)
        if isinstance(value_at(fields, path), Missing):
            raise ModelRetry(f"confidences or evidence names {key[:200]}, but fields holds no value there.")
        name = paths.name(path)
        before = claims.get(name)
        claims[name] = claim if before is None else replace(claim, confidence=before.confidence)
    return claims


def _saving_summary(document_type: str | None, keys: list[str], completes: bool) -> str:
    """Return a summary of what a call saves. A person may approve by it, so it counts the fields that it does not
    name."""
    named = list_names(keys, characters=200, most=6)
    end = ", then completing the extraction" if completes else ""
    return _prepend_document_type(document_type, f"Saving {named}{end}")


def _has_completed(data: JsonValue) -> bool:
    return as_object(data).get(_COMPLETE) == _COMPLETED


def _prepend_document_type(document_type: str | None, what: str) -> str:
    return what if document_type is None else f"It is a document of type {document_type}. {what}"

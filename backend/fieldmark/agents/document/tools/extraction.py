"""Tools that extract the document's fields in a child run, read them, and set one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from pydantic import JsonValue

from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.tools.shared import MAX_JSON_BYTES, extraction_json, json_size_bytes, used_versions
from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.changes import Change, Preview
from fieldmark.domain.fields import Missing, has_fields, value_at
from fieldmark.domain.formatting import cut_text
from fieldmark.domain.json_values import as_object
from fieldmark.domain.statuses import Approval, ExtractionStatus, RunStatus
from fieldmark.errors import Deleted
from fieldmark.services import extractions
from fieldmark.services.extraction_sources import ExtractionSource, find_source
from fieldmark.services.extractions import Author, FieldWrite, PreparedWrite
from fieldmark.stores import auto_creations
from fieldmark.stores import extractions as extraction_rows
from fieldmark.stores.library import prompts
from fieldmark.stores.rows import ExtractionRow
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.fields import FieldPath, cut, fields_for_people, outline, write_result
from fieldmark.tools.toolset import ChildRun, ToolEffect, ToolInput, ToolResult, tool

_EXTRACT = "extract"


class RunExtraction(ToolInput):
    """Extract the document's fields again and return them. Uses the given prompt, else the conversation's prompt, else
    its schema. A prompt brings its schema and its model. With `free_form` neither a prompt nor a schema is used."""

    prompt_revid: UUID | None = None
    free_form: bool = False


class GetExtractionResult(ToolInput):
    """Read the extracted fields of the document: of the conversation's extraction or, with `prompt_revid`, of the one
    made with that prompt version. Give a path to read only the value there."""

    prompt_revid: UUID | None = None
    path: FieldPath | None = None


class UpdateExtractionField(ToolInput):
    """Set one field of the conversation's extraction, such as 'vendor.name' or 'items[2].price', to what the person
    says or the document prints. A list grows only at its end."""

    path: FieldPath
    value: JsonValue


class ChatExtractionTools:
    """The extraction tools of one run, for its document."""

    def __init__(self, about: Conversation) -> None:
        self.about = about
        self.context = about.context

    async def _source(self, conn: Connection, args: RunExtraction) -> ExtractionSource:
        """Return the given prompt, or else the conversation's prompt or schema. Raise NotFound, ModelRetry."""
        if args.free_form:
            return ExtractionSource(None, None)
        state = await self.about.recall(conn)
        prompt_revid = state.prompt_revid
        if args.prompt_revid is not None:
            prompt_revid = (await prompts.get_any(conn, args.prompt_revid)).prompt_revid
        schema_revid = state.schema_revid if prompt_revid is None else None
        try:
            return await find_source(conn, self.context.scope, prompt_revid, schema_revid)
        except Deleted as error:
            raise ModelRetry(f"{error} free_form extracts without any.", error.code) from None

    async def preview_run(self, conn: Connection, args: RunExtraction) -> Preview:
        source = await self._source(conn, args)
        by = [
            Change(what, None, f"{row.name} (version {row.number})", added=True)
            for what, row in (("prompt", source.prompt), ("schema", source.schema))
            if row is not None
        ]
        if source.prompt is not None and source.prompt.model is not None:
            by.append(Change("model", None, source.prompt.model, added=True))
        target: dict[str, JsonValue] = {
            "prompt_revid": None if source.prompt is None else str(source.prompt.prompt_revid),
            "schema_revid": None if source.schema is None else str(source.schema.schema_revid),
        }
        return Preview(by, target)

    async def collect(self, conn: Connection, args: RunExtraction, runs: Sequence[RunRow]) -> ToolResult:
        if not runs:
            raise ToolFailed("The extraction is gone.", "not_found")
        (child,) = runs
        if child.status is not RunStatus.COMPLETED:
            data: dict[str, JsonValue] = {"extraction_id": str(child.extraction_id), "run_id": str(child.id)}
            raise ToolFailed(
                f"The document was not extracted. {child.error or 'The run was cancelled.'}",
                child.error_code or "extraction_failed",
                data,
            )
        assert child.extraction_id is not None
        row = await extraction_rows.get(conn, child.extraction_id)
        if await self._is_used_further(conn, row):
            await self.about.remember(conn, extraction_id=row.id, **used_versions(row))
        elif self.about.thread_id is not None:
            await self.about.remember(conn, **used_versions(row))
        return _child_run_result(row, child.answer or "")

    @tool(
        RunExtraction,
        lambda args: "Extracting the fields",
        ToolEffect.WRITE,
        preview=preview_run,
        collect=collect,
    )
    async def run_extraction(self, conn: Connection, args: RunExtraction) -> ChildRun:
        source = await self._source(conn, args)
        extraction_id = await extraction_rows.add(
            conn,
            org_id=self.context.scope.org_id,
            document_id=self.about.document_id,
            schema_revid=None if source.schema is None else source.schema.schema_revid,
            prompt_revid=None if source.prompt is None else source.prompt.prompt_revid,
        )
        return ChildRun(
            "Extracting the fields.",
            _EXTRACT,
            {},
            Subject(self.about.document_id, extraction_id),
            # Approving this call also approves the writes of the run that it starts.
            approval=Approval.AUTO,
            model=None if source.prompt is None else source.prompt.model,
        )

    async def _is_used_further(self, conn: Connection, row: ExtractionRow) -> bool:
        """Return whether the conversation continues with this extraction: if it is completed. An automatic run also
        proposes an unfinished extraction, unless it is empty."""
        if not has_fields(row.extracted_fields):
            return False
        if row.status is ExtractionStatus.COMPLETED or self.about.thread_id is not None:
            return row.status is ExtractionStatus.COMPLETED
        proposal = await auto_creations.find_by_run(conn, self.context.run_id)
        if proposal is None or proposal.extraction_id is None:
            return True
        return (await extraction_rows.get(conn, proposal.extraction_id)).status is not ExtractionStatus.COMPLETED

    async def _find_extraction_id(self, conn: Connection) -> UUID:
        """Return the conversation's extraction, else the document's current one. Raise ModelRetry."""
        extraction_id = (await self.about.recall(conn)).extraction_id
        if extraction_id is None:
            raise ModelRetry("Nothing has been extracted from this document yet. Call run_extraction.", "no_extraction")
        return extraction_id

    @tool(GetExtractionResult, lambda args: "Looking at what was extracted")
    async def get_extraction_result(self, conn: Connection, args: GetExtractionResult) -> ToolResult:
        if args.prompt_revid is None:
            extraction_id = await self._find_extraction_id(conn)
        else:
            found = await extraction_rows.find_shown(conn, self.about.document_id, args.prompt_revid)
            if found is None:
                raise ModelRetry("Nothing was extracted from this document with that version.", "no_extraction")
            extraction_id = found
        row = await extraction_rows.get(conn, extraction_id)
        if args.path is None:
            return _extraction_result("The extracted fields.", "ok", row)
        at = paths.parse(args.path)
        value = value_at(row.extracted_fields, at)
        if isinstance(value, Missing):
            raise ModelRetry(f"There is no value at path {args.path}.", "nothing_there")
        if json_size_bytes(value) > MAX_JSON_BYTES:
            raise ModelRetry(
                f"The value at {args.path} is too long to show. Request its parts by longer paths.", "too_long"
            )
        shown = fields_for_people("Read", row, value, at)
        return ToolResult("The value at this path.", "ok", {**extraction_json(row), "value": value}, shown=shown)

    def _author(self) -> Author:
        return Author(is_person=False, message=self.context.message)

    async def prepare_field(self, args: UpdateExtractionField) -> PreparedWrite:
        write = _write(args)
        async with self.context.database.as_user(self.context.scope) as conn:
            extraction_id = await self._find_extraction_id(conn)
        return await extractions.prepare_write(
            self.context.database, self.context.scope, self.context.indexes, extraction_id, write, self._author()
        )

    async def preview_field(self, conn: Connection, args: UpdateExtractionField) -> Preview:
        extraction_id = await self._find_extraction_id(conn)
        preview = await extractions.preview(conn, extraction_id, _write(args), self._author())
        target = preview.target if isinstance(preview.target, dict) else {}
        return replace(preview, target={**target, "extraction": str(extraction_id)})

    @tool(
        UpdateExtractionField,
        lambda args: f"Setting {cut_text(args.path, 80)}",
        ToolEffect.WRITE,
        prepare=prepare_field,
        preview=preview_field,
    )
    async def update_extraction_field(self, conn: Connection, prepared: PreparedWrite) -> ToolResult:
        written = await extractions.apply(conn, prepared)
        written = await extractions.complete_again(conn, prepared, written)
        await self.about.remember(conn, extraction_id=prepared.row.id)
        result = write_result(
            self.context, replace(written, reopened=False), {str(written.stored.path): written.stored.value}
        )
        if not written.reopened:
            return result
        data = result.data if isinstance(result.data, dict) else {}
        text = f"{result.text}\nThe extraction is in progress again, because a value is missing or invalid."
        return replace(result, text=text, data={**data, "reopened": True})


def _pages(row: ExtractionRow) -> dict[str, JsonValue]:
    """Return the page of each located value, by path name."""
    proofs = {name: as_object(proof) for name, proof in row.evidence.items()}
    return {name: proof["page"] for name, proof in proofs.items() if proof.get("page") is not None}


def _child_run_result(row: ExtractionRow, answer: str) -> ToolResult:
    """Return the result of a completed child run: a complete extraction, an unfinished one, or nothing."""
    if not has_fields(row.extracted_fields):
        text = "Nothing was extracted from the document: the run ended without saving a field."
    elif row.status is not ExtractionStatus.COMPLETED:
        text = (
            "The extraction is not completed: the run ended after saving these fields. If the document has a completed "
            "extraction, that one stays the current one, and update_extraction_field changes it."
        )
    else:
        return _extraction_result(f"The document is extracted. {answer}".strip()[:4000], "extracted", row)
    return replace(_extraction_result(f"{text} {answer}".strip()[:4000], "not_completed", row), needs_attention=True)


def _extraction_result(text: str, code: str, row: ExtractionRow) -> ToolResult:
    """Return an extraction, or the paths to read it by if it is too long."""
    data = extraction_json(row)
    pages = _pages(row)
    shown = fields_for_people("Read" if code == "ok" else "Extracted", row, row.extracted_fields)
    if json_size_bytes(row.extracted_fields) + json_size_bytes(pages) + len(text.encode()) > MAX_JSON_BYTES:
        listed = cut(outline(row.extracted_fields), MAX_JSON_BYTES // 2)
        text = f"{text[:1000]}\nThe fields are too long to show at once: read them by path with get_extraction_result."
        return ToolResult(text, "too_long" if code == "ok" else code, {**data, "paths": listed}, shown=shown)
    return ToolResult(text, code, {**data, "fields": row.extracted_fields, "pages": pages}, shown=shown)


# Setting a field ------------------------------------------------------------------------------------------------------


def _write(args: UpdateExtractionField) -> FieldWrite:
    return FieldWrite(paths.parse(args.path), args.value)

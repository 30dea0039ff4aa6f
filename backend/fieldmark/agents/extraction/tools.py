"""Tools that read and write the extraction: its type, its fields, its completion."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.fields import NOTHING, value_at
from fieldmark.domain.schema import problems, refusals
from fieldmark.domain.sentences import ranges
from fieldmark.errors import InvalidPath
from fieldmark.grounding import Claim
from fieldmark.services.evidence import Evidence, find, quotes_elsewhere
from fieldmark.stores import documents, extractions, tool_calls
from fieldmark.tools.toolset import (
    MAX_RESULT_BYTES,
    Confidence,
    Failed,
    ModelRetry,
    Tool,
    ToolContext,
    ToolInput,
    ToolResult,
)

FieldPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        description='Where the field stands: vendor.name, items[2].price, or ["a.b"].c for keys with dots.',
    ),
]
Quote = Annotated[
    str, Field(max_length=2000, description="The words on the page that show the value, word for word as printed.")
]


class Quoted(ToolInput):
    """Where a value was read."""

    quote: Quote
    page: Annotated[int | None, Field(ge=1, description="The page that prints these words.")] = None


class GetCurrentExtraction(ToolInput):
    """Read what has been extracted so far: document type, status, fields, confidences. Give a path to read only what
    stands there."""

    path: FieldPath | None = None


class IdentifyDocument(ToolInput):
    """Say what kind of document this is, such as invoice, receipt, contract or form."""

    document_type: Annotated[str, Field(min_length=1, max_length=200)]
    confidence: Confidence
    reason: Annotated[str | None, Field(max_length=2000)] = None


class ExtractFields(ToolInput):
    """Save fields. Objects merge with what is there already; any other value, lists included, replaces what stood at
    its place. Only save what the document says."""

    fields: Annotated[dict[str, JsonValue], Field(min_length=1, description="Nested as the document is.")]
    confidences: Annotated[
        dict[str, Confidence], Field(description='By path of the field: {"vendor.name": 0.95, "items[0].price": 0.9}.')
    ]
    evidence: Annotated[
        dict[str, Quoted] | None, Field(description='By path: {"vendor.name": {"quote": "Acme Ltd", "page": 1}}.')
    ] = None


class UpdateField(ToolInput):
    """Update one field at a path, such as 'vendor.name' or 'items[2].price'. A list grows only at its end."""

    path: FieldPath
    value: JsonValue
    confidence: Confidence
    quote: Quote | None = None


class RemoveField(ToolInput):
    """Remove one field, or one item of a list, with everything below it."""

    path: FieldPath
    reason: Annotated[str | None, Field(max_length=2000)] = None


class CompleteExtraction(ToolInput):
    """Declare the extraction complete. Refused with the exact list if the fields do not follow the schema or break its
    rules, or if pages were not read."""

    summary: Annotated[str | None, Field(max_length=4000)] = None


async def get_current_extraction(conn: Connection, context: ToolContext, args: GetCurrentExtraction) -> ToolResult:
    row = await extractions.get(conn, context.extraction_id)
    if row is None:
        raise Failed("The extraction is gone.")
    if args.path is None:
        keys = ("document_type", "status", "version", "extracted_fields", "confidence_scores")
        text = json.dumps({key: row[key] for key in keys}, ensure_ascii=False)
        if len(text.encode()) > MAX_RESULT_BYTES:
            return ToolResult(json.dumps({"too_long": "Read it by path.", "paths": _outline(row["extracted_fields"])}))
        return ToolResult(text)
    found = value_at(row["extracted_fields"], _parsed(args.path))
    if found is NOTHING:
        raise ModelRetry(f"Nothing stands at path {args.path}.")
    text = json.dumps(found, ensure_ascii=False)
    if len(text.encode()) > MAX_RESULT_BYTES:
        raise ModelRetry(f"What stands at {args.path} is too long to show at once: read it by longer paths.")
    return ToolResult(text)


async def identify_document(conn: Connection, context: ToolContext, args: IdentifyDocument) -> ToolResult:
    stored = await extractions.identify(conn, context.extraction_id, args.document_type)
    return ToolResult(f"The document type is now {stored['value']!r}.")


async def extract_fields(conn: Connection, context: ToolContext, args: ExtractFields) -> ToolResult:
    claims = _claims(
        args.fields,
        {name: Claim(confidence=confidence) for name, confidence in args.confidences.items()},
        {name: Claim(given.quote, given.page) for name, given in (args.evidence or {}).items()},
    )
    before = await _in_progress(conn, context)
    shown = await _looked_for(conn, context, before, (), args.fields, claims)
    stored = await extractions.save_fields(conn, context.extraction_id, args.fields, shown.confidences, shown.evidence)
    await _check_write(conn, context, before, stored)
    kept = {key: stored["value"].get(key) for key in args.fields}
    text = _read_back(kept, stored, shown.not_found) + _reopened(before, stored)
    return ToolResult(text, stored["changed"], stored["version"])


async def update_field(conn: Connection, context: ToolContext, args: UpdateField) -> ToolResult:
    path = _parsed(args.path)
    claims = {paths.name(path): Claim(args.quote, None, args.confidence)}
    before = await _in_progress(conn, context)
    shown = await _looked_for(conn, context, before, path, args.value, claims)
    stored = await extractions.update_field(
        conn, context.extraction_id, paths.to_sql(path), args.value, shown.confidences, shown.evidence
    )
    await _check_write(conn, context, before, stored)
    kept = {stored["path"]: stored["value"]}
    text = _read_back(kept, stored, shown.not_found) + _reopened(before, stored)
    return ToolResult(text, stored["changed"], stored["version"])


async def remove_field(conn: Connection, context: ToolContext, args: RemoveField) -> ToolResult:
    segments = _parsed(args.path)
    before = await _in_progress(conn, context)
    stored = await extractions.remove_field(conn, context.extraction_id, paths.to_sql(segments))
    if "proposed" in stored:
        return ToolResult(f"Not removed, version {stored['version']}: {_stays(stored['proposed'])}")
    await _check_write(conn, context, before, {"changed": []})
    changed = [{"path": stored["path"], "value": None, "confidence": None, "evidence": None, "removed": True}]
    text = f"Removed {stored['path']}, which was {_short(stored['removed'])}. Version {stored['version']}."
    return ToolResult(text + _reopened(before, stored), changed, stored["version"])


async def complete_extraction(conn: Connection, context: ToolContext, args: CompleteExtraction) -> ToolResult:
    row = await _in_progress(conn, context)
    faults: list[str] = []
    if row["schema"] is not None:
        faults = await asyncio.to_thread(
            problems, row["schema"], row["extracted_fields"], row["evidence"], row["locks"]
        )
    unread = await documents.unread_pages(conn, context.run_id)
    if unread and not await tool_calls.was_told(conn, context.run_id, complete_extraction.__name__, _UNREAD):
        # In front of all else: the ledger is asked for these words, and what follows them repeats the document's.
        raise ModelRetry(
            f"{_UNREAD} {'page' if len(unread) == 1 else 'pages'} {ranges(unread)}. {_UNREAD_ADVICE}{_listed(faults)}"
        )
    if faults:
        raise ModelRetry(_listed(faults).strip())
    stored = await extractions.complete(conn, context.extraction_id)
    return ToolResult(f"The extraction is {stored['value']}. Version {stored['version']}.")


_UNREAD = "Not read in this run:"
_UNREAD_ADVICE = "Read what can hold a field; if it holds none, complete again: this is asked once."


def _listed(faults: list[str]) -> str:
    return (
        "\nThe fields do not follow the schema yet:\n" + "\n".join(f"- {fault}" for fault in faults) if faults else ""
    )


async def _in_progress(conn: Connection, context: ToolContext) -> dict[str, Any]:
    row = await extractions.locked(conn, context.extraction_id)
    if row is None:
        raise Failed("The extraction is gone.")
    return row


async def _check_write(conn: Connection, context: ToolContext, before: dict[str, Any], stored: dict[str, Any]) -> None:
    """Raise ModelRetry, and so undo this write, if what stands now can never come to follow the schema."""
    if before["schema"] is None:
        return
    row = await extractions.get(conn, context.extraction_id)
    assert row is not None
    written = {paths.parse(change["path"]) for change in stored["changed"]}
    # Not on the event loop, as all that a schema or a document may make long.
    faults = await asyncio.to_thread(
        refusals, before["schema"], before["extracted_fields"], row["extracted_fields"], written
    )
    if faults:
        raise ModelRetry(
            "Nothing was stored: it would not follow the schema.\n" + "\n".join(f"- {one}" for one in faults)
        )


def _parsed(path: str) -> tuple[str | int, ...]:
    try:
        return paths.parse(path)
    except InvalidPath as error:
        raise ModelRetry(str(error)) from None


def _claims(fields: dict[str, JsonValue], *given: dict[str, Claim]) -> dict[str, Claim]:
    """What the model says, by canonical path names; ModelRetry for a path at which `fields` has no value."""
    claims: dict[str, Claim] = {}
    for key, claim in (item for one in given for item in one.items()):
        path = _parsed(key)
        if value_at(fields, path) is NOTHING:
            raise ModelRetry(f"confidences or evidence names {key[:200]}, but fields holds no value there.")
        name = paths.name(path)
        before = claims.get(name)
        claims[name] = claim if before is None else replace(claim, confidence=before.confidence)
    return claims


async def _looked_for(
    conn: Connection,
    context: ToolContext,
    before: dict[str, Any],
    path: paths.Path,
    value: JsonValue,
    claims: dict[str, Claim],
) -> Evidence:
    """Where the values that are to be written stand; ModelRetry if a quote is not on its page, or on none."""
    grounds = await context.words.grounds(conn, context.document_id)
    faults = await quotes_elsewhere(grounds, claims)
    if faults:
        raise ModelRetry(
            "Nothing was stored: a quote must be what the page prints, word for word.\n"
            + "\n".join(f"- {fault}" for fault in faults)
        )
    stands: dict[str, JsonValue] = before["extracted_fields"]
    return await find(grounds, path, value, stands=stands, claims=claims, of_a_person=context.correcting)


def _read_back(values: dict[str, Any], stored: dict[str, Any], not_found: list[str]) -> str:
    """What is stored now, since the model's JSON may have lost something on its way (duplicate keys), and a person may
    have set what it would change."""
    missing = f"\nOn no page: {_short(not_found)}. Is it what the document prints?" if not_found else ""
    if "proposed" not in stored:
        return f"Stored, version {stored['version']}: {_short(values, MAX_RESULT_BYTES - 3000)}{missing}"
    how = "Stored in part" if stored["changed"] else "Not stored"
    stands = _short(values, MAX_RESULT_BYTES - 6000)
    return f"{how}, version {stored['version']}: {_stays(stored['proposed'])} What stands now: {stands}{missing}"


def _reopened(before: dict[str, Any], stored: dict[str, Any]) -> str:
    if before["schema"] is None or before["status"] != "completed" or stored["version"] == before["version"]:
        return ""
    return "\nThe extraction is in progress again: complete it when you are done."


def _stays(proposed: list[str]) -> str:
    return (
        f"a person set what stands at {_short(proposed)}, so it stays, and what you found waits there as a proposal "
        "for them. Do not try again; go on with the rest."
    )


def _short(value: Any, limit: int = 2000) -> str:
    text = json.dumps(value, ensure_ascii=False)
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore") + " […]"


def _outline(fields: dict[str, JsonValue]) -> list[str]:
    return [
        f"{paths.name((key,))} ({len(value)} items)" if isinstance(value, list) else paths.name((key,))
        for key, value in fields.items()
    ][:500]


def _saving(keys: list[str]) -> str:
    """A person may approve by this: what is left out is not left unsaid."""
    named = ", ".join(keys[:6])
    return (
        "Saving "
        + (named if len(named) <= 200 else f"{named[:199]}…")
        + (f" and {len(keys) - 6} more" if len(keys) > 6 else "")
    )


GET_CURRENT_EXTRACTION = Tool(
    GetCurrentExtraction, get_current_extraction, says=lambda args: "Looking at what has been extracted"
)
IDENTIFY_DOCUMENT = Tool(
    IdentifyDocument, identify_document, writes=True, says=lambda args: f"It is a document of type {args.document_type}"
)
EXTRACT_FIELDS = Tool(ExtractFields, extract_fields, writes=True, says=lambda args: _saving(list(args.fields)))
UPDATE_FIELD = Tool(UpdateField, update_field, writes=True, says=lambda args: f"Updating {args.path[:80]}")
REMOVE_FIELD = Tool(RemoveField, remove_field, writes=True, says=lambda args: f"Removing {args.path[:80]}")
COMPLETE_EXTRACTION = Tool(
    CompleteExtraction, complete_extraction, writes=True, says=lambda args: "Completing the extraction"
)

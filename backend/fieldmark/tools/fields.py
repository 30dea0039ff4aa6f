"""Shared by the tools that read and write fields: the path argument, results of writes, and shortened output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Final

from pydantic import Field, JsonValue

from fieldmark.domain import paths
from fieldmark.domain.events import ChangedEvent, ChangedField
from fieldmark.domain.json_values import as_object
from fieldmark.services.extractions import WrittenFields
from fieldmark.stores.rows import ExtractionRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import MAX_RESULT_BYTES, ShownResult, ToolResult
from valuegrounding.paths import walk

_MOST_LINES: Final = 100
_LINE_BYTES: Final = 200

FieldPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        description='As in vendor.name, items[2].price, ["a.b"].c.',
    ),
]


def write_result(
    context: RunContext, written: WrittenFields, current: dict[str, JsonValue], also: dict[str, JsonValue] | None = None
) -> ToolResult:
    """Return the result of a write, with the values stored now. These can differ from what the model sent: JSON drops
    duplicate keys, and values set by a person are kept. `also` is added to the result's data."""
    stored = written.stored
    missing = (
        f"\nNot found on any page: {short(written.not_found)}. Check them against the document."
        if written.not_found
        else ""
    )
    data: dict[str, JsonValue] = {"version": stored.version, **(also or {})}
    data |= {"not_found": list(written.not_found)} if written.not_found else {}
    data |= {"proposed": list(stored.proposed)} if stored.proposed else {}
    data |= {"reopened": True} if written.reopened else {}
    if not stored.proposed:
        code, text = "stored", f"Stored, version {stored.version}: {short(current, MAX_RESULT_BYTES - 12_000)}"
    else:
        code, how = ("stored_in_part", "Stored in part") if stored.changed else ("not_stored", "Not stored")
        text = (
            f"{how}, version {stored.version}: {kept_values_text(stored.proposed)} "
            f"Stored now: {short(current, MAX_RESULT_BYTES - 16_000)}"
        )
    # A run that carries out a person's message must not report a proposal as done.
    needs_attention = context.message is not None and bool(stored.proposed)
    events: list[ChangedEvent] = []
    if stored.changed:
        changed = [ChangedField.model_validate(one) for one in stored.changed]
        events.append(ChangedEvent(changed=changed, version=stored.version))
    return ToolResult(text + missing + reopened_text(written), code, shorten_lists(data), events, needs_attention)


def shorten_lists(data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Shorten each list in a result's data to 4,000 characters of JSON. A single path can have 1,000."""
    return {name: cut(value, 4000) if isinstance(value, list) else value for name, value in data.items()}


def cut(values: Sequence[JsonValue], max_characters: int) -> list[JsonValue]:
    """Return the first values that together take at most `max_characters` characters as JSON."""
    found: list[JsonValue] = []
    for value in values:
        max_characters -= len(json.dumps(value)) + 1
        if max_characters < 0:
            break
        found.append(value)
    return found


def reopened_text(written: WrittenFields) -> str:
    """Return the sentence that reports that the write reopened a complete extraction, or an empty string."""
    return "\nThe extraction is in progress again: complete it when you are done." if written.reopened else ""


def kept_values_text(proposed: Sequence[str]) -> str:
    """Return the sentence that reports which values were not changed because a person set them."""
    return (
        f"a person set the values at {short(proposed)}, so they stay. Your values are kept as proposals "
        "for the person. Do not try again; go on with the rest."
    )


def short(value: object, limit: int = 2000) -> str:
    """Return a value as JSON, cut to `limit` bytes."""
    text = json.dumps(value, ensure_ascii=False)
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore") + " […]"


def outline(fields: dict[str, JsonValue]) -> list[JsonValue]:
    """Return the top-level paths of fields, for a model that must read long fields one path at a time."""
    return [
        f"{paths.name((key,))} ({len(value)} items)" if isinstance(value, list) else paths.name((key,))
        for key, value in fields.items()
    ]


def field_lines(
    value: JsonValue, evidence: Mapping[str, JsonValue] | None = None, at: paths.Path = ()
) -> tuple[int, list[str]]:
    """Return the number of fields in a value, and the first of them as lines, each with the page of its evidence."""
    count, lines = sum(1 for _ in walk(value, at)), list[str]()
    for path, leaf in islice(walk(value, at), _MOST_LINES):
        name = paths.name(path)
        page = as_object((evidence or {}).get(name)).get("page")
        lines.append(f"{name}: {short(leaf, _LINE_BYTES)}" + ("" if page is None else f" (page {page})"))
    if count > len(lines):
        lines.append(f"{count - len(lines)} more fields are not shown here.")
    return count, lines


def fields_for_people(verb: str, row: ExtractionRow, value: JsonValue, at: paths.Path = ()) -> ShownResult:
    """Return how a step shows the fields of an extraction, or those below a path: their number and the first ones."""
    count, lines = field_lines(value, row.evidence, at)
    what = "1 field" if count == 1 else f"{count} fields"
    if at:
        what = paths.name(at) if count == 1 else f"{what} at {paths.name(at)}"
    details: dict[str, JsonValue] = {
        "extraction_id": str(row.id),
        "document_type": row.document_type,
        "status": row.status.value,
        "version": row.version,
        "fields": count,
    }
    return ShownResult(f"{verb} {what[:200]}, version {row.version}", details, "\n".join(lines))

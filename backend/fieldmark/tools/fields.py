"""What tools that write fields have in common: paths, and what they say of a write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, JsonValue

from fieldmark.domain import paths
from fieldmark.domain.events import ChangedEvent, ChangedField
from fieldmark.services.extractions import WrittenFields
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import MAX_RESULT_BYTES, ToolResult

FieldPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        description='vendor.name, items[2].price, or ["a.b"].c for a key with dots.',
    ),
]


def told(
    context: RunContext, written: WrittenFields, stands: dict[str, JsonValue], also: dict[str, JsonValue] | None = None
) -> ToolResult:
    """What is stored now, since the model's JSON may have lost something on its way (duplicate keys), and a person may
    have set what it would change. `also` is data of the call beside that of its fields."""
    stored = written.stored
    missing = f"\nOn no page: {short(written.not_found)}. Is it what the document prints?" if written.not_found else ""
    data: dict[str, JsonValue] = {"version": stored.version, **(also or {})}
    data |= {"not_found": list(written.not_found)} if written.not_found else {}
    data |= {"proposed": list(stored.proposed)} if stored.proposed else {}
    data |= {"reopened": True} if written.reopened else {}
    if not stored.proposed:
        code, text = "stored", f"Stored, version {stored.version}: {short(stands, MAX_RESULT_BYTES - 12_000)}"
    else:
        code, how = ("stored_in_part", "Stored in part") if stored.changed else ("not_stored", "Not stored")
        text = (
            f"{how}, version {stored.version}: {stays(stored.proposed)} "
            f"What stands now: {short(stands, MAX_RESULT_BYTES - 16_000)}"
        )
    # Who reads takes a proposal for done; who carries out a person's word must not say that it is.
    heed = context.message is not None and bool(stored.proposed)
    events: list[ChangedEvent] = []
    if stored.changed:
        changed = [ChangedField.model_validate(one) for one in stored.changed]
        events.append(ChangedEvent(changed=changed, version=stored.version))
    return ToolResult(text + missing + reopened(written), code, fitting(data), events, heed)


def fitting(data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The data with its lists cut to what an answer has room for: a path may have a thousand characters."""
    return {name: cut(value, 4000) if isinstance(value, list) else value for name, value in data.items()}


def cut(values: Sequence[JsonValue], most: int) -> list[JsonValue]:
    """As many of the first values as have room in so many characters of JSON."""
    found: list[JsonValue] = []
    for value in values:
        most -= len(json.dumps(value)) + 1
        if most < 0:
            break
        found.append(value)
    return found


def reopened(written: WrittenFields) -> str:
    """What is to be said of an extraction that was complete."""
    return "\nThe extraction is in progress again: complete it when you are done." if written.reopened else ""


def stays(proposed: Sequence[str]) -> str:
    """What is to be said of values that a person has set."""
    return (
        f"a person set what stands at {short(proposed)}, so it stays, and what you found waits there as a proposal "
        "for them. Do not try again; go on with the rest."
    )


def short(value: object, limit: int = 2000) -> str:
    """A value as JSON, cut at so many bytes."""
    text = json.dumps(value, ensure_ascii=False)
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore") + " […]"


def outline(fields: dict[str, JsonValue]) -> list[JsonValue]:
    """By which paths fields that are too long to show at once can be read."""
    return [
        f"{paths.name((key,))} ({len(value)} items)" if isinstance(value, list) else paths.name((key,))
        for key, value in fields.items()
    ]

"""Shared by the document agent's tools: arguments, lists of items, and items as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import as_object
from fieldmark.domain.names import name_problem
from fieldmark.identity.scope import Scope
from fieldmark.stores.library import tags
from fieldmark.stores.paging import MAX_CURSOR_CHARACTERS
from fieldmark.stores.rows import ExtractionRow, Prompt, SchemaVersion, Tag
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.fields import cut
from fieldmark.tools.toolset import ShownResult, ToolResult

MAX_JSON_BYTES: Final = 36_000
"""Most bytes of JSON in a result. The rest of the limit is for its text."""
PAGE_SIZE: Final = 20
"""Items on one page of a list."""
_NAMES_CHARACTERS: Final = 200


def _validate_name(name: str) -> str:
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_validate_name)]
PartOfName = Annotated[str, Field(min_length=1, max_length=200, description="A part of the name.")]
Before = Annotated[
    str, Field(min_length=1, max_length=MAX_CURSOR_CHARACTERS, description="`next` of the previous page, to continue.")
]


def list_result(what: str, items: Sequence[JsonValue], goes_on: str | None) -> ToolResult:
    """Return one page of a list as a result."""
    shown = cut(items, MAX_JSON_BYTES)
    data: dict[str, JsonValue] = {what: shown}
    text = f"{len(shown)} {what}."
    if len(shown) < len(items):
        text += " The rest of this page is too long to show: ask for a narrower name."
    if goes_on is not None:
        text += f' There are more: ask again with before "{goes_on}".'
        data["next"] = goes_on
    names = [str(as_object(one).get("name")) for one in shown]
    lines = [*names, *(["There are more."] if goes_on is not None or len(shown) < len(items) else [])]
    count = "".join(count_in_words(len(shown), what.removesuffix("s"))) or f"no {what}"
    message = f"Found {count}" + (f": {', '.join(names)[:_NAMES_CHARACTERS]}" if names else "")
    for_people = ShownResult(message, {what: shown}, "\n".join(lines) or None)
    return ToolResult(text, "ok" if goes_on is None else "more", data, shown=for_people)


def item_for_people(verb: str, kind: str, data: Mapping[str, JsonValue], *lines: str) -> ShownResult:
    """Return how a step shows an action on one item: its name and version, and further lines. Without lines the step
    shows the tool's own sentence."""
    version = f", version {data['number']}" if "number" in data else ""
    return ShownResult(f"{verb} the {kind} {data['name']!r}{version}", dict(data), "\n".join(lines) or None)


def schema_json(row: SchemaVersion) -> dict[str, JsonValue]:
    """Return a version of a schema without the schema itself."""
    data: dict[str, JsonValue] = {
        "schema_id": str(row.id),
        "schema_revid": str(row.schema_revid),
        "name": row.name,
        "number": row.number,
    }
    return data | _marks(is_latest=row.is_latest, is_deleted=row.is_deleted, is_proposed=row.is_proposed)


def prompt_json(row: Prompt) -> dict[str, JsonValue]:
    """Return a version of a prompt without its content."""
    data: dict[str, JsonValue] = {
        "prompt_id": str(row.id),
        "prompt_revid": str(row.prompt_revid),
        "name": row.name,
        "number": row.number,
        "schema_id": None if row.schema_id is None else str(row.schema_id),
    }
    data |= {} if row.schema_version is None else {"schema_version": row.schema_version}
    data |= {} if row.model is None else {"model": row.model}
    return data | _marks(is_latest=row.is_latest, is_deleted=row.is_deleted, is_proposed=row.is_proposed)


def tag_json(row: Tag) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"tag_id": str(row.id), "name": row.name, "color": row.color}
    return data | _marks(is_latest=True, is_deleted=row.is_deleted, is_proposed=row.is_proposed)


def used_versions(row: ExtractionRow) -> dict[str, UUID | None]:
    """Return the prompt and schema versions that an extraction was made with."""
    found = {"prompt_revid": row.prompt_revid, "schema_revid": row.schema_revid}
    return {name: revid for name, revid in found.items() if revid is not None}


def extraction_json(row: ExtractionRow) -> dict[str, JsonValue]:
    """Return an extraction without its fields."""
    data: dict[str, JsonValue] = {
        "extraction_id": str(row.id),
        "document_type": row.document_type,
        "status": row.status.value,
        "version": row.version,
    }
    for name, revid in used_versions(row).items():
        data[name] = str(revid)
    return data


def _marks(*, is_latest: bool, is_deleted: bool, is_proposed: bool) -> dict[str, JsonValue]:
    """Return the flags that differ from the usual: the latest version, not deleted, not proposed."""
    marks: dict[str, JsonValue] = {} if is_latest else {"latest": False}
    marks |= {"deleted": True} if is_deleted else {}
    return marks | ({"proposed": True} if is_proposed else {})


async def find_tag(conn: Connection, scope: Scope, name: str) -> Tag:
    """Return the tag with a name. Raise ModelRetry if there is none."""
    row = await tags.by_name(conn, scope.org_id, name)
    if row is None:
        raise ModelRetry(f"There is no tag {name!r}: list_tags shows them, create_tag makes one.", "no_such_tag")
    return row


async def find_tag_ids(conn: Connection, scope: Scope, names: Sequence[str]) -> list[UUID]:
    """Return the distinct ids of tags by name. Raise ModelRetry if one does not exist."""
    rows = [await find_tag(conn, scope, name) for name in names]
    return list(dict.fromkeys(row.id for row in rows))


def json_size_bytes(value: JsonValue) -> int:
    """Return the json_size_bytes of a value as JSON, in bytes."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def count_in_words(count: int, what: str) -> list[str]:
    """Return a count in words, as a list of one item. Empty for 0."""
    return [] if not count else [f"{count} {what}" if count == 1 else f"{count} {what}s"]

"""Things that a person mentions in a message. The server loads them in full, with that person's rights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue

from fieldmark.agents.document.conversation import MentionType
from fieldmark.agents.document.tools.shared import extraction_json, prompt_json, schema_json, tag_json
from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.errors import Conflict, Invalid, NotFound
from fieldmark.stores import documents, extractions
from fieldmark.stores.library import prompts, schemas, tags

MAX_MENTIONS: Final = 10
MAX_BYTES: Final = 256 * 1024
_PAGES_AT_ONCE: Final = 24


class Mention(BaseModel):
    """One mentioned item. The id of a schema or prompt means its latest version; a version's id means that version."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: MentionType
    id: UUID


async def check(conn: Connection, mentions: Sequence[Mention]) -> None:
    """Raise NotFound for an item that does not exist, Conflict for a document that is not ready, Invalid if the items
    have too much text."""
    room = MAX_BYTES
    for mention in mentions:
        try:
            room -= len((await _mentioned_text(conn, mention, room)).encode())
        except _TooLong:
            raise Invalid(
                f"The mentioned things have more than {MAX_BYTES // 1024} kB of text. Mention fewer at once."
            ) from None


async def texts(conn: Connection, mentions: Sequence[Mention]) -> list[str]:
    """Return the current text of each mention."""
    found: list[str] = []
    room = MAX_BYTES
    for mention in mentions:
        try:
            text = await _mentioned_text(conn, mention, room)
        except (_TooLong, NotFound, Conflict) as error:  # a front end on Supabase starts runs unchecked
            why = "too long to show"
            if not isinstance(error, _TooLong):
                why = "not read" if isinstance(error, Conflict) else "not found"
            text = _json({"type": mention.type, "id": str(mention.id), "error": why})
        room -= len(text.encode())
        found.append(text)
    return found


class _TooLong(Exception):
    """The mention does not fit into the size limit."""


async def _mentioned_text(conn: Connection, mention: Mention, room: int) -> str:
    match mention.type:
        case MentionType.SCHEMA:
            schema = await schemas.get_any(conn, mention.id)
            _refuse(schema.is_deleted, "schema")
            data = {**schema_json(schema), "schema": schema.schema}
        case MentionType.PROMPT:
            prompt = await prompts.get_any(conn, mention.id)
            _refuse(prompt.is_deleted, "prompt")
            data = {**prompt_json(prompt), "content": prompt.content, "tags": await _tags(conn, prompt.tag_ids)}
            if prompt.schema_revid is not None:
                used = await schemas.get_version(conn, prompt.schema_revid)
                data["schema"] = {**schema_json(used), "schema": used.schema}
        case MentionType.TAG:
            tag = await tags.get(conn, mention.id)
            _refuse(tag.is_deleted, "tag")
            data = tag_json(tag)
        case MentionType.EXTRACTION:
            extraction = await extractions.get(conn, mention.id)
            data = {**extraction_json(extraction), "document_id": str(extraction.document_id)}
            data["fields"] = extraction.extracted_fields
        case MentionType.DOCUMENT:
            return await _document(conn, mention.id, room)
    text = await run_in_thread(_json, {"type": mention.type, **data})
    if len(text.encode()) > room:
        raise _TooLong
    return text


async def _tags(conn: Connection, tag_ids: Sequence[UUID]) -> list[JsonValue]:
    rows = [await tags.find(conn, tag_id) for tag_id in tag_ids]
    return [tag_json(row) for row in rows if row is not None and not row.is_deleted]


def _json(data: dict[str, JsonValue]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _refuse(is_deleted: bool, what: str) -> None:
    if is_deleted:
        raise NotFound(f"There is no such {what}.")


async def _document(conn: Connection, wanted: UUID, room: int) -> str:
    row = await documents.find_read(conn, wanted)
    head = _json(
        {
            "type": MentionType.DOCUMENT,
            "document_id": str(row.id),
            "name": row.filename,
            "media_type": row.media_type,
            "pages": row.page_count,
        }
    )
    room -= len(head.encode()) + 1
    said = [head]
    first = 1
    while pages := await documents.pages(conn, wanted, first, first + _PAGES_AT_ONCE - 1):
        for page in pages:
            room -= len(page.text.encode()) + 1
            if room < 0:
                raise _TooLong
            said.append(page.text.rstrip())
        first = pages[-1].number + 1
    return "\n".join(said)

"""What a person mentions in a message: looked up by the server, whole, with that person's rights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue

from fieldmark.db.aside import aside
from fieldmark.db.pool import Connection
from fieldmark.errors import Conflict, Invalid, NotFound
from fieldmark.services import documents, extractions
from fieldmark.stores import documents as document_rows
from fieldmark.stores.library import prompts, schemas, tags

MOST: Final = 10
MAX_BYTES: Final = 256 * 1024
_PAGES_AT_ONCE: Final = 24


class MentionType(StrEnum):
    """What can be mentioned."""

    SCHEMA = "schema"
    PROMPT = "prompt"
    TAG = "tag"
    DOCUMENT = "document"
    EXTRACTION = "extraction"


class Mention(BaseModel):
    """One thing that a message is about. Of a schema or a prompt the id means its latest version, or names one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: MentionType
    id: UUID


async def check(conn: Connection, mentions: Sequence[Mention]) -> None:
    """Raise NotFound for a mention of what is not there, Conflict for a document that is not read, Invalid where there
    is too much of it all."""
    room = MAX_BYTES
    for mention in mentions:
        try:
            room -= len((await _text_of(conn, mention, room)).encode())
        except _TooLong:
            room = -1
        if room < 0:
            raise Invalid(f"What is mentioned has more than {MAX_BYTES // 1024} kB of text: mention less at once.")


async def texts(conn: Connection, mentions: Sequence[Mention]) -> list[str]:
    """What is mentioned, as it stands now."""
    found: list[str] = []
    room = MAX_BYTES
    for mention in mentions:
        try:
            text = await _text_of(conn, mention, room)
        except _TooLong:
            text = _said({"type": mention.type, "id": str(mention.id), "error": "too long to show by now"})
        except NotFound:
            text = _said({"type": mention.type, "id": str(mention.id), "error": "not found"})
        except Conflict:  # a front end on Supabase starts runs unchecked
            text = _said({"type": mention.type, "id": str(mention.id), "error": "not read"})
        room -= len(text.encode())
        found.append(text)
    return found


class _TooLong(Exception):
    """There is no room for it."""


async def _text_of(conn: Connection, mention: Mention, room: int) -> str:
    match mention.type:
        case MentionType.SCHEMA:
            told = await _schema(conn, mention.id)
        case MentionType.PROMPT:
            told = await _prompt(conn, mention.id)
        case MentionType.TAG:
            tag = await tags.get(conn, mention.id)
            _refuse(tag.is_deleted, "tag")
            told = {"name": tag.name, "colour": tag.colour}
        case MentionType.EXTRACTION:
            told = await _extraction(conn, mention.id)
        case MentionType.DOCUMENT:
            return await _document(conn, mention.id, room)
    text = await aside(_said, {"type": mention.type, **told})
    if len(text.encode()) > room:
        raise _TooLong
    return text


def _said(told: dict[str, JsonValue]) -> str:
    return json.dumps(told, ensure_ascii=False)


def _refuse(is_deleted: bool, what: str) -> None:
    if is_deleted:
        raise NotFound(f"There is no such {what}.")


async def _schema(conn: Connection, wanted: UUID) -> dict[str, JsonValue]:
    row = await schemas.get_any(conn, wanted)
    _refuse(row.is_deleted, "schema")
    return {
        "schema_id": str(row.id),
        "schema_revid": str(row.schema_revid),
        "name": row.name,
        "number": row.number,
        "schema": row.schema,
    }


async def _prompt(conn: Connection, wanted: UUID) -> dict[str, JsonValue]:
    row = await prompts.get_any(conn, wanted)
    _refuse(row.is_deleted, "prompt")
    return {
        "prompt_id": str(row.id),
        "prompt_revid": str(row.prompt_revid),
        "name": row.name,
        "number": row.number,
        "schema_id": None if row.schema_id is None else str(row.schema_id),
        "model": row.model,
        "content": row.content,
    }


async def _extraction(conn: Connection, wanted: UUID) -> dict[str, JsonValue]:
    row = await extractions.get(conn, wanted)
    return {
        "extraction_id": str(row.id),
        "document_id": str(row.document_id),
        "document_type": row.document_type,
        "status": row.status,
        "version": row.version,
        "schema_revid": None if row.schema_revid is None else str(row.schema_revid),
        "prompt_revid": None if row.prompt_revid is None else str(row.prompt_revid),
        "fields": row.extracted_fields,
    }


async def _document(conn: Connection, wanted: UUID, room: int) -> str:
    row = await documents.get_read(conn, wanted)
    head = _said(
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
    while pages := await document_rows.pages(conn, wanted, first, first + _PAGES_AT_ONCE - 1):
        for page in pages:
            room -= len(page.text.encode()) + 1
            if room < 0:
                raise _TooLong
            said.append(page.text.rstrip())
        first = pages[-1].number + 1
    return "\n".join(said)

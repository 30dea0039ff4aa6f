"""The parts of a message around the user's words: the document, the conversation's state and the mentioned items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.history import history
from fieldmark.agents.document.mentions import Mention, texts
from fieldmark.agents.document.tools.shared import extraction_json
from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.errors import Fenced
from fieldmark.stores import documents, extractions
from fieldmark.tools.documents import Boundary

EXCERPT_CHARACTERS: Final = 8_000
FIELDS_CHARACTERS: Final = 4_000
_SHORTER: Final = ((1_000, 100), (300, 30), (100, 10), (40, 3))  # characters of a text, items of a list
_PAGES_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The text around the user's words. Untrusted text in it is between lines with the word `boundary`."""

    boundary: str
    text: str


async def message_context(
    conn: Connection, about: Conversation, mentions: Sequence[Mention] = (), *foreign: str
) -> MessageContext:
    """Return the document with the beginning of its text, the earlier turns, the working state, the extraction's fields
    and the mentioned items. Text in `foreign` cannot forge the boundary either."""
    document = await documents.find(conn, about.document_id)
    if document is None:
        raise Fenced("The document is gone.")
    described = json.dumps(
        {
            "document_id": str(document.id),
            "name": document.filename,
            "type": document.media_type,
            "pages": document.page_count,
        },
        ensure_ascii=False,
    )
    recalled = await about.recall(conn)
    state: dict[str, JsonValue] = {name: str(one) for name, one in asdict(recalled).items() if one is not None}
    state |= {f"{name}_deleted": True for name in await about.deleted(conn, recalled)}
    excerpt, is_whole = await _excerpt(conn, about)
    earlier = await history(conn, about)
    extracted, is_short = await _extraction_json(conn, recalled.extraction_id)
    mentioned = await texts(conn, mentions)
    boundary = Boundary(about.context.run_id, described, excerpt, earlier, extracted, *mentioned, *foreign)
    parts = [boundary.delimit("document", described), boundary.delimit("excerpt", excerpt)]
    if not is_whole:
        parts[-1] += "\n" + boundary.line("the document goes on: get_ocr_text shows all of it")
    if earlier:
        parts.append(boundary.delimit("conversation", earlier))
    parts.append(boundary.delimit("working state", json.dumps(state)))
    if extracted:
        parts.append(boundary.delimit("extraction", extracted))
    if not is_short:
        parts.append(boundary.line("the fields go on: get_extraction_result shows all, or the value at a path"))
    parts += [boundary.delimit(f"mention {number}", text) for number, text in enumerate(mentioned, 1)]
    return MessageContext(boundary.word, "\n".join(parts))


async def _extraction_json(conn: Connection, extraction_id: UUID | None) -> tuple[str, bool]:
    """Return an extraction as JSON, cut to the size limit, and whether it is complete. Empty if there is none."""
    row = None if extraction_id is None else await extractions.find(conn, extraction_id)
    if row is None:
        return "", True
    return await run_in_thread(_json_that_fits, {**extraction_json(row), "fields": row.extracted_fields})


def _json_that_fits(extraction: dict[str, JsonValue]) -> tuple[str, bool]:
    """Return JSON of at most FIELDS_CHARACTERS, with long texts and lists cut if necessary, and whether it is
    complete."""
    text = json.dumps(extraction, ensure_ascii=False)
    if len(text) <= FIELDS_CHARACTERS:
        return text, True
    for longest, items in _SHORTER:
        text = json.dumps(_shorten(extraction, longest, items), ensure_ascii=False)
        if len(text) <= FIELDS_CHARACTERS:
            return text, False
    # At a comma: a number that is cut would pass for another one.
    return text[: text.rfind(",", 0, FIELDS_CHARACTERS) + 1], False


def _shorten(value: JsonValue, longest: int, items: int) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}… ({len(value):,} characters)"
    if isinstance(value, list):
        rest: list[JsonValue] = [f"… {len(value) - items:,} more"] if len(value) > items else []
        return [_shorten(one, longest, items) for one in value[:items]] + rest
    if isinstance(value, dict):
        return {name: _shorten(one, longest, items) for name, one in value.items()}
    return value


async def _excerpt(conn: Connection, about: Conversation) -> tuple[str, bool]:
    """Return the beginning of the document's text, and whether it is the whole text."""
    text, first, is_whole = "", 1, True
    while pages := await documents.pages(conn, about.document_id, first, first + _PAGES_AT_ONCE - 1):
        # XML pages are not printed, so the excerpt leaves them out. The model can still read them.
        text += "".join(f"{page.text.rstrip()}\n" for page in pages if not page.is_xml)
        is_whole = is_whole and not any(page.is_xml for page in pages)
        if len(text) > EXCERPT_CHARACTERS:
            return cut_at_word(text, EXCERPT_CHARACTERS), False
        first = pages[-1].number + 1
    return text, is_whole


def cut_at_word(text: str, max_characters: int) -> str:
    """The beginning of a text, without the part of a word at its end; a single long word is cut.

    >>> cut_at_word("one two three", 9), cut_at_word("onetwothree", 4), cut_at_word("one two", 7)
    ('one two', 'onet', 'one two')
    """
    if len(text) <= max_characters:
        return text
    if text[max_characters].isspace():
        return text[:max_characters].rstrip()
    kept = text[:max_characters]
    at = max((n for n, letter in enumerate(kept) if letter.isspace()), default=0)
    return kept[:at].rstrip() or kept

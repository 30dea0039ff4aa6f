"""Tools that read and search one document, and the document text in a run's first message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Annotated
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.formatting import format_ranges
from fieldmark.domain.json_values import JsonObject
from fieldmark.errors import Fenced
from fieldmark.stores import documents, runs
from fieldmark.stores.rows import PageText
from fieldmark.tools.context import RunContext
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.toolset import MAX_RESULT_BYTES, ShownResult, ToolInput, ToolResult, tool
from pagewords.reading_warnings import ReadingWarning

_PAGES = re.compile(r"\s*(\d{1,6})\s*+(?:(-)\s*+(\d{1,6})?)?\s*")
_MAX_HITS = 20
_PAGES_AT_ONCE = 50
_ROOM_TO_GO_ON = 400  # for the lines that say how
_ROOM_OF_A_MARK = 80


class GetDocumentText(ToolInput):
    """Read the document's text: all or some pages. A long text comes in parts; the last line says how to continue.
    [warning: …] marks what could not be read reliably."""

    pages: Annotated[str | None, Field(max_length=20, description='"3", "3-5" or "3-" (to the end).')] = None
    offset: Annotated[int, Field(ge=0, le=100_000_000, description="As in the last line of a part.")] = 0


class SearchDocument(ToolInput):
    """Find a text in the document: up to 20 lines with their pages. Ignores case and spacing."""

    query: Annotated[str, Field(min_length=1, max_length=200)]


class Boundary:
    """Delimiter lines around untrusted text in a message. They contain a word that the text does not contain, so the
    text cannot forge them. The word is derived from the run's id: a resumed run sends the same bytes.

    >>> Boundary(UUID(int=1), "Total: 10.00").delimit("document", "Total: 10.00").splitlines()[1]
    'Total: 10.00'
    """

    def __init__(self, run_id: UUID, *foreign: str) -> None:
        words = (sha256(f"{run_id} boundary {number}".encode()).hexdigest()[:24] for number in count())
        self.word = next(word for word in words if not any(word in text for text in foreign))

    def line(self, words: str) -> str:
        """Return a line marked as written by Fieldmark."""
        return f"[{self.word} {words}]"

    def delimit(self, label: str, text: str) -> str:
        """Return untrusted text between two delimiter lines."""
        return f"{self.line(f'{label} begins')}\n{text.rstrip()}\n{self.line(f'{label} ends')}"


@dataclass(frozen=True, slots=True)
class _PageExcerpt:
    """The excerpt of a page. It ends with a line break."""

    number: int
    text: str
    is_xml: bool


@dataclass(frozen=True, slots=True)
class _NextPart:
    """Where to continue reading: a page, and optionally an offset in characters."""

    page: int
    offset: int | None = None

    def as_json(self) -> dict[str, JsonValue]:
        pages: dict[str, JsonValue] = {"pages": f"{self.page}-"}
        return pages if self.offset is None else {**pages, "offset": self.offset}


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """The pages that fit into the result, the numbers of those shown to their end, and where to continue."""

    pages: Sequence[_PageExcerpt]
    whole: Sequence[int]
    more: _NextPart | None = None


class DocumentReader:
    """The reading tools of one run, for its document."""

    def __init__(self, context: RunContext, document_id: UUID) -> None:
        self.context = context
        self.document_id = document_id

    @tool(GetDocumentText, lambda args: _reading(args.pages or ""))
    async def get_document_text(self, conn: Connection, args: GetDocumentText) -> ToolResult:
        return await read_pages(conn, self.context, self.document_id, args.pages, args.offset, _call_again)

    @tool(SearchDocument, lambda args: f"Searching the document for {args.query[:80]!r}")
    async def search_document(self, conn: Connection, args: SearchDocument) -> ToolResult:
        wanted = " ".join(args.query.split()).casefold()
        if not wanted:
            raise ModelRetry("The query contains only spaces. Give a word to search for.")
        hits: list[str] = []
        first = 1
        while pages := await documents.pages(conn, self.document_id, first, first + _PAGES_AT_ONCE - 1):
            hits += await run_in_thread(_hits, pages, wanted, _MAX_HITS - len(hits))
            if len(hits) == _MAX_HITS:
                text = "\n".join([*hits, "[there may be more: search for something narrower]"])
                return ToolResult(text, "more", shown=_format_search_step(args.query, len(hits), "or more "))
            first = pages[-1].number + 1
        shown = _format_search_step(args.query, len(hits))
        if not hits:
            return ToolResult(f"{args.query!r} does not appear in the document.", "nothing_found", shown=shown)
        return ToolResult("\n".join(hits), shown=shown)


def _format_search_step(query: str, count: int, more: str = "") -> ShownResult:
    """How a step shows a search."""
    lines = "1 line" if count == 1 else f"{count} {more}lines"
    return ShownResult(f"Found {query[:80]!r} in {lines}", {"lines": count})


async def read_pages(
    conn: Connection,
    context: RunContext,
    document_id: UUID,
    pages: str | None,
    offset: int,
    next_call_text: Callable[[int, int | None], str],
) -> ToolResult:
    """Return the text of some pages, or of all pages, up to the size limit of a result. `next_call_text` returns the
    instruction to continue at a page and offset."""
    document = await documents.find_head(conn, document_id)
    if document is None:
        raise ToolFailed("The document is gone.", "not_found")
    count = document.page_count
    first, last = _range(pages, count)
    page_warnings = _by_page(document.warnings, "[{}]".format)
    found = await _excerpt(conn, document.id, first, last, offset, MAX_RESULT_BYTES - _ROOM_TO_GO_ON, document.warnings)
    await _record(conn, context, found)
    text = "".join(
        f"--- page {page.number} of {count} ---\n" + page_warnings.get(page.number, "") + page.text
        for page in found.pages
    )
    data: dict[str, JsonValue] = {} if found.more is None else found.more.as_json()
    if xml_pages := [page.number for page in found.pages if page.is_xml]:
        data["xml_pages_from"] = xml_pages[0]  # and all after it: a PDF's own pages come first
    if found.more is not None:
        text += f"[more: {next_call_text(found.more.page, found.more.offset)}]"
    shown = [page.number for page in found.pages]
    pages = f"page {shown[0]}" if len(shown) == 1 else f"pages {format_ranges(shown)}"
    details: JsonObject = {"documents": [{"document_id": str(document.id), "filename": document.filename}]}
    step = ShownResult(f"Read {pages} of {count}" if shown else "Read no page", {**details, "pages": [*shown]})
    return ToolResult(text, "ok" if found.more is None else "more", data or None, shown=step)


@dataclass(frozen=True, slots=True)
class FirstPart:
    """A document's text for the first message of a run, within its boundary."""

    document: documents.DocumentHead
    boundary: Boundary
    text: str


async def first_part(conn: Connection, context: RunContext, document_id: UUID, *foreign: str) -> FirstPart:
    """Return the boundary and the document's text for the run's first message, up to the context's size limit. The
    pages shown count as read. Text in `foreign` cannot forge the boundary either."""
    document = await documents.find_head(conn, document_id)
    if document is None:
        raise Fenced("The document is gone.")
    count, room = document.page_count, context.first_part_bytes
    found = await _excerpt(conn, document.id, 1, count if room else 0, 0, room, document.warnings)
    await _record(conn, context, found)
    boundary = Boundary(context.run_id, *foreign, document.filename, *(page.text for page in found.pages))
    page_warnings = _by_page(document.warnings, boundary.line)
    text = boundary.delimit(
        "document",
        "".join(
            boundary.line(f"page {page.number} of {count}" + (", embedded XML" if page.is_xml else ""))
            + "\n"
            + page_warnings.get(page.number, "")
            + page.text
            for page in found.pages
        ),
    )
    more = _NextPart(1) if not found.pages and count else found.more
    if more is not None:
        text += "\n" + boundary.line(f"the document goes on: {_call_again(more.page, more.offset)}")
    return FirstPart(document, boundary, text)


async def _excerpt(
    conn: Connection,
    document_id: UUID,
    first: int,
    last: int,
    offset: int,
    room: int,
    warnings: Sequence[ReadingWarning],
) -> _Excerpt:
    heads: Counter[int] = Counter()
    for warning in warnings:
        heads[warning.page or 1] += len(warning.message.encode()) + _ROOM_OF_A_MARK
    shown: list[_PageExcerpt] = []
    whole: list[int] = []
    # Fetched a few at a time: a 500-page document is not loaded to show twenty pages of it.
    number = first
    while number <= last:
        batch = await documents.pages(conn, document_id, number, min(last, number + 24))
        if not batch:
            break
        for page in batch:
            number = page.number
            body = page.text[offset:].rstrip() + "\n"
            head = heads[number] + _ROOM_OF_A_MARK
            size = head + len(body.encode())
            if size > room and shown:
                return _Excerpt(shown, whole, _NextPart(number))
            if size > room:
                cut = body.encode()[: max(0, room - head)].decode(errors="ignore")
                cut = cut[: cut.rfind("\n") + 1] or cut
                more = _NextPart(number, offset + len(cut))
                return _Excerpt([_PageExcerpt(number, cut, page.is_xml)], whole, more)
            shown.append(_PageExcerpt(number, body, page.is_xml))
            whole += [number] if offset <= len(page.text) else []
            room -= size
            offset = 0
        number += 1
    return _Excerpt(shown, whole)


async def _record(conn: Connection, context: RunContext, found: _Excerpt) -> None:
    if found.whole:
        await runs.record_pages_read(conn, context.run_id, found.whole[0], found.whole[-1])


def _call_again(page: int, offset: int | None) -> str:
    return f'call get_document_text with pages "{page}-"' + ("" if offset is None else f" and offset {offset}")


def _by_page(warnings: Sequence[ReadingWarning], line: Callable[[str], str]) -> dict[int, str]:
    """Return the reading warnings by page. They contain no text of the document, which may be invisible to people."""
    page_warnings: dict[int, str] = {}
    for warning in warnings:
        number = warning.page or 1
        page_warnings[number] = page_warnings.get(number, "") + line(f"warning: {warning.message}") + "\n"
    return page_warnings


def _hits(pages: Sequence[PageText], query: str, limit: int) -> list[str]:
    found: list[str] = []
    for page in pages:
        for line in page.text.splitlines():
            if query in " ".join(line.split()).casefold():
                found.append(f"page {page.number}: {line.strip()[:500]}")
                if len(found) == limit:
                    return found
    return found


def _range(pages: str | None, last_page: int) -> tuple[int, int]:
    if pages is None:
        return 1, last_page
    match = _PAGES.fullmatch(pages)
    if match is None:
        raise ModelRetry(f'Pages are given as "3", "3-5" or "3-", got {pages!r}.')
    first = int(match[1])
    last = first if match[2] is None else last_page if match[3] is None else int(match[3])
    if not 1 <= first <= min(last, last_page):
        raise ModelRetry(f"The document has pages 1 to {last_page}, got {pages!r}.")
    return first, min(last, last_page)


def _reading(pages: str) -> str:
    match = _PAGES.fullmatch(pages)
    if match is None:
        return "Reading the document"
    if match[2] is None:
        return f"Reading page {match[1]}"
    return f"Reading from page {match[1]} on" if match[3] is None else f"Reading pages {match[1]}–{match[3]}"

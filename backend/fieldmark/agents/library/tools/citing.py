"""Tools that cite a location in a document, and show it to the person."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from fieldmark.agents.library.blocks import text_blocks
from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import ReadBlock, Record
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import Source
from fieldmark.domain.events import Citation, CitationEvent, OpenEvent
from fieldmark.domain.json_values import JsonObject
from fieldmark.services.fair_share import run_queued_unbounded, run_unqueued
from fieldmark.stores import documents
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.toolset import ShownResult, ToolEffect, ToolInput, ToolResult, tool
from valuegrounding import DocumentIndex, Location, PageWords

MAX_CITATIONS = 99
_FEWEST_CHARACTERS = 2

Number = Annotated[int, Field(strict=True, ge=1, le=MAX_CITATIONS)]


class CiteSource(ToolInput):
    """Cite a block with an exact quote, which is located on the page. Then write [number] after each claim that it
    supports. Refused if the quote is not in the block, or if you have not read the block. A number that is used again
    refers to the new quote."""

    number: Number
    block_id: Annotated[str, Field(min_length=1, max_length=60, description="As printed before the block.")]
    quote: Annotated[
        str, Field(min_length=1, max_length=700, description="Word for word from this one block; no more than needed.")
    ]


class OpenDocument(ToolInput):
    """Show the person the document at a citation."""

    citation: Number
    reason: Annotated[str, Field(min_length=1, max_length=300)]


async def find_source(conn: Connection, question: Question, record: Record, args: CiteSource) -> Source:
    """Return the source of a citation. Raise ModelRetry if the block was not read in this run or lacks the quote."""
    block = record.block(args.block_id)
    if block is None:
        raise _not_read(args.block_id)
    if sum(character.isalnum() for character in args.quote) < _FEWEST_CHARACTERS:
        raise ModelRetry("The quote is too short. Quote at least two letters or digits.", "quote_too_short")
    place, name = await _locate_quote(conn, question, block, args)
    return Source(
        number=args.number,
        document_id=block.document_id,
        filename=name,
        page=block.page,
        boxes=list(place.boxes),
        quote=place.quote,
    )


def _not_read(block_id: str) -> ModelRetry:
    return ModelRetry(
        f"You have not read a block {block_id[:60]!r} in this run: read_document shows blocks with their ids.",
        "block_not_read",
    )


class CitingTools:
    """The citing tools of one run."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.context = question.context

    @tool(CiteSource, lambda args: f"Citing [{args.number}]: {args.quote[:80]}", ToolEffect.NOTE, is_independent=True)
    async def cite_source(self, conn: Connection, args: CiteSource) -> ToolResult:
        source = await find_source(conn, self.question, await Record.of(conn, self.context.run_id), args)
        data: dict[str, JsonValue] = source.model_dump(mode="json")
        return ToolResult(
            f"[{args.number}] is page {source.page} of the document: write [{args.number}] after what you say from it.",
            "cited",
            {"source": data},
            [CitationEvent(citation=to_citation(source))],
            shown=_source_for_people("Cited", source),
        )

    @tool(OpenDocument, lambda args: f"Opening the document at [{args.citation}]", ToolEffect.NOTE, is_independent=True)
    async def open_document(self, conn: Connection, args: OpenDocument) -> ToolResult:
        source = (await Record.of(conn, self.context.run_id)).citations.get(args.citation)
        if source is None:
            raise ModelRetry(
                f"There is no citation {args.citation} in this run: cite_source makes one.", "no_such_citation"
            )
        event = OpenEvent(open=to_citation(source), reason=args.reason)
        text = f"The person is shown page {source.page}."
        return ToolResult(text, "opened", None, [event], shown=_source_for_people("Opened", source))


def _source_for_people(verb: str, source: Source) -> ShownResult:
    """Return how a step shows a source to people."""
    found: JsonObject = {"document_id": str(source.document_id), "filename": source.filename, "page": source.page}
    message = f"{verb} [{source.number}]: {source.filename}, page {source.page}"
    return ShownResult(message, {"documents": [found]}, f"“{source.quote}”")


async def _locate_quote(
    conn: Connection, question: Question, block: ReadBlock, args: CiteSource
) -> tuple[Location, str]:
    """Return the location of a quote in a block, and the document's name. Only exact matches count, since the model has
    read these words."""
    document = await documents.find(conn, block.document_id)
    page = None if document is None else await documents.page(conn, block.document_id, block.page)
    if document is None or page is None:
        raise ToolFailed("The document is gone.", "not_found")
    shown = {one.number: one for one in await run_unqueued(text_blocks, page.words)}.get(block.number)
    if shown is None:  # the document was read again meanwhile, and has fewer blocks
        raise _not_read(args.block_id)
    words = PageWords(block.page, page.words[shown.first : shown.end], page.is_xml)
    index = await run_queued_unbounded(question.context.scope.org_id, DocumentIndex, [words])
    place = index.find_quote(args.quote, block.page)
    if place is None or place.match not in ("exact", "normalised"):
        raise ModelRetry(
            "This quote is not in that block. Copy it word for word from one block, and leave nothing out.",
            "quote_not_found",
        )
    return place, document.filename


def to_citation(source: Source) -> Citation:
    """Return a source as a citation event contains it."""
    return Citation(**source.model_dump(exclude={"filename"}))

"""Tools that search all documents, rank them, and summarise one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.agents.library.blocks import text_blocks
from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import Record
from fieldmark.agents.library.tools.figures import available_fields
from fieldmark.agents.library.tools.reading import Document, document_json, find, find_readable
from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.formatting import counted
from fieldmark.domain.json_values import as_list, as_object
from fieldmark.services.fair_share import run_unqueued
from fieldmark.services.filter_intersection import intersect, restrict_to
from fieldmark.services.search import MAX_QUERY, Hit, embed_query, search
from fieldmark.stores import documents, extractions
from fieldmark.tools.errors import ToolFailed
from fieldmark.tools.fields import cut, field_lines
from fieldmark.tools.toolset import ShownResult, ToolEffect, ToolInput, ToolResult, tool

MOST_HITS: Final = 20
_ROOM: Final = 30_000
_SNIPPET: Final = 400
_BEGINNING: Final = 1_500
_FIELDS_ROOM: Final = 8_000

Query = Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]


class SearchDocuments(ToolInput):
    """Search all documents for an answer. Returns document, page, snippet, and a score from 0 to 1. Rare words count
    most. Snippets cannot be cited: call read_document first. filters narrow the documents, also by extracted fields;
    the person's own filters apply too."""

    query: Query
    filters: DocumentFilters | None = None
    max_results: Annotated[int, Field(ge=1, le=MOST_HITS)] = 10


class RerankDocuments(ToolInput):
    """Order some documents, given by id or exact name, by how well they answer a question."""

    query: Query
    document_ids: Annotated[list[Document], Field(min_length=1, max_length=50)]


class GetDocumentSummary(ToolInput):
    """Get an overview of a document: name, type, tags, extracted fields, and the beginning of its text. It cannot be
    cited: call read_document first."""

    document_id: Document


class SearchTools:
    """The searching tools of one run, for its question."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.context = question.context

    @tool(SearchDocuments, lambda args: f"Searching for: {args.query[:100]}", ToolEffect.NOTE, is_independent=True)
    async def search_documents(self, conn: Connection, args: SearchDocuments) -> ToolResult:
        record = await Record.of(conn, self.context.run_id)
        if (again := record.find_same_call("search_documents", args)) is not None:
            return _search_result(as_list(as_object(again.data).get("hits")), 0, args.query, from_cache=True)
        filters = intersect(self.question.filters, args.filters)
        if filters is None:
            return _search_result([], 0, args.query)
        embedding = await embed_query(self.context.embedder, args.query)
        found = await search(
            conn, self.context.scope, args.query, filters=filters, limit=args.max_results, embedding=embedding
        )
        result = _search_result(await _hits_for_model(conn, found.hits, record.found), found.not_indexed, args.query)
        if found.hits or args.filters is None or not (args.filters.fields or args.filters.document_type):
            return result
        there, fields = await available_fields(conn, self.question)
        return replace(result, text=f"{result.text} {there}", data={**as_object(result.data), "fields": fields})

    @tool(
        RerankDocuments,
        lambda args: f"Ordering {counted(len(args.document_ids), 'document')} by: {args.query[:80]}",
        ToolEffect.NOTE,
        is_independent=True,
    )
    async def rerank_documents(self, conn: Connection, args: RerankDocuments) -> ToolResult:
        wanted = {one: await self._id_of(conn, one) for one in dict.fromkeys(args.document_ids)}
        filters = restrict_to(self.question.filters, [one for one in wanted.values() if one is not None])
        hits: list[Hit] = []
        if filters is not None:
            embedding = await embed_query(self.context.embedder, args.query)
            hits = (
                await search(conn, self.context.scope, args.query, filters=filters, limit=100, embedding=embedding)
            ).hits
        best: dict[UUID, Hit] = {}
        for hit in hits:
            best.setdefault(hit.document_id, hit)
        ranked = await _hits_for_model(conn, list(best.values()), set())
        rest: list[JsonValue] = [named for named, one in wanted.items() if one not in best]
        text = f"{len(ranked)} of {len(ranked) + len(rest)} documents match."
        data: dict[str, JsonValue] = {"documents": cut(ranked, _ROOM), "without_a_match": rest}
        return ToolResult(text, "ranked", data, shown=_for_people(text, ranked))

    async def _id_of(self, conn: Connection, id_or_name: str) -> UUID | None:
        """Return a document's id, or None if the question's documents do not include it."""
        try:
            return (await find(conn, self.question, id_or_name)).id
        except ToolFailed:
            return None

    @tool(GetDocumentSummary, lambda args: f"Looking at {args.document_id[:80]}", ToolEffect.NOTE, is_independent=True)
    async def get_document_summary(self, conn: Connection, args: GetDocumentSummary) -> ToolResult:
        row = await find(conn, self.question, args.document_id)
        data: dict[str, JsonValue] = {
            "document_id": str(row.id),
            "name": row.filename,
            "type": row.media_type,
            "pages": row.page_count,
            "status": row.status.value,
            "tags": [str(tag["name"]) for tag in row.tags],
        }
        row = await find_readable(conn, self.question, args.document_id)
        if (current := await extractions.current_of(conn, row.id)) is not None:
            fields = await run_in_thread(json.dumps, current.extracted_fields, ensure_ascii=False, default=str)
            data["document_type"] = current.document_type
            data["fields"] = fields if len(fields) <= _FIELDS_ROOM else f"{fields[:_FIELDS_ROOM]}…"
        page = await documents.page(conn, row.id, 1)
        blocks = [] if page is None else await run_unqueued(text_blocks, page.words)
        beginning = " / ".join(block.text for block in blocks)
        data["begins"] = beginning if len(beginning) <= _BEGINNING else f"{beginning[:_BEGINNING]}…"
        details: dict[str, JsonValue] = {"documents": [document_json(row)]}
        lines = [f"Pages: {row.page_count}", f"Tags: {', '.join(str(tag['name']) for tag in row.tags) or 'none'}"]
        if current is not None:
            details["fields"], of_fields = await run_in_thread(field_lines, current.extracted_fields)
            lines += [f"Document type: {current.document_type or 'unknown'}", *of_fields]
        lines.append(f"It begins: {data['begins']}")
        shown = ShownResult(f"Looked at {row.filename}", details, "\n".join(lines))
        return ToolResult("Its extracted fields and first lines.", "summary", data, shown=shown)


def _search_result(hits: list[JsonValue], not_indexed: int, query: str, *, from_cache: bool = False) -> ToolResult:
    hits = cut(hits, _ROOM)
    count = len({str(as_object(hit).get("document_id")) for hit in hits})
    text = f"Found {count} document{'s' if count != 1 else ''}." if hits else "Found nothing."
    if not_indexed:
        text += f" {not_indexed} documents are not indexed yet: they were not searched."
    data: dict[str, JsonValue] = {"hits": hits, "not_indexed": not_indexed, "searched": query}
    data |= {"from_cache": True} if from_cache else {}
    shown = _for_people(text, hits, from_cache=from_cache)
    return ToolResult(text, "ok" if hits else "nothing_found", data, shown=shown)


async def _hits_for_model(conn: Connection, hits: Sequence[Hit], before: set[tuple[str, str]]) -> list[JsonValue]:
    """Return hits as the model sees them. Scores are relative to the best hit; `seen` marks earlier hits."""
    best = max((hit.score for hit in hits), default=0) or 1
    types = await extractions.document_types(conn, list({hit.document_id for hit in hits}))
    shown: list[JsonValue] = []
    for hit in hits:
        one: dict[str, JsonValue] = {
            "document_id": str(hit.document_id),
            "filename": hit.filename,
            "page": hit.page,
            "score": round(max(hit.score, 0) / best, 2),
            "snippet": hit.snippet[:_SNIPPET],
        }
        if (kind := types.get(hit.document_id)) is not None:
            one["document_type"] = kind
        if (str(hit.document_id), str(hit.page)) in before:
            one["seen"] = True
        shown.append(one)
    return shown


def _for_people(text: str, hits: list[JsonValue], *, from_cache: bool = False) -> ShownResult:
    found = [as_object(hit) for hit in hits]
    lines = [f"{one['filename']}, page {one['page']} ({one['score']}): {one['snippet']}" for one in found]
    details: dict[str, JsonValue] = {"documents": list[JsonValue](found), "from_cache": from_cache}
    return ShownResult(text.partition(".")[0], details, "\n".join([text, *lines]))

"""The fallback for a run whose agent found no answer. The service reads the best matching documents, and asks the model
one last question about them. If that fails, or no model is available, the best matching passages are the answer, word
for word. The answer says which of the two it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog
from pydantic import JsonValue

from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import Record
from fieldmark.agents.spec import CallTool
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnswerCost, AnswerResponse, Fallback, FallbackCode, Source
from fieldmark.domain.json_values import as_list, as_object
from fieldmark.domain.statuses import RunError
from fieldmark.errors import FieldmarkError
from fieldmark.grounding.layout import Word
from fieldmark.grounding.locations import boxes_of
from fieldmark.services.search import MAX_QUERY, Hit, SearchResult, embed_query, search
from fieldmark.stores import documents, runs

log = structlog.get_logger()

MOST_PASSAGES: Final = 5
MOST_FOUND: Final = 10
MOST_READ: Final = 3
MOST_FOCUS: Final = 300
_MOST_WORDS: Final = 40
_CONFIDENCE: Final = 0.0
_WHY: Final = {
    "search_only": "a search was asked for",
    "answer_invalid": "the agent's answer could not be proven twice",
    RunError.DEADLINE: "the agent ran out of time",
    RunError.MODEL_BUSY: "the model's service was busy",
    RunError.MAX_TURNS: "the agent used all the steps it may take",
    RunError.AGENT_STOPPED: "the agent stopped without an answer",
}


async def read_best_documents(question: str, call: CallTool) -> str | None:
    """Return the text of the best matching documents, in blocks that can be cited. None if nothing matches."""
    found = await call("search_documents", {"query": question[:MAX_QUERY], "max_results": MOST_FOUND})
    hits = as_list(as_object(found.data).get("hits"))
    best: list[JsonValue] = [*dict.fromkeys(str(as_object(hit)["doc_id"]) for hit in hits)]
    if not best:
        return None
    read = await call("read_multiple_documents", {"doc_ids": best[:MOST_READ], "focus_query": question[:MOST_FOCUS]})
    return None if read.is_error else read.sentence


def last_answer_note(code: FallbackCode) -> Fallback:
    """Return the note for an answer that the model made from the best passages only."""
    why = _WHY.get(code, "the agent came to no answer")
    text = f"The agent did not finish ({why}). This answer was made in one step, from the best matching passages."
    return Fallback(code=code, text=text, by_model=True)


async def answer_cost(conn: Connection, question: Question, record: Record) -> AnswerCost:
    """Return the calls, tokens and time of the run so far."""
    run = await runs.find(conn, question.context.run_id)
    return AnswerCost(
        searches=record.count("search_documents", "query_fields"),
        reads=record.count("read_document", "read_multiple_documents"),
        citations=record.count("cite_source"),
        model_calls=0 if run is None else run.turns,
        seconds=round(await runs.seconds_since_start(conn, question.context.run_id), 1),
    )


async def answer_from_passages(
    conn: Connection, question: Question, code: FallbackCode, record: Record
) -> AnswerResponse:
    """Return an answer made of the best matching passages, each cited."""
    found = await _search_question(conn, question)
    sources: list[Source] = []
    for hit in found.hits:
        source = await _source_from_hit(conn, len(sources) + 1, hit)
        sources += [] if source is None or not source.quote else [source]
    why = _WHY.get(code, "the agent came to no answer")
    end = "These are the best matching passages." if sources else "The search found no matching passage."
    fallback = Fallback(
        code=code,
        text=f"This answer was made without a model: {why}. {end}",
        by_model=False,
        not_indexed=found.not_indexed,
    )
    lines = [fallback.text, *(f"“{source.quote}” [{source.number}]" for source in sources)]
    if found.not_indexed:
        lines.append(f"({found.not_indexed} documents are not indexed yet, and were not searched.)")
    return AnswerResponse(
        kind="answer",
        question=question.message,
        answer="\n\n".join(lines),
        searched=[] if sources else [question.message[:200]],
        sources=sources,
        **dict(record.trace),
        coverage=record.coverage_beside(sources),
        confidence=_CONFIDENCE,
        timestamp=datetime.now(UTC),
        effort=await answer_cost(conn, question, record),
        fallback=fallback,
    )


async def _search_question(conn: Connection, question: Question) -> SearchResult:
    """Search for the question. Return no hits if the search fails or times out: a run that failed here would be
    retried from the beginning, and ask its model again."""
    try:
        async with asyncio.timeout(question.context.tool_seconds), conn.transaction():
            return await search(
                conn,
                question.context.scope,
                question.message[:MAX_QUERY],
                filters=question.filters,
                limit=MOST_PASSAGES,
                embedding=await embed_query(question.context.embedder, question.message),
            )
    except FieldmarkError:
        raise
    except Exception as error:
        # An exception's text may hold a tenant's values: it is only logged.
        log.exception("search failed for a run that falls back", exc_info=error)
        return SearchResult([], 0, "off", 0)


async def _source_from_hit(conn: Connection, number: int, hit: Hit) -> Source | None:
    """Return a hit as a source: its snippet and location. None if the document was deleted meanwhile."""
    page = await documents.page(conn, hit.document_id, hit.page)
    if page is None:
        return None
    first, last = hit.chunk
    words = page.words[first : last + 1] or page.words
    words = _window(words, hit.snippet) or words[:_MOST_WORDS]
    quote = " ".join(" ".join(str(word[0]).split()) for word in words)
    return Source(
        number=number,
        document_id=hit.document_id,
        filename=hit.filename,
        page=hit.page,
        boxes=list(boxes_of(words)),
        quote=quote,
    )


def _window(words: Sequence[Word], snippet: str) -> Sequence[Word]:
    """Return the words that make up a snippet. Empty if the snippet is not made of these words."""
    texts = [" ".join(str(word[0]).split()) for word in words]
    for start in range(len(texts) if snippet else 0):
        if snippet.startswith(texts[start]):
            for end in range(start + 1, min(start + _MOST_WORDS, len(texts)) + 1):
                if " ".join(texts[start:end]) == snippet:
                    return words[start:end]
    return ()

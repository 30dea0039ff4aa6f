"""What a run falls back on whose agent came to no answer. The best documents are searched for and read, and the model
is asked once more, about these alone. Where that comes to nothing, or no model can be asked, the passages that fit the
question best are the answer, as they are printed. Both say so."""

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


async def read_the_best(question: str, call: CallTool) -> str | None:
    """What the documents say that fit a question best, in blocks that can be cited; None where nothing fits."""
    found = await call("search_documents", {"query": question[:MAX_QUERY], "max_results": MOST_FOUND})
    hits = as_list(as_object(found.data).get("hits"))
    best: list[JsonValue] = [*dict.fromkeys(str(as_object(hit)["doc_id"]) for hit in hits)]
    if not best:
        return None
    read = await call("read_multiple_documents", {"doc_ids": best[:MOST_READ], "focus_query": question[:MOST_FOCUS]})
    return None if read.is_error else read.sentence


def worded(code: FallbackCode) -> Fallback:
    """How an answer is marked that the model has made from the best passages."""
    why = _WHY.get(code, "the agent came to no answer")
    text = f"The agent did not finish ({why}): this answer was made in one step, from the passages that fit best."
    return Fallback(code=code, text=text, by_model=True)


async def effort_of(conn: Connection, question: Question, record: Record) -> AnswerCost:
    """What the run has taken so far."""
    run = await runs.get(conn, question.context.run_id)
    return AnswerCost(
        searches=record.count("search_documents", "query_fields"),
        reads=record.count("read_document", "read_multiple_documents"),
        citations=record.count("cite_source"),
        model_calls=0 if run is None else run.turns,
        seconds=round(await runs.seconds_since_start(conn, question.context.run_id), 1),
    )


async def passages(conn: Connection, question: Question, code: FallbackCode, record: Record) -> AnswerResponse:
    """The best passages, cited."""
    found = await _found(conn, question)
    sources: list[Source] = []
    for hit in found.hits:
        source = await _source(conn, len(sources) + 1, hit)
        sources += [] if source is None or not source.quote else [source]
    why = _WHY.get(code, "the agent came to no answer")
    end = "These are the passages that fit best." if sources else "A search found nothing that fits."
    fallback = Fallback(code=code, text=f"No model has made this answer: {why}. {end}", by_model=False)
    lines = [fallback.text, *(f"“{source.quote}” [{source.number}]" for source in sources)]
    if found.not_indexed:
        lines.append(f"({found.not_indexed} documents are not searched yet.)")
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
        effort=await effort_of(conn, question, record),
        fallback=fallback,
    )


async def _found(conn: Connection, question: Question) -> SearchResult:
    """What search finds. Nothing where it fails or takes too long: this is the last resort, and a run that fails here
    would be taken up again, and ask its model from the beginning."""
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
        # (Its text may hold a value of the tenant's: it goes into the log, and nowhere else.)
        log.exception("search failed for a run that falls back", exc_info=error)
        return SearchResult([], 0, "off", 0)


async def _source(conn: Connection, number: int, hit: Hit) -> Source | None:
    """A hit as a source: its snippet, and where that stands. None for a document that is gone meanwhile."""
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
    """The words that a snippet is made of; none where it is none of theirs."""
    texts = [" ".join(str(word[0]).split()) for word in words]
    for start in range(len(texts) if snippet else 0):
        if snippet.startswith(texts[start]):
            for end in range(start + 1, min(start + _MOST_WORDS, len(texts)) + 1):
                if " ".join(texts[start:end]) == snippet:
                    return words[start:end]
    return ()

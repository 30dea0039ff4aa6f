"""The fallback for a run whose agent found no answer. The service reads the best matching documents, and asks the model
one last question about them. If that fails, or no model is available, the best matching passages are the answer, word
for word. The answer says which of the two it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog
from pydantic import JsonValue

from fieldmark.agents.library import memory
from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import Record
from fieldmark.agents.spec import CallTool
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnswerCost, AnswerResponse, Fallback, FallbackCode, Source
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.json_values import as_list, as_object
from fieldmark.domain.statuses import RunError
from fieldmark.errors import FieldmarkError
from fieldmark.services.filter_intersection import restrict_to
from fieldmark.services.search import MAX_QUERY, Hit, SearchResult, embed_query, search
from fieldmark.stores import clock, documents, runs
from valuegrounding import Word
from valuegrounding.layout import boxes_of

log = structlog.get_logger()

MOST_PASSAGES: Final = 5
MOST_FOUND: Final = 10
MOST_READ: Final = 3
MOST_FOCUS: Final = 300
_MOST_SUBJECTS: Final = 2
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


class AnswerSubject(NamedTuple):
    """What a question is about, besides its own words: the documents that its run has read, or else those of the
    conversation, with the words of the question before it."""

    documents: list[UUID]
    words: str = ""


async def subject_of(conn: Connection, question: Question, record: Record) -> AnswerSubject:
    """Return what a question is about. Documents that its filters exclude are not left out."""
    read = [*record.documents]
    return AnswerSubject(read) if read else AnswerSubject(*memory.subject(await memory.recall(conn, question)))


async def read_best_documents(question: str, about: AnswerSubject, call: CallTool) -> str | None:
    """Return the text of the documents that the question is about, and of those that match it best, in blocks that can
    be cited. None if there are none."""
    found = await call("search_documents", {"query": question[:MAX_QUERY], "max_results": MOST_FOUND})
    hits = as_list(as_object(found.data).get("hits"))
    ids = [*map(str, about.documents[:_MOST_SUBJECTS]), *(str(as_object(hit)["document_id"]) for hit in hits)]
    best = list[JsonValue](dict.fromkeys(ids))[:MOST_READ]
    if not best:
        return None
    read = await call("read_multiple_documents", {"document_ids": best, "focus_query": question[:MOST_FOCUS]})
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
    """Return an answer made of what the run has computed and cited, and of the best matching passages, each cited."""
    found, not_indexed = await _find_passages(conn, question, record)
    sources = [source.model_copy(update={"number": number}) for number, source in enumerate(record.sources, 1)]
    for hit in found:
        source = await _source_from_hit(conn, len(sources) + 1, hit)
        is_known = source is None or any(_is_same(source, one) for one in sources)
        sources += [] if is_known or source is None or not source.quote else [source]
    why = _WHY.get(code, "the agent came to no answer")
    end = "These are the best matching passages." if sources else "The search found no matching passage."
    fallback = Fallback(
        code=code,
        text=f"This answer was made without a model: {why}. {end}",
        by_model=False,
        not_indexed=not_indexed,
        computed=record.computed,
    )
    lines = [fallback.text, *(f"The agent computed {one}." for one in fallback.computed)]
    lines += [f"“{source.quote}” [{source.number}]" for source in sources]
    if not_indexed:
        lines.append(f"({not_indexed} documents are not indexed yet, and were not searched.)")
    return AnswerResponse(
        kind="answer",
        question=question.message,
        answer="\n\n".join(lines),
        searched=[] if sources else [question.message[:200]],
        sources=sources,
        **dict(record.trace),
        coverage=record.coverage_beside(sources),
        confidence=_CONFIDENCE,
        timestamp=await clock.now(conn),
        effort=await answer_cost(conn, question, record),
        fallback=fallback,
    )


async def _find_passages(conn: Connection, question: Question, record: Record) -> tuple[list[Hit], int]:
    """Return the passages of the question's subject, then others that match it, and the number of documents that are
    not indexed."""
    found = await find_hits(conn, question, question.message, question.filters, MOST_PASSAGES)
    about = AnswerSubject([]) if question.is_search else await subject_of(conn, question, record)
    among = restrict_to(question.filters, about.documents)
    if found is None or among is None:
        return ([], 0) if found is None else (found.hits, found.not_indexed)
    first = await find_hits(conn, question, f"{question.message} {about.words}", among, _MOST_SUBJECTS)
    hits = {(hit.document_id, hit.page, hit.chunk): hit for hit in [*(first.hits if first else []), *found.hits]}
    return [*hits.values()][:MOST_PASSAGES], found.not_indexed


async def find_hits(
    conn: Connection, question: Question, words: str, filters: DocumentFilters, limit: int
) -> SearchResult | None:
    """Search for words. Return None if the search fails or times out: a run that failed here would be retried from the
    beginning, and ask its model again."""
    try:
        async with asyncio.timeout(question.context.tool_seconds), conn.transaction():
            words = words[:MAX_QUERY]
            embedding = await embed_query(question.context.embedder, words)
            return await search(conn, question.context.scope, words, filters=filters, limit=limit, embedding=embedding)
    except FieldmarkError:
        raise
    except Exception as error:
        # An exception's text may hold a tenant's values: it is only logged.
        log.exception("search failed for a run without an answer", exc_info=error)
        return None


def _is_same(source: Source, other: Source) -> bool:
    """Return whether a passage repeats a quote that is shown already."""
    is_on_page = (source.document_id, source.page) == (other.document_id, other.page)
    return is_on_page and (source.quote in other.quote or other.quote in source.quote)


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

"""What a run falls back on whose agent came to no answer: the passages that fit the question best, found by search and
shown as they are printed. No model is asked, and it says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from fieldmark.agents.library import memory
from fieldmark.agents.library.deps import Context
from fieldmark.agents.library.record import Record
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnswerResponse, Fallback, Source
from fieldmark.domain.statuses import RunError
from fieldmark.grounding.layout import Word
from fieldmark.grounding.places import boxes_of
from fieldmark.services.search import MAX_QUERY, Hit, search
from fieldmark.stores import documents

MOST_PASSAGES: Final = 5
_MOST_WORDS: Final = 40
_CONFIDENCE: Final = 0.0
_WHY: Final = {
    "answer_invalid": "the agent's answer could not be proven twice",
    RunError.DEADLINE: "the agent ran out of time",
    RunError.MODEL_BUSY: "the model's service was busy",
    RunError.MAX_TURNS: "the agent used all the steps it may take",
    RunError.AGENT_STOPPED: "the agent stopped without an answer",
}


async def passages(
    conn: Connection, context: Context, code: RunError | Literal["answer_invalid"], record: Record
) -> AnswerResponse:
    """The best passages, cited."""
    question = memory.message_of(context)
    found = await search(conn, context.scope, question[:MAX_QUERY], filters=context.deps.filters, limit=MOST_PASSAGES)
    sources: list[Source] = []
    for hit in found.hits:
        source = await _source(conn, len(sources) + 1, hit)
        sources += [] if source is None or not source.quote else [source]
    why = _WHY.get(code, "the agent came to no answer")
    told = Fallback(code=code, text=f"No model has made this answer: {why}. These are the passages that fit best.")
    lines = [told.text, *(f"“{source.quote}” [{source.number}]" for source in sources)]
    if not sources:
        told = Fallback(code=code, text=f"No model has made this answer: {why}. A search found nothing that fits.")
        lines = [told.text]
    if found.behind:
        lines.append(f"({found.behind} documents are not searched yet.)")
    return AnswerResponse(
        kind="answer",
        question=question,
        answer="\n\n".join(lines),
        searched=[] if sources else [question[:200]],
        sources=sources,
        coverage=record.coverage,
        confidence=_CONFIDENCE,
        timestamp=datetime.now(UTC),
        fallback=told,
    )


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
    spelt = [" ".join(str(word[0]).split()) for word in words]
    for begin in range(len(spelt) if snippet else 0):
        if snippet.startswith(spelt[begin]):
            for end in range(begin + 1, min(begin + _MOST_WORDS, len(spelt)) + 1):
                if " ".join(spelt[begin:end]) == snippet:
                    return words[begin:end]
    return ()

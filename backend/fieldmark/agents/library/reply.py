"""A reply in the agent's own words, such as "You are welcome", in place of an answer with sources.

Whether a text is about the documents cannot be proven. A text is no reply if it has a citation, a quote, a number or a
date that nothing proves, or a word that the question shares with the documents; nor if the agent has understood the
message as a question about documents that match it. What passes is marked as a reply, without sources."""

from __future__ import annotations

from itertools import chain
from typing import Final

from fieldmark.agents.library import memory
from fieldmark.agents.library.fallback import answer_cost, find_hits
from fieldmark.agents.library.proof import citation_numbers, unproven_numbers, unproven_quotes
from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import Record
from fieldmark.db.pool import Connection
from fieldmark.domain import search_terms
from fieldmark.domain.answers import ReplyResponse
from fieldmark.domain.json_values import JsonObject
from fieldmark.services.search import Hit
from fieldmark.stores import clock, runs
from fieldmark.stores import search as search_index
from fieldmark.tools.context import RunContext

_HITS: Final = 20
_MAX_CHARACTERS: Final = 4_000


async def plain_reply(context: RunContext, text: str) -> JsonObject | None:
    """Return the result of a run that ended with a text, and remember it. None if the text is no plain reply."""
    question = Question.of(context)
    async with context.database.as_user(context.scope) as conn:
        await runs.fence(conn, context.run_id, context.fencing_token)
        record = await Record.of(conn, context.run_id)
        if len(text) > _MAX_CHARACTERS or await _needs_sources(conn, question, record, text):
            return None
        reply = ReplyResponse(
            kind="reply",
            answer=text,
            **dict(record.trace),
            sources=[],
            coverage=[],
            confidence=0.0,
            timestamp=await clock.now(conn),
            effort=await answer_cost(conn, question, record),
        )
        await memory.remember(conn, question, record, reply)
        return reply.model_dump(mode="json")


async def _needs_sources(conn: Connection, question: Question, record: Record, text: str) -> bool:
    given = [question.message, *memory.texts(await memory.recall(conn, question))]
    if citation_numbers(text) or unproven_quotes(text, given) or unproven_numbers(record, given, text):
        return True
    found = await find_hits(conn, question, question.message, question.filters, _HITS)
    if found is None or record.intent not in (None, "unknown"):
        return found is None or bool(found.hits)
    return await _shares_words(conn, text, found.hits)


async def _shares_words(conn: Connection, text: str, hits: list[Hit]) -> bool:
    """Return whether a text has a word by which the question has found passages."""
    printed = [hit.snippet[mark.start : mark.end] for hit in hits for mark in hit.marks]
    matched, said = ({*chain.from_iterable(search_terms.terms(words))} for words in (printed, text.split()))
    stems = await search_index.stems(conn, search_terms.detect_language([*said]), {*matched, *said})
    return not {stems.get(one) for one in matched}.isdisjoint({stems[one] for one in said if one in stems})

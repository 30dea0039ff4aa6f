"""Tools that record what the person wants, and tools that end the run with a typed answer. An answer is checked here
against the calls of the run; the prompt only asks for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, JsonValue

from fieldmark.agents.library import fallback, memory
from fieldmark.agents.library.proof import citation_numbers, unproven_numbers
from fieldmark.agents.library.question import Question
from fieldmark.agents.library.record import FALLBACK_CODE, INVALID, Record, decimal
from fieldmark.agents.library.tools.citing import CiteSource, find_source, to_citation
from fieldmark.agents.library.tools.figures import MOST_SOURCES
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import (
    AnswerCoverage,
    AnswerResponse,
    AnyAnswer,
    CalculationResponse,
    Source,
    SummarizationResponse,
)
from fieldmark.domain.events import CitationEvent
from fieldmark.domain.json_values import as_object
from fieldmark.stores import clock, documents, threads
from fieldmark.stores.tool_calls import RecordedCall
from fieldmark.tools.errors import ModelRetry, ToolFailed, ToolRefusal
from fieldmark.tools.toolset import Confidence, RunAnswer, ToolEffect, ToolInput, ToolResult, tool

MAX_ANSWER: Final = 20_000
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class Intent(StrEnum):
    """What the person wants."""

    QA = "qa"
    SUMMARIZATION = "summarization"
    CALCULATION = "calculation"
    UNKNOWN = "unknown"


_ENDS: Final = {
    Intent.QA: "submit_answer",
    Intent.SUMMARIZATION: "submit_summary",
    Intent.CALCULATION: "submit_calculation",
}
"""The tool that ends a run, by intent. If nothing was found it is always submit_answer."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_ANSWER)]
Point = Annotated[str, Field(min_length=1, max_length=1_000)]


class RecordIntent(ToolInput):
    """Record first what the person wants: qa (a question), summarization, calculation (a count, a sum, a figure that
    has to be computed), or unknown. Call it again if the intent turns out to be different."""

    intent: Intent
    confidence: Confidence
    reasoning: Annotated[str, Field(min_length=1, max_length=1_000)]


class SubmitAnswer(ToolInput):
    """Answer the question and end the run. Write [n] after each claim, where n is the number of a citation; every
    citation must be used. New citations can be given here. If you found nothing, set nothing_found, after searching."""

    answer: Text
    confidence: Confidence
    nothing_found: bool = False
    citations: Annotated[tuple[CiteSource, ...], Field(max_length=20, description="As in cite_source.")] = ()


class SubmitSummary(ToolInput):
    """Submit the summary and end the run. Each key point needs its [n]; every citation must be used."""

    summary: Text
    key_points: Annotated[list[Point], Field(min_length=1, max_length=30)]
    confidence: Confidence


class SubmitCalculation(ToolInput):
    """Submit the computed figure and end the run. The result must be one that calculator or query_fields returned in
    this run. Cite the source of the numbers, unless query_fields returned them."""

    answer: Annotated[str, Field(min_length=1, max_length=MAX_ANSWER, description="The answer in a sentence or two.")]
    formula: Annotated[str, Field(min_length=1, max_length=1_000, description="In words: what was computed from what.")]
    result: Annotated[
        str, Field(min_length=1, max_length=600, description="The figure exactly as the tool returned it: 1234.5")
    ]
    confidence: Confidence


class _AnswerFault(NamedTuple):
    code: str
    text: str


def final_answer(_: ToolInput, data: JsonValue) -> RunAnswer:
    """Return the run's answer, from the data of the call that ended the run."""
    result = as_object(data)
    if FALLBACK_CODE in result:
        return RunAnswer("The answer could not be proven.", fallback_code=INVALID)
    return RunAnswer(answer_text(result), result)


class SubmittingTools:
    """Tools that end a question with an answer."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.context = question.context

    @tool(RecordIntent, lambda args: f"Understood as {args.intent}", ToolEffect.NOTE, is_independent=True)
    async def record_intent(self, conn: Connection, args: RecordIntent) -> ToolResult:
        data: dict[str, JsonValue] = {"intent": args.intent.value, "next_step": _ENDS.get(args.intent, "submit_answer")}
        await threads.save_state(conn, self.question.thread_id, {**data, "intent_confidence": args.confidence})
        return ToolResult("Noted.", "noted", data)

    def _intent_faults(self, record: Record, tool: str, *, nothing_found: bool = False) -> Iterator[_AnswerFault]:
        if self.context.fallback_code is not None:
            return  # the last question does not ask for an intent
        if record.intent is None:
            yield _AnswerFault("no_intent", "Call record_intent first.")
        elif not nothing_found and (wanted := _ENDS.get(Intent(record.intent))) not in (None, tool):
            yield _AnswerFault(
                "other_intent", f"The recorded intent is {record.intent}: end with {wanted}, or record another intent."
            )

    def _answer_faults(self, record: Record, args: SubmitAnswer) -> Iterator[_AnswerFault]:
        yield from self._intent_faults(record, "submit_answer", nothing_found=args.nothing_found)
        yield from _citation_faults(record, citation_numbers(args.answer))
        yield from self._number_faults(record, args.answer)
        if args.nothing_found and not record.searched:
            yield _AnswerFault("not_searched", "You have not searched yet. Search before you set nothing_found.")
        if not args.nothing_found and not record.citations and not self._rests_on_computation(record, args.answer):
            yield _AnswerFault(
                "not_cited", "The answer has no citation. Read a document, call cite_source, and write [n] in the text."
            )

    def _rests_on_computation(self, record: Record, answer: str) -> bool:
        """Return whether the answer to a last question, which cannot be a submit_calculation, states what the run has
        computed from the fields or from the person's numbers."""
        return self.context.fallback_code is not None and any(
            _contains_number(str(value), answer)
            and (call.tool == "query_fields" or _is_given(call, self.question.message))
            for value, call in record.results()
        )

    def _summary_faults(self, record: Record, args: SubmitSummary) -> Iterator[_AnswerFault]:
        yield from self._intent_faults(record, "submit_summary")
        yield from _citation_faults(record, citation_numbers(args.summary, *args.key_points))
        yield from self._number_faults(record, args.summary, *args.key_points)
        if bare := [number for number, point in enumerate(args.key_points, 1) if not citation_numbers(point)]:
            yield _AnswerFault("not_cited", f"Key points without a citation: {', '.join(map(str, bare))}.")

    def _calculation_faults(self, record: Record, args: SubmitCalculation) -> Iterator[_AnswerFault]:
        yield from self._intent_faults(record, "submit_calculation")
        yield from _citation_faults(record, citation_numbers(args.answer, args.formula))
        result = decimal(args.result)
        if result is None or all(value != result for value, _ in record.results()):
            yield _AnswerFault(
                "not_computed",
                "The result is not from calculator or query_fields in this run. Submit a result that they returned.",
            )
        elif not _contains_number(args.result, args.answer):
            yield _AnswerFault(
                "result_not_said", "The answer does not contain the result. Write it there as in `result`."
            )
        else:
            yield from self._number_faults(record, args.answer)
        by = [call for value, call in record.results() if value == result]
        if (
            not record.citations
            and not any(record.successful_calls("query_fields"))
            and not (by and _is_given(by[-1], self.question.message))
        ):
            yield _AnswerFault("not_cited", "Cite the source of the numbers, or get them from query_fields.")

    def _number_faults(self, record: Record, *texts: str) -> Iterator[_AnswerFault]:
        if unknown := unproven_numbers(record, [self.question.message], *texts):
            yield _AnswerFault(
                "number_not_proven",
                "These numbers are in no quote that you cite, and no tool has computed them: "
                f"{', '.join(unknown[:10])}. Cite where they are printed, or compute them.",
            )

    async def _begin(self, conn: Connection, citations: Sequence[CiteSource] = ()) -> tuple[Record, list[_AnswerFault]]:
        """Return the run's record, including the citations of this answer, and the faults of these citations."""
        record = await Record.of(conn, self.context.run_id)
        if record.has_answered:
            raise ToolFailed("This run has already submitted its answer.", "answered")
        given: dict[int, Source] = {}
        found: list[_AnswerFault] = []
        for one in citations:
            try:
                given[one.number] = await find_source(conn, self.question, record, one)
            except ToolRefusal as refusal:
                found.append(_AnswerFault(refusal.code, f"[{one.number}]: {refusal.text}"))
        return replace(record, given=given), found

    async def _end(
        self,
        conn: Connection,
        record: Record,
        found: Sequence[_AnswerFault],
        make: Callable[..., AnyAnswer],
        answer: Callable[[], dict[str, Any]],
        confidence: float,
    ) -> ToolResult:
        """End the run with an answer. If it has faults, the first submission is refused with them; after the second the
        run falls back."""
        codes: list[JsonValue] = [fault.code for fault in found]
        if found and (self.context.fallback_code is not None or not record.was_refused):
            raise ModelRetry(
                " ".join(fault.text for fault in found) + " Fix this and submit once more: there is no third attempt.",
                INVALID,
                {"faults": codes},
            )
        if found:
            return ToolResult("The answer is rejected.", "fallback", {FALLBACK_CODE: INVALID, "faults": codes})
        given = make(
            **answer(),
            **dict(record.trace),
            coverage=record.coverage if make is CalculationResponse else record.coverage_beside(record.sources),
            confidence=confidence,
            timestamp=await clock.now(conn),
            effort=await fallback.answer_cost(conn, self.question, record),
            fallback=None
            if self.context.fallback_code is None
            else fallback.last_answer_note(self.context.fallback_code),
        )
        identical = await documents.filenames_of_identical_documents(
            conn, {source.document_id for source in given.sources}
        )
        given = given.model_copy(update={"identical_files": identical})
        await memory.remember(conn, self.question, record, given)
        events = [CitationEvent(citation=to_citation(source)) for source in record.given.values()]
        return ToolResult("The answer is submitted.", "answered", given.model_dump(mode="json"), events)

    @tool(SubmitAnswer, lambda args: "Answering", ToolEffect.NOTE, answer=final_answer)
    async def submit_answer(self, conn: Connection, args: SubmitAnswer) -> ToolResult:
        record, found = await self._begin(conn, args.citations)
        if self.context.fallback_code is not None:  # the last question need not use what was cited before
            record = replace(record, used=citation_numbers(args.answer))
        found += self._answer_faults(record, args)

        def answer() -> dict[str, Any]:
            searched = record.searched if args.nothing_found else []
            parts = {"kind": "answer", "question": self.question.message, "answer": args.answer}
            return {**parts, "searched": searched, "sources": record.sources}

        return await self._end(conn, record, found, AnswerResponse, answer, args.confidence)

    @tool(SubmitSummary, lambda args: "Giving the summary", ToolEffect.NOTE, answer=final_answer)
    async def submit_summary(self, conn: Connection, args: SubmitSummary) -> ToolResult:
        record, found = await self._begin(conn)
        found += self._summary_faults(record, args)

        def answer() -> dict[str, Any]:
            parts = {"kind": "summary", "summary": args.summary, "key_points": args.key_points}
            return {**parts, "sources": record.sources}

        return await self._end(conn, record, found, SummarizationResponse, answer, args.confidence)

    @tool(SubmitCalculation, lambda args: "Giving the result", ToolEffect.NOTE, answer=final_answer)
    async def submit_calculation(self, conn: Connection, args: SubmitCalculation) -> ToolResult:
        record, found = await self._begin(conn)
        found += self._calculation_faults(record, args)

        def answer() -> dict[str, Any]:
            result = decimal(args.result)
            by = [call for value, call in record.results() if value == result][-1]
            expression = str(as_object(by.data).get("expression", ""))
            behind = _parse_sources(as_object(by.data).get("sources")) or _sources_behind(record, expression)
            parts = {"kind": "calculation", "answer": args.answer, "formula": args.formula, "expression": expression}
            return {**parts, "result": args.result.strip(), "sources": record.sources or behind}

        return await self._end(conn, record, found, CalculationResponse, answer, args.confidence)


def _citation_faults(record: Record, said: set[int]) -> Iterator[_AnswerFault]:
    there = record.citations.keys()
    if missing := sorted(said - there):
        yield _AnswerFault("no_such_citation", f"The text refers to {_numbers(missing)}, which you have not cited.")
    if unused := sorted(there - said):
        yield _AnswerFault(
            "citation_unused", f"You have cited {_numbers(unused)}, and the text does not say where it is used."
        )


def _is_given(call: RecordedCall, message: str) -> bool:
    """Return whether all numbers of a calculation are in the person's message: then no citation is needed."""
    numbers = {decimal(one) for one in _NUMBER.findall(str(as_object(call.data).get("expression", "")))}
    return bool(numbers) and numbers <= {
        decimal(one) for one in _NUMBER.findall(_without_thousands_separators(message))
    }


def _without_thousands_separators(text: str) -> str:
    """Return the text without thousands separators in its numbers."""
    return re.sub(r"(?<=\d)[, '’\u00a0\u202f](?=\d{3}(?!\d))", "", text)


def _contains_number(result: str, text: str) -> bool:
    """Return whether a text contains a number, with or without thousands separators."""
    wanted = decimal(result)
    said = _NUMBER.findall(_without_thousands_separators(text))
    return any(decimal(one) == wanted or (wanted is not None and decimal(f"-{one}") == wanted) for one in said)


def _numbers(found: Sequence[int]) -> str:
    return ", ".join(f"[{number}]" for number in found[:10])


def _parse_sources(items: JsonValue) -> list[Source]:
    return [Source.model_validate(one) for one in items] if isinstance(items, list) else []


def _sources_behind(record: Record, expression: str) -> list[Source]:
    """Return the values behind the results of `query_fields` that a calculation uses."""
    numbers = {decimal(one) for one in _NUMBER.findall(expression)}
    said = [call for value, call in record.results() if abs(value) in numbers and call.tool == "query_fields"]
    calls = {call.id: call for call in said}.values()
    found = [source for call in calls for source in _parse_sources(as_object(call.data).get("sources"))]
    return [source.model_copy(update={"number": at}) for at, source in enumerate(found[:MOST_SOURCES], 1)]


def answer_text(result: dict[str, Any]) -> str:
    """Return an answer as text for people. Its coverage is always included."""
    lines = [str(result.get("answer") or result.get("summary") or "")]
    lines += [f"- {point}" for point in result.get("key_points") or ()]
    coverage = [AnswerCoverage.model_validate(one) for one in result.get("coverage") or ()]
    lines += [f"(Covers {one.text}.)" for one in coverage if one.text not in lines[0]]
    if duplicates := dict.fromkeys(name for one in coverage for name in one.duplicates):
        lines.append(f"(Copies of other documents, not counted again: {'; '.join(duplicates)}.)")
    if identical := result.get("identical_files"):
        lines.append(f"(The same file under several names: {'; '.join(identical)}.)")
    if searched := result.get("searched"):
        lines.append(f"(Searched for: {'; '.join(map(str, searched))}.)")
    return "\n".join(lines)

"""Tools that say what a run is asked for, and that end it with a typed answer. What an answer may say is checked here
against what the run has done: the prompt asks for it, this enforces it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import Field, JsonValue

from fieldmark.agents.library import fallback, memory
from fieldmark.agents.library.deps import Context
from fieldmark.agents.library.record import INVALID, Record, decimal
from fieldmark.agents.library.tools.figures import MOST_SOURCES
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnswerCoverage, AnswerResponse, CalculationResponse, Source, SummarizationResponse
from fieldmark.domain.json_values import as_object
from fieldmark.tools.errors import ModelRetry, ToolFailed
from fieldmark.tools.toolset import Answer, Confidence, Tool, ToolEffect, ToolInput, ToolResult

MAX_ANSWER: Final = 20_000
_CITED: Final = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")


_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class Intent(StrEnum):
    """What a person wants."""

    QA = "qa"
    SUMMARIZATION = "summarization"
    CALCULATION = "calculation"
    UNKNOWN = "unknown"


_ENDS: Final = {
    Intent.QA: "submit_answer",
    Intent.SUMMARIZATION: "submit_summary",
    Intent.CALCULATION: "submit_calculation",
}
"""The answer that an intent ends with. Where nothing was found it is always submit_answer."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_ANSWER)]
Point = Annotated[str, Field(min_length=1, max_length=1_000)]


class RecordIntent(ToolInput):
    """Say first what the person wants: qa (a question), summarization, calculation (a count, a sum, a figure that has
    to be reckoned), or unknown. Call it again if it turns out to be another."""

    intent: Intent
    confidence: Confidence
    reasoning: Annotated[str, Field(min_length=1, max_length=1_000)]


class SubmitAnswer(ToolInput):
    """Answer the question, and end. Write [n] behind each claim, where n is a citation of yours; every citation must be
    used. If you found nothing, say so with nothing_found, after you have searched."""

    answer: Text
    confidence: Confidence
    nothing_found: bool = False


class SubmitSummary(ToolInput):
    """Give the summary, and end. Each key point needs its [n]; every citation must be used."""

    summary: Text
    key_points: Annotated[list[Point], Field(min_length=1, max_length=30)]
    confidence: Confidence


class SubmitCalculation(ToolInput):
    """Give the figure that was reckoned, and end. The result must be one that calculator or query_fields gave you in
    this run. Cite what the numbers come from, unless query_fields has them."""

    answer: Annotated[str, Field(min_length=1, max_length=MAX_ANSWER, description="The answer in a sentence or two.")]
    formula: Annotated[str, Field(min_length=1, max_length=1_000, description="In words: what is reckoned from what.")]
    result: Annotated[str, Field(min_length=1, max_length=600, description="As the tool gave it: 1234.5")]
    confidence: Confidence


class _Fault(NamedTuple):
    code: str
    text: str


def cited(*texts: str) -> set[int]:
    """The citations that texts refer to.

    >>> sorted(cited("It leaks [1], and rots [2, 3]. See a[i]."))
    [1, 2, 3]
    """
    return {int(one) for text in texts for found in _CITED.findall(text) for one in found.split(",")}


async def _record_intent(conn: Connection, context: Context, args: RecordIntent) -> ToolResult:
    return ToolResult("Noted.", "noted", {"intent": args.intent.value, "confidence": args.confidence})


def _citation_faults(record: Record, said: set[int]) -> Iterator[_Fault]:
    there = record.citations.keys()
    if missing := sorted(said - there):
        yield _Fault("no_such_citation", f"The text refers to {_numbers(missing)}, which you have not cited.")
    if unused := sorted(there - said):
        yield _Fault(
            "citation_unused", f"You have cited {_numbers(unused)}, and the text does not say where it is used."
        )


def _intent_faults(record: Record, tool: str, *, nothing_found: bool = False) -> Iterator[_Fault]:
    if record.intent is None:
        yield _Fault("no_intent", "Say with record_intent first what the person wants.")
    elif not nothing_found and (wanted := _ENDS.get(Intent(record.intent))) not in (None, tool):
        yield _Fault(
            "other_intent", f"You said that it is {record.intent}: end with {wanted}, or record another intent."
        )


def _answer_faults(record: Record, args: SubmitAnswer) -> Iterator[_Fault]:
    yield from _intent_faults(record, SUBMIT_ANSWER.name, nothing_found=args.nothing_found)
    yield from _citation_faults(record, cited(args.answer))
    if args.nothing_found and not record.searched:
        yield _Fault("not_searched", "You have searched for nothing yet: nothing_found needs a search.")
    if not args.nothing_found and not record.citations:
        yield _Fault("not_cited", "An answer needs a citation: read, cite_source, and write [n] in the text.")


def _summary_faults(record: Record, args: SubmitSummary) -> Iterator[_Fault]:
    yield from _intent_faults(record, SUBMIT_SUMMARY.name)
    yield from _citation_faults(record, cited(args.summary, *args.key_points))
    if bare := [number for number, point in enumerate(args.key_points, 1) if not cited(point)]:
        yield _Fault("not_cited", f"Key points without a citation: {', '.join(map(str, bare))}.")


def _calculation_faults(record: Record, args: SubmitCalculation, message: str) -> Iterator[_Fault]:
    yield from _intent_faults(record, SUBMIT_CALCULATION.name)
    yield from _citation_faults(record, cited(args.answer, args.formula))
    result = decimal(args.result)
    if result is None or all(value != result for value, _ in record.results()):
        yield _Fault("not_reckoned", "The result is none that calculator or query_fields gave you in this run.")
    elif not _stands(args.result, args.answer):
        yield _Fault("result_not_said", "The answer does not say the result. Write it there as it stands in result.")
    if not record.citations and not any(record.done("query_fields")) and not _is_given(record, args, message):
        yield _Fault("not_cited", "Cite what the numbers come from, or ask query_fields for them.")


def _is_given(record: Record, args: SubmitCalculation, message: str) -> bool:
    """Whether all that was reckoned with stands in what the person asks: then no document is needed."""
    by = [call for value, call in record.results() if value == decimal(args.result)]
    expression = str(as_object(by[-1].data).get("expression", "")) if by else ""
    numbers = {decimal(one) for one in _NUMBER.findall(expression)}
    return bool(numbers) and numbers <= {decimal(one) for one in _NUMBER.findall(_plain(message))}


def _plain(text: str) -> str:
    """A text whose numbers have no separators between their thousands."""
    return re.sub(r"(?<=\d)[, '’\u00a0\u202f](?=\d{3}(?!\d))", "", text)


def _stands(result: str, text: str) -> bool:
    """Whether a text says a number, with or without separators between its thousands."""
    wanted = decimal(result)
    said = _NUMBER.findall(_plain(text))
    return any(decimal(one) == wanted or (wanted is not None and decimal(f"-{one}") == wanted) for one in said)


def _numbers(found: Sequence[int]) -> str:
    return ", ".join(f"[{number}]" for number in found[:10])


Args = TypeVar("Args", bound=ToolInput)


async def _submit(
    conn: Connection,
    context: Context,
    faults: Callable[[Record], Iterator[_Fault]],
    answer: Callable[[Record], AnswerResponse | SummarizationResponse | CalculationResponse],
) -> ToolResult:
    """End the run with an answer that nothing is wrong with. Of one with faults the model is told them; the second time
    the run ends with what the task falls back on."""
    record = await Record.of(conn, context.run_id)
    if record.has_answered:
        raise ToolFailed("This run has answered already.", "answered")
    found = list(faults(record))
    if found and not record.was_refused:
        told: list[JsonValue] = [fault.code for fault in found]
        raise ModelRetry(
            " ".join(fault.text for fault in found) + " Mend this and submit once more: there is no third time.",
            INVALID,
            {"faults": told},
        )
    given = await fallback.passages(conn, context, "answer_invalid", record) if found else answer(record)
    await memory.remember(conn, context, record, given)
    return ToolResult("The answer is given.", "fallback" if found else "answered", given.model_dump(mode="json"))


async def _submit_answer(conn: Connection, context: Context, args: SubmitAnswer) -> ToolResult:
    def answer(record: Record) -> AnswerResponse:
        return AnswerResponse(
            kind="answer",
            question=memory.message_of(context),
            answer=args.answer,
            searched=record.searched if args.nothing_found else [],
            **_common(record, args.confidence),
        )

    return await _submit(conn, context, lambda record: _answer_faults(record, args), answer)


async def _submit_summary(conn: Connection, context: Context, args: SubmitSummary) -> ToolResult:
    def answer(record: Record) -> SummarizationResponse:
        common = _common(record, args.confidence)
        return SummarizationResponse(kind="summary", summary=args.summary, key_points=args.key_points, **common)

    return await _submit(conn, context, lambda record: _summary_faults(record, args), answer)


async def _submit_calculation(conn: Connection, context: Context, args: SubmitCalculation) -> ToolResult:
    def answer(record: Record) -> CalculationResponse:
        result = decimal(args.result)
        by = [call for value, call in record.results() if value == result][-1]
        common = _common(record, args.confidence)
        expression = str(as_object(by.data).get("expression", ""))
        if not common["sources"]:
            common["sources"] = _sources_of(as_object(by.data).get("sources")) or _sources_behind(record, expression)
        return CalculationResponse(
            kind="calculation",
            answer=args.answer,
            formula=args.formula,
            expression=expression,
            result=args.result.strip(),
            **common,
        )

    return await _submit(
        conn, context, lambda record: _calculation_faults(record, args, memory.message_of(context)), answer
    )


def _sources_of(told: JsonValue) -> list[Source]:
    return [Source.model_validate(one) for one in told] if isinstance(told, list) else []


def _sources_behind(record: Record, expression: str) -> list[Source]:
    """The values behind the figures of `query_fields` that a calculation was made of."""
    numbers = {decimal(one) for one in _NUMBER.findall(expression)}
    said = [call for value, call in record.results() if abs(value) in numbers and call.tool == "query_fields"]
    calls = {call.id: call for call in said}.values()
    found = [source for call in calls for source in _sources_of(as_object(call.data).get("sources"))]
    return [source.model_copy(update={"number": at}) for at, source in enumerate(found[:MOST_SOURCES], 1)]


def _common(record: Record, confidence: float) -> dict[str, Any]:
    return {
        "sources": [source for _, source in sorted(record.citations.items())],
        "coverage": record.coverage,
        "confidence": confidence,
        "timestamp": datetime.now(UTC),
    }


def ending(_: ToolInput, data: JsonValue) -> Answer:
    """The run's answer, of what a call that ends it has answered for programs."""
    result = as_object(data)
    return Answer(in_words(result), result)


def in_words(result: dict[str, Any]) -> str:
    """An answer for people: what the agent says, and what it covers, whether the agent says that or not."""
    lines = [str(result.get("answer") or result.get("summary") or "")]
    lines += [f"- {point}" for point in result.get("key_points") or ()]
    coverage = [AnswerCoverage.model_validate(one) for one in result.get("coverage") or ()]
    lines += [f"(Covers {one.text}.)" for one in coverage if one.text not in lines[0]]
    if searched := result.get("searched"):
        lines.append(f"(Searched for: {'; '.join(map(str, searched))}.)")
    return "\n".join(lines)


RECORD_INTENT = Tool(
    "record_intent",
    RecordIntent,
    _record_intent,
    summary=lambda args: f"Understood as {args.intent}",
    effect=ToolEffect.NOTE,
    stands_alone=True,
)
SUBMIT_ANSWER = Tool(
    "submit_answer",
    SubmitAnswer,
    _submit_answer,
    summary=lambda args: "Answering",
    effect=ToolEffect.NOTE,
    answer=ending,
)
SUBMIT_SUMMARY = Tool(
    "submit_summary",
    SubmitSummary,
    _submit_summary,
    summary=lambda args: "Giving the summary",
    effect=ToolEffect.NOTE,
    answer=ending,
)
SUBMIT_CALCULATION = Tool(
    "submit_calculation",
    SubmitCalculation,
    _submit_calculation,
    summary=lambda args: "Giving the result",
    effect=ToolEffect.NOTE,
    answer=ending,
)

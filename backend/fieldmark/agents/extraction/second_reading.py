"""The service's last call of an extraction: another model reads the fields again, and both readings are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.fields import has_fields
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.second_reading import doubted_patterns, is_same_vendor, limited_fields, pattern_of
from fieldmark.domain.statuses import Approval, RunError, RunStatus, SecondReadingMode
from fieldmark.services import second_readings
from fieldmark.stores import extractions, tool_calls
from fieldmark.stores.runs import RunRow, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import ChildRun, RunAnswer, ToolEffect, ToolInput, ToolResult, tool

_TOOL: Final = "second_reading"
_READING_TOOL: Final = "submit_reading"
_NOT_CONFIGURED: Final = "not_configured"
_NO_READING: Final = "no_reading"
_OTHER_STRUCTURE: Final = "other_structure"


class SecondReading(ToolInput):
    """Have a second model read the fields again, and compare. The service makes this call, no model does."""

    answer: Annotated[str, Field(description="The agent's answer.")]
    fields: Annotated[list[str] | None, Field(description="Only these, as patterns.")] = None


async def second_reading_call(
    context: RunContext, mode: SecondReadingMode | None, fields: Sequence[str] | None, answer: str
) -> tuple[str, JsonObject] | None:
    """Return the call that starts the second reading of a run, which may be limited to some fields. None if it is off,
    was made before, or there is nothing to read again."""
    if mode in (None, SecondReadingMode.OFF):
        return None
    async with context.database.as_user(context.scope) as conn:
        row = await extractions.find(conn, context.extraction_id)
        was_called = await tool_calls.was_called(conn, context.run_id, _TOOL)
    if row is None or not has_fields(row.extracted_fields) or was_called:
        return None
    arguments: JsonObject = {"answer": answer or "The fields are saved."}
    patterns = None if fields is None else {pattern_of(name) for name in fields}
    if mode is SecondReadingMode.UNSURE:
        patterns = set(doubted_patterns(limited_fields(row.extracted_fields, patterns), row.confidence_scores))
        if not patterns:
            return None
    if patterns is not None:
        arguments["fields"] = [*sorted(patterns)]
    return _TOOL, arguments


def _answer(args: SecondReading, data: JsonValue) -> RunAnswer:
    return RunAnswer(args.answer, {"kind": _TOOL, **as_object(data)}, is_reported=True)


class SecondReadingTools:
    """The call of one run for its extraction."""

    def __init__(self, context: RunContext, extraction_id: UUID) -> None:
        self.context = context
        self.extraction_id = extraction_id

    async def collect_reading(self, conn: Connection, args: SecondReading, runs: Sequence[RunRow]) -> ToolResult:
        (run,) = runs
        reading = as_object(run.result)
        if run.status is not RunStatus.COMPLETED or reading.get("kind") != "reading":
            code = run.error_code or _NO_READING
            if code in (_NO_READING, RunError.AGENT_STOPPED) and await tool_calls.was_called(
                conn, run.id, _READING_TOOL
            ):
                code = _OTHER_STRUCTURE
            return self._result(run, code)
        compared = await second_readings.record(conn, self.extraction_id, args.fields, reading)
        return self._result(run, None, len(compared.agrees), len(compared.differs), len(compared.rows))

    @tool(
        SecondReading,
        lambda args: "Reading the document a second time",
        ToolEffect.NOTE,
        answer=_answer,
        collect=collect_reading,
    )
    async def second_reading(self, conn: Connection, args: SecondReading) -> ToolResult | ChildRun:
        if self.context.second_model is None:
            return self._result(None, _NOT_CONFIGURED)
        asked: JsonObject = {"fields": [*args.fields]} if args.fields else {}
        if instructions := self.context.run.input.get("instructions"):
            asked["instructions"] = instructions
        return ChildRun(
            "Another model reads the document.",
            _TOOL,
            asked,
            Subject(self.context.document_id, self.extraction_id),
            approval=Approval.AUTO,
            model=self.context.second_model,
        )

    def _result(
        self, run: RunRow | None, code: str | None, agrees: int = 0, differs: int = 0, rows: int = 0
    ) -> ToolResult:
        context = self.context
        data: JsonObject = {
            "run_id": None if run is None else str(run.id),
            "code": code,
            "agrees": agrees,
            "differs": differs,
            "rows": rows,
            "is_same_vendor": is_same_vendor(
                context.model or "", context.second_model or "", context.model_url, context.second_model_url
            ),
        }
        text = "The second reading is missing." if code else f"Agrees: {agrees}, differs: {differs}, lists: {rows}."
        return ToolResult(text, "missing" if code else "compared", data)

"""The second reader: reads the fields of an extraction without seeing its values. It can only report them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from fieldmark.agents.extraction.agent import document_text, instructions_text, schema_text
from fieldmark.agents.spec import AgentSpec, Briefing, Instructions, RunStart, Task
from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.paths import MAX_CHARACTERS
from fieldmark.domain.statuses import Effort
from fieldmark.domain.values import invisible_problem
from fieldmark.errors import Fenced, Invalid
from fieldmark.identity.scope import Scope
from fieldmark.services import second_readings
from fieldmark.stores import extractions
from fieldmark.stores.rows import ExtractionRow
from fieldmark.tools.context import RunContext
from fieldmark.tools.documents import DocumentReader, first_part
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import RunAnswer, RunTools, ToolEffect, ToolInput, ToolResult, Toolset, tool

SECONDS: Final = 300
"""The time limit of a second reading: the extraction waits for it."""


class SubmitReading(ToolInput):
    """Report the values of all fields that the document contains. It ends the task."""

    fields: Annotated[dict[str, JsonValue], Field(min_length=1)]


class SecondReadingInput(BaseModel):
    """What is read again: all fields of the run's extraction, or those at these patterns."""

    model_config = ConfigDict(extra="forbid")

    fields: list[Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]] | None = None
    instructions: Instructions | None = None


class ReadingTools:
    """The tool of one run with which it reports its reading."""

    def __init__(self, context: RunContext) -> None:
        self.context = context

    async def prepare_reading(self, args: SubmitReading) -> JsonObject:
        if unseen := invisible_problem(args.fields):
            raise ModelRetry(unseen)
        async with self.context.database.as_user(self.context.scope) as conn:
            row = await _extraction(conn, self.context)
        index = await self.context.indexes.get(self.context.database, self.context.scope, row.document_id)
        fields = _patterns(self.context)
        try:
            return await second_readings.make_reading(self.context.org_id, index, row, fields, args.fields)
        except Invalid as error:
            raise ModelRetry(str(error), "other_structure") from None

    @tool(
        SubmitReading,
        lambda args: "Reporting what it read",
        ToolEffect.NOTE,
        answer=lambda args, data: RunAnswer("The fields are read.", as_object(data)),
        prepare=prepare_reading,
    )
    async def submit_reading(self, conn: Connection, reading: JsonObject) -> ToolResult:
        return ToolResult("Reported.", "reported", reading)


async def _begin(conn: Connection, scope: Scope, request: BaseModel) -> RunStart[SecondReadingInput]:
    raise Invalid("Only an extraction starts a second reading. Start one with `second_reading`.")


async def _brief(conn: Connection, context: RunContext, given: SecondReadingInput) -> Briefing:
    row = await _extraction(conn, context)
    schema = await run_in_thread(second_readings.schema_to_ask, row, given.fields)
    prompt = await extractions.find_prompt(conn, row.id)
    part = await first_part(conn, context, row.document_id)
    common = SECOND_READING.text("second_reading", schema=schema_text(schema))
    return (common + instructions_text(prompt, given.instructions)).strip(), document_text(part)


async def _extraction(conn: Connection, context: RunContext) -> ExtractionRow:
    row = await extractions.find(conn, context.extraction_id)
    if row is None:
        raise Fenced("The extraction is gone.")
    return row


def _patterns(context: RunContext) -> list[str] | None:
    return TASK.parse(context.run).fields


TASK = Task(
    name="second_reading",
    description="Read the fields of an extraction again, without seeing its values.",
    request=SecondReadingInput,
    input=SecondReadingInput,
    begin=_begin,
    briefing=_brief,
    needs=("document_id", "extraction_id"),
    seconds=SECONDS,
    max_turns=20,
    max_refusals=3,
    is_internal=True,
)

_TOOLSET = Toolset(DocumentReader, ReadingTools)


def create_reading_tools(context: RunContext, *, user_id: UUID, org_id: UUID, document_id: UUID) -> RunTools:
    """Return the tools of one run. None of them writes a value."""
    context = context.acting_as(user_id, org_id)
    return _TOOLSET.bind(DocumentReader(context, document_id), ReadingTools(context))


SECOND_READING = AgentSpec(
    name="second_reading",
    briefs=Path(__file__).parent / "briefs",
    toolset=_TOOLSET,
    create_tools=lambda context: create_reading_tools(
        context, user_id=context.user_id, org_id=context.org_id, document_id=context.document_id
    ),
    tasks={TASK.name: TASK},
    effort=Effort.MEDIUM,
    uses_second_model=True,
)

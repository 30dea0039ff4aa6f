"""The extraction agent: its tasks, what they are given, and its spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from fieldmark.agents.extraction.offline import answer
from fieldmark.agents.extraction.second_reading import SecondReadingTools, second_reading_call
from fieldmark.agents.extraction.tools import ExtractionTools, current_extraction
from fieldmark.agents.spec import AgentSpec, Briefing, Instructions, ItemName, Message, RunStart, Task
from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain import paths
from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.schema import check_schema
from fieldmark.domain.statuses import DocumentStatus, Effort, ExtractionStatus, SecondReadingMode
from fieldmark.domain.values import value_problem
from fieldmark.errors import DocumentFailed, Fenced, Invalid, InvalidSchema, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services import examples
from fieldmark.services.extraction_sources import find_revid
from fieldmark.services.fair_share import run_unqueued
from fieldmark.stores import documents, extractions
from fieldmark.stores.library import prompts, schemas
from fieldmark.stores.rows import ExtractionRow, Prompt
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.documents import DocumentReader, FirstPart, first_part
from fieldmark.tools.toolset import RunTools, Toolset

_MOST_SHOWN = 500
_MOST_FIELDS: Final = 100


_EXTRACT: dict[str, JsonValue] = {
    "document_id": "01936f2e-8f5c-7a41-9c55-0d2f3c1b6a90",
    "schema": {
        "type": "object",
        "properties": {"invoice_number": {"type": "string"}, "total": {"type": "number"}},
        "required": ["total"],
    },
    "instructions": "Amounts are net.",
    "approval": "ask",
    "wait": False,
}


def _canonical(path: str) -> str:
    try:
        return paths.name(paths.parse(path))
    except Invalid as error:
        raise ValueError(str(error)) from None


Fields = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=paths.MAX_CHARACTERS), AfterValidator(_canonical)]],
    Field(min_length=1, max_length=_MOST_FIELDS),
]
"""Path names, as they are kept."""


class ExtractRequest(BaseModel):
    """Extract the fields of a document."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXTRACT]})

    document_id: UUID
    json_schema: dict[str, Any] | ItemName | None = Field(
        None,
        alias="schema",
        description="A JSON Schema (Draft 2020-12) that the fields shall follow, or a stored schema: its name "
        "or id, whose latest version applies, or the id of a version.",
        examples=["invoices"],
    )
    schema_id: UUID | None = Field(None, description="A stored schema by id, instead of `schema`.")
    schema_revid: UUID | None = Field(None, description="A version of a stored schema, instead of `schema`.")
    prompt: ItemName | None = Field(
        None,
        description="A stored prompt: its name or id, whose latest version applies, or the id of a version. Its "
        "text is added to the instructions; its schema and model apply unless others are given.",
    )
    prompt_id: UUID | None = Field(None, description="A prompt by id, instead of `prompt`.")
    prompt_revid: UUID | None = Field(None, description="A version of a prompt, instead of `prompt`.")
    instructions: Instructions | None = None
    extraction_id: UUID | None = Field(
        None,
        description="Extract again into this extraction of the document, with its schema and prompt. What a person set "
        "there stays, and other values for it become proposals. Left out: a new extraction.",
    )
    fields: Fields | None = Field(
        None,
        description="Read only the fields at these paths of that extraction; no other field is written.",
        examples=[["due_date", "items[2].price"]],
    )
    is_trial: bool = Field(
        False,
        description="Only try the schema: the extraction never becomes the document's current one, and no change is "
        "reported for it. Delete it afterwards.",
    )
    second_reading: SecondReadingMode | None = Field(
        None,
        description="What a second model reads again to compare: `all` fields, or only the doubted ones (`unsure`). It "
        "is charged to the run. Default: as the schema or the organisation says.",
    )


class CorrectRequest(BaseModel):
    """Correct an extraction in words."""

    model_config = ConfigDict(extra="forbid")

    extraction_id: UUID
    message: Message = Field(examples=["the vendor is Acme Ltd, and remove the discount"])


class ExtractInput(BaseModel):
    """The stored part of a request to extract. The prompt is that of the extraction."""

    model_config = ConfigDict(extra="forbid")

    instructions: Instructions | None = None
    # The run may only write at these paths.
    fields: Fields | None = None
    # Filled in by private.fill_run.
    second_reading: SecondReadingMode | None = None


class CorrectInput(BaseModel):
    """The stored part of a correction."""

    model_config = ConfigDict(extra="forbid")

    message: Message


async def _check_extract(request: ExtractRequest) -> None:
    for kind in ("schema", "prompt"):
        given = [name for name in (kind, f"{kind}_id", f"{kind}_revid") if _given(request, name) is not None]
        if len(given) > 1:
            raise Invalid(f"Give only one of {' and '.join(given)}.")
        if given and request.extraction_id is not None:
            raise Invalid(f"An extraction keeps its schema and prompt. Leave out {given[0]}.")
    if request.is_trial and request.extraction_id is not None:
        raise Invalid("A trial is a new extraction. Leave out extraction_id or is_trial.")
    if request.fields is not None and request.extraction_id is None:
        raise Invalid("`fields` needs an extraction: give its extraction_id.")
    if isinstance(request.json_schema, dict):
        if problem := value_problem(request.json_schema):
            raise InvalidSchema(f"The schema cannot be used. {problem}")
        await run_unqueued(check_schema, request.json_schema)  # a hostile one takes a while


async def _begin_extract(conn: Connection, scope: Scope, request: ExtractRequest) -> RunStart[ExtractInput]:
    document = await documents.find(conn, request.document_id)
    if document is None:
        raise NotFound("There is no such document.")
    if document.status is DocumentStatus.FAILED:
        raise DocumentFailed(document.error or "The document could not be read.")
    extraction_id = request.extraction_id
    if extraction_id is None:
        extraction_id = await _add_extraction(conn, scope, request)
    else:
        extraction = await extractions.find(conn, extraction_id)
        if extraction is None or extraction.document_id != request.document_id:
            raise NotFound("There is no such extraction of this document.")
    prompt = await extractions.find_prompt(conn, extraction_id)
    return RunStart(
        Subject(request.document_id, extraction_id),
        ExtractInput(instructions=request.instructions, fields=request.fields, second_reading=request.second_reading),
        None if prompt is None else prompt.model,
    )


async def _add_extraction(conn: Connection, scope: Scope, request: ExtractRequest) -> UUID:
    schema = request.json_schema
    name = schema if isinstance(schema, str) else None
    return await extractions.add(
        conn,
        org_id=scope.org_id,
        document_id=request.document_id,
        schema=schema if isinstance(schema, dict) else None,
        schema_revid=await find_revid(
            conn, scope, schemas, name=name, item_id=request.schema_id, revid=request.schema_revid
        ),
        prompt_revid=await find_revid(
            conn, scope, prompts, name=request.prompt, item_id=request.prompt_id, revid=request.prompt_revid
        ),
        is_trial=request.is_trial,
    )


def _given(request: ExtractRequest, name: str) -> object:
    return request.json_schema if name == "schema" else getattr(request, name)


async def _begin_correct(conn: Connection, scope: Scope, request: CorrectRequest) -> RunStart[CorrectInput]:
    extraction = await extractions.find(conn, request.extraction_id)
    if extraction is None:
        raise NotFound("There is no such extraction.")
    return RunStart(Subject(extraction.document_id, request.extraction_id), CorrectInput(message=request.message))


async def _brief_extract(conn: Connection, context: RunContext, given: ExtractInput) -> Briefing:
    if given.fields is not None:
        return await _brief_fields(conn, context, given)
    schema, prompt = await extractions.find_schema_and_prompt(conn, context.extraction_id)
    # The part that runs share comes first, for the provider's cache, and the document last.
    common = EXTRACTION.text("extract", schema=schema_text(schema)) + instructions_text(prompt, given.instructions)
    shown = await examples.choose(conn, context.scope, context.run, context.document_id, schema)
    corrected = examples.as_text(shown)
    part = await first_part(conn, context, context.document_id, corrected)
    corrections = EXTRACTION.text("examples", examples=part.boundary.delimit("examples", corrected)) if shown else ""
    return common.strip(), corrections + document_text(part)


async def _brief_fields(conn: Connection, context: RunContext, given: ExtractInput) -> Briefing:
    """Return the first message of a run that is limited to some fields."""
    row = await extractions.find(conn, context.extraction_id)
    if row is None:
        raise Fenced("The extraction is gone.")
    listed = json.dumps(
        [_path_with_stored_value(row, name) for name in given.fields or ()], ensure_ascii=False, indent=1
    )
    part = await first_part(conn, context, context.document_id, listed)
    return EXTRACTION.text("extract_fields", schema=schema_text(row.schema)).strip(), EXTRACTION.text(
        "fields_document",
        instructions=instructions_text(await extractions.find_prompt(conn, row.id), given.instructions),
        fields=part.boundary.delimit("fields", listed),
        document=document_text(part),
    ).strip()


def _path_with_stored_value(row: ExtractionRow, name: str) -> dict[str, JsonValue]:
    """Return a path, with the stored value if there is one."""
    value = value_at(row.extracted_fields, paths.parse(name))
    if isinstance(value, Missing):
        return {"path": name}
    text = json.dumps(value, ensure_ascii=False)
    return {"path": name, "value": value if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} (shortened)"}


def schema_text(schema: dict[str, Any] | None) -> str:
    return f"\n<schema>\n{json.dumps(schema, ensure_ascii=False)}\n</schema>\n" if schema else ""


def instructions_text(prompt: Prompt | None, instructions: str | None) -> str:
    """Return the text of the extraction's prompt and the instructions of the request."""
    instructions = "\n\n".join(filter(None, (prompt and prompt.content, instructions))).strip()
    return f"<instructions>\n{instructions}\n</instructions>\n\n" if instructions else ""


async def _brief_correct(conn: Connection, context: RunContext, given: CorrectInput) -> Briefing:
    row = await extractions.find(conn, context.extraction_id)
    if row is None:
        raise Fenced("The extraction is gone.")
    current = (await run_in_thread(current_extraction, row)).text
    part = await first_part(conn, context, context.document_id, current, given.message)
    # A correction completes an extraction again only if it was complete before.
    ending = "complete" if row.status is ExtractionStatus.COMPLETED else "in_progress"
    return EXTRACTION.text("correct", ending=EXTRACTION.text(ending).strip()).strip(), EXTRACTION.text(
        "correct_document",
        correction=given.message.strip(),
        current=part.boundary.delimit("extraction", current),
        document=document_text(part),
    ).strip()


def document_text(part: FirstPart) -> str:
    return EXTRACTION.text(
        "document",
        # A file's name is foreign text: as a JSON string it stays one word of the sentence.
        filename=json.dumps(part.document.filename, ensure_ascii=False),
        media_type=part.document.media_type,
        page_count=part.document.page_count,
        boundary=part.boundary.word,
        text=part.text,
    ).strip()


EXTRACT = Task(
    name="extract",
    description="Read the document and write its fields.",
    request=ExtractRequest,
    input=ExtractInput,
    check=_check_extract,
    begin=_begin_extract,
    briefing=_brief_extract,
    needs=("document_id", "extraction_id"),
    last_call=lambda context, given, answer: second_reading_call(context, given.second_reading, given.fields, answer),
)
CORRECT = Task(
    name="correct",
    description="Change exactly the fields that the message names.",
    request=CorrectRequest,
    input=CorrectInput,
    begin=_begin_correct,
    briefing=_brief_correct,
    needs=("document_id", "extraction_id"),
    message=lambda given: given.message,
)

_TOOLSET = Toolset(DocumentReader, ExtractionTools)


def create_extraction_tools(
    context: RunContext, *, user_id: UUID, org_id: UUID, document_id: UUID, extraction_id: UUID
) -> RunTools:
    """Return the tools of one run. They close over these ids: no argument can name another user, organisation, document
    or extraction."""
    context = context.acting_as(user_id, org_id)
    return _TOOLSET.bind(
        DocumentReader(context, document_id),
        ExtractionTools(context, extraction_id),
        service_tools=SecondReadingTools(context, extraction_id),
    )


EXTRACTION = AgentSpec(
    name="extraction",
    briefs=Path(__file__).parent / "briefs",
    toolset=_TOOLSET,
    create_tools=lambda context: create_extraction_tools(
        context,
        user_id=context.user_id,
        org_id=context.org_id,
        document_id=context.document_id,
        extraction_id=context.extraction_id,
    ),
    tasks={task.name: task for task in (EXTRACT, CORRECT)},
    effort=Effort.MEDIUM,
    offline=answer,
)

"""Typed answers of runs. Every claim has a source with its location on a page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.events import Citation
from fieldmark.domain.field_query import AggregateOp, GroupBy
from fieldmark.domain.statuses import RunError


class Source(Citation):
    """A location in a document that supports an answer. The text cites it as `[number]`."""

    filename: str


class FieldCoverage(BaseModel):
    """How many documents have a field."""

    model_config = ConfigDict(frozen=True)

    path: str
    have: int = Field(description="Number of these documents with a verified value.")
    documents: int


class AnswerCoverage(BaseModel):
    """How many of the documents an exact count or sum covers."""

    model_config = ConfigDict(frozen=True)

    documents: int = Field(description="Number of documents of the requested kind.")
    with_field: int = Field(description="Number of these documents that have a verified value of the field.")
    not_read: int = Field(description="Number of documents that were not read, or have no extraction.")
    text: str = Field(description="The same in words.", examples=["412 of 412 invoices"])
    document_type: str | None = Field(default=None, description="Only documents of this type were requested.")
    fields: list[FieldCoverage] = Field(
        default=[], description="Each field of the query. Empty for a count of documents."
    )
    to_review: int = Field(default=0, description="Number of documents left out because no extraction is completed.")
    without_fields: int = Field(default=0, description="Number of documents left out because nothing is extracted yet.")
    other_types: int = Field(default=0, description="Number of documents of other types, which were not requested.")
    copies: int = Field(default=0, description="Number of byte-identical copies that were not counted again.")
    duplicates: list[str] = Field(
        default_factory=list[str],
        description="Names of files that were counted once, under another document with the same bytes. At most 20.",
    )


FallbackCode: TypeAlias = RunError | Literal["answer_invalid", "search_only"]
"""Why the agent gave no answer of its own. `search_only`: no agent answer was requested."""


class Fallback(BaseModel):
    """Why an answer comes from a fixed procedure: the agent gave no answer of its own."""

    model_config = ConfigDict(frozen=True)

    code: FallbackCode
    text: str
    by_model: bool = Field(
        description="True if the model wrote the answer from the best passages. False if the passages are the answer."
    )
    not_indexed: int = Field(
        default=0, description="Number of documents that were not searched: they are not indexed yet."
    )
    computed: list[str] = Field(
        default=[], description="What the agent computed before it stopped.", examples=[["1200 * 3 = 3600"]]
    )


class AnswerCost(BaseModel):
    """What an answer required."""

    model_config = ConfigDict(frozen=True)

    searches: int = Field(description="Number of searches and field queries.")
    reads: int = Field(description="Number of times that documents were read.")
    citations: int = Field(description="Number of quotes checked, including refused ones.")
    model_calls: int = Field(description="Number of model responses.")
    seconds: float = Field(description="Seconds since the question was asked, including waiting time.")


class RecordedIntent(BaseModel):
    """What the agent understood the user to want."""

    model_config = ConfigDict(frozen=True)

    intent: str = Field(description="qa, summarization, calculation or unknown")
    confidence: float = Field(ge=0, le=1)
    reasoning: str


class DocumentRead(BaseModel):
    """A document that the agent read for an answer."""

    model_config = ConfigDict(frozen=True)

    document_id: UUID
    filename: str


class ToolCallMade(BaseModel):
    """A tool call made before the answer."""

    model_config = ConfigDict(frozen=True)

    tool: str
    input: dict[str, Any]
    code: str | None = Field(description="The result code of the call. null: refused before it ran.")
    status: str | None = Field(None, description="done, failed or refused. null for answers of older versions.")
    output: str = Field("", description="The first 500 characters of the result, or why the call was refused.")


class Figure(BaseModel):
    """One figure of a group. An exact number or date, as text."""

    model_config = ConfigDict(frozen=True)

    op: AggregateOp
    path: str | None
    value: str
    currency: str | None


class FigureGroup(BaseModel):
    """The figures of one group. `key` is null for documents without the key, and without `group_by`."""

    model_config = ConfigDict(frozen=True)

    key: str | None
    documents: int
    results: list[Figure]


class FigureTable(BaseModel):
    """What one field query computed, and for which documents."""

    model_config = ConfigDict(frozen=True)

    where: DocumentFilters
    group_by: GroupBy | None
    groups: list[FigureGroup]
    groups_total: int
    in_several_groups: int = Field(
        description="Number of documents in more than one group: then the groups add up to more."
    )


class Trace(BaseModel):
    """The steps that led to an answer. Empty for answers recorded by an older version."""

    model_config = ConfigDict(frozen=True)

    intent: RecordedIntent | None = None
    next_step: str | None = Field(None, description="The tool that the intent leads to, such as submit_answer.")
    documents_read: list[DocumentRead] = []
    tool_calls_made: list[ToolCallMade] = Field([], description="In call order, at most 100.")
    figures: list[FigureTable] = Field([], description="What the field queries computed: the last three.")


class _Answer(Trace):
    model_config = ConfigDict(frozen=True)

    sources: list[Source]
    coverage: list[AnswerCoverage] = Field(description="The coverage of each field query.")
    confidence: float = Field(ge=0, le=1, description="The agent's own estimate.")
    timestamp: datetime
    identical_files: list[str] = Field(
        default_factory=list[str],
        description="Names of source files that have the same bytes as another source: together they are one source.",
    )
    effort: AnswerCost | None = Field(None, description="null for answers of older versions, which did not count.")
    fallback: Fallback | None = None


class AnswerResponse(_Answer):
    """The answer to a question. If nothing was found, it lists what was searched for."""

    kind: Literal["answer"]
    question: str
    answer: str
    searched: list[str] = Field(description="The search queries if nothing was found, else empty.")


class SummarizationResponse(_Answer):
    """A summary."""

    kind: Literal["summary"]
    summary: str
    key_points: list[str]


class CalculationResponse(_Answer):
    """A figure computed by the calculator, or by the database from verified fields."""

    kind: Literal["calculation"]
    answer: str
    formula: str = Field(description="The calculation in words.")
    expression: str = Field(description="The expression that was calculated.")
    result: str = Field(description="The exact result, as a decimal.")


class ReplyResponse(_Answer):
    """The agent's own words to a message that asks nothing of the documents. It has no sources: nothing in it was
    checked."""

    kind: Literal["reply"]
    answer: str


AnyAnswer = Annotated[
    AnswerResponse | SummarizationResponse | CalculationResponse | ReplyResponse, Field(discriminator="kind")
]

_ANSWER: TypeAdapter[Any] = TypeAdapter(AnyAnswer)
_READINGS: Final = ("reading", "second_reading")


class SecondReading(BaseModel):
    """How a second reading by another model compares with the extraction, when the run ended."""

    run_id: UUID | None = Field(description="The child run that read the document again. null: none could start.")
    code: str | None = Field(
        description="Why the second reading is missing: the `error_code` of its run, no_reading (it returned no "
        "values), other_structure (all that it returned had another structure than the fields) or not_configured (the "
        "service has no second model). null: it is not missing."
    )
    agrees: int = Field(description="Number of fields with the same value.")
    differs: int = Field(description="Number of fields with another value.")
    rows: int = Field(description="Number of lists with other rows.")
    is_same_vendor: bool | None = Field(
        description="true: both models are of one vendor, so they make the same errors more often and agreement shows "
        "less. null: not known from their names and addresses."
    )


def parse_answer(result: Mapping[str, Any] | None) -> AnyAnswer | None:
    """Return a run's stored answer, or None if its task has no typed answer."""
    return None if result is None or result.get("kind") in _READINGS else _ANSWER.validate_python(result)


def parse_second_reading(result: Mapping[str, Any] | None) -> SecondReading | None:
    """Return the second reading of a run that waited for one, or None."""
    return SecondReading.model_validate(result) if result is not None and result.get("kind") == _READINGS[1] else None

"""/api/extractions: the typed fields read from a document, their history, and what people change in them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from fastapi import Depends, Header, Query, Response
from pydantic import BaseModel, BeforeValidator, Discriminator, Field, JsonValue, Tag

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.problems import FieldError
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import (
    STORABLE,
    Before,
    Body,
    Filename,
    Limit,
    ListPage,
    NumberedListPage,
    Shown,
    Since,
    Until,
    json_of,
)
from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.retry import retry_while_stale
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.domain.violations import Violation
from fieldmark.errors import Invalid
from fieldmark.services import examples, extractions
from fieldmark.services.evidence import INDEXES, unmapped
from fieldmark.services.extractions import PERSON, FieldRemoval, FieldWrite, Write
from fieldmark.stores import extractions as stored
from fieldmark.stores.extractions import ExtractionFilter
from fieldmark.stores.rows import Change, ExtractionRow

router = Routes(prefix="/api/extractions", tags=["extractions"])

Prepared = TypeVar("Prepared")


Match = Literal["exact", "normalised", "number", "date", "fuzzy", "quote", "symbol"]


class Claim(BaseModel):
    """What the agent's model said of a value. Nobody has to believe it."""

    confidence: float | None
    quote: str | None
    page: int | None


class Evidence(BaseModel):
    """Where a value stands in the document."""

    state: Literal["found", "blank", "not_found", "message"] = Field(
        description="blank: there is no value, and the field's label is printed. message: no page prints the value, "
        "and the message of the person who asked for it has it."
    )
    match: Match | None = Field(
        description="How the page prints it. quote: only the agent's quote is there, as for a yes or no. "
        "symbol: a currency's symbol that other currencies have too."
    )
    page: int | None
    boxes: list[tuple[float, float, float, float]] = Field(
        description="x0, y0, x1, y1 in parts of the page from its upper left corner, one box a line."
    )
    quote: str | None = Field(description="As the page prints it.")
    places: int = Field(description="In how many places the value could stand.")
    claim: Claim | None


class Lock(BaseModel):
    """A value that a person set: agents cannot change it."""

    by: UUID
    at: datetime


class Proposal(BaseModel):
    """What an agent would have written where a person set a value. It waits for you to accept or reject it."""

    id: UUID
    path: str
    old: Any = Field(description="What stands there.")
    new: Any
    removed: bool = Field(description="The agent would remove it: `new` is null then and stands for nothing.")
    confidence_scores: dict[str, float] = Field(description="By path, of `new` and what stands below it.")
    evidence: dict[str, Evidence] = Field(description="By path, of `new` and what stands below it.")
    run_id: UUID | None
    created_at: datetime


_VALID = (
    "Whether the fields follow the extraction's schema and its rules as they stand, whoever wrote them. null without a "
    "schema. What is wrong is in `problems`."
)


class Extraction(BaseModel):
    """The typed fields of one document."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: ExtractionStatus
    reviewed_by: UUID | None = Field(
        description="The person who completed it, or approved all that agents wrote in it. null: nobody, or an agent "
        "changed it since."
    )
    valid: bool | None = Field(description=_VALID)
    schema_revid: UUID | None = Field(description="The version of a kept schema that it follows.")
    prompt_revid: UUID | None = Field(description="The version of the prompt that it was made with.")
    proposed: bool = Field(description="Whether an agent has begun it by itself, and nobody has accepted it yet.")
    extracted_fields: dict[str, Any] = Field(description="Nested as the document is.")
    confidence_scores: dict[str, float] = Field(
        description='0..1 by path: {"vendor.name": 0.95}. How surely the value stands where its evidence says; 0 if an '
        "agent wrote what is on no page. A blank has none, nor what a person set and is on no page."
    )
    evidence: dict[str, Evidence] = Field(
        description="Where each value stands, by path. (A front end that writes to the table may put anything here.)"
    )
    locks: dict[str, Lock] = Field(description="Values that a person set, by path.")
    proposals: list[Proposal] = Field(description="Those that wait, oldest first.")
    version: int = Field(description="Rises with each change of the fields.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: ExtractionRow, valid: bool | None) -> Self:
        """An extraction as the service answers it."""
        # Not validated: thousands of values, of which a front end may have written some to the table itself.
        return cls.model_construct(**row.shown(), valid=valid)


class FieldViolation(FieldError):
    """One thing that is wrong in fields."""

    about: list[str] = Field(description="What a rule has looked at, each list as a whole: total, items.")


class ChangedExtraction(Extraction):
    """The extraction after your change. What you write stands, whatever its schema says; where it does not follow the
    schema, you are told."""

    problems: list[str] = Field(
        description="What a run could not complete it with, a sentence each with its path: what lacks, is of another "
        "type than the schema wants, or breaks a rule of it. The first 200; none without a schema."
    )
    errors: list[FieldViolation] = Field(description="The same for programs, in the same order.")

    @classmethod
    def with_problems(cls, row: ExtractionRow, found: Sequence[Violation]) -> Self:
        """An extraction and what the schema says against it."""
        valid = None if row.schema is None else not found
        return cls.model_construct(**row.shown(), valid=valid, **_told(found))


class Problems(BaseModel):
    """What the schema says against the fields."""

    version: int
    problems: list[str] = Field(description="As in the answer to a change.")
    errors: list[FieldViolation] = Field(description="As in the answer to a change.")


class FieldPlace(Shown):
    """One place where a value could stand."""

    page: int
    boxes: list[tuple[float, float, float, float]] = Field(
        description="x0, y0, x1, y1 in parts of the page from its upper left corner, one box a line."
    )
    quote: str = Field(description="As the page prints it.")
    match: Match = Field(description="How the page prints it, as in the evidence.")


class Places(BaseModel):
    """Where a value could stand."""

    version: int = Field(description="The version of the extraction whose value was looked for.")
    items: list[FieldPlace] = Field(description="In the order of the pages' words; at most 200.")
    count: int = Field(description="How many there are.")


class RuleReading(BaseModel):
    """A value that would make a broken rule hold, and where the document prints it."""

    path: str
    value: JsonValue
    rule: str = Field(description="The rule's kind.", examples=["sum"])
    place: FieldPlace


class RuleReadings(BaseModel):
    """What may have been misread where rules are broken."""

    version: int = Field(description="The version of the extraction whose rules were looked at.")
    items: list[RuleReading] = Field(description="In the order of the rules; at most 20.")


class UnmappedItem(Shown):
    """What a page prints and no field has."""

    page: int
    kind: Literal["number", "date"] = Field(description="number: has digits and is not a date; identifiers too.")
    text: str = Field(description="As the page prints it.")
    value: str | int | float | None = Field(
        description="The number, or the date as YYYY-MM-DD. null: it can be read in several ways, or is an identifier."
    )
    boxes: list[tuple[float, float, float, float]] = Field(
        description="x0, y0, x1, y1 in parts of the page from its upper left corner, one box a line."
    )
    first: int = Field(description="Its first word, counted from 0 in the words of the page.")
    last: int = Field(description="Its last word.")


class UnmappedCount(BaseModel):
    """How much of a page no field has."""

    page: int
    count: int


class Unmapped(BaseModel):
    """The numbers, dates and names that no field has."""

    version: int = Field(description="The version of the extraction whose fields were looked for.")
    items: list[UnmappedItem] = Field(
        description="As they are read: whole pages, at most 1000 items (of a page that has more, its first 1000)."
    )
    pages: list[UnmappedCount] = Field(
        description="How many there are on each of these pages; pages without any are not told."
    )
    next: int | None = Field(description="Give it as `page` to get those that follow. null at the end.")


class ExtractionSchema(BaseModel):
    """The schema of an extraction."""

    schema_revid: UUID | None = Field(description="The version of a kept schema that it is.")
    json_schema: dict[str, Any] | None = Field(alias="schema", description="null: it follows none.")


class PastExtraction(Shown):
    """The fields as they stood at a version. Scores, evidence, locks and proposals are kept for the present only."""

    id: UUID
    document_id: UUID
    version: int
    latest_version: int
    extracted_fields: dict[str, Any]
    changed_at: datetime = Field(description="When this version came about.")


class ExtractionSummary(BaseModel):
    """An extraction without its fields."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: ExtractionStatus
    valid: bool | None = Field(description=_VALID)
    schema_revid: UUID | None = Field(description="The version of a kept schema that it follows.")
    prompt_revid: UUID | None = Field(description="The version of the prompt that it was made with.")
    proposed: bool = Field(description="Whether an agent has begun it by itself, and nobody has accepted it yet.")
    version: int
    proposals: int = Field(description="How many wait for you.")
    created_at: datetime
    updated_at: datetime


# Told and not checked here: `paths.parse` says what is wrong, and where.
_AS_PATH: dict[str, Any] = {"pattern": paths.PATTERN}


class FieldValue(Body):
    """A value for a field."""

    path: Annotated[
        str,
        Field(min_length=1, max_length=1000, examples=["vendor.name", "items[2].price"], json_schema_extra=_AS_PATH),
    ]
    value: Any = Field(description="Any JSON.")


def _how_many(body: object) -> str:
    return "<several>" if isinstance(body, list) else "<one>"


# (Told apart beforehand: what is wrong with a list is then not also told as what is wrong with an object.)
FieldValues = Annotated[
    Annotated[FieldValue, Tag("<one>")]
    | Annotated[list[FieldValue], Field(min_length=1, max_length=200), Tag("<several>")],
    Discriminator(_how_many),
]


class DocumentType(Body):
    """What kind of document it is, such as invoice or contract."""

    document_type: Annotated[str, Field(min_length=1, max_length=200)]


def _whole(number: Any) -> Any:
    """To JSON 7.0 is an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class RestoreRequest(Body):
    """The version to go back to."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True), BeforeValidator(_whole)]


class Decision(Body):
    """What you say of one proposal."""

    id: UUID
    accepted: bool


class DecisionsRequest(Body):
    """Decide proposals: all of these or, if one cannot be decided, none."""

    decisions: Annotated[list[Decision], Field(min_length=1, max_length=1000)]


FieldPath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=1000,
        description='Where the field stands: vendor.name, items[2].price, ["a.b"].c.',
        json_schema_extra=_AS_PATH,
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        max_length=100,
        description='The version that you saw, such as "7": 409 if the fields changed since.',
        json_schema_extra={"pattern": r'^(\*|"?[0-9]{1,10}"?)$'},
    ),
]


async def extraction_of(extraction_id: UUID, scope: TheScope, runtime: TheRuntime) -> ExtractionRow:
    """Return the extraction that the path names, in a transaction of its own: what follows may take long."""
    async with runtime.database.as_user(scope) as conn:
        return await stored.find(conn, extraction_id)


TheExtraction = Annotated[ExtractionRow, Depends(extraction_of)]


class ExtractionChange:
    """One change of an extraction by a person: made at the version that they saw, read back and answered in one
    transaction."""

    def __init__(self, extraction_id: UUID, scope: TheScope, runtime: TheRuntime, if_match: IfMatch = None) -> None:
        self.id = extraction_id
        self.scope = scope
        self.database = runtime.database
        self._seen = _version_in(if_match)

    async def make(self, act: Callable[[Connection], Awaitable[object]]) -> Response:
        """Make the change in a transaction."""
        async with self.database.as_user(self.scope) as conn:
            before = await extractions.lock(conn, self.id, self._seen)
            await act(conn)
            row = await stored.find(conn, self.id)
        found = await extractions.problems(self.scope.org_id, row)
        if found and row.version != before and row.status is ExtractionStatus.COMPLETED:
            # What was reviewed is to be looked at again. (Judged outside of the transaction: it may take long.)
            async with self.database.as_user(self.scope) as conn:
                await stored.reopen(conn, row.id, row.version)
                row = await stored.find(conn, self.id)
        return await json_of(ChangedExtraction.with_problems, row, found)

    async def make_prepared(
        self,
        prepare: Callable[[], Awaitable[Prepared]],
        apply: Callable[[Connection, Prepared], Awaitable[object]],
    ) -> Response:
        """Make a change whose evidence is looked for before anything is locked."""

        async def attempt() -> Response:
            prepared = await prepare()
            return await self.make(lambda conn: apply(conn, prepared))

        return await retry_while_stale(attempt)

    async def write(self, write: Write) -> Response:
        """Write one value, or remove one."""
        return await self.make_prepared(
            lambda: extractions.prepare_write(self.database, self.scope, INDEXES, self.id, write, PERSON),
            extractions.apply,
        )


TheChange = Annotated[ExtractionChange, Depends()]


@router.get("")
async def list_extractions(
    scope: TheScope,
    runtime: TheRuntime,
    document_id: Annotated[UUID | None, Query(description="Only those of this document.")] = None,
    status: Annotated[ExtractionStatus | None, Query(description="Only extractions of this status.")] = None,
    document_type: Annotated[
        str | None,
        Query(min_length=1, max_length=200, pattern=STORABLE, description="Only those of documents of this type."),
    ] = None,
    to_check: Annotated[
        bool | None,
        Query(
            description="true: only those that a person should look at, since a proposal waits or a value that no "
            "person has set is unsure (its score is below 0.5). false: only the others."
        ),
    ] = None,
    schema_id: Annotated[UUID | None, Query(description="Only those that follow a version of this schema.")] = None,
    prompt_id: Annotated[
        UUID | None, Query(description="Only those that were made with a version of this prompt.")
    ] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[ExtractionSummary]:
    """The organisation's extractions, or those of one document."""
    wanted = ExtractionFilter(
        document_id, status, document_type, to_check, filename, since, until, schema_id, prompt_id
    )
    async with runtime.database.as_user(scope) as conn:
        page = await stored.list_extractions(conn, scope.org_id, limit=limit, before=before, wanted=wanted)
    valid = await extractions.are_valid(runtime.database, scope, page.items)
    items = [
        ExtractionSummary.model_validate({**asdict(row), "valid": valid[row.id]})
        for row in page.items
        if row.id in valid  # else deleted meanwhile
    ]
    return ListPage[ExtractionSummary](items=items, next=page.next)


@router.get("/{extraction_id}", response_model=Extraction | PastExtraction)
async def get_extraction(
    extraction_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    version: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="The fields as they stood then.")] = None,
) -> Response:
    """One extraction as it stands now, or its fields as they stood at a version."""
    async with runtime.database.as_user(scope) as conn:
        if version is not None:
            return await json_of(PastExtraction.of, await stored.find_version(conn, extraction_id, version))
        row = await stored.find(conn, extraction_id)
    return await json_of(Extraction.of, row, await extractions.is_valid(scope.org_id, row))


@router.delete("/{extraction_id}", status_code=204)
async def delete_extraction(extraction_id: UUID, conn: Conn) -> None:
    """Delete an extraction with its history and its runs, which end. A member may delete their own, an owner any."""
    await stored.remove(conn, extraction_id)


@router.patch("/{extraction_id}", response_model=ChangedExtraction)
async def set_document_type(body: DocumentType, change: TheChange) -> Response:
    """Say what kind of document it is. No agent says otherwise then, unless you ask for it."""
    return await change.make(lambda conn: extractions.identify(conn, change.id, body.document_type))


@router.get("/{extraction_id}/problems")
async def get_problems(row: TheExtraction, scope: TheScope) -> Problems:
    """What keeps the fields from following the extraction's schema and its rules, whoever wrote them and wherever."""
    return Problems(version=row.version, **_told(await extractions.problems(scope.org_id, row)))


@router.get("/{extraction_id}/places")
async def list_places(row: TheExtraction, path: FieldPath, scope: TheScope, runtime: TheRuntime) -> Places:
    """Every place in the document where a field's value could stand, so that a person can step through them. `evidence`
    has the one that was taken for the field's, and counts them all. A blank has none."""
    found, count = await extractions.places(runtime.database, scope, row, paths.parse(path))
    return Places(version=row.version, items=[FieldPlace.of(place) for place in found], count=count)


@router.get("/{extraction_id}/readings")
async def list_readings(row: TheExtraction, scope: TheScope, runtime: TheRuntime) -> RuleReadings:
    """Where a rule of the schema is broken: which one value, in place of another, would make it hold, of those that the
    document prints somewhere. None that breaks another rule instead. Nothing is changed."""
    items = [
        RuleReading(
            path=paths.name(one.reading.path),
            value=one.reading.value,
            rule=one.reading.kind,
            place=FieldPlace.of(one.place),
        )
        for one in await extractions.readings(runtime.database, scope, row)
    ]
    return RuleReadings(version=row.version, items=items)


@router.get("/{extraction_id}/unmapped")
async def list_unmapped(
    row: TheExtraction,
    scope: TheScope,
    runtime: TheRuntime,
    page: Annotated[int, Query(ge=1, le=2**31 - 1, description="From this page on.")] = 1,
) -> Unmapped:
    """Return every number and date of the document that no field has, so that a person sees what was missed. A value
    covers all places where it could be."""
    part = await unmapped(runtime.database, scope, row, page)
    return Unmapped(
        version=row.version,
        items=[UnmappedItem.of(one) for one in part.items],
        pages=[UnmappedCount(page=page, count=count) for page, count in part.counts],
        next=part.next,
    )


@router.get("/{extraction_id}/schema")
async def get_extraction_schema(row: TheExtraction) -> ExtractionSchema:
    """The JSON Schema that an extraction follows, and the version of a kept one that this is."""
    return ExtractionSchema(schema_revid=row.schema_revid, schema=row.schema)


@router.get("/{extraction_id}/history")
async def get_history(
    extraction_id: UUID,
    conn: Conn,
    path: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=1000,
            description="Only what stood there or below it.",
            json_schema_extra=_AS_PATH,
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    before: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="The `next` of the last answer.")] = None,
) -> NumberedListPage[Change]:
    """Who changed what, when, from what to what, in which run and call: an entry for each single value."""
    under = None if path is None else paths.parse(path)
    rows, following = await stored.history(conn, extraction_id, path=under, limit=limit, before=before)
    return NumberedListPage[Change](items=rows, next=following)


@router.patch("/{extraction_id}/fields", response_model=ChangedExtraction)
async def set_fields(body: FieldValues, change: TheChange) -> Response:
    """Set a field, or several at once with a list: that is one version, all of them or none. Each is set to another
    value, or to the one that stands there because it is right: then it is locked, and agents propose another value
    instead of writing it. Missing objects on the way are made, a list grows at its end. A value that breaks the schema
    is stored, since the document may say so, and `problems` names it. Where the value stands on a page is its evidence;
    where it does not, it needs no confidence, because you say so."""
    if isinstance(body, FieldValue):
        return await change.write(FieldWrite(paths.parse(body.path), body.value))
    writes = [FieldWrite(paths.parse(one.path), one.value) for one in body]
    return await change.make_prepared(
        lambda: extractions.prepare_changes(change.database, change.scope, INDEXES, change.id, writes),
        extractions.apply_changes,
    )


@router.delete("/{extraction_id}/fields", response_model=ChangedExtraction)
async def remove_field(path: FieldPath, change: TheChange) -> Response:
    """Remove one field, or one item of a list, with everything below it. The items behind it move up with their
    locks."""
    return await change.write(FieldRemoval(paths.parse(path)))


@router.post("/{extraction_id}/complete", response_model=ChangedExtraction)
async def complete_extraction(change: TheChange) -> Response:
    """Declare the extraction complete as it stands. You may where an agent may not: when the document itself breaks a
    rule of the schema, say. `problems` lists what it is complete in spite of."""
    return await change.make(lambda conn: stored.complete(conn, change.id))


@router.post("/{extraction_id}/restore", response_model=ChangedExtraction)
async def restore_version(body: RestoreRequest, change: TheChange) -> Response:
    """Write the fields as they stood at a version, as a new version. What this changes is looked for on the pages
    again, and locked by you."""
    return await change.make_prepared(
        lambda: extractions.prepare_restore(change.database, change.scope, INDEXES, change.id, body.version),
        extractions.apply,
    )


@router.post("/{extraction_id}/locks", response_model=ChangedExtraction)
async def confirm_field(path: FieldPath, change: TheChange) -> Response:
    """Say that the value at a path is right as it stands, to the last digit: it is locked, as one that you set."""
    steps = paths.parse(path)
    return await change.make(lambda conn: stored.confirm(conn, change.id, steps))


@router.delete("/{extraction_id}/locks", response_model=ChangedExtraction)
async def unlock_field(path: FieldPath, change: TheChange) -> Response:
    """Let agents change again what a person set at a path or below it. Any member may."""
    steps = paths.parse(path)
    return await change.make(lambda conn: stored.unlock(conn, change.id, steps))


@router.delete("/{extraction_id}/examples", status_code=204)
async def remove_example(extraction_id: UUID, path: FieldPath, scope: TheScope, conn: Conn) -> None:
    """Take the correction at a path out of the examples that the agent is shown (`examples` of a run has them). It is
    not shown again; the field stays as it is."""
    await examples.withdraw(conn, scope, extraction_id, paths.parse(path))


@router.post("/{extraction_id}/proposals", response_model=ChangedExtraction)
async def decide_proposals(body: DecisionsRequest, change: TheChange) -> Response:
    """Accept or reject proposals. An accepted one is written as yours, with its evidence; a rejected one is not
    proposed again while the same value stands."""
    decisions = [(decision.id, decision.accepted) for decision in body.decisions]
    return await change.make(lambda conn: stored.decide(conn, change.id, decisions))


def _version_in(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(r'"?([0-9]{1,10})"?', if_match.strip())
    if found is None:
        raise Invalid('If-Match is a version of the extraction, such as "7".')
    return int(found[1])


def _told(found: Sequence[Violation]) -> dict[str, Any]:
    """Violations in sentences, and for programs."""
    errors = [
        FieldViolation(
            path=paths.name(one.path),
            code=one.code,
            message=one.message,
            about=[paths.name(path) for path in one.about],
        )
        for one in found
    ]
    return {"problems": [one.message for one in found], "errors": errors}

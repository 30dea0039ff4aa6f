"""/api/extractions: the typed fields read from documents, their history, and changes by people."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from fastapi import Depends, Header, Query, Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Discriminator, Field, JsonValue, Tag

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.named_items import SchemaFilter
from fieldmark.api.problems import FieldError
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import (
    STORABLE,
    Before,
    Filename,
    Limit,
    RequestBody,
    ResponseModel,
    Since,
    Until,
    dataclass_response,
    json_response,
)
from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.retry import retry_while_stale
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.domain.violations import Violation
from fieldmark.errors import Invalid
from fieldmark.services import extractions
from fieldmark.services.evidence import INDEXES, unmapped
from fieldmark.services.extractions import PERSON, FieldRemoval, FieldWrite, Write
from fieldmark.services.field_answers import CandidateAnswer, find_answers
from fieldmark.services.missing_rows import MissingRow, find_missing_rows
from fieldmark.stores import clock
from fieldmark.stores import extractions as stored
from fieldmark.stores.extractions import ExtractionFilter
from fieldmark.stores.paging import ListPage, NumberedListPage
from fieldmark.stores.rows import ExtractionRow, FieldChange, PastExtraction, ReasonField, StatusField
from valuegrounding import Boxes, Claim, Doubt, Location, Match, Support, Unmapped

router = Routes(prefix="/api/extractions", tags=["extractions"])

Prepared = TypeVar("Prepared")


class OtherReading(BaseModel):
    """What a second reading by another model says about a value."""

    result: Literal["agrees", "differs", "no_row"]
    value: Any = Field(None, description="Its value if it differs. null: it has none.")
    page: int | None = Field(None, description="Where its value is printed. null: nowhere.")
    boxes: Boxes = ()
    quote: str | None = None
    confidence_before: float | None = Field(None, description="The confidence without the second reading.")


class Evidence(BaseModel):
    """The location of a value in the document, and what speaks against and for it. Lists and their items have no
    location."""

    state: Literal["found", "blank", "not_found", "message"] = Field(
        description="blank: the field's label is printed without a value. message: the value is on no page, but in the "
        "message of the person who asked for the change."
    )
    match: Match | None = Field(
        description="How the printed text matches the value. quote: only the agent's quote is printed, as for a yes or "
        "no. symbol: a currency symbol that several currencies share."
    )
    page: int | None
    boxes: Boxes
    quote: str | None = Field(description="The text as printed.")
    location_count: int = Field(description="The number of locations that match the value.")
    claim: Claim | None
    reason: Doubt | None = Field(
        None,
        description="Why the confidence is below 0.5. ambiguous_date: nothing shows whether the day or the month "
        "comes first; ambiguous_number: the point or comma may separate thousands, or the unit is another one; "
        "ambiguous_currency: `$` may be that of another country; otherwise one of `doubts`.",
    )
    doubts: list[Doubt] = Field(
        [],
        description="Why a printed value may be the wrong one. scale: printed without a separator where other amounts "
        "have cents; qualifier: a word, mark or digits beside a number may change its sign, bound, unit or digits; "
        "other_row, other_column: not where the other values of its row or column are; inside_row: on the "
        "line of a list's row; goes_on: more text directly beside or below it; two_cells: its words are in two cells; "
        "long_text: of more than 64 characters; row: its list item is doubted. Of a list item, why it may be no row of "
        "its own. subtotal: the sum of the items above; duplicate_row: printed once; borrowed_label: its text is that "
        "of another item; unlabelled_row: its text is not printed; incomplete_row: lacks a value that all other items "
        "have; balance: does not follow from the item above. Of a list, why it may lack items. numbering: a number "
        "between two items is printed; item_count: the document states another number; pages_missing: the document "
        "says that it has more pages. "
        "second_reading, second_reading_row: a second reading has another value, or does not have its row.",
    )
    supports: list[Support] = Field(
        [],
        description="What else shows that it is the right value, or a complete list. label: the field's name is beside "
        "it or above it; sum: it is the sum of a list or of two other fields, or a summand, and the list is summed; "
        "balance: all running balances follow; numbering: without gaps; item_count: as the document states.",
    )
    second_reading: OtherReading | None = Field(None, description="Missing: no second reading of the value.")


class Lock(BaseModel):
    """Marks a value that a person set or confirmed. Agents cannot change it."""

    by: UUID
    at: datetime
    was: Any = Field(None, description="The value that an agent had written. null: none.")


class Proposal(BaseModel):
    """A value that an agent would write over a person's value. It waits until you accept or reject it."""

    id: UUID
    path: str
    old: Any = Field(description="The current value.")
    new: Any
    removed: bool = Field(description="Whether the agent would remove the field. `new` is then null.")
    confidence_scores: dict[str, float] = Field(description="Of `new` and the values below it, by path.")
    evidence: dict[str, Evidence] = Field(description="Of `new` and the values below it, by path.")
    run_id: UUID | None
    created_at: datetime


class FieldStatusOf(ResponseModel):
    """Whether a person has to look at a field, and why."""

    status: StatusField
    reason: ReasonField


class ExtractionHead(BaseModel):
    """What an extraction and its summary have in common."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: ExtractionStatus
    valid: bool | None = Field(
        description="Whether the current fields follow the extraction's schema and its rules. null: no schema, or a "
        "run still writes. See `…/problems`."
    )
    review_count: int = Field(description="The number of fields that a person has to look at.")
    schema_revid: UUID | None = Field(description="The version of the named schema that it follows.")
    prompt_revid: UUID | None = Field(description="The version of the prompt that it was made with.")
    proposed: bool = Field(
        description="Whether the extraction is an agent's suggestion that no person has accepted yet."
    )
    version: int = Field(description="Increases with each change of the fields.")
    created_at: datetime
    updated_at: datetime


class Extraction(ExtractionHead):
    """The typed fields of one document."""

    reviewed_by: UUID | None = Field(
        description="The person who completed it, or approved everything that agents wrote in it. null: no one, or an "
        "agent changed it since."
    )
    extracted_fields: dict[str, Any] = Field(description="Nested objects and lists of values.")
    confidence_scores: dict[str, float] = Field(
        description='0 to 1 by path: {"vendor.name": 0.95}. The certainty that the value is at the location of its '
        "evidence; 0 if an agent wrote a value that is on no page. Blanks have none, nor have a person's values that "
        "are on no page."
    )
    evidence: dict[str, Evidence] = Field(
        description="The location of each value, by path. (A front end may write anything to this column.)"
    )
    locks: dict[str, Lock] = Field(description="The values that a person set or confirmed, by path.")
    proposals: list[Proposal] = Field(description="Pending proposals, oldest first.")
    statuses: dict[str, FieldStatusOf] = Field(
        description="The status of each single field, by path, also of those that should have a value and do not exist."
    )

    @classmethod
    def of(cls, row: ExtractionRow, statuses: Mapping[str, Any]) -> Self:
        # Not validated: there may be thousands of values, and a front end may have written some directly to the table.
        return cls.model_construct(**row.shown(), statuses=statuses)


class FieldViolation(FieldError):
    """One error in fields."""

    about: list[str] = Field(description="The paths that a rule compared, each list as a whole: total, items.")
    params: dict[str, JsonValue] = Field(
        description="The values in `message`. A keyword of JSON Schema: `expected`, unless it is an object. `sum` and "
        "`product`: `parts`, `actual`, `total`, `expected` and `difference`. `equals` and `date_order`: `paths` and "
        "`values`. `required_if`: `missing`, `condition` and `value`. A value that a rule cannot use: `not_a_number` "
        "or `not_a_date` with its path, and `value`. `more`: `count`."
    )


class ChangedExtraction(Extraction):
    """The extraction after your change. Your values are stored even if they break the schema; `problems` lists that."""

    problems: list[str] = Field(
        description="Why a run could not complete the extraction, one sentence each: fields that are missing, have the "
        "wrong type, or break a rule of the schema. The first 200. Empty without a schema."
    )
    errors: list[FieldViolation] = Field(description="The same problems for programs, in the same order.")

    @classmethod
    def with_problems(cls, row: ExtractionRow, statuses: Mapping[str, Any], found: Sequence[Violation]) -> Self:
        return cls.model_construct(**row.shown(), statuses=statuses, **_problem_fields(found))


class ExtractionProblems(BaseModel):
    """How the fields break their schema."""

    version: int
    problems: list[str] = Field(description="As in the response to a change.")
    errors: list[FieldViolation] = Field(description="As in the response to a change.")


class FieldLocations(BaseModel):
    """The locations that match a value."""

    version: int = Field(description="The extraction's version that the value is from.")
    items: Sequence[Location] = Field(description="In reading order, at most 200.")
    count: int = Field(description="The number of all locations.")


class RuleFix(BaseModel):
    """A printed value that would satisfy a broken rule, with its location."""

    path: str
    value: JsonValue
    rule: str = Field(description="The rule's kind.", examples=["sum"])
    location: Location


class RuleFixes(BaseModel):
    """Values that may have been misread, found by broken rules."""

    version: int = Field(description="The extraction's version whose rules were checked.")
    items: list[RuleFix] = Field(description="In the order of the rules, at most 20.")


class CandidateAnswers(BaseModel):
    """Values that may be that of a field."""

    version: int = Field(description="The extraction's version that they are for.")
    items: Sequence[CandidateAnswer] = Field(description="The likeliest first, at most 9.")


class MissingRows(BaseModel):
    """Printed lines that look like rows of the lists and are in no item."""

    version: int = Field(description="The extraction's version that the fields are from.")
    items: Sequence[MissingRow] = Field(description="At most 50.")


class UnmappedCount(BaseModel):
    """The number of unmapped items on a page."""

    page: int
    count: int


class UnmappedPage(BaseModel):
    """The numbers and dates that no field contains."""

    version: int = Field(description="The extraction's version that the fields are from.")
    items: Sequence[Unmapped] = Field(
        description="In reading order: whole pages, at most 1000 items (the first 1000 of a page that has more)."
    )
    pages: list[UnmappedCount] = Field(description="The counts of these pages. Pages without items are left out.")
    next: int | None = Field(description="Pass it as `page` to get the next pages. null at the end.")


class ExtractionSchema(BaseModel):
    """The schema that an extraction follows."""

    schema_revid: UUID | None = Field(description="The version of a named schema. null: not a named schema.")
    json_schema: dict[str, Any] | None = Field(alias="schema", description="null: no schema.")


class ExtractionSummary(ExtractionHead):
    """An extraction without its fields."""

    proposals: int = Field(description="The number of pending proposals.")


# Only for clients. `paths.parse` checks paths and says which character is wrong.
_PATH_SCHEMA: dict[str, Any] = {"pattern": paths.PATTERN}


class FieldValue(RequestBody):
    """A value for a field."""

    path: Annotated[
        str,
        Field(
            min_length=1, max_length=1000, examples=["vendor.name", "items[2].price"], json_schema_extra=_PATH_SCHEMA
        ),
    ]
    value: Any = Field(description="Any JSON.")


def _one_or_several(body: object) -> str:
    return "<several>" if isinstance(body, list) else "<one>"


# A discriminated union: an error in a list is then not also reported as an error of a single object.
FieldUpdates = Annotated[
    Annotated[FieldValue, Tag("<one>")]
    | Annotated[list[FieldValue], Field(min_length=1, max_length=200), Tag("<several>")],
    Discriminator(_one_or_several),
]


class DocumentType(RequestBody):
    """The document's type, such as invoice or contract."""

    document_type: Annotated[str, Field(min_length=1, max_length=200)]


def _as_integer(number: Any) -> Any:
    # In JSON 7.0 is an integer.
    return int(number) if isinstance(number, float) and number.is_integer() else number


class RestoreRequest(RequestBody):
    """The version to restore."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True), BeforeValidator(_as_integer)]


class ProposalDecision(RequestBody):
    """Your decision on one proposal."""

    id: UUID
    accepted: bool


class DecisionsRequest(RequestBody):
    """Decisions on proposals. If one of them cannot be decided, none is."""

    decisions: Annotated[list[ProposalDecision], Field(min_length=1, max_length=1000)]


FieldPath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=1000,
        description='The path of the field: vendor.name, items[2].price, ["a.b"].c.',
        json_schema_extra=_PATH_SCHEMA,
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        max_length=100,
        description='The version that you saw, such as "7". 409 if the fields changed since.',
        json_schema_extra={"pattern": r'^(\*|"?[0-9]{1,10}"?)$'},
    ),
]


async def get_extraction_row(extraction_id: UUID, scope: TheScope, runtime: TheRuntime) -> ExtractionRow:
    """Return the extraction that the path names. The transaction ends here because the route may take long."""
    async with runtime.database.as_user(scope) as conn:
        return await stored.get(conn, extraction_id)


TheExtraction = Annotated[ExtractionRow, Depends(get_extraction_row)]


class ExtractionChange:
    """A person's change of an extraction. It is checked against If-Match, made and read back in one transaction."""

    def __init__(self, extraction_id: UUID, scope: TheScope, runtime: TheRuntime, if_match: IfMatch = None) -> None:
        self.id = extraction_id
        self.scope = scope
        self.database = runtime.database
        self._seen = _parse_version(if_match)

    async def make(self, act: Callable[[Connection], Awaitable[object]]) -> Response:
        """Make the change in a transaction. Return the response."""
        async with self.database.as_user(self.scope) as conn:
            await extractions.lock(conn, self.id, self._seen)
            await act(conn)
            row = await stored.get(conn, self.id)
        found = await extractions.check(self.database, self.scope, row)
        row = replace(row, valid=None if row.schema is None else not found)
        row, statuses = await extractions.read_checked(self.database, self.scope, row)
        return await json_response(ChangedExtraction.with_problems, row, statuses, found)

    async def make_prepared(
        self,
        prepare: Callable[[], Awaitable[Prepared]],
        apply: Callable[[Connection, Prepared], Awaitable[object]],
    ) -> Response:
        """Make a change whose evidence is searched before the extraction is locked. Retried if it became stale."""

        async def attempt() -> Response:
            prepared = await prepare()
            return await self.make(lambda conn: apply(conn, prepared))

        return await retry_while_stale(attempt)

    async def write(self, write: Write) -> Response:
        """Write or remove one value. Return the response."""
        return await self.make_prepared(
            lambda: extractions.prepare_write(self.database, self.scope, INDEXES, self.id, write, PERSON),
            extractions.apply,
        )


TheChange = Annotated[ExtractionChange, Depends()]


@router.get("")
async def list_extractions(
    response: Response,
    scope: TheScope,
    runtime: TheRuntime,
    document_id: Annotated[UUID | None, Query(description="Only extractions of this document.")] = None,
    status: Annotated[ExtractionStatus | None, Query(description="Only extractions of this status.")] = None,
    document_type: Annotated[
        str | None,
        Query(min_length=1, max_length=200, pattern=STORABLE, description="Only documents of this type."),
    ] = None,
    to_check: Annotated[
        bool | None,
        Query(
            description="true: only extractions with a field that a person has to look at, of those that count for "
            "their document. false: only the others."
        ),
    ] = None,
    schema_id: SchemaFilter = None,
    prompt_id: Annotated[UUID | None, Query(description="Only with a version of this prompt.")] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
    changed_since: Annotated[
        AwareDatetime | None,
        Query(
            description="Only extractions that were changed at or after this time. The response's header "
            "`X-Database-Time` has the time by the clock that counts."
        ),
    ] = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[ExtractionSummary]:
    """List the organisation's extractions, newest first."""
    filters = ExtractionFilter(
        document_id, status, document_type, to_check, filename, since, until, schema_id, prompt_id, changed_since
    )
    async with runtime.database.as_user(scope) as conn:
        if changed_since is not None:
            response.headers["X-Database-Time"] = (await clock.now(conn)).isoformat()
        page = await stored.list_extractions(conn, scope.org_id, limit=limit, before=before, filters=filters)
    return ListPage(items=[ExtractionSummary.model_validate(asdict(row)) for row in page.items], next=page.next)


@router.get("/{extraction_id}", response_model=Extraction | PastExtraction)
async def get_extraction(
    extraction_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    version: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Return the fields of this version.")] = None,
) -> Response:
    """Return an extraction, or its fields at an earlier version."""
    async with runtime.database.as_user(scope) as conn:
        if version is not None:
            return await dataclass_response(PastExtraction, await stored.get_version(conn, extraction_id, version))
        row = await stored.get(conn, extraction_id)
    return await json_response(Extraction.of, *await extractions.read_checked(runtime.database, scope, row))


@router.delete("/{extraction_id}", status_code=204)
async def delete_extraction(extraction_id: UUID, conn: Conn) -> None:
    """Delete an extraction with its history, and end and delete its runs. A member can delete their own, an owner
    any."""
    await stored.remove(conn, extraction_id)


@router.patch("/{extraction_id}", response_model=ChangedExtraction)
async def set_document_type(body: DocumentType, change: TheChange) -> Response:
    """Set the document's type. Agents then change it only if you ask for it."""
    return await change.make(lambda conn: extractions.set_document_type(conn, change.id, body.document_type))


@router.get("/{extraction_id}/problems")
async def get_problems(row: TheExtraction, scope: TheScope) -> ExtractionProblems:
    """List how the current fields break the extraction's schema and its rules."""
    return ExtractionProblems(version=row.version, **_problem_fields(await extractions.problems(scope.org_id, row)))


@router.get("/{extraction_id}/locations")
async def list_locations(row: TheExtraction, path: FieldPath, scope: TheScope, runtime: TheRuntime) -> FieldLocations:
    """List every location in the document that matches a field's value, so that a person can step through them.
    `evidence` has the most likely one. A blank has none."""
    found, count = await extractions.locations(runtime.database, scope, row, paths.parse(path))
    return FieldLocations(version=row.version, items=found, count=count)


@router.get("/{extraction_id}/rule_fixes")
async def list_rule_fixes(row: TheExtraction, scope: TheScope, runtime: TheRuntime) -> RuleFixes:
    """List printed values that would satisfy a broken rule of the schema if they replaced the value of one field.
    Values that would break another rule are left out. Changes nothing."""
    items = [
        RuleFix(
            path=paths.name(one.reading.path),
            value=one.reading.value,
            rule=one.reading.kind,
            location=one.location,
        )
        for one in await extractions.find_rule_fixes(runtime.database, scope, row)
    ]
    return RuleFixes(version=row.version, items=items)


@router.get("/{extraction_id}/answers")
async def list_answers(row: TheExtraction, path: FieldPath, scope: TheScope, runtime: TheRuntime) -> CandidateAnswers:
    """List printed values that may be that of a field, which may be missing, each with its location. Changes
    nothing."""
    found = await find_answers(runtime.database, scope, row, paths.parse(path))
    return CandidateAnswers(version=row.version, items=found)


@router.get("/{extraction_id}/unmapped")
async def list_unmapped(
    row: TheExtraction,
    scope: TheScope,
    runtime: TheRuntime,
    page: Annotated[int, Query(ge=1, le=2**31 - 1, description="The first page to list.")] = 1,
) -> UnmappedPage:
    """List the numbers and dates in the document that no field contains, so that a person sees what was missed. A value
    maps every location that matches it."""
    part = await unmapped(runtime.database, scope, row, page)
    return UnmappedPage(
        version=row.version,
        items=part.items,
        pages=[UnmappedCount(page=page, count=count) for page, count in part.counts],
        next=part.next,
    )


@router.get("/{extraction_id}/missing_rows")
async def list_missing_rows(row: TheExtraction, scope: TheScope, runtime: TheRuntime) -> MissingRows:
    """List printed lines that look like rows of a list and are in no item, each with the item that it would be. A hint:
    it changes no status. A list that leaves out a quarter of such lines is a selection, and has none."""
    return MissingRows(version=row.version, items=await find_missing_rows(runtime.database, scope, row))


@router.get("/{extraction_id}/schema")
async def get_extraction_schema(row: TheExtraction) -> ExtractionSchema:
    """Return the JSON Schema that an extraction follows."""
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
            description="Only changes at this path or below it.",
            json_schema_extra=_PATH_SCHEMA,
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="The most changes to return.")] = 100,
    before: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="The `next` of the previous page.")] = None,
) -> NumberedListPage[FieldChange]:
    """List the changes of an extraction, newest first, one entry per value: the old and new value, author and run."""
    under = None if path is None else paths.parse(path)
    rows, next_page = await stored.history(conn, extraction_id, path=under, limit=limit, before=before)
    return NumberedListPage(rows, next_page)


@router.patch("/{extraction_id}/fields", response_model=ChangedExtraction)
async def set_fields(body: FieldUpdates, change: TheChange) -> Response:
    """Set a field, or up to 200 fields with a list: all of them as one version, or none. Setting the current value
    confirms it. The fields are locked: agents propose other values instead of writing them. Missing objects are
    created, and a list can grow by one item at its end. A value that breaks the schema is stored, since the document
    may contain it, and reported in `problems`. Evidence is searched on the pages; a value that is on no page gets no
    confidence score."""
    if isinstance(body, FieldValue):
        return await change.write(FieldWrite(paths.parse(body.path), body.value))
    writes = [FieldWrite(paths.parse(one.path), one.value) for one in body]
    return await change.make_prepared(
        lambda: extractions.prepare_changes(change.database, change.scope, INDEXES, change.id, writes),
        extractions.apply_changes,
    )


@router.delete("/{extraction_id}/fields", response_model=ChangedExtraction)
async def remove_field(path: FieldPath, change: TheChange) -> Response:
    """Remove a field or an item of a list, with everything below it. The following items move up with their locks."""
    return await change.write(FieldRemoval(paths.parse(path)))


@router.post("/{extraction_id}/complete", response_model=ChangedExtraction)
async def complete_extraction(change: TheChange) -> Response:
    """Complete the extraction, even if it breaks its schema (which an agent cannot do): the document itself may be
    wrong. `problems` lists what is still wrong."""
    return await change.make(lambda conn: stored.complete(conn, change.id))


@router.delete("/{extraction_id}/complete", response_model=ChangedExtraction)
async def withdraw_review(
    change: TheChange,
    status: Annotated[ExtractionStatus, Query(description="The status before the review.")],
) -> Response:
    """Withdraw the review of an extraction: no person has reviewed it then. Its values stay as they are."""
    return await change.make(lambda conn: stored.withdraw_review(conn, change.id, status))


@router.post("/{extraction_id}/restore", response_model=ChangedExtraction)
async def restore_version(body: RestoreRequest, change: TheChange) -> Response:
    """Write the fields of an earlier version as a new version. Changed values get new evidence and are locked by
    you."""
    return await change.make_prepared(
        lambda: extractions.prepare_restore(change.database, change.scope, INDEXES, change.id, body.version),
        extractions.apply,
    )


@router.post("/{extraction_id}/locks", response_model=ChangedExtraction)
async def confirm_field(path: FieldPath, change: TheChange) -> Response:
    """Confirm the current value at a path. It is locked like a value that you set."""
    steps = paths.parse(path)
    return await change.make(lambda conn: stored.confirm(conn, change.id, steps))


@router.delete("/{extraction_id}/locks", response_model=ChangedExtraction)
async def unlock_field(path: FieldPath, change: TheChange) -> Response:
    """Unlock the values at a path and below it, so that agents can change them. Any member can. An unlocked correction
    is no longer an example for other extractions."""
    steps = paths.parse(path)
    return await change.make(lambda conn: stored.unlock(conn, change.id, steps))


@router.post("/{extraction_id}/proposals", response_model=ChangedExtraction)
async def decide_proposals(body: DecisionsRequest, change: TheChange) -> Response:
    """Accept or reject proposals. An accepted value is written as yours, with its evidence. A rejected value is not
    proposed again while the current value stays the same."""
    decisions = [(decision.id, decision.accepted) for decision in body.decisions]
    return await change.make(lambda conn: stored.decide(conn, change.id, decisions))


def _parse_version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(r'"?([0-9]{1,10})"?', if_match.strip())
    if found is None:
        raise Invalid('If-Match must be a version of the extraction, such as "7", or "*".')
    return int(found[1])


def _problem_fields(found: Sequence[Violation]) -> dict[str, Any]:
    errors = [
        FieldViolation(
            path=paths.name(one.path),
            code=one.code,
            message=one.message,
            about=[paths.name(path) for path in one.about],
            params=dict(one.params),
        )
        for one in found
    ]
    return {"problems": [one.message for one in found], "errors": errors}

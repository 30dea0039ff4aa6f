"""The stores' rows as frozen dataclasses, and functions that fetch them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    LiteralString,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import Buffer, QueryNoTemplate
from psycopg.adapt import Loader
from psycopg.rows import DictRow, class_row, tuple_row
from psycopg.types.json import Json, Jsonb
from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.field_order import FieldOrder
from fieldmark.domain.statuses import Actor, DocumentStage, DocumentStatus, ExtractionStatus, FieldStatus
from valuegrounding import Boxes, Doubt

_LOCATION: Final = TypeAdapter[tuple[int, Boxes]](tuple[int, Boxes])

Fields: TypeAlias = dict[str, JsonValue]
"""A JSON object."""

Conditions: TypeAlias = dict[LiteralString, object]
"""Optional SQL conditions with their values. A condition whose value is None does not apply."""

SHOWN_EXTRACTION: LiteralString = """from public.extractions as e where e.status <> 'failed' and {which}
    order by e.precedence, e.created_at desc, e.id desc limit 1"""
"""Selects a document's shown extraction among those that match `which`: its current one, or else a suggestion."""

ALL_REQUIRED: Final = ConfigDict(json_schema_serialization_defaults_required=True)
"""Configuration of a row that is a response: its OpenAPI schema requires also fields that have a default."""

T = TypeVar("T")


def active_conditions(conditions: Conditions) -> list[LiteralString]:
    return [condition for condition, value in conditions.items() if value is not None]


async def cursor_of(
    conn: AsyncConnection[DictRow],
    row_class: type[T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> AsyncCursor[T]:
    """Execute a statement whose rows become a dataclass. Fields that are an enum, or a list of one, are converted."""
    cursor = conn.cursor(row_factory=class_row(_maker(row_class)))
    await cursor.execute(query, parameters)
    return cursor


async def fetch_one(
    conn: AsyncConnection[DictRow],
    row_class: type[T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> T | None:
    """Return the first row of a statement, or None."""
    return await (await cursor_of(conn, row_class, query, parameters)).fetchone()


async def fetch_all(
    conn: AsyncConnection[DictRow],
    row_class: type[T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> list[T]:
    return await (await cursor_of(conn, row_class, query, parameters)).fetchall()


async def value_of(
    conn: AsyncConnection[DictRow], query: QueryNoTemplate, parameters: Sequence[Any] | dict[str, Any] | None = None
) -> Any:
    """Return the first column of the first row of a statement. None if it has no row."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        row = await (await cursor.execute(query, parameters)).fetchone()
    return None if row is None else row[0]


async def large_rows(
    conn: Connection,
    row_class: Callable[..., T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> list[T]:
    """Return the rows of a statement, like `fetch_all`, but parse JSON of several megabytes in a worker thread.
    `row_class` may be any function that takes the columns by name."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        for kind in ("json", "jsonb"):
            cursor.adapters.register_loader(kind, _RawJsonLoader)
        await cursor.execute(query, parameters)
        names = [column.name for column in cursor.description or ()]
        rows = await cursor.fetchall()
    make = _maker(row_class)
    if sum(len(value) for row in rows for value in row if isinstance(value, _RawJson)) < _INLINE_BYTES:
        return _parse_rows(make, names, rows)
    return await run_in_thread(_parse_rows, make, names, rows)


async def large_json(value: object) -> Jsonb:
    """Return a value of several megabytes as a parameter, serialised in a worker thread."""
    text = await run_in_thread(json.dumps, value)
    return Jsonb(value, dumps=lambda _: text)


def ordered_json(value: object) -> Json:
    """Return a value as a parameter for a `json` column or argument, which keep the order of its keys."""
    return Json(value, dumps=_COMPACT)


_COMPACT: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
_INLINE_BYTES: Final = 8 * 1024
"""JSON up to this size is parsed faster than a worker thread starts."""


class _RawJson(bytes):
    """JSON text that is not parsed yet."""


class _RawJsonLoader(Loader):
    def load(self, data: Buffer) -> _RawJson:
        return _RawJson(data)


def _parse_rows(make: Callable[..., T], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[T]:
    return [
        make(
            **{
                name: json.loads(value) if isinstance(value, _RawJson) else value
                for name, value in zip(names, row, strict=True)
            }
        )
        for row in rows
    ]


@cache
def _maker(row_class: Any) -> Any:
    if not isinstance(row_class, type):
        return row_class
    hints = get_type_hints(row_class)
    enums: Final = {name: kind for name, kind in hints.items() if _is_enum(kind)}
    of_lists = {name: get_args(kind)[0] for name, kind in hints.items() if get_origin(kind) is list}
    lists: Final = {name: kind for name, kind in of_lists.items() if _is_enum(kind)}
    if not enums and not lists:
        return row_class

    def make(**values: Any) -> Any:
        for name, kind in enums.items():
            values[name] = kind(values[name])
        for name, kind in lists.items():
            values[name] = [kind(one) for one in values[name]]
        return row_class(**values)

    return make


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """An uploaded file, or a file found inside another document, its parent.

    `storage_path` is the original, and `unlocked_path` a copy without its password. `duplicate_of` is the oldest
    document with the same bytes, if this one is newer. `tags` are sorted by name, each with `id`, `name` and `color`.
    Properties of the content are None until the document is read.
    """

    id: UUID
    filename: str
    media_type: str | None
    byte_size: int | None
    page_count: int | None
    status: DocumentStatus
    error: str | None
    error_code: str | None
    parent_document_id: UUID | None
    created_at: datetime
    created_by: UUID | None
    storage_path: str
    unlocked_path: str | None
    content_sha256: str | None = None
    external_id: str | None = None
    metadata: Fields = field(default_factory=dict[str, Any])
    duplicate_of: UUID | None = None
    tags: list[Fields] = field(default_factory=list[Fields])
    # The member who checks it.
    assignee_id: UUID | None = None
    # The automatic proposal of an agent, as in the API. None if no proposal was requested.
    auto_create: Fields | None = None
    shown_extraction_id: UUID | None = None
    to_review: int = 0
    stage: DocumentStage = DocumentStage.PROCESSING

    @property
    def readable_path(self) -> str:
        """The stored file that opens without a password."""
        return self.unlocked_path or self.storage_path


@dataclass(frozen=True, slots=True)
class NewChildDocument:
    id: UUID
    filename: str
    storage_path: str
    byte_size: int
    content_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page."""

    number: int
    text: str
    is_xml: Annotated[bool, Field(exclude=True)]
    """Whether it is an embedded e-invoice (XML), as paths and values, that isn't printed."""


@dataclass(frozen=True, slots=True)
class ExtractionRow:
    """An extraction with its schema. `extracted_fields` are ordered by `domain/field_order`. `proposals` are the
    pending ones, as in the API. `proposed`: an agent created the extraction automatically, and no one has accepted it
    yet. `valid`: whether the fields follow the schema; None without one, or before this version was checked.
    `review_count`: fields that a person has to look at."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: ExtractionStatus
    reviewed_by: UUID | None
    schema: Fields | None
    schema_revid: UUID | None
    prompt_revid: UUID | None
    proposed: bool
    extracted_fields: Fields
    confidence_scores: dict[str, float]
    evidence: Fields
    locks: dict[str, dict[str, str]]
    proposals: list[Fields]
    version: int
    created_at: datetime
    updated_at: datetime
    valid: bool | None = None
    review_count: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "extracted_fields", FieldOrder(self.schema, self.evidence).arrange(self.extracted_fields)
        )

    def shown(self) -> dict[str, Any]:
        """Return the columns without the schema, as in the API and in exports."""
        return {column.name: getattr(self, column.name) for column in fields(self) if column.name != "schema"}


@dataclass(frozen=True, slots=True)
class LockedRow:
    """The columns that show whether an extraction changed since it was read. Small, however many fields it has."""

    version: int
    status: ExtractionStatus
    locks: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class ExtractionSummaryRow:
    """An extraction without its fields and schema. `proposals` is the number of pending proposals."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: ExtractionStatus
    schema_revid: UUID | None
    prompt_revid: UUID | None
    version: int
    valid: bool | None
    review_count: int
    proposed: bool
    proposals: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PastExtraction:
    """The fields at an earlier version. Scores, evidence, locks and proposals exist only for the current version."""

    id: UUID
    document_id: UUID
    version: int
    latest_version: int
    extracted_fields: dict[str, Any]
    changed_at: Annotated[datetime, Field(description="When this version was created.")]


@dataclass(frozen=True, slots=True)
class CorrectedExtractionRow:
    """A completed extraction with a value that a user set, and its document's filename."""

    id: UUID
    document_id: UUID
    filename: str
    schema: Fields | None
    extracted_fields: Fields
    evidence: Fields


Reason: TypeAlias = (
    Literal["missing", "breaks_schema", "breaks_rule", "proposal", "not_found"]
    | Doubt
    | Literal["low_confidence", "below_threshold", "often_corrected", "audit", "person", "message"]
)
StatusField: TypeAlias = Annotated[
    FieldStatus,
    Field(
        description="needs_review and unclear: a person has to look at it. stale: read with an older version of the "
        "schema, in which the field differs. not_written: nothing was read. blank: the document or a person says that "
        "there is no value. accepted: a person kept it, knowing the reason. confirmed: set or confirmed by a person. "
        "found: on a page, or in a message."
    ),
]
ReasonField: TypeAlias = Annotated[
    Reason | None,
    Field(
        description="missing: there should be a value, by the schema or since nearly all rows of the table have one; "
        "breaks_schema; breaks_rule; proposal: an agent proposes another value; not_found: on no page. Of an unclear "
        "value: what else it may mean (see `reason` of the evidence), or low_confidence: the agent doubts it, or the "
        "text is hard to read. below_threshold: less sure than the goal of the table asks for; often_corrected: as is "
        "its field; audit: drawn at random, to be shown like the others. person: a person wrote what is not printed, "
        "or said that there is none. message: it is in the message of a person. second_reading: another "
        "model read another value, other rows of a list, or a value that the first did not."
    ),
]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One changed value: a scalar, or an empty object or list."""

    id: int
    version: Annotated[int, Field(description="The version that the change created.")]
    path: str
    old: Any
    new: Any
    added: Annotated[bool, Field(description="The path had no value before the change; `old` is null.")]
    removed: Annotated[bool, Field(description="The change removed the value; `new` is null.")]
    actor: Actor
    user_id: Annotated[UUID | None, Field(description="The user who made the change, or who started the agent's run.")]
    dictated_by: Annotated[UUID | None, Field(description="The user whose message named a value that an agent wrote.")]
    run_id: UUID | None
    call_id: str | None
    created_at: datetime
    model: Annotated[str | None, Field(description="The model, if an agent made the change.")]

    @classmethod
    def of(cls, row: Mapping[str, Any], path: str) -> FieldChange:
        """Return the change in a row of the journal, with the name of its path."""
        values: dict[str, Any] = {**row, "path": path, "actor": Actor(row["actor"])}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class QueueDepthRow:
    queue: str
    status: str
    jobs: int


class Position(NamedTuple):
    """The position of a row in a list sorted newest first."""

    created_at: datetime
    id: UUID


IsDeleted: TypeAlias = Annotated[
    bool, Field(description="Hidden from lists and from new use.", serialization_alias="deleted")
]
IsProposed: TypeAlias = Annotated[
    bool,
    Field(description="An agent created it, and no person has accepted it yet.", serialization_alias="proposed"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    id: Annotated[UUID, Field(description="The id of the schema or prompt, the same for all its versions.")]
    number: Annotated[int, Field(description="The number of the version, from 1.")]
    name: str
    created_by: Annotated[UUID | None, Field(description="The creator of the first version. null: no longer a member.")]
    created_at: Annotated[datetime, Field(description="When the first version was created.")]
    changed_by: Annotated[UUID | None, Field(description="The creator of this version. null: no longer a member.")]
    changed_at: Annotated[datetime, Field(description="When this version was created.")]
    is_latest: Annotated[bool, Field(description="Whether this is the latest version.", serialization_alias="latest")]
    is_deleted: IsDeleted
    is_proposed: IsProposed


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion(_Version):
    """A version of a schema, without its text."""

    schema_revid: Annotated[UUID, Field(description="The id of this version, which never changes.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(SchemaVersion):
    """A version of a schema."""

    schema: Annotated[dict[str, Any], Field(description="The JSON Schema.")]

    @property
    def revid(self) -> UUID:
        return self.schema_revid


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(_Version):
    """A version of a prompt."""

    prompt_revid: Annotated[UUID, Field(description="The id of this version, which never changes.")]
    content: Annotated[str, Field(description="Instructions for the agent.")]
    schema_id: Annotated[UUID | None, Field(description="The prompt's schema.")]
    schema_version: Annotated[
        int | None, Field(description="The version that it is pinned to. null: it follows the latest.")
    ]
    schema_revid: Annotated[
        UUID | None, Field(description="The version of the schema that an extraction with it uses now.")
    ]
    model: Annotated[str | None, Field(description="null: the service's model.")]
    tag_ids: Annotated[list[UUID], Field(description="The prompt is for documents with one of these tags.")]

    @property
    def revid(self) -> UUID:
        return self.prompt_revid


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of the organisation."""

    id: UUID
    name: str
    color: Annotated[str, Field(examples=["#1e90ff"])]
    created_by: Annotated[UUID | None, Field(description="The creator. null: no longer a member.")]
    created_at: datetime
    is_deleted: IsDeleted
    is_proposed: IsProposed


def page_in(evidence: LiteralString) -> LiteralString:
    """Return SQL for the page in stored evidence, which may be any JSON if a front end wrote it. null: not a page."""
    return rf"substring({evidence} ->> 'page' from '^[1-9]\d?\d?\d?\d?\d?\d?\d?\d?$')::integer"


def location_in(page: object, boxes: object) -> tuple[int | None, Boxes]:
    """Return the page and the boxes in stored evidence, which may be any JSON. Malformed: None and no boxes."""
    try:
        return _LOCATION.validate_python((page, boxes))
    except ValidationError:
        return None, ()

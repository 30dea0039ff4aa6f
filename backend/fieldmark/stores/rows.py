"""Rows as frozen dataclasses: what the stores answer instead of dictionaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, LiteralString, NamedTuple, TypeAlias, TypeVar, get_type_hints
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import Buffer, QueryNoTemplate
from psycopg.adapt import Loader
from psycopg.rows import DictRow, class_row, tuple_row
from psycopg.types.json import Jsonb
from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.statuses import Actor, DocumentStage, DocumentStatus, ExtractionStatus

Fields: TypeAlias = dict[str, JsonValue]
"""A JSON object."""

Conditions: TypeAlias = dict[LiteralString, object]
"""What a list may be narrowed by: each condition with the value that it names, None where nothing is asked."""

CURRENT_EXTRACTION: LiteralString = """from public.extractions as e where e.status <> 'failed' and {which}
    order by e.status = 'completed' and not private.is_proposed(e.run_id) desc, e.created_at desc, e.id desc limit 1"""
"""The current extraction of a document, among those of `which`: the newest completed one, else the newest that is in
progress or proposed."""

T = TypeVar("T")


def asked(conditions: Conditions) -> list[LiteralString]:
    """The conditions that something is asked for."""
    return [condition for condition, value in conditions.items() if value is not None]


async def cursor_of(
    conn: AsyncConnection[DictRow],
    row_class: type[T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> AsyncCursor[T]:
    """The result of a statement, as rows of a dataclass, with enums where it has them."""
    cursor = conn.cursor(row_factory=class_row(_maker(row_class)))
    await cursor.execute(query, parameters)
    return cursor


async def fetch_one(
    conn: AsyncConnection[DictRow],
    row_class: type[T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> T | None:
    """Return the first row of a statement. None if it has none."""
    return await (await cursor_of(conn, row_class, query, parameters)).fetchone()


async def fetch_all(
    conn: AsyncConnection[DictRow],
    row_class: type[T],
    query: QueryNoTemplate,
    parameters: Sequence[Any] | dict[str, Any] | None = None,
) -> list[T]:
    """Return the rows of a statement."""
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
    """As `cursor_of`, all rows at once, of a class or of any function that takes the columns by name. Their JSON may be
    megabytes, so it is not parsed on the event loop."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        cursor.adapters.register_loader("jsonb", _Unparsed)
        await cursor.execute(query, parameters)
        names = [column.name for column in cursor.description or ()]
        rows = await cursor.fetchall()
    make = _maker(row_class)
    if sum(len(value) for row in rows for value in row if isinstance(value, _Json)) < _SHORT:
        return _parsed(make, names, rows)
    return await run_in_thread(_parsed, make, names, rows)


async def large_json(value: object) -> Jsonb:
    """A parameter that may be megabytes: not spelt on the event loop."""
    text = await run_in_thread(json.dumps, value)
    return Jsonb(value, dumps=lambda _: text)


_SHORT: Final = 8 * 1024
"""So many bytes of JSON are parsed before a thread would have begun."""


class _Json(bytes):
    """JSON that is not parsed yet."""


class _Unparsed(Loader):
    def load(self, data: Buffer) -> _Json:
        return _Json(data)


def _parsed(make: Callable[..., T], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[T]:
    return [
        make(
            **{
                name: json.loads(value) if isinstance(value, _Json) else value
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
    enums: Final = {name: kind for name, kind in hints.items() if isinstance(kind, type) and issubclass(kind, StrEnum)}
    if not enums:
        return row_class

    def make(**values: Any) -> Any:
        for name, kind in enums.items():
            values[name] = kind(values[name])
        return row_class(**values)

    return make


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """An uploaded file, or one that was inside another, whose child it then is. `storage_path` is where its original
    lies, `unlocked_path` a copy without the original's password. `duplicate_of` is the first document with the same
    bytes, if this came later. `tags` are by name, each with `id`, `name` and `color`. What is told from the content is
    None until it is read."""

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
    storage_path: str
    unlocked_path: str | None
    content_sha256: str | None = None
    duplicate_of: UUID | None = None
    tags: list[Fields] = field(default_factory=list[Fields])
    # What an agent has proposed for it by itself, as the API shows it; None where it never was to.
    auto_create: Fields | None = None
    current_extraction_id: UUID | None = None
    stage: DocumentStage = DocumentStage.PROCESSING

    @property
    def readable_path(self) -> str:
        """Where the file lies that can be opened without a password."""
        return self.unlocked_path or self.storage_path


@dataclass(frozen=True, slots=True)
class NewChild:
    """A file that was inside another document, to become a document."""

    id: UUID
    filename: str
    storage_path: str
    byte_size: int


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page. With `is_xml`: an embedded e-invoice (XML), as paths and values, that isn't printed."""

    number: int
    text: str
    is_xml: bool


@dataclass(frozen=True, slots=True)
class PageWordsRow:
    """The words of a page: [text, x0, y0, x1, y1] and, from OCR, a confidence. `is_xml`: see PageText."""

    number: int
    words: list[list[Any]]
    is_xml: bool


@dataclass(frozen=True, slots=True)
class PageRow:
    """A page. Width and height are in points, or in pixels for images."""

    number: int
    width: float
    height: float
    text: str
    words: list[list[Any]]
    engine: str


@dataclass(frozen=True, slots=True)
class ExtractionRow:
    """An extraction as it stands, with its schema. `proposals` are those that wait, as the API shows them. `proposed`:
    an agent has begun it by itself, and nobody has accepted it yet."""

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

    def shown(self) -> dict[str, Any]:
        """Its columns by name without the schema, as the API and the exports show an extraction."""
        return {column.name: getattr(self, column.name) for column in fields(self) if column.name != "schema"}


@dataclass(frozen=True, slots=True)
class LockedRow:
    """What tells whether an extraction is still as it was read. Reading it costs the same however many fields there
    are."""

    version: int
    status: ExtractionStatus
    locks: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class ExtractionSummaryRow:
    """An extraction without its fields, whether it has a schema, and how many proposals wait in it."""

    id: UUID
    document_id: UUID
    document_type: str | None
    status: ExtractionStatus
    schema_revid: UUID | None
    prompt_revid: UUID | None
    version: int
    has_schema: bool
    proposed: bool
    proposals: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PastExtractionRow:
    """The fields as they stood at a version; None for a version that never was."""

    id: UUID
    document_id: UUID
    version: int
    latest_version: int
    extracted_fields: Fields | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class CorrectedRow:
    """A completed extraction in which a person has set a value, with its document's name."""

    id: UUID
    document_id: UUID
    filename: str
    schema: Fields | None
    extracted_fields: Fields
    evidence: Fields


@dataclass(frozen=True, slots=True)
class Change:
    """One value that changed: a scalar, or an empty object or list."""

    id: int
    version: Annotated[int, Field(description="The version that it came with.")]
    path: str
    old: Any
    new: Any
    added: Annotated[bool, Field(description="Nothing stood there: `old` is null then and stands for nothing.")]
    removed: Annotated[
        bool, Field(description="Nothing stands there since: `new` is null then and stands for nothing.")
    ]
    actor: Actor
    user_id: Annotated[UUID | None, Field(description="Who did it, or whose agent.")]
    run_id: UUID | None
    call_id: str | None
    created_at: datetime
    model: Annotated[str | None, Field(description="The model that answered, where an agent did it.")]

    @classmethod
    def of(cls, row: Mapping[str, Any], path: str) -> Change:
        """The entry of a row of the journal, with its path's name."""
        values: dict[str, Any] = {**row, "path": path, "actor": Actor(row["actor"])}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class QueueDepthRow:
    """How many jobs a queue has of a status."""

    queue: str
    status: str
    jobs: int


class Position(NamedTuple):
    """Where a row stands in a list that has the newest first."""

    created_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version of a named item: `id` is the item's, `number` which of its versions it is. `created_at` is the item's,
    `changed_at` the version's. `is_proposed`: an agent made it by itself, and nobody has accepted it yet."""

    id: UUID
    number: int
    name: str
    created_by: UUID | None
    created_at: datetime
    changed_by: UUID | None
    changed_at: datetime
    is_latest: bool
    is_deleted: bool
    is_proposed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow(VersionRow):
    """A version of a schema. In a list `schema` is None."""

    schema_revid: UUID
    schema: Fields | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow(VersionRow):
    """A version of a prompt."""

    prompt_revid: UUID
    content: str
    schema_id: UUID | None
    model: str | None
    tag_ids: list[UUID]


@dataclass(frozen=True, slots=True)
class TagRow:
    """A tag. `color` is `#` and six digits. `is_proposed` as of a schema."""

    id: UUID
    name: str
    color: str
    created_by: UUID | None
    created_at: datetime
    is_deleted: bool
    is_proposed: bool

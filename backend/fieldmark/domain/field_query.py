"""Queries over the fields of many documents, and their results: counts, sums, groups and the values behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Self, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fieldmark.domain.document_filters import DocumentFilters, FieldPath

MAX_AGGREGATES: Final = 8
MAX_GROUPS: Final = 500
MAX_ROWS: Final = 50
"""Maximum number of source values listed in an answer."""

MAX_DUPLICATES: Final = 20
"""Maximum number of duplicate files named in an answer."""

MAX_SAMPLED_DOCUMENTS: Final = 200
"""Number of recent documents that are searched for the fields in use."""

_STRICT: Final = ConfigDict(frozen=True, extra="forbid")


class AggregateOp(StrEnum):
    """An aggregate function over the values at a path. SUM and AVG take numbers, MIN and MAX numbers or days."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


class ValueKind(StrEnum):
    """The kind of a JSON value: a number, a text that is a date, any other text, true or false, an object or list."""

    NUMBER = "number"
    DAY = "day"
    TEXT = "text"
    BOOLEAN = "boolean"
    CONTAINER = "container"


class GroupKind(StrEnum):
    """What documents are grouped by. MONTH and YEAR take the month and year of a date field."""

    FIELD = "field"
    MONTH = "month"
    YEAR = "year"
    DOCUMENT_TYPE = "document_type"
    TAG = "tag"

    @property
    def has_path(self) -> bool:
        return self in (GroupKind.FIELD, GroupKind.MONTH, GroupKind.YEAR)


class Aggregate(BaseModel):
    """One figure, such as `sum` of `total`. `count` without a path counts documents, with a path values."""

    model_config = _STRICT

    op: AggregateOp
    path: FieldPath | None = None

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.path is None and self.op is not AggregateOp.COUNT:
            raise ValueError(f"`{self.op}` needs `path`: the field to calculate it of.")
        return self


class GroupBy(BaseModel):
    """How figures are grouped. Texts that differ only in case and spaces form one group."""

    model_config = _STRICT

    kind: GroupKind = GroupKind.FIELD
    path: FieldPath | None = None

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.kind.has_path == (self.path is None):
            raise ValueError(
                f"Grouping by {self.kind} needs the path of a field."
                if self.kind.has_path
                else f"Grouping by {self.kind} takes no path."
            )
        return self


class FieldQuery(BaseModel):
    """A query: which documents, which aggregates, grouped how.

    Only verified values count: found on a page, or set by a person. `include_unverified` counts all values.
    """

    model_config = _STRICT

    where: DocumentFilters = DocumentFilters()
    aggregates: tuple[Aggregate, ...] = Field(default=(), max_length=MAX_AGGREGATES)
    group_by: GroupBy | None = None
    limit: int = Field(
        default=50,
        ge=1,
        le=MAX_GROUPS,
        description="Maximum number of groups to return, besides the one without the key.",
    )
    include_unverified: bool = False


Role: TypeAlias = Literal["where", "aggregate", "group_by"]


@dataclass(frozen=True, slots=True)
class PathCoverage:
    """How well one path is filled in `documents` documents.

    For a condition (`role` "where") these are the documents of the kind, for an aggregate or group those that match.
    Each document is counted once: with a value that counts (`have`), without any value (`lack`), with unverified values
    only (`unverified`), or with values only that cannot be compared or computed with (`unusable`).

    `values` counts all values at the path, `values_unverified` and `values_unusable` the unverified and unusable ones
    among them.
    """

    role: Role
    path: str
    documents: int
    have: int
    lack: int
    unverified: int
    unusable: int
    values: int
    values_unverified: int
    values_unusable: int


@dataclass(frozen=True, slots=True)
class DuplicateFile:
    """A document that an answer excludes because the document `counted_document_id` has the same bytes."""

    document_id: UUID
    filename: str
    counted_document_id: UUID


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many documents an answer covers, and how many it leaves out.

    of_kind     have a current extraction and match all filters except those on fields
    matched     also match the filters on fields
    needs_review, no_extraction, reading, failed
                have no completed extraction; they match all filters except document type and fields
    other_types have an extraction with another document type than that of the filters
    duplicates  have the same bytes as a counted document; `duplicate_files` names the first MAX_DUPLICATES
    """

    of_kind: int
    matched: int
    no_extraction: int
    needs_review: int
    reading: int
    failed: int
    other_types: int
    duplicates: int
    duplicate_files: Sequence[DuplicateFile]
    paths: Sequence[PathCoverage]

    @property
    def is_complete(self) -> bool:
        """Whether the query's filters are the only reason why documents or values were left out."""
        return not (
            self.no_extraction
            or self.needs_review
            or self.reading
            or self.failed
            or any(
                path.values_unverified or path.values_unusable or (path.lack and path.role != "where")
                for path in self.paths
            )
        )


@dataclass(frozen=True, slots=True)
class FieldResult:
    """One figure. Numbers are exact, as text without an exponent; an average is rounded to 50 digits.

    Each currency has its own figure; `currency` is None if the document states none. `values` is the number of values
    that the figure was computed from.
    """

    op: AggregateOp
    path: str | None
    value: str
    kind: ValueKind
    values: int
    currency: str | None = None
    is_rounded: bool = False


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """The figures of one group. `key` is None for documents without the key. `spellings` is the number of different
    spellings of the key."""

    key: str | None
    documents: int
    spellings: int
    results: Sequence[FieldResult]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A value that an answer was computed from, with its location. Without `path`, a document that was counted."""

    document_id: UUID
    filename: str
    extraction_id: UUID
    path: str | None = None
    value: str | None = None
    kind: ValueKind | None = None
    currency: str | None = None
    is_verified: bool | None = None
    page: int | None = None
    boxes: Sequence[Sequence[float]] = ()


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """The result of a field query.

    `groups` has up to `limit` of all `groups_total` groups, the largest figure first (months and years in order of
    time), and the one without the key. Without `group_by` there is one group. If `in_several_groups` documents belong
    to more than one group, the groups do not add up to the total. `rows` has the first MAX_ROWS of `rows_total`, newest
    document first.
    """

    groups: Sequence[FieldGroup]
    groups_total: int
    in_several_groups: int
    rows: Sequence[FieldRow]
    rows_total: int
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class KnownField:
    """A path in use: the number of sampled documents with a value there, of different values, and the kinds of these
    values."""

    document_type: str | None
    path: str
    documents: int
    distinct_values: int
    kinds: Sequence[ValueKind]


@dataclass(frozen=True, slots=True)
class KnownFields:
    """The paths in use, by document type, most frequent first. Sampled from the newest `looked_at` documents that have
    a current extraction, at most MAX_SAMPLED_DOCUMENTS."""

    fields: Sequence[KnownField]
    looked_at: int

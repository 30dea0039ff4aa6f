"""Questions over the fields of many documents, and their answers: counts, sums, groups, each with where it stands."""

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
"""So many of the values behind an answer are told with it."""

MAX_DUPLICATES: Final = 20
"""How many duplicates an answer names."""

MAX_SAMPLED_DOCUMENTS: Final = 200
"""In so many documents is looked for which fields there are."""

CURRENCY_KEYS: Final = ("currency", "currency_code", "currencyCode")
"""Where the currency of a number stands: beside it, or in an object around it. Right beside it, `total_currency` is
looked at first."""

CURRENCIES: Final = {
    "€": "EUR",
    "EURO": "EUR",
    "EUROS": "EUR",
    "US$": "USD",
    "A$": "AUD",
    "C$": "CAD",
    "NZ$": "NZD",
    "S$": "SGD",
    "HK$": "HKD",
    "R$": "BRL",
    "RMB": "CNY",
    "₹": "INR",
    "SFR": "CHF",
}
"""Printings that mean one currency only. (`$`, `£` and `kr` are several countries'.)"""

_STRICT: Final = ConfigDict(frozen=True, extra="forbid")


class AggregateOp(StrEnum):
    """What is reckoned of the values at a path. SUM and AVG take numbers, MIN and MAX numbers or days."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


class ValueKind(StrEnum):
    """What a value is, as JSON: a number, a text that is a day, any other text, yes or no, or an object or list."""

    NUMBER = "number"
    DAY = "day"
    TEXT = "text"
    CONTAINER = "container"


class GroupKind(StrEnum):
    """What documents are grouped by. MONTH and YEAR are those of the day at a path."""

    FIELD = "field"
    MONTH = "month"
    YEAR = "year"
    DOCUMENT_TYPE = "document_type"
    TAG = "tag"

    @property
    def has_path(self) -> bool:
        return self in (GroupKind.FIELD, GroupKind.MONTH, GroupKind.YEAR)


class Aggregate(BaseModel):
    """One figure: `sum` of `total`. A `count` without a path counts documents, one with a path its values."""

    model_config = _STRICT

    op: AggregateOp
    path: FieldPath | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.path is None and self.op is not AggregateOp.COUNT:
            raise ValueError(f"`{self.op}` needs the path of a field.")
        return self


class GroupBy(BaseModel):
    """By what the figures are told apart. Texts that differ in capitals and spaces only are one group."""

    model_config = _STRICT

    kind: GroupKind = GroupKind.FIELD
    path: FieldPath | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind.has_path == (self.path is None):
            raise ValueError(
                f"Grouping by {self.kind} needs the path of a field."
                if self.kind.has_path
                else f"Grouping by {self.kind} takes no path."
            )
        return self


class FieldQuery(BaseModel):
    """A question: of which documents, what is reckoned, told apart by what.

    A value counts if it was found on its page, or if a person has set it; with `include_unverified` any does.
    """

    model_config = _STRICT

    where: DocumentFilters = DocumentFilters()
    aggregates: tuple[Aggregate, ...] = Field(default=(), max_length=MAX_AGGREGATES)
    group_by: GroupBy | None = None
    limit: int = Field(default=50, ge=1, le=MAX_GROUPS, description="So many groups are told.")
    include_unverified: bool = False


Role: TypeAlias = Literal["where", "aggregate", "group_by"]


@dataclass(frozen=True, slots=True)
class PathCoverage:
    """What is known of one path, in `documents` documents: of the kind, for a condition; those that match, for what is
    reckoned. Each is one of four: it has a value that counts (`have`); it has none at all (`lack`); only such as
    nobody has verified (`unverified`); only such as cannot be compared or reckoned with (`unusable`).

    `values` are all that stand there, `values_unverified` and `values_unusable` those of them that are so. Unless they
    are included, both are left out.
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
    """A document that an answer leaves out because another, `counted_document_id`, has the same bytes."""

    document_id: UUID
    filename: str
    counted_document_id: UUID


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an answer is about, and what it leaves out, in documents.

    of_kind     they have a current extraction, and meet all but the conditions on fields
    matched     of these, those that meet the conditions, too
    needs_review, no_extraction, reading, failed
                their fields are not completed yet, or nothing is known of them; they meet what is asked
                beside type and fields
    duplicates  byte-identical to another of the documents, which is counted in their place; `duplicate_files` names the
                first MAX_DUPLICATES
    """

    of_kind: int
    matched: int
    no_extraction: int
    needs_review: int
    reading: int
    failed: int
    duplicates: int
    duplicate_files: Sequence[DuplicateFile]
    paths: Sequence[PathCoverage]

    @property
    def is_complete(self) -> bool:
        """Whether no document and no value was left out for another reason than what was asked."""
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
    """One figure. Numbers are exact, as text without an exponent; an average is rounded to 50 digits where it has more.
    Of several currencies each has a figure of its own; `currency` is None where none stands beside the number.
    `values` counts what it was reckoned from."""

    op: AggregateOp
    path: str | None
    value: str
    kind: ValueKind
    values: int
    currency: str | None = None
    is_rounded: bool = False


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """The figures of one group; `key` None: of what has no such key. `spellings` counts how the key is written."""

    key: str | None
    documents: int
    spellings: int
    results: Sequence[FieldResult]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One value behind an answer, and where it stands. Without a path it is the document that was counted."""

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
    """The answer: the groups with the largest figure first (months and years in their order), and of all `groups_total`
    at most as many as were asked for. Without `group_by` there is one.

    `in_several_groups` counts documents that are in more than one group: then the groups do not add up. `rows` are the
    first MAX_ROWS of `rows_total`, the newest document first.
    """

    groups: Sequence[FieldGroup]
    groups_total: int
    in_several_groups: int
    rows: Sequence[FieldRow]
    rows_total: int
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class KnownField:
    """A path, in how many of the documents that were looked at it has a value, and of which kinds these are. (A yes or
    no counts as a text.)"""

    document_type: str | None
    path: str
    documents: int
    kinds: Sequence[ValueKind]


@dataclass(frozen=True, slots=True)
class KnownFields:
    """The paths of each type, the commonest first. They were looked for in the newest `looked_at` documents that have a
    current extraction, at most MOST_LOOKED_AT."""

    fields: Sequence[KnownField]
    looked_at: int

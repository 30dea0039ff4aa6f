"""Cursor pagination. A cursor stays valid if its row is deleted."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, LiteralString, Protocol, TypeVar
from uuid import UUID

from pydantic import Field

from fieldmark.errors import Invalid
from fieldmark.stores.rows import Position

MAX_CURSOR_CHARACTERS = 200


class ListedRow(Protocol):
    """A row of a list that is sorted newest first."""

    @property
    def created_at(self) -> datetime: ...
    @property
    def id(self) -> UUID: ...


Item = TypeVar("Item")
Row = TypeVar("Row", bound=ListedRow)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a list, serialised as URL-safe text. `kind` names the list. A cursor is not secret and grants no
    access: row policies decide what the list shows."""

    kind: str
    position: Position

    def __str__(self) -> str:
        created_at, row_id = self.position
        parts = json.dumps([self.kind, created_at.isoformat(), str(row_id)], separators=(",", ":"))
        return base64.urlsafe_b64encode(parts.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, kind: str) -> Cursor:
        """Parse a cursor. Raise Invalid if it is malformed or belongs to another list."""
        try:
            if len(text) > MAX_CURSOR_CHARACTERS:
                raise ValueError
            parts: list[str] = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            parsed_kind, created_at, row_id = parts
            moment = datetime.fromisoformat(created_at)
            if parsed_kind != kind or moment.tzinfo is None:
                raise ValueError
            return cls(kind, Position(moment, UUID(row_id)))
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
            raise Invalid(f"`before` is not a cursor of a list of {kind}. Pass `next` of the previous page.") from None


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Item]):
    """A page of a list, newest first."""

    items: Sequence[Item]
    next: Annotated[str | None, Field(description="Pass it as `before` to get the next page. null at the end.")]


@dataclass(frozen=True, slots=True)
class NumberedListPage(Generic[Item]):
    """A page of a numbered list, highest number first."""

    items: Sequence[Item]
    next: Annotated[int | None, Field(description="Pass it as `before` to get the next page. null at the end.")]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for at most `limit` rows after the cursor `before`, in a list sorted newest first."""

    kind: str
    limit: int
    before: str | None = None

    def conditions(self, sort_columns: LiteralString = "created_at, id") -> list[LiteralString]:
        """Return the condition for rows after the cursor."""
        return [] if self.before is None else [f"({sort_columns}) < (%(created_at)s, %(id)s)"]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statement. Its limit is one row higher, to detect whether another page follows.
        Raise Invalid for an invalid cursor."""
        position = {} if self.before is None else Cursor.parse(self.before, self.kind).position._asdict()
        return {"limit": self.limit + 1, **position}

    def page(self, rows: Sequence[Row]) -> ListPage[Row]:
        if len(rows) <= self.limit:
            return ListPage(rows, None)
        last = rows[self.limit - 1]
        return ListPage(rows[: self.limit], str(Cursor(self.kind, Position(last.created_at, last.id))))


@dataclass(frozen=True, slots=True)
class OffsetPageRequest:
    """A request for at most `limit` rows of a list that is not sorted by time. A cursor is the number of rows before
    it: rows that are added or deleted meanwhile shift the next page."""

    limit: int
    before: str | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statement, as `PageRequest`. Raise Invalid for an invalid cursor."""
        return {"limit": self.limit + 1, "offset": self._offset()}

    def page(self, rows: Sequence[Row]) -> ListPage[Row]:
        following = str(self._offset() + self.limit) if len(rows) > self.limit else None
        return ListPage(rows[: self.limit], following)

    def _offset(self) -> int:
        if self.before is not None and not re.fullmatch(r"[0-9]{1,7}", self.before, re.ASCII):
            raise Invalid("`before` is not a cursor of this order. Pass `next` of the previous page.")
        return int(self.before or 0)


def position_of(before: str | None, kind: str) -> Position | None:
    """Return the position of a cursor, or None without a cursor. Raise Invalid for an invalid cursor."""
    return None if before is None else Cursor.parse(before, kind).position

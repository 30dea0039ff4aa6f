"""Lists in pages: an opaque cursor says where the next page begins, and holds also when its row is gone."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, LiteralString, Protocol, TypeVar
from uuid import UUID

from fieldmark.errors import Invalid
from fieldmark.stores.rows import Position

MAX_CURSOR_CHARACTERS = 200


class Listed(Protocol):
    """A row of a list that has the newest first."""

    @property
    def created_at(self) -> datetime: ...
    @property
    def id(self) -> UUID: ...


Row = TypeVar("Row", bound=Listed)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in one kind of list, as URL-safe text. It names a place and no row: a row that is deleted leaves those
    behind it where they are. It is no secret and gives no right; policies say what its list shows."""

    kind: str
    position: Position

    def __str__(self) -> str:
        created_at, row_id = self.position
        said = json.dumps([self.kind, created_at.isoformat(), str(row_id)], separators=(",", ":"))
        return base64.urlsafe_b64encode(said.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, kind: str) -> Cursor:
        """The cursor of a text. Raises Invalid for one that is none, or is of another kind of list."""
        try:
            if len(text) > MAX_CURSOR_CHARACTERS:
                raise ValueError
            said: list[str] = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            given, created_at, row_id = said
            moment = datetime.fromisoformat(created_at)
            if given != kind or moment.tzinfo is None:
                raise ValueError
            return cls(kind, Position(moment, UUID(row_id)))
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
            raise Invalid(f"`before` is no cursor of a list of {kind}: give the `next` of its last answer.") from None


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A part of a list; `next` leads to what follows, None at the end."""

    items: Sequence[Row]
    next: str | None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page of a list that has the newest first: at most `limit` rows, after the cursor `before`."""

    kind: str
    limit: int
    before: str | None = None

    def conditions(self, place: LiteralString = "created_at, id") -> list[LiteralString]:
        """Return the condition for rows after the cursor, by the columns that the list is ordered by."""
        return [] if self.before is None else [f"({place}) < (%(created_at)s, %(id)s)"]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a statement, whose limit finds out whether more follows. Raise Invalid for an
        invalid cursor."""
        position = {} if self.before is None else Cursor.parse(self.before, self.kind).position._asdict()
        return {"limit": self.limit + 1, **position}

    def page(self, rows: Sequence[Row]) -> Page[Row]:
        """Return the page of the rows that the statement answered."""
        if len(rows) <= self.limit:
            return Page(rows, None)
        last = rows[self.limit - 1]
        return Page(rows[: self.limit], str(Cursor(self.kind, Position(last.created_at, last.id))))


def position_of(before: str | None, kind: str) -> Position | None:
    """Return the position of a cursor, None without one. Raise Invalid for an invalid cursor."""
    return None if before is None else Cursor.parse(before, kind).position

"""What people's looks at the values of a schema's table show, in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import fetch_one


@dataclass(frozen=True, slots=True)
class ReviewFigures:
    """The row of `private.review_figures`, which describes the columns."""

    max_error: Decimal
    own_max_error: Decimal | None
    starting_confidence: Decimal
    schema_revid: UUID
    schema_revids: list[UUID]
    model: str | None
    values: int
    uncovered_values: int
    uncovered_layouts: int
    uncovered: list[UUID]
    rate: float | None
    audits: list[tuple[float, bool, bool, int, int, int]]
    weeks: list[tuple[str, int, int]]
    looks: list[tuple[str, int, int, int]]
    min_confidences: dict[str, float] | None


async def review_figures(conn: Connection, schema_id: UUID) -> ReviewFigures:
    """Return what people's looks at the values of a schema show. Raise NotFound."""
    found = await fetch_one(conn, ReviewFigures, "select * from private.review_figures(%s)", (schema_id,))
    assert found is not None
    return found


async def store_policy(conn: Connection, schema_id: UUID, policy: dict[str, Any]) -> None:
    """Store from which confidence values are accepted in the extractions that follow. Needs a connection as the
    service."""
    await conn.execute("select private.store_review_policy(%s, %s)", (schema_id, Jsonb(policy)))


async def set_max_error(conn: Connection, schema_id: UUID, max_error: float | None) -> None:
    """Set the share of wrong values that a table may have. None: the organisation's. Raise NotFound."""
    await conn.execute("select public.set_max_error(%s, %s::numeric)", (schema_id, max_error))

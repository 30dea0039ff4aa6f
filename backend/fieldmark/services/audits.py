"""Decides which values a person is asked to look at, by what earlier looks showed, and bounds the errors of the others.

The database draws the audits when an agent completes an extraction (`supabase/schemas/audits.sql`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.audits import NEVER, AuditCount, Claim, ClaimWeek, claim_weeks, min_confidence, often_corrected
from fieldmark.stores import audits as stored
from fieldmark.stores.audits import ReviewFigures

_BANDS: Final = (0.0, 0.5, 0.95)
"""The confidences from which each band of `ReviewFigures.looks` counts."""


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """Which values of a table a person is asked to look at, and what that proves about the others."""

    claim: Claim
    weeks: Annotated[list[ClaimWeek], Field(description="The claim over time: weeks with audits, oldest first.")]
    own_max_error: Annotated[float | None, Field(description="The goal of this table. null: the organisation's.")]
    schema_revid: Annotated[UUID, Field(description="The version of the schema: only its values count.")]
    model: Annotated[str | None, Field(description="The newest model: only its values count. null: none has read.")]
    min_confidence: Annotated[float, Field(description="The confidence from which a value is accepted without a look.")]
    often_corrected: Annotated[
        list[str], Field(description="Fields whose values are never accepted, since people often correct them.")
    ]


async def review_rule(conn: Connection, schema_id: UUID) -> ReviewRule:
    """Return which values of a schema's table a person is asked to look at. Raise NotFound."""
    figures = await stored.review_figures(conn, schema_id)
    policy = figures.min_confidences or {}
    return ReviewRule(
        Claim.of(
            figures.values,
            _audits(figures),
            float(figures.max_error),
            (figures.uncovered_values, figures.uncovered_layouts),
        ),
        claim_weeks([(date.fromisoformat(monday), right, wrong) for monday, right, wrong in figures.weeks]),
        None if figures.own_max_error is None else float(figures.own_max_error),
        figures.schema_revid,
        figures.model,
        policy.get("*", float(figures.starting_confidence)),
        [field for field, least in policy.items() if least == NEVER],
    )


async def update_policy(conn: Connection, schema_id: UUID) -> None:
    """Decide again, by what the looks showed, what is accepted in the extractions of a schema that follow. Needs a
    connection as the service."""
    figures = await stored.review_figures(conn, schema_id)
    if figures.model is not None:
        await stored.store_policy(conn, schema_id, _policy(figures))


def _policy(figures: ReviewFigures) -> dict[str, Any]:
    """Return what `private.review_policy` reads."""
    goal, start = float(figures.max_error), float(figures.starting_confidence)
    audits = _audits(figures)
    checked, corrected = Counter[str](), Counter[str]()
    for field, band, looks, corrections in figures.looks:
        if _BANDS[band] >= start:
            checked[field] += looks
            corrected[field] += corrections
    never = often_corrected({field: (count, corrected[field]) for field, count in checked.items()}, goal)
    return {
        "max_error": str(figures.max_error),
        "schema_revid": str(figures.schema_revid),
        "model": figures.model,
        "values": figures.values + sum(one.right + one.wrong + one.waiting for one in audits if one.is_accepted),
        "min_confidences": {"*": min_confidence(audits, goal, start)} | dict.fromkeys(never, NEVER),
    }


def _audits(figures: ReviewFigures) -> list[AuditCount]:
    return [AuditCount(*one) for one in figures.audits]

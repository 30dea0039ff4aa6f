"""Checks schemas before they are stored, and fields against a schema."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.schema import MAX_DISPLAYED, check_schema, violations
from fieldmark.domain.values import invisible_problem, value_problem
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidSchema
from fieldmark.services.fair_share import run_queued, run_unqueued


async def check(schema: dict[str, Any]) -> None:
    """Raise InvalidSchema if a schema cannot be used. Call it outside a transaction: a hostile schema takes long."""
    if problem := value_problem(schema) or invisible_problem(schema, "schema"):
        raise InvalidSchema(f"The schema cannot be used. {problem}")
    await run_unqueued(check_schema, schema)


async def validate(org_id: UUID, schema: JsonObject, fields: JsonObject) -> list[Violation]:
    """Return how fields outside an extraction break a schema or its rules, except rules about evidence. Call it outside
    a transaction. Raise InvalidSchema or TooManyAtOnce."""
    found = await run_queued(org_id, violations, schema, fields, None, (), MAX_DISPLAYED)
    return [one for one in found if one.code != "grounded"]

"""What is checked of a schema before it is kept, and of fields against one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.schema import MAX_DISPLAYED, check_schema, violations
from fieldmark.domain.values import invisible_problem, value_problem
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidSchema
from fieldmark.services.turns import in_turn, without_turn


async def check(schema: dict[str, Any]) -> None:
    """Raise InvalidSchema where a schema cannot be used. Called before any transaction, since a hostile one takes a
    while."""
    if problem := value_problem(schema) or invisible_problem(schema, "schema"):
        raise InvalidSchema(f"The schema cannot be used. {problem}")
    await without_turn(check_schema, schema)


async def judge(org_id: UUID, schema: JsonObject, fields: JsonObject) -> list[Violation]:
    """Where fields that stand in no extraction break a schema or its rules. Whether a document prints them, nobody
    asks here. Called without a transaction. Raises InvalidSchema, TooManyAtOnce."""
    found = await in_turn(org_id, violations, schema, fields, None, (), MAX_DISPLAYED)
    return [one for one in found if one.code != "grounded"]

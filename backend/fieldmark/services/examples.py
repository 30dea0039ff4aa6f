"""Selects people's corrections in documents of the same schema as examples for the next run.

Examples are as untrusted as the documents they come from: they are fenced as data, limited in size, and skipped if they
contain invisible characters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.values import invisible_problem, value_problem
from fieldmark.identity.scope import Scope
from fieldmark.stores import examples, runs
from fieldmark.stores.examples import CorrectionRow
from fieldmark.stores.runs import RunRow

MAX_EXAMPLES: Final = 3
MAX_EXAMPLE_CHARACTERS: Final = 300
"""Limit of a path, and of a value as JSON. Corrections with longer ones are skipped."""


@dataclass(frozen=True, slots=True)
class Example:
    """A correction: the value that an agent read, and the person's value that replaced it."""

    extraction_id: UUID
    path: str
    read: JsonValue
    right: JsonValue

    @property
    def reference(self) -> dict[str, str]:
        return {"extraction_id": str(self.extraction_id), "path": self.path}


async def choose(
    conn: Connection, scope: Scope, run: RunRow, document_id: UUID, schema: JsonObject | None
) -> list[Example]:
    """Return the examples for a run, among the corrections that its user can see, and record them in the run. A
    restarted run gets the same examples, without those unlocked since. Empty if the organisation turned examples off.
    """
    if schema is None or not await examples.are_enabled(conn, scope.org_id):
        return []
    found = _usable(await examples.corrections(conn, scope.org_id, schema, document_id))
    if run.examples is None:
        found = _one_per_field(found)
        await runs.record_examples(conn, run.id, [one.reference for one in found])
        return found
    by_key = {(str(one.extraction_id), one.path): one for one in reversed(found)}
    keys = [(one["extraction_id"], one["path"]) for one in run.examples]
    return [by_key[key] for key in keys if key in by_key]


def as_text(shown: Sequence[Example]) -> str:
    """Format examples for the model, one line of JSON each."""
    lines = ({"path": one.path, "read": one.read, "right": one.right} for one in shown)
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def _usable(rows: Sequence[CorrectionRow]) -> list[Example]:
    found: list[Example] = []
    for row in rows:
        path = paths.from_sql(row.path, row.steps)
        name = paths.name(path)
        parts: list[JsonValue] = [name, row.old, row.new]
        if (
            any(paths.name(path[:end]) in row.locked for end in range(1, len(path) + 1))
            and all(len(json.dumps(one, ensure_ascii=False)) <= MAX_EXAMPLE_CHARACTERS for one in parts)
            and value_problem(parts) is None
            and invisible_problem(parts) is None
        ):
            found.append(Example(row.extraction_id, name, row.old, row.new))
    return found


def _one_per_field(found: Sequence[Example]) -> list[Example]:
    """Return the first examples of different fields. items[0].price and items[7].price are the same field."""
    of_field: dict[tuple[str, ...], Example] = {}
    for one in found:
        field = tuple("" if isinstance(step, int) else step for step in paths.parse(one.path))
        of_field.setdefault(field, one)
    return list(of_field.values())[:MAX_EXAMPLES]

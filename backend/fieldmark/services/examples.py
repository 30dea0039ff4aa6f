"""Corrections that people made in documents of the same schema, chosen as examples for the next reading.

What stands in one is as hostile as the document that it comes from: it is fenced as data, bounded, and left out where
it holds what nobody sees.
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
from fieldmark.stores import examples, extractions, runs
from fieldmark.stores.examples import CorrectionRow
from fieldmark.stores.runs import RunRow

MOST_EXAMPLES: Final = 3
MOST_CHARACTERS: Final = 300
"""Of a path, and of a value as JSON: longer ones are no examples."""


@dataclass(frozen=True, slots=True)
class Example:
    """What an agent read at a path, and what a person has put in its place."""

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
    """The examples that a run is shown, as its user sees them, and recorded in the run. One that is begun again is
    shown the same, but for what was taken out since. None where the organisation wants none."""
    is_wanted = await examples.is_on(conn, scope.org_id) if run.with_examples is None else run.with_examples
    if schema is None or not is_wanted:
        return []
    found = _usable(await examples.corrections(conn, scope.org_id, schema, document_id))
    if run.examples is None:
        found = _different(found)
        await runs.record_examples(conn, run.id, [one.reference for one in found])
        return found
    by_place = {(str(one.extraction_id), one.path): one for one in reversed(found)}
    places = [(one["extraction_id"], one["path"]) for one in run.examples]
    return [by_place[place] for place in places if place in by_place]


def as_text(shown: Sequence[Example]) -> str:
    """Examples as the model reads them, a line of JSON each."""
    lines = ({"path": one.path, "read": one.read, "right": one.right} for one in shown)
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


async def withdraw(conn: Connection, scope: Scope, extraction_id: UUID, path: paths.Path) -> None:
    """Take the correction at a path out of the examples: no run is shown it any more. Raises NotFound."""
    await extractions.find(conn, extraction_id)
    await examples.withdraw(conn, scope.org_id, extraction_id, paths.name(path))


def _usable(rows: Sequence[CorrectionRow]) -> list[Example]:
    found: list[Example] = []
    for row in rows:
        name = paths.name(paths.from_sql(row.path, row.steps))
        told: list[JsonValue] = [name, row.old, row.new]
        if (
            name not in row.withdrawn
            and all(len(json.dumps(one, ensure_ascii=False)) <= MOST_CHARACTERS for one in told)
            and value_problem(told) is None
            and invisible_problem(told) is None
        ):
            found.append(Example(row.extraction_id, name, row.old, row.new))
    return found


def _different(found: Sequence[Example]) -> list[Example]:
    """The first few, each of another field: that of items[0] is that of items[7] too."""
    of_field: dict[tuple[str, ...], Example] = {}
    for one in found:
        field = tuple("" if isinstance(step, int) else step for step in paths.parse(one.path))
        of_field.setdefault(field, one)
    return list(of_field.values())[:MOST_EXAMPLES]

"""An extraction that people and their agents work on, in one transaction: for the tests of its functions and locks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import House, become
from psycopg.types.json import Jsonb


class Editing:
    """A new, empty extraction. `changed`: the leaves that the last call has reported as changed."""

    changed: list[dict[str, Any]] | None = None

    def __init__(self, connection: psycopg.Connection, house: House, extraction: UUID | None = None) -> None:
        self.connection, self.house, self.extraction = connection, house, extraction or uuid4()
        if extraction is None:
            connection.execute(
                "insert into extractions (id, org_id, document_id) values (%s, %s, %s)",
                [self.extraction, house.org, house.document],
            )

    def act(self, name: str, task: str | None = None, spoken: Sequence[str] = ()) -> Editing:
        """From here on this is a user's transaction, or a call's of a run of theirs, whose words are for `spoken`."""
        user, run = getattr(self.house, name), None
        become(self.connection, "authenticated", {"sub": str(user), "org_id": str(self.house.org)})
        if task is not None:
            run = self.one(
                "insert into runs (org_id, agent, document_id, extraction_id, task) "
                "values (%s, 'extraction', %s, %s, %s) returning id",
                *(self.house.org, self.house.document, self.extraction, task),
            )
        self.announce(run, "call" if task else "", spoken)
        return self

    def announce(self, run: UUID | None, call: str, spoken: Sequence[str] = ()) -> None:
        """Say for which call this transaction writes, as the ledger does."""
        self.connection.execute(
            "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', %s, true), "
            "set_config('fieldmark.spoken', %s, true)",
            [str(run or ""), call, json.dumps(spoken)],
        )

    def member(self) -> Editing:
        return self.act("member")

    def colleague(self) -> Editing:
        return self.act("colleague")

    def agent(self, task: str = "extract", of: str = "member", spoken: Sequence[str] = ()) -> Editing:
        return self.act(of, task, spoken)

    def one(self, query: str, *values: Any) -> Any:
        """The first column of the only row."""
        (row,) = self.connection.execute(query.encode(), values).fetchall()
        return row[0]

    def column(self, name: str) -> Any:
        return self.one(f"select {name} from extractions where id = %s", self.extraction)

    @property
    def fields(self) -> Any:
        return self.column("extracted_fields")

    @property
    def scores(self) -> Any:
        return self.column("confidence_scores")

    @property
    def evidence(self) -> Any:
        return self.column("evidence")

    @property
    def version(self) -> int:
        return self.column("version")

    @property
    def locks(self) -> dict[str, str]:
        """Whose, by path."""
        names = {str(getattr(self.house, name)): name for name in ("owner", "member", "colleague")}
        return {path: names[lock["by"]] for path, lock in self.column("locks").items()}

    def call(self, function: str, *arguments: Any) -> dict[str, Any]:
        # A float would arrive as double precision, which Postgres takes for no numeric.
        given = [str(argument) if isinstance(argument, float) else argument for argument in arguments]
        answer = self.one(f"select {function}({', '.join(['%s'] * (len(given) + 1))})", self.extraction, *given)
        self.changed = answer.pop("changed", None)
        return answer

    def save(self, fields: Any, scores: Any = None, evidence: Any = None) -> dict[str, Any]:
        return self.call("save_extraction_fields", Jsonb(fields), Jsonb(scores or {}), Jsonb(evidence or {}))

    def update(self, path: str | list[str], value: Any, score: Any = None, evidence: Any = None) -> dict[str, Any]:
        proof = None if evidence is None else Jsonb(evidence if isinstance(path, list) else {path: evidence})
        return self.call("update_extraction_field", _steps(path), Jsonb(value), score, None, proof)

    def remove(self, path: str | list[str]) -> dict[str, Any]:
        return self.call("remove_extraction_field", _steps(path))

    def restore(self, version: int) -> dict[str, Any]:
        return self.call("restore_extraction", version)

    def unlock(self, path: str) -> dict[str, Any]:
        return self.call("unlock_extraction_field", _steps(path))

    def decide(self, proposal: UUID, accepted: bool) -> dict[str, Any]:
        return self.decide_all([proposal] if accepted else [], [] if accepted else [proposal])

    def decide_all(self, accepted: list[UUID], rejected: list[UUID]) -> dict[str, Any]:
        return self.call("decide_extraction_proposals", accepted, rejected)

    def proposals(self, status: str = "pending") -> list[tuple[Any, ...]]:
        """(name, old, new) in the order they came."""
        return [proposal[1:] for proposal in self.whole_proposals(status)]

    def whole_proposals(self, status: str = "pending") -> list[tuple[Any, ...]]:
        return self.connection.execute(
            "select id, name, old, new from extraction_proposals where extraction_id = %s and status = %s "
            "order by created_at, name",
            [self.extraction, status],
        ).fetchall()

    def journal(self, version: int) -> list[tuple[Any, ...]]:
        return self.connection.execute(
            "select path, steps, old, new from extraction_journal where extraction_id = %s and version = %s "
            "order by id",
            [self.extraction, version],
        ).fetchall()

    def refused(self, function: str, *arguments: Any, code: str = "PT422") -> None:
        """The call fails with this code and changes nothing."""
        self.unchanged(lambda: self.call(function, *arguments), code)

    def unchanged(self, action: Any, code: str) -> None:
        row = "select to_jsonb(e) from extractions as e where id = %s"
        before = self.one(row, self.extraction)
        with pytest.raises(psycopg.DatabaseError) as error, self.connection.transaction():
            action()
        assert error.value.sqlstate == code and self.one(row, self.extraction) == before


def _steps(path: str | list[str]) -> list[str]:
    return path.split(".") if isinstance(path, str) else path

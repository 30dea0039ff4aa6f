"""Calls the SQL functions that edit an extraction, as members and their agents, within one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb
from role_connections import Sample, set_role


class EditedExtraction:
    """An extraction that tests edit. `changed` holds the changed leaves that the last call returned."""

    changed: list[dict[str, Any]] | None = None

    def __init__(self, connection: psycopg.Connection, sample: Sample, extraction: UUID | None = None) -> None:
        self.connection, self.sample, self.id = connection, sample, extraction or uuid4()
        if extraction is None:
            connection.execute(
                "insert into extractions (id, org_id, document_id) values (%s, %s, %s)",
                [self.id, sample.org, sample.document],
            )

    def act_as(self, name: str, task: str | None = None, named_fields: Sequence[str] = ()) -> EditedExtraction:
        """Make the following statements those of a user, or of a tool call in a new run of the user. `named_fields` are
        the paths that the user's message names."""
        user, run = getattr(self.sample, name), None
        set_role(self.connection, "authenticated", {"sub": str(user), "org_id": str(self.sample.org)})
        if task is not None:
            run = self.fetch(
                "insert into runs (org_id, agent, document_id, extraction_id, task, input) "
                "values (%s, 'extraction', %s, %s, %s, %s) returning id",
                *(self.sample.org, self.sample.document, self.id, task),
                Jsonb({"message": "The total is 13."} if task == "correct" else {}),
            )
        self.set_call(run, "call" if task else "", named_fields)
        return self

    def set_call(self, run: UUID | None, call: str, named_fields: Sequence[str] = ()) -> None:
        """Set the run and call that the following statements write for, as the service does."""
        self.connection.execute(
            "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', %s, true), "
            "set_config('fieldmark.paths_in_message', %s, true)",
            [str(run or ""), call, json.dumps(named_fields)],
        )

    def member(self) -> EditedExtraction:
        return self.act_as("member")

    def colleague(self) -> EditedExtraction:
        return self.act_as("colleague")

    def agent(self, task: str = "extract", user: str = "member", named_fields: Sequence[str] = ()) -> EditedExtraction:
        return self.act_as(user, task, named_fields)

    def fetch(self, query: str, *values: Any) -> Any:
        (row,) = self.connection.execute(query.encode(), values).fetchall()
        return row[0]

    def column(self, name: str) -> Any:
        return self.fetch(f"select {name} from extractions where id = %s", self.id)

    @property
    def fields(self) -> Any:
        return self.column("extracted_fields")

    @property
    def scores(self) -> Any:
        return self.column("confidences")

    @property
    def evidence(self) -> Any:
        return self.column("evidence")

    @property
    def version(self) -> int:
        return self.column("version")

    @property
    def locks(self) -> dict[str, str]:
        """The user who holds each lock, by path."""
        names = {str(getattr(self.sample, name)): name for name in ("owner", "member", "colleague")}
        return {path: names[lock["by"]] for path, lock in self.column("locks").items()}

    def call(self, function: str, *arguments: Any) -> dict[str, Any]:
        # A float would arrive as double precision, which Postgres takes for no numeric.
        given = [str(argument) if isinstance(argument, float) else argument for argument in arguments]
        answer = self.fetch(f"select {function}({', '.join(['%s'] * (len(given) + 1))})", self.id, *given)
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

    def unlock(self, path: str | list[str]) -> dict[str, Any]:
        return self.call("unlock_extraction_field", _steps(path))

    def decide(self, proposal: UUID, accepted: bool) -> dict[str, Any]:
        return self.decide_all([proposal] if accepted else [], [] if accepted else [proposal])

    def decide_all(self, accepted: list[UUID], rejected: list[UUID]) -> dict[str, Any]:
        return self.call("decide_extraction_proposals", accepted, rejected)

    def proposals(self, status: str = "pending") -> list[tuple[Any, ...]]:
        """Return (name, old, new) of each proposal in order of creation."""
        return [proposal[1:] for proposal in self.proposals_with_ids(status)]

    def proposals_with_ids(self, status: str = "pending") -> list[tuple[Any, ...]]:
        return self.connection.execute(
            "select id, name, old, new from extraction_proposals where extraction_id = %s and status = %s "
            "order by created_at, name",
            [self.id, status],
        ).fetchall()

    def journal(self, version: int) -> list[tuple[Any, ...]]:
        return self.connection.execute(
            "select path, steps, old, new from extraction_journal where extraction_id = %s and version = %s "
            "order by id",
            [self.id, version],
        ).fetchall()

    def assert_rejected(self, function: str, *arguments: Any, code: str = "PT422") -> None:
        """Assert that the call fails with this code and changes nothing."""
        self.assert_action_rejected(lambda: self.call(function, *arguments), code)

    def assert_action_rejected(self, action: Any, code: str) -> None:
        row = "select to_jsonb(e) from extractions as e where id = %s"
        before = self.fetch(row, self.id)
        with pytest.raises(psycopg.DatabaseError) as error, self.connection.transaction():
            action()
        assert error.value.sqlstate == code and self.fetch(row, self.id) == before


def _steps(path: str | list[str]) -> list[str]:
    return path.split(".") if isinstance(path, str) else path

"""Calls the SQL functions that run, approve and wait, for runs of the sample owner, within one transaction."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb
from role_connections import Sample

HASH = "1" * 64


class OwnerRuns:
    """Runs of the sample owner, and the calls the service makes for them. `token` is the fencing token of every run."""

    token = 1

    def __init__(self, connection: psycopg.Connection, sample: Sample) -> None:
        self.connection, self.sample = connection, sample

    def create(self, status: str = "running", **columns: Any) -> UUID:
        values = {"org_id": self.sample.org, "agent": "talker", "task": "think", **columns}
        placeholders = ", ".join(["%s"] * len(values))
        run = self.fetch(
            f"insert into runs ({', '.join(values)}) values ({placeholders}) returning id", *values.values()
        )
        self.connection.execute(
            "update runs set status = %s, fencing_token = %s, consecutive_failures = 2 where id = %s",
            [status, self.token, run],
        )
        return run

    def create_child(self, parent: UUID, call: str = "call", status: str = "running") -> UUID:
        return self.create(status, parent_run_id=parent, parent_call_id=call)

    def fetch(self, query: str, *parameters: Any) -> Any:
        row = self.connection.execute(query, parameters or None).fetchone()
        assert row is not None
        return row[0]

    def record_call(self, run: UUID, status: str = "approved", call: str = "call", **more: Any) -> None:
        self.connection.execute(
            "select private.record_call(%s, %s, %s, %s, 'write', '{}', %s, %s, null, %s, %s)",
            [run, self.token, call, self.sample.org, HASH, status, Jsonb(more.get("changes")), more.get("target")],
        )

    def create_waiting(self, attached: bool = False, event: Any = None) -> UUID:
        """Insert a run that waits for the approval of `call`."""
        run = self.create()
        self.record_call(run, "pending", changes=[{"path": "a"}], target="a" * 64)
        self.await_approval(run, attached, event)
        return run

    def await_approval(self, run: UUID, attached: bool = False, event: Any = None, token: int | None = None) -> None:
        self.connection.execute(
            "select private.await_approval(%s, %s, 'call', %s, %s)",
            [run, self.token if token is None else token, attached, None if event is None else json.dumps(event)],
        )

    def decide(self, run: UUID, approved: bool = True, *, shown_hash: str = HASH, arguments: Any = None) -> str | None:
        changed = None if arguments is None else "2" * 64
        return self.fetch(
            "select private.start_decision(%s, 'call', %s, %s, 'Because.', %s, %s)",
            *(run, shown_hash, approved, None if arguments is None else Json(arguments), changed),
        )

    def resume(self, run: UUID) -> str | None:
        return self.fetch("select private.resume_run(%s)", run)

    def detach(self, run: UUID, token: int | None = None) -> str:
        return self.fetch("select private.detach_run(%s, %s)", run, self.token if token is None else token)

    def detach_dead_worker(self, run: UUID) -> None:
        self.connection.execute("select private.detach_dead_worker(%s)", [run])

    def fence(self, run: UUID, token: int | None = None) -> None:
        self.connection.execute("select private.fence(%s, %s)", [run, self.token if token is None else token])

    def claim(self, run: UUID, call: str = "call", hash: str = HASH) -> tuple[Any, ...] | None:
        return self.connection.execute(
            "select status, result, code, data from private.claim_call(%s, %s, %s, 'write', %s)",
            [run, self.token, call, hash],
        ).fetchone()

    def finish(self, run: UUID, *events: Any, failed: bool = False, code: str = "ok", call: str = "call") -> None:
        self.connection.execute(
            "select private.finish_call(%s, %s, 'Done.', %s, %s, '{\"n\": 1}', %s::json)",
            [run, call, failed, code, json.dumps(events) if events else None],
        )

    def await_runs(self, run: UUID, call: str = "call") -> None:
        self.connection.execute("select private.await_runs(%s, %s)", [run, call])

    def cancel(self, run: UUID) -> bool:
        return self.fetch("select private.cancel_run(%s, 'No more.')", run)

    def set_status(self, run: UUID, status: str) -> None:
        error = "No." if status == "failed" else None
        waiting_call = "call" if status.startswith("awaiting") else None
        self.connection.execute(
            "update runs set status = %s, error = %s, waiting_call = coalesce(waiting_call, %s) where id = %s",
            [status, error, waiting_call, run],
        )

    def status(self, run: UUID) -> str:
        return self.fetch("select status from runs where id = %s", run)

    def run_columns(self, run: UUID, columns: str) -> tuple[Any, ...] | None:
        return self.connection.execute(f"select {columns} from runs where id = %s", [run]).fetchone()

    def call_columns(self, run: UUID, columns: str, call: str = "call") -> tuple[Any, ...] | None:
        return self.connection.execute(
            f"select {columns} from tool_calls where run_id = %s and id = %s", [run, call]
        ).fetchone()

    def events(self, run: UUID) -> list[Any]:
        rows = self.connection.execute("select body from run_events where run_id = %s order by number", [run])
        return [body for (body,) in rows.fetchall()]

    def assert_rejected(self, code: str, action: Any) -> None:
        with pytest.raises(psycopg.DatabaseError) as error, self.connection.transaction():
            action()
        assert error.value.sqlstate == code

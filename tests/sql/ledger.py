"""A run at work in one transaction of the service, with its calls: for the tests of decisions and of child runs."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from doors import House
from psycopg.types.json import Jsonb

HASH = "1" * 64


class Ledger:
    """The owner's runs, as the service writes them. `token` is the fencing token of every run here."""

    token = 1

    def __init__(self, connection: psycopg.Connection, house: House) -> None:
        self.connection, self.house = connection, house

    def run(self, status: str = "running", **columns: Any) -> UUID:
        """A run of the owner's that a worker has taken up (or that has another status)."""
        given = {"org_id": self.house.org, "agent": "talker", "task": "think", **columns}
        places = ", ".join(["%s"] * len(given))
        run = self.ask(f"insert into runs ({', '.join(given)}) values ({places}) returning id", *given.values())
        self.connection.execute(
            "update runs set status = %s, fencing_token = %s, consecutive_failures = 2 where id = %s",
            [status, self.token, run],
        )
        return run

    def child(self, parent: UUID, call: str = "call", status: str = "running") -> UUID:
        return self.run(status, parent_run_id=parent, parent_call_id=call)

    def ask(self, query: str, *parameters: Any) -> Any:
        """The first column of the first row."""
        found = self.connection.execute(query, parameters or None).fetchone()
        assert found is not None
        return found[0]

    def enter(self, run: UUID, status: str = "approved", call: str = "call", **more: Any) -> None:
        self.connection.execute(
            "select private.record_call(%s, %s, %s, %s, 'write', '{}', %s, %s, null, %s, %s)",
            [run, self.token, call, self.house.org, HASH, status, Jsonb(more.get("changes")), more.get("target")],
        )

    def waiting(self, attached: bool = False, event: Any = None) -> UUID:
        """A run that waits for its person to decide `call`."""
        run = self.run()
        self.enter(run, "pending", changes=[{"path": "a"}], target="a" * 64)
        self.await_approval(run, attached, event)
        return run

    def await_approval(self, run: UUID, attached: bool = False, event: Any = None, token: int | None = None) -> None:
        self.connection.execute(
            "select private.await_approval(%s, %s, 'call', %s, %s)",
            [run, self.token if token is None else token, attached, None if event is None else json.dumps(event)],
        )

    def decide(self, run: UUID, approved: bool = True, *, seen: str = HASH, arguments: Any = None) -> str | None:
        changed = None if arguments is None else "2" * 64
        return self.ask(
            "select private.start_decision(%s, 'call', %s, %s, 'Because.', %s, %s)",
            *(run, seen, approved, None if arguments is None else Jsonb(arguments), changed),
        )

    def resume(self, run: UUID) -> str | None:
        return self.ask("select private.resume_run(%s)", run)

    def detach(self, run: UUID, token: int | None = None) -> str:
        return self.ask("select private.detach_run(%s, %s)", run, self.token if token is None else token)

    def disown(self, run: UUID) -> None:
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
        return self.ask("select private.cancel_run(%s, 'No more.')", run)

    def set_status(self, run: UUID, status: str) -> None:
        error = "No." if status == "failed" else None
        waits = "call" if status.startswith("awaiting") else None
        self.connection.execute(
            "update runs set status = %s, error = %s, waiting_call = coalesce(waiting_call, %s) where id = %s",
            [status, error, waits, run],
        )

    def status(self, run: UUID) -> str:
        return self.ask("select status from runs where id = %s", run)

    def row(self, run: UUID, columns: str) -> tuple[Any, ...] | None:
        return self.connection.execute(f"select {columns} from runs where id = %s", [run]).fetchone()

    def call(self, run: UUID, columns: str, call: str = "call") -> tuple[Any, ...] | None:
        return self.connection.execute(
            f"select {columns} from tool_calls where run_id = %s and id = %s", [run, call]
        ).fetchone()

    def events(self, run: UUID) -> list[Any]:
        rows = self.connection.execute("select body from run_events where run_id = %s order by number", [run])
        return [body for (body,) in rows.fetchall()]

    def refused(self, code: str, action: Any) -> None:
        with pytest.raises(psycopg.DatabaseError) as error, self.connection.transaction():
            action()
        assert error.value.sqlstate == code

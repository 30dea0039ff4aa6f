"""Two connections, the second of which waits for a lock of the first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from role_connections import Sample, insert_sample_rows, set_role


class Pair:
    """Two connections of the service that act as the sample owner, and `observer`, a connection of the database
    owner."""

    def __init__(self, first: psycopg.Connection, second: psycopg.Connection, observer: psycopg.Connection) -> None:
        self.first, self.second, self.observer = first, second, observer
        self.sample: Sample = insert_sample_rows(observer)
        self.pool = ThreadPoolExecutor(1)

    @contextmanager
    def transaction(self, connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
        with connection.transaction():
            set_role(connection, "authenticated", {"sub": str(self.sample.owner), "org_id": str(self.sample.org)})
            yield connection

    def run_overlapping(
        self, first: Callable[[psycopg.Connection], Any], second: Callable[[psycopg.Connection], Any]
    ) -> Any:
        """Run `first`, then `second` until it waits for a lock; commit the first transaction; return the second's
        result."""
        with self.transaction(self.first):
            first(self.first)
            future = self.start_blocked(second)
        return future.result(timeout=60)

    def start_blocked(self, second: Callable[[psycopg.Connection], Any]) -> Future[Any]:
        """Start `second` on its connection and return once it waits for a lock."""

        def run_second() -> Any:
            with self.transaction(self.second):
                return second(self.second)

        future = self.pool.submit(run_second)
        deadline = time.monotonic() + 60
        waiting = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        while self.observer.execute(waiting, [self.second.info.backend_pid]).fetchone() != (True,):
            if future.done():
                future.result()
                pytest.fail("The second transaction did not wait for the first.")
            assert time.monotonic() < deadline
            time.sleep(0.002)
        return future

    def jobs(self) -> list[tuple[Any, ...]]:
        """Return the jobs of runs and of document reading, without indexing jobs."""
        return self.observer.execute(
            """select task_name, args, lock from queue.procrastinate_jobs where task_name <> 'index_document'
               order by id"""
        ).fetchall()

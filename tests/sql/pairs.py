"""Two connections at once, the second of which waits for the first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from doors import House, become, furnish


class Pair:
    """Two connections of the service that act as the owner of a house, and a third that watches."""

    def __init__(self, first: psycopg.Connection, second: psycopg.Connection, watch: psycopg.Connection) -> None:
        self.first, self.second, self.watch = first, second, watch
        self.house: House = furnish(watch)
        self.pool = ThreadPoolExecutor(1)

    @contextmanager
    def acting(self, connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
        with connection.transaction():
            become(connection, "authenticated", {"sub": str(self.house.owner), "org_id": str(self.house.org)})
            yield connection

    def meanwhile(self, first: Callable[[psycopg.Connection], Any], second: Callable[[psycopg.Connection], Any]) -> Any:
        """Do `first`, then `second` until it must wait for it; commit the first; return the result of the second."""
        with self.acting(self.first):
            first(self.first)
            future = self.start(second)
        return future.result(timeout=60)

    def start(self, second: Callable[[psycopg.Connection], Any]) -> Future[Any]:
        """Begin `second` on its connection, and return once it waits for the first."""

        def run_second() -> Any:
            with self.acting(self.second):
                return second(self.second)

        future = self.pool.submit(run_second)
        deadline = time.monotonic() + 60
        waiting = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        while self.watch.execute(waiting, [self.second.info.backend_pid]).fetchone() != (True,):
            if future.done():
                future.result()
                pytest.fail("The second did not wait for the first: nothing keeps the two apart.")
            assert time.monotonic() < deadline
            time.sleep(0.002)
        return future

    def jobs(self) -> list[tuple[Any, ...]]:
        """Those of runs and of readings: what is read is indexed, too."""
        return self.watch.execute(
            """select task_name, args, lock from queue.procrastinate_jobs where task_name <> 'index_document'
               order by id"""
        ).fetchall()

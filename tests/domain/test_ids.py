from __future__ import annotations

import time
from uuid import RFC_4122, UUID

import psycopg

from fieldmark.domain.ids import new_id
from running_server import Clone


def timestamp_seconds(id: UUID) -> float:
    return (id.int >> 80) / 1000


def check_order(ids: list[UUID], before: float, after: float) -> None:
    assert len(set(ids)) == len(ids)
    assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}
    times = [timestamp_seconds(one) for one in ids]
    assert times == sorted(times)
    assert before - 0.01 <= times[0] and times[-1] <= after + 0.01


def test_ids_from_python_and_sql_are_ordered_by_time(clone: Clone) -> None:
    before = time.time()
    check_order([new_id() for _ in range(1000)], before, time.time())
    before = time.time()
    with psycopg.connect(clone.owner_url) as connection:
        rows = connection.execute("select private.new_id() from generate_series(1, 1000)").fetchall()
    check_order([row[0] for row in rows], before, time.time())

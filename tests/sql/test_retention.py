"""What is kept no longer goes, in batches, and nothing else does; an organisation goes the same way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import Doors, House, become, furnish

LEFT = ("run_events", "tool_calls")
"""What a run leaves, by table."""


def ended_run(owner: psycopg.Connection, house: House, ago: str | None, thread: UUID | None = None) -> UUID:
    """A run with an event and a call that ended some time ago, or is still at work."""
    run = uuid4()
    kind = ("talker", "talk") if thread else ("extraction", "extract")
    owner.execute(
        "insert into runs (id, org_id, created_by, agent, task, thread_id, document_id, extraction_id) "
        "values (%s, %s, %s, %s, %s, %s, %s, %s)",
        [run, house.org, house.owner, *kind, thread, *([None] * 2 if thread else [house.document, house.extraction])],
    )
    if ago is not None:
        owner.execute(
            "update runs set status = 'completed', finished_at = now() - %s::interval where id = %s", [ago, run]
        )
    owner.execute("insert into run_events (run_id, number, org_id, body) values (%s, 1, %s, '{}')", [run, house.org])
    owner.execute(
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by) "
        "values (%s, 'c', %s, 't', '{}', repeat('0', 64), 'approved', 'policy')",
        [run, house.org],
    )
    return run


def has(owner: psycopg.Connection, table: str, run: UUID) -> bool:
    return owner.execute(f"select from {table} where run_id = %s".encode(), [run]).rowcount > 0


def call(owner: psycopg.Connection, function: str, *arguments: Any) -> int:
    row = owner.execute(f"select {function}({', '.join(['%s'] * len(arguments))})".encode(), arguments).fetchone()
    assert row is not None
    return row[0]


def test_records_of_old_ended_runs_are_deleted(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        old, young, now, open_ = (ended_run(owner, house, ago) for ago in ("3 days", "1 day", "30 minutes", None))
        in_thread = ended_run(owner, house, "3 days", house.thread)
        assert call(owner, "private.delete_old_run_records", None) == 0  # for ever
        assert all(has(owner, table, old) for table in LEFT)
        assert call(owner, "private.delete_old_run_records", "2 days") == 2
        for table in LEFT:
            assert [has(owner, table, run) for run in (old, young, open_, in_thread)] == [False, True, True, True]
        assert call(owner, "private.delete_old_run_records", "2 days") == 0  # it does not come again
        # One that ended just now stays whatever is set: it may be recorded later than the time in its row.
        assert call(owner, "private.delete_old_run_records", "1 second") == 1
        assert not any(has(owner, table, young) for table in LEFT) and has(owner, "run_events", now)
        assert owner.execute("select from runs where id = %s", [old]).rowcount == 1


@pytest.fixture
def two(clone: Any) -> Iterator[tuple[psycopg.Connection, psycopg.Connection, House]]:
    """Two connections of the owner, which see what the other has committed."""
    with (
        psycopg.connect(clone.owner_url, autocommit=True, options="-csearch_path=public") as one,
        psycopg.connect(clone.owner_url, autocommit=True, options="-csearch_path=public") as other,
    ):
        yield one, other, furnish(one)


def test_one_worker_deletes_at_a_time_and_an_interrupted_batch_is_repeated(
    two: tuple[psycopg.Connection, psycopg.Connection, House],
) -> None:
    one, other, house = two
    one.execute("set search_path = public, queue")
    run = ended_run(one, house, "3 days")
    other.execute("set lock_timeout = '5s'")
    with one.transaction(force_rollback=True):
        assert call(one, "private.delete_old_run_records", "1 day") == 1
        assert call(other, "private.delete_old_run_records", "1 day") == 0  # and does not wait
    assert has(one, "run_events", run)
    assert call(other, "private.delete_old_run_records", "1 day") == 1 and not has(one, "run_events", run)


# Organisations


def rows_of(owner: psycopg.Connection, org: UUID) -> dict[str, int]:
    """How many rows each table has of an organisation."""
    tables = owner.execute(
        "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid and not a.attisdropped "
        "and (a.attname = 'org_id' or c.relname = 'organisations' and a.attname = 'id') "
        "where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"
    ).fetchall()
    counts = {
        table: owner.execute(f"select from {table} where {column} = %s".encode(), [org]).rowcount
        for table, column in tables
    }
    return {table: count for table, count in counts.items() if count}


def test_organisation_is_deleted_in_batches_and_others_are_untouched(
    two: tuple[psycopg.Connection, psycopg.Connection, House],
) -> None:
    one, other, house = two
    for number, org in ((-1, house.org), (-2, house.other_org)):
        one.execute(
            "insert into private.search_orgs (org_id, number) overriding system value values (%s, %s)", [org, number]
        )
        one.execute("insert into private.search_terms (org_number, key, pieces) values (%s, 1, 2)", [number])
        one.execute(
            """insert into private.search_chunks
                 (document_id, number, org_number, page, first_word, last_word, language, length, keys, counts)
               select id, 9, %s, 1, 0, 0, 'simple', 1, '{1}', '' from documents where org_id = %s limit 1""",
            [number, org],
        )
        one.execute(
            """insert into private.search_vectors (org_number, document_id, number, embedder, embedding)
               select %s, id, 9, 'a/1', '{1}' from documents where org_id = %s limit 1""",
            [number, org],
        )
    before = rows_of(one, house.other_org)
    assert len(before) > 12
    with one.transaction():
        one.execute("set local session authorization authenticator")
        become(one, "authenticated", {"sub": str(house.owner)})
        one.execute("select delete_organisation(%s)", [house.org])
    # It is invisible now, and the user of the personal organisation gets a new one.
    assert one.execute("select from memberships where org_id = %s", [house.org]).rowcount == 0
    with one.transaction():
        become(one, "authenticated", {"sub": str(house.owner)})
        row = one.execute("select private.enter()").fetchone()
        assert row is not None and row[0] not in (None, house.org)
    steps = 0
    while call(other, "private.clear_organisations", 2):
        steps += 1
        assert steps < 200
    assert rows_of(one, house.org) == {} and steps > 5
    assert [row[0] for row in one.execute("select org_number from private.search_chunks").fetchall()] == [-2]
    assert [row[0] for row in one.execute("select org_number from private.search_vectors").fetchall()] == [-2]
    assert [row[0] for row in one.execute("select org_number from private.search_terms").fetchall()] == [-2]
    assert one.execute("select from private.search_orgs where org_id = %s", [house.org]).rowcount == 0
    assert rows_of(one, house.other_org) == before
    assert one.execute("select from private.organisation_deletions").rowcount == 0

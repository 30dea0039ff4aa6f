"""Retention: old records and deleted organisations are removed in batches, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from role_connections import Roles, Sample, insert_sample_rows, set_role

KEPT_TABLES = ("run_events", "tool_calls")
"""What a run leaves, by table."""


def ended_run(owner: psycopg.Connection, sample: Sample, ago: str | None, thread: UUID | None = None) -> UUID:
    """Insert a run with an event and a call, which ended some time ago, or is running if `ago` is None."""
    run = uuid4()
    kind = ("talker", "talk") if thread else ("extraction", "extract")
    owner.execute(
        "insert into runs (id, org_id, created_by, agent, task, thread_id, document_id, extraction_id) "
        "values (%s, %s, %s, %s, %s, %s, %s, %s)",
        [
            run,
            sample.org,
            sample.owner,
            *kind,
            thread,
            *([None] * 2 if thread else [sample.document, sample.extraction]),
        ],
    )
    if ago is not None:
        owner.execute(
            "update runs set status = 'completed', finished_at = now() - %s::interval where id = %s", [ago, run]
        )
    owner.execute("insert into run_events (run_id, number, org_id, body) values (%s, 1, %s, '{}')", [run, sample.org])
    owner.execute(
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by) "
        "values (%s, 'c', %s, 't', '{}', repeat('0', 64), 'approved', 'policy')",
        [run, sample.org],
    )
    return run


def has_rows(owner: psycopg.Connection, table: str, run: UUID) -> bool:
    return owner.execute(f"select from {table} where run_id = %s".encode(), [run]).rowcount > 0


def call_function(owner: psycopg.Connection, function: str, *arguments: Any) -> int:
    row = owner.execute(f"select {function}({', '.join(['%s'] * len(arguments))})".encode(), arguments).fetchone()
    assert row is not None
    return row[0]


def test_records_of_old_ended_runs_are_deleted(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        old, young, now, open_ = (ended_run(owner, sample, ago) for ago in ("3 days", "1 day", "30 minutes", None))
        in_thread = ended_run(owner, sample, "3 days", sample.thread)
        assert call_function(owner, "private.delete_old_run_records", None) == 0  # no limit
        assert all(has_rows(owner, table, old) for table in KEPT_TABLES)
        assert call_function(owner, "private.delete_old_run_records", "2 days") == 2
        for table in KEPT_TABLES:
            assert [has_rows(owner, table, run) for run in (old, young, open_, in_thread)] == [False, True, True, True]
        assert call_function(owner, "private.delete_old_run_records", "2 days") == 0  # nothing is left to delete
        # A run that just ended is kept with any setting: its rows may be written a little later.
        assert call_function(owner, "private.delete_old_run_records", "1 second") == 1
        assert not any(has_rows(owner, table, young) for table in KEPT_TABLES) and has_rows(owner, "run_events", now)
        assert owner.execute("select from runs where id = %s", [old]).rowcount == 1


@pytest.fixture
def two_owners(clone: Any) -> Iterator[tuple[psycopg.Connection, psycopg.Connection, Sample]]:
    with (
        psycopg.connect(clone.owner_url, autocommit=True, options="-csearch_path=public") as one,
        psycopg.connect(clone.owner_url, autocommit=True, options="-csearch_path=public") as other,
    ):
        yield one, other, insert_sample_rows(one)


def test_one_worker_deletes_at_a_time_and_an_interrupted_batch_is_repeated(
    two_owners: tuple[psycopg.Connection, psycopg.Connection, Sample],
) -> None:
    one, other, sample = two_owners
    one.execute("set search_path = public, queue")
    run = ended_run(one, sample, "3 days")
    other.execute("set lock_timeout = '5s'")
    with one.transaction(force_rollback=True):
        assert call_function(one, "private.delete_old_run_records", "1 day") == 1
        assert call_function(other, "private.delete_old_run_records", "1 day") == 0  # without waiting
    assert has_rows(one, "run_events", run)
    assert call_function(other, "private.delete_old_run_records", "1 day") == 1 and not has_rows(one, "run_events", run)


# Organisations


def count_rows(owner: psycopg.Connection, org: UUID) -> dict[str, int]:
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
    two_owners: tuple[psycopg.Connection, psycopg.Connection, Sample],
) -> None:
    one, other, sample = two_owners
    for number, org in ((-1, sample.org), (-2, sample.other_org)):
        one.execute(
            "insert into private.search_orgs (org_id, number) overriding system value values (%s, %s)", [org, number]
        )
        one.execute("insert into private.search_terms (org_number, key, chunks) values (%s, 1, 2)", [number])
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
    before = count_rows(one, sample.other_org)
    assert len(before) > 12
    with one.transaction():
        one.execute("set local session authorization authenticator")
        set_role(one, "authenticated", {"sub": str(sample.owner)})
        one.execute("select delete_organisation(%s)", [sample.org])
    # It is invisible now, and the user of the personal organisation gets a new one.
    assert one.execute("select from memberships where org_id = %s", [sample.org]).rowcount == 0
    with one.transaction():
        set_role(one, "authenticated", {"sub": str(sample.owner)})
        row = one.execute("select private.resolve_organisation()").fetchone()
        assert row is not None and row[0] not in (None, sample.org)
    steps = 0
    while call_function(other, "private.clear_organisations", 2):
        steps += 1
        assert steps < 200
    assert count_rows(one, sample.org) == {} and steps > 5
    assert [row[0] for row in one.execute("select org_number from private.search_chunks").fetchall()] == [-2]
    assert [row[0] for row in one.execute("select org_number from private.search_vectors").fetchall()] == [-2]
    assert [row[0] for row in one.execute("select org_number from private.search_terms").fetchall()] == [-2]
    assert one.execute("select from private.search_orgs where org_id = %s", [sample.org]).rowcount == 0
    assert count_rows(one, sample.other_org) == before
    assert one.execute("select from private.organisation_deletions where finished_at is null").rowcount == 0

"""The job queue: fair across organisations, limited per organisation, with a constant cost per claim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from role_connections import Roles, Sample

from fieldmark.worker.jobs import with_spare_slot


@contextmanager
def empty_queue(roles: Roles) -> Iterator[psycopg.Connection]:
    with roles.as_owner() as owner:
        owner.execute("set local search_path = public, queue; delete from procrastinate_jobs")
        yield owner


def worker(owner: psycopg.Connection) -> int:
    return fetch(owner, "insert into queue.procrastinate_workers default values returning id")


def fetch(owner: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = owner.execute(query.encode(), parameters).fetchone()
    return row and row[0]


def add_documents(owner: psycopg.Connection, org: UUID, count: int) -> None:
    """Insert documents that wait to be read, in one statement as a front end may."""
    owner.execute(
        """insert into documents (id, org_id, filename, storage_path)
           select id, %(org)s, 'a.txt', concat_ws('/', %(org)s, id, 'a.txt')
           from (select gen_random_uuid() as id from generate_series(1, %(many)s)) as new""",
        {"org": org, "many": count},
    )


def claim(owner: psycopg.Connection, worker_id: int, queue: str = "documents", slots: int = 1000) -> UUID | None:
    lock = fetch(owner, "select lock from private.claim_job(%s, %s, %s)", queue, worker_id, slots)
    return lock and UUID(lock[:36])


def test_queue_alternates_organisations_and_keeps_their_job_order(roles: Roles, sample: Sample) -> None:
    with empty_queue(roles) as owner:
        first_worker = worker(owner)
        add_documents(owner, sample.org, 60)
        ids = [row[0] for row in owner.execute("select id from queue.procrastinate_jobs order by priority desc, id")]
        assert ids == sorted(ids)
        assert [claim(owner, first_worker) for _ in range(10)] == [sample.org] * 10
        add_documents(owner, sample.other_org, 40)  # it does not catch up on earlier jobs
        claimed = [claim(owner, first_worker) for _ in range(40)]
        assert claimed[:6].count(sample.org) == 3 and claimed.count(sample.org) == 20


def finish_job(owner: psycopg.Connection, worker_id: int, org: UUID) -> None:
    owner.execute(
        """delete from procrastinate_jobs where id = (
             select id from procrastinate_jobs where worker_id = %s and left(lock, 36) = %s limit 1)""",
        [worker_id, str(org)],
    )


def test_worker_has_a_spare_slot_for_an_organisation_without_jobs(roles: Roles, sample: Sample) -> None:
    assert [with_spare_slot(slots) for slots in (1, 2, 4)] == [1, 3, 5]
    with empty_queue(roles) as owner:
        first_worker, another = worker(owner), worker(owner)
        add_documents(owner, sample.org, 10)
        assert [claim(owner, first_worker, slots=2) for _ in range(3)] == [sample.org, sample.org, None]
        assert claim(owner, another, slots=2) == sample.org
        add_documents(owner, sample.other_org, 3)
        assert [claim(owner, first_worker, slots=2) for _ in range(2)] == [sample.other_org, None]
        # The next free slot returns to the usual number.
        finish_job(owner, first_worker, sample.org)
        assert claim(owner, first_worker, slots=2) is None
        finish_job(owner, first_worker, sample.org)
        assert claim(owner, first_worker, slots=2) is not None


def test_worker_with_fewer_slots_than_jobs_claims_none(roles: Roles, sample: Sample) -> None:
    with empty_queue(roles) as owner:
        first_worker = worker(owner)
        add_documents(owner, sample.org, 4)
        assert [claim(owner, first_worker, slots=3) for _ in range(3)] == [sample.org] * 3
        add_documents(owner, sample.other_org, 1)
        assert [claim(owner, first_worker, slots=slots) for slots in (2, 1, 3)] == [None, None, sample.other_org]


def test_claims_and_slots_are_per_queue(roles: Roles, sample: Sample) -> None:
    with empty_queue(roles) as owner:
        first_worker = worker(owner)
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        owner.execute("delete from queue.procrastinate_jobs")
        add_documents(owner, sample.org, 5)
        assert claim(owner, first_worker, "runs") is None
        assert [claim(owner, first_worker) for _ in range(2)] == [sample.org] * 2  # being read, while others wait
        owner.execute("update runs set status = 'running' where org_id = any(%s)", [[sample.org, sample.other_org]])
        for org in (sample.other_org, sample.org):
            owner.execute("update runs set status = 'queued' where org_id = %s and document_id is null", [org])
        slots = owner.execute("select queue_name, priority from queue.procrastinate_jobs order by id").fetchall()
        assert slots == [*(("documents", -n) for n in range(5)), ("runs", 0), ("runs", 0)]


def test_scheduled_job_is_claimed_when_due(roles: Roles, sample: Sample) -> None:
    with empty_queue(roles) as owner:
        first_worker = worker(owner)
        add_documents(owner, sample.org, 1)
        for offset, expected in (("1 hour", None), ("-1 hour", sample.org)):
            owner.execute("update queue.procrastinate_jobs set scheduled_at = now() + %s::interval", [offset])
            assert claim(owner, first_worker) == expected


def test_jobs_with_one_lock_run_one_at_a_time(roles: Roles, sample: Sample) -> None:
    with empty_queue(roles) as owner:
        first_worker, lock = worker(owner), f"{sample.org}/extraction/{sample.extraction}"
        for _ in range(2):
            owner.execute("select private.enqueue('documents', 'read_document', '{}', %s)", [lock])
        first, second = (row[0] for row in owner.execute("select id from queue.procrastinate_jobs order by id"))
        # The later job is claimed neither before the first nor alongside it.
        owner.execute(
            "update queue.procrastinate_jobs set scheduled_at = now() + interval '1 hour' where id = %s", [first]
        )
        assert claim(owner, first_worker) is None
        owner.execute("update queue.procrastinate_jobs set scheduled_at = null")
        assert fetch(owner, "select id from private.claim_job('documents', %s, 1)", first_worker) == first
        assert claim(owner, first_worker) is None
        owner.execute("update queue.procrastinate_jobs set status = 'succeeded' where id = %s", [first])
        assert fetch(owner, "select id from private.claim_job('documents', %s, 1)", first_worker) == second


def test_uploads_are_rejected_without_a_job_queue(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        owner.execute("alter function queue.procrastinate_defer_jobs_v1 rename to gone")
        with pytest.raises(psycopg.DatabaseError) as error:
            add_documents(owner, sample.org, 1)
        assert error.value.sqlstate == "PT503"


def test_every_job_lock_starts_with_the_organisation(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        locks = owner.execute("select distinct lock, task_name from queue.procrastinate_jobs").fetchall()
        assert {task for _, task in locks} == {"read_document", "execute_run", "index_document"}
        assert all(UUID(lock[:36]) in {sample.org, sample.other_org} and lock[36] == "/" for lock, _ in locks)


def test_claim_cost_does_not_grow_with_the_queue(roles: Roles, sample: Sample) -> None:
    with empty_queue(roles) as owner:
        first_worker = worker(owner)
        add_documents(owner, sample.org, 1500)
        for _ in range(3):
            claim(owner, first_worker)
        for slots in (4, 3):  # with 3 slots all are in use, and no other organisation waits
            plan = fetch(
                owner,
                "explain (analyze, buffers, format json) select from private.claim_job('documents', %s, %s)",
                first_worker,
                slots,
            )
            assert plan[0]["Plan"]["Shared Hit Blocks"] < 150


# Limits --------------------------------------------------------------------------------------------------------------


def insert_run(connection: psycopg.Connection, org: UUID, document: UUID, extraction: UUID) -> None:
    connection.execute(
        "insert into runs (org_id, agent, task, document_id, extraction_id) "
        "values (%s, 'extraction', 'extract', %s, %s)",
        [org, document, extraction],
    )


def test_waiting_documents_and_runs_are_limited_per_organisation(roles: Roles, sample: Sample) -> None:
    def error_of(act: Any) -> tuple[str | None, str | None]:
        with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
            act()
        return error.value.sqlstate, error.value.diag.message_detail

    def insert_own_run() -> None:
        insert_run(owner, sample.org, sample.document, sample.extraction)

    with roles.as_owner() as owner:
        assert error_of(lambda: add_documents(owner, sample.org, 2001))[0] == "PT429"  # the default limit
        # Only waiting documents and runs count.
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        owner.execute("update runs set status = 'completed'")
        limit = "update queue_limits set max_waiting_documents = 4, max_waiting_runs = 1 where org_id = %s"
        owner.execute(limit, [sample.org])
        add_documents(owner, sample.org, 4)
        insert_own_run()
        assert error_of(lambda: add_documents(owner, sample.org, 1))[0] == error_of(insert_own_run)[0] == "PT429"
        # Organisations without a limit use the defaults that `migrate` sets.
        owner.execute("update private.queue_defaults set (runs, documents) = row(0, 8)")
        owner.execute("update queue_limits set max_waiting_runs = null where org_id = %s", [sample.org])
        assert error_of(lambda: add_documents(owner, sample.other_org, 9))[0] == "PT429"
        add_documents(owner, sample.other_org, 8)
        assert error_of(insert_own_run) == ("PT409", "queue_closed")

"""The queue is fair to organisations, bounded for each, and as quick when it is long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from doors import Doors, House

from fieldmark.worker.jobs import with_spare


@contextmanager
def empty_queue(doors: Doors) -> Iterator[psycopg.Connection]:
    with doors.as_owner() as owner:
        owner.execute("set local search_path = public, queue; delete from procrastinate_jobs")
        yield owner


def worker(owner: psycopg.Connection) -> int:
    return one(owner, "insert into queue.procrastinate_workers default values returning id")


def one(owner: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = owner.execute(query.encode(), parameters).fetchone()
    return row and row[0]


def add(owner: psycopg.Connection, org: UUID, many: int) -> None:
    """Documents that wait to be read, in one statement as a front end may insert them."""
    owner.execute(
        """insert into documents (id, org_id, filename, storage_path)
           select id, %(org)s, 'a.txt', concat_ws('/', %(org)s, id, 'a.txt')
           from (select gen_random_uuid() as id from generate_series(1, %(many)s)) as new""",
        {"org": org, "many": many},
    )


def claim(owner: psycopg.Connection, by: int, queue: str = "documents", places: int = 1000) -> UUID | None:
    """The organisation of the job that a worker gets."""
    lock = one(owner, "select lock from private.claim_job(%s, %s, %s)", queue, by, places)
    return lock and UUID(lock[:36])


def test_queue_alternates_organisations_and_keeps_their_job_order(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 60)
        ids = [row[0] for row in owner.execute("select id from queue.procrastinate_jobs order by priority desc, id")]
        assert ids == sorted(ids)
        assert [claim(owner, me) for _ in range(10)] == [house.org] * 10
        add(owner, house.other_org, 40)  # it does not catch up on what it did not ask for
        claimed = [claim(owner, me) for _ in range(40)]
        assert claimed[:6].count(house.org) == 3 and claimed.count(house.org) == 20


def done(owner: psycopg.Connection, by: int, org: UUID) -> None:
    owner.execute(
        """delete from procrastinate_jobs where id = (
             select id from procrastinate_jobs where worker_id = %s and left(lock, 36) = %s limit 1)""",
        [by, str(org)],
    )


def test_worker_has_a_spare_slot_for_an_organisation_without_jobs(doors: Doors, house: House) -> None:
    assert [with_spare(places) for places in (1, 2, 4)] == [1, 3, 5]
    with empty_queue(doors) as owner:
        me, another = worker(owner), worker(owner)
        add(owner, house.org, 10)
        assert [claim(owner, me, places=2) for _ in range(3)] == [house.org, house.org, None]
        assert claim(owner, another, places=2) == house.org
        add(owner, house.other_org, 3)
        assert [claim(owner, me, places=2) for _ in range(2)] == [house.other_org, None]
        # The next place that becomes free makes up for it.
        done(owner, me, house.org)
        assert claim(owner, me, places=2) is None
        done(owner, me, house.org)
        assert claim(owner, me, places=2) is not None


def test_claims_and_slots_are_per_queue(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        owner.execute("delete from queue.procrastinate_jobs")
        add(owner, house.org, 5)
        assert claim(owner, me, "runs") is None
        assert [claim(owner, me) for _ in range(2)] == [house.org] * 2  # at work, where others wait
        owner.execute("update runs set status = 'running' where org_id = any(%s)", [[house.org, house.other_org]])
        for org in (house.other_org, house.org):
            owner.execute("update runs set status = 'queued' where org_id = %s and document_id is null", [org])
        places = owner.execute("select queue_name, priority from queue.procrastinate_jobs order by id").fetchall()
        assert places == [*(("documents", -n) for n in range(5)), ("runs", 0), ("runs", 0)]


def test_scheduled_job_is_claimed_when_due(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 1)
        for off, got in (("1 hour", None), ("-1 hour", house.org)):
            owner.execute("update queue.procrastinate_jobs set scheduled_at = now() + %s::interval", [off])
            assert claim(owner, me) == got


def test_jobs_with_one_lock_run_one_at_a_time(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me, lock = worker(owner), f"{house.org}/extraction/{house.extraction}"
        for _ in range(2):
            owner.execute("select private.enqueue('documents', 'read_document', '{}', %s)", [lock])
        first, second = (row[0] for row in owner.execute("select id from queue.procrastinate_jobs order by id"))
        # The later one is not taken ahead, nor beside.
        owner.execute(
            "update queue.procrastinate_jobs set scheduled_at = now() + interval '1 hour' where id = %s", [first]
        )
        assert claim(owner, me) is None
        owner.execute("update queue.procrastinate_jobs set scheduled_at = null")
        assert one(owner, "select id from private.claim_job('documents', %s, 1)", me) == first
        assert claim(owner, me) is None
        owner.execute("update queue.procrastinate_jobs set status = 'succeeded' where id = %s", [first])
        assert one(owner, "select id from private.claim_job('documents', %s, 1)", me) == second


def test_uploads_are_rejected_without_a_job_queue(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        owner.execute("alter function queue.procrastinate_defer_jobs_v1 rename to gone")
        with pytest.raises(psycopg.DatabaseError) as error:
            add(owner, house.org, 1)
        assert error.value.sqlstate == "PT503"


def test_every_job_lock_starts_with_the_organisation(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        locks = owner.execute("select distinct lock, task_name from queue.procrastinate_jobs").fetchall()
        assert {task for _, task in locks} == {"read_document", "execute_run", "index_document"}
        assert all(UUID(lock[:36]) in {house.org, house.other_org} and lock[36] == "/" for lock, _ in locks)


def test_claim_cost_does_not_grow_with_the_queue(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 1500)
        for _ in range(3):
            claim(owner, me)
        for places in (4, 3):  # of 3 it has all, and nobody else waits
            plan = one(
                owner,
                "explain (analyze, buffers, format json) select from private.claim_job('documents', %s, %s)",
                me,
                places,
            )
            assert plan[0]["Plan"]["Shared Hit Blocks"] < 150


# How much may wait ---------------------------------------------------------------------------------------------------


def begin(connection: psycopg.Connection, org: UUID, document: UUID, extraction: UUID) -> None:
    connection.execute(
        "insert into runs (org_id, agent, task, document_id, extraction_id) "
        "values (%s, 'extraction', 'extract', %s, %s)",
        [org, document, extraction],
    )


def test_waiting_documents_and_runs_are_limited_per_organisation(doors: Doors, house: House) -> None:
    def refused(act: Any) -> tuple[str | None, str | None]:
        with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
            act()
        return error.value.sqlstate, error.value.diag.message_detail

    def run() -> None:
        begin(owner, house.org, house.document, house.extraction)

    with doors.as_owner() as owner:
        assert refused(lambda: add(owner, house.org, 2001))[0] == "PT429"  # where nothing is set
        # What waits no longer does not count.
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        owner.execute("update runs set status = 'completed'")
        limit = "update queue_limits set max_waiting_documents = 4, max_waiting_runs = 1 where org_id = %s"
        owner.execute(limit, [house.org])
        add(owner, house.org, 4)
        run()
        assert refused(lambda: add(owner, house.org, 1))[0] == refused(run)[0] == "PT429"
        # What migrating set holds for organisations without a limit of their own.
        owner.execute("update private.queue_defaults set (runs, documents) = row(0, 8)")
        owner.execute("update queue_limits set max_waiting_runs = null where org_id = %s", [house.org])
        assert refused(lambda: add(owner, house.other_org, 9))[0] == "PT429"
        add(owner, house.other_org, 8)
        assert refused(run) == ("PT409", "queue_closed")

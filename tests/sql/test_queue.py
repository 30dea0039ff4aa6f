"""The queue is fair to organisations, bounded for each, and as quick when it is long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import Doors, House

from fieldmark.errors import TOLD_BY_SQL, DocumentFailed
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


def test_the_first_job_of_one_goes_ahead_of_the_sixtieth_of_another(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 60)
        assert [claim(owner, me) for _ in range(10)] == [house.org] * 10
        add(owner, house.other_org, 3)
        assert sorted(map(str, [claim(owner, me) for _ in range(6)])) == sorted(
            map(str, [house.org, house.other_org] * 3)
        )


def test_who_begins_later_does_not_catch_up_on_what_it_did_not_ask_for(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 60)
        assert [claim(owner, me) for _ in range(40)] == [house.org] * 40
        add(owner, house.other_org, 40)
        assert [claim(owner, me) for _ in range(40)].count(house.org) == 20


def test_the_jobs_of_one_organisation_keep_their_order(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        add(owner, house.org, 20)
        ids = [row[0] for row in owner.execute("select id from queue.procrastinate_jobs order by priority desc, id")]
        assert ids == sorted(ids)


def done(owner: psycopg.Connection, org: UUID) -> None:
    owner.execute(
        """delete from procrastinate_jobs where id = (
             select id from procrastinate_jobs where status = 'doing' and left(lock, 36) = %s limit 1)""",
        [str(org)],
    )


def test_who_waits_alone_has_every_place_and_no_more(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 10)
        assert [claim(owner, me, places=2) for _ in range(3)] == [house.org, house.org, None]
        done(owner, house.org)
        assert [claim(owner, me, places=2) for _ in range(2)] == [house.org, None]


def test_whoever_comes_waits_for_nobody_s_end_and_has_the_next_free_place(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 10)
        assert [claim(owner, me, places=2) for _ in range(2)] == [house.org] * 2
        add(owner, house.other_org, 3)
        # One place more, for one that has none; the next that becomes free makes up for it.
        assert [claim(owner, me, places=2) for _ in range(2)] == [house.other_org, None]
        done(owner, house.org)
        assert claim(owner, me, places=2) is None
        done(owner, house.org)
        assert claim(owner, me, places=2) is not None


def test_a_worker_that_has_one_place_has_one() -> None:
    assert [with_spare(places) for places in (1, 2, 4)] == [1, 3, 5]


def test_a_worker_s_places_are_taken_by_what_it_is_at_itself(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me, another = worker(owner), worker(owner)
        add(owner, house.org, 10)
        assert [claim(owner, me, places=2) for _ in range(3)] == [house.org, house.org, None]
        assert claim(owner, another, places=2) == house.org
        owner.execute("update queue.procrastinate_jobs set status = 'succeeded' where worker_id = %s", [me])
        assert claim(owner, me, places=2) == house.org


def test_a_claim_is_of_one_queue_and_so_is_a_place(doors: Doors, house: House) -> None:
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


def test_what_is_put_off_is_taken_when_its_time_has_come(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, 1)
        for off, got in (("1 hour", None), ("-1 hour", house.org)):
            owner.execute("update queue.procrastinate_jobs set scheduled_at = now() + %s::interval", [off])
            assert claim(owner, me) == got


def test_jobs_with_one_lock_are_taken_in_turn(doors: Doors, house: House) -> None:
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


def test_a_document_with_the_id_of_anothers_extraction_holds_nothing_up(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        owner.execute(
            "insert into documents (id, org_id, filename, storage_path) values (%(id)s, %(org)s, 'a', "
            "concat_ws('/', %(org)s, %(id)s, 'a'))",
            {"id": house.extraction, "org": house.other_org},
        )
        assert claim(owner, me) == house.other_org
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        owner.execute("update runs set status = 'running'")
        owner.execute("update runs set status = 'queued' where id = %s", [house.run])
        assert claim(owner, me, "runs") == house.org


def test_without_a_queue_nothing_is_taken_in(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        owner.execute("alter function queue.procrastinate_defer_jobs_v1 rename to gone")
        with pytest.raises(psycopg.DatabaseError) as error:
            add(owner, house.org, 1)
        assert error.value.sqlstate == "PT503"


def test_every_lock_begins_with_its_organisation(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        locks = owner.execute("select distinct lock, task_name from queue.procrastinate_jobs").fetchall()
        assert {task for _, task in locks} == {"read_document", "execute_run", "index_document"}
        assert all(UUID(lock[:36]) in {house.org, house.other_org} and lock[36] == "/" for lock, _ in locks)


@pytest.mark.parametrize("many", [10, 1500])
def test_a_claim_looks_at_no_more_where_more_waits(doors: Doors, house: House, many: int) -> None:
    with empty_queue(doors) as owner:
        me = worker(owner)
        add(owner, house.org, many)
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


# How much may wait ----------------------------------------------------------------------------------------------------


@contextmanager
def limited(doors: Doors, house: House, **limits: int) -> Iterator[None]:
    (column,) = limits
    set_it = f"update queue_limits set {column} = %s where org_id = %s".encode()
    doors.owner.execute(set_it, [limits[column], house.org])
    try:
        yield
    finally:
        doors.owner.execute(set_it, [None, house.org])


def upload(connection: psycopg.Connection, org: UUID) -> None:
    connection.execute(
        "insert into documents (id, org_id, filename, storage_path) values "
        "(%(id)s, %(org)s, 'a', concat_ws('/', %(org)s::uuid, %(id)s::uuid, 'a'))",
        {"id": uuid4(), "org": org},
    )


def begin(connection: psycopg.Connection, org: UUID, document: UUID, extraction: UUID) -> None:
    connection.execute(
        "insert into runs (org_id, agent, task, document_id, extraction_id) "
        "values (%s, 'extraction', 'extract', %s, %s)",
        [org, document, extraction],
    )


def test_no_more_documents_of_one_wait_than_may(doors: Doors, house: House) -> None:
    with limited(doors, house, max_waiting_documents=4):
        with doors.as_front_end(house.owner) as connection:
            upload(connection, house.org)
            upload(connection, house.org)
            with pytest.raises(psycopg.DatabaseError) as error:
                upload(connection, house.org)
        assert error.value.sqlstate == "PT429"
        with doors.as_front_end(house.stranger) as connection:
            for _ in range(5):
                upload(connection, house.other_org)


def test_no_more_runs_of_one_wait_than_may(doors: Doors, house: House) -> None:
    with limited(doors, house, max_waiting_runs=4):
        with doors.as_front_end(house.owner) as connection:
            begin(connection, house.org, house.document, house.extraction)
            with pytest.raises(psycopg.DatabaseError) as error:
                begin(connection, house.org, house.document, house.extraction)
        assert error.value.sqlstate == "PT429"
        with doors.as_front_end(house.stranger) as connection:
            for _ in range(5):
                begin(connection, house.other_org, house.other_document, house.other_extraction)


def test_what_waits_no_more_does_not_count(doors: Doors, house: House) -> None:
    with (
        limited(doors, house, max_waiting_documents=1),
        limited(doors, house, max_waiting_runs=1),
        doors.as_owner() as owner,
    ):
        owner.execute("update documents set status = 'ready', media_type = 'a', page_count = 1")
        owner.execute("update runs set status = 'completed'")
        upload(owner, house.org)
        begin(owner, house.org, house.document, house.extraction)
        for again in (
            lambda: upload(owner, house.org),
            lambda: begin(owner, house.org, house.document, house.extraction),
        ):
            with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
                again()
            assert error.value.sqlstate == "PT429"


def test_where_nothing_is_said_there_is_a_limit_too(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner, pytest.raises(psycopg.DatabaseError) as error:
        add(owner, house.org, 2001)
    assert error.value.sqlstate == "PT429"


def test_the_limit_of_all_is_what_migrating_says_and_that_of_one_comes_first(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        owner.execute("update private.most_waiting set (runs, documents) = row(0, 8)")
        owner.execute("update queue_limits set max_waiting_documents = 20 where org_id = %s", [house.other_org])
        add(owner, house.other_org, 10)
        with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
            add(owner, house.org, 10)
        assert error.value.sqlstate == "PT429"
        with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
            begin(owner, house.org, house.document, house.extraction)
        assert (error.value.sqlstate, error.value.diag.message_detail) == ("PT409", "queue_closed")


def test_a_thousand_in_one_statement_are_counted_once(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        plan = one(
            owner,
            """explain (analyze, format json) insert into documents (id, org_id, filename, storage_path)
               select id, %(org)s, 'a.txt', concat_ws('/', %(org)s, id, 'a.txt')
               from (select gen_random_uuid() as id from generate_series(1, 100)) as new""".replace(
                "%(org)s", f"'{house.org}'::uuid"
            ),
        )
        calls = {trigger["Trigger Name"]: trigger["Calls"] for trigger in plan[0]["Triggers"]}
        assert calls["check_waiting"] == 1


def test_a_document_that_waited_for_its_password_is_put_into_the_queue_again(doors: Doors, house: House) -> None:
    with empty_queue(doors) as owner:
        add(owner, house.org, 1)
        document = one(owner, "select max(id::text)::uuid from documents where org_id = %s", house.org)
        owner.execute("set local search_path = public, queue; delete from procrastinate_jobs")
        fail = "update documents set status = 'failed', error = 'E', error_code = 'password' where id = %s"
        owner.execute(fail.encode(), (document,))
        assert one(owner, "select count(*) from procrastinate_jobs") == 0
        owner.execute(
            "update documents set status = 'reading', error = null, error_code = null where id = %s", (document,)
        )
        assert one(owner, "select args ->> 'document_id' from procrastinate_jobs") == str(document)


def test_a_run_on_a_document_that_failed_just_now_is_told_so_under_its_code(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        begin(owner, house.org, house.document, house.extraction)  # it can be read
        owner.execute("set local session_replication_role = replica")
        owner.execute("delete from runs")
        fail = "update documents set status = 'failed', error = 'It is damaged.', error_code = 'damaged' where id = %s"
        owner.execute(fail.encode(), [house.document])
        owner.execute("set local session_replication_role = origin")
        with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
            begin(owner, house.org, house.document, house.extraction)
        assert error.value.sqlstate == "PT409" and error.value.diag.message_primary == "It is damaged."
        assert TOLD_BY_SQL[error.value.diag.message_detail or ""] is DocumentFailed

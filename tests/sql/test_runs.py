"""What a new run is given and what it is refused, by its task; and the threads that runs belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import Doors, House, become
from psycopg import sql
from psycopg.types.json import Jsonb


def start(connection: psycopg.Connection, house: House, **columns: Any) -> UUID:
    """A run of the house's organisation; by itself one that thinks, and needs nothing for it."""
    given = {"org_id": house.org, "agent": "talker", "task": "think", **columns}
    query = sql.SQL("insert into runs ({}) values ({}) returning id").format(
        sql.SQL(", ").join(map(sql.Identifier, given)), sql.SQL(", ").join(map(sql.Placeholder, given))
    )
    (run,) = connection.execute(query, given).fetchone() or (None,)
    assert run is not None
    return run


def row(connection: psycopg.Connection, run: UUID, columns: str) -> tuple[Any, ...]:
    found = connection.execute(f"select {columns} from runs where id = %s", [run]).fetchone()
    assert found is not None
    return found


@pytest.fixture
def member(doors: Doors, house: House) -> Iterator[psycopg.Connection]:
    """A front end's connection, as a member."""
    with doors.as_front_end(house.member) as connection:
        yield connection


@pytest.fixture
def service(doors: Doors, house: House) -> Iterator[psycopg.Connection]:
    """The service's, for the owner."""
    with doors.as_service(house.owner, house.org) as connection:
        yield connection


EXTRACT = {"agent": "extraction", "task": "extract"}


# What it is given ----------------------------------------------------------------------------------------------------


def test_new_run_gets_approval_lock_key_and_root(service: psycopg.Connection, house: House) -> None:
    subject = {"document_id": house.document, "extraction_id": house.extraction}
    thinking, auto = start(service, house), start(service, house, approval="auto")
    extracting, asking = (start(service, house, **EXTRACT, **subject, **more) for more in ({}, {"approval": "ask"}))
    talking = start(service, house, task="talk", thread_id=house.thread, document_id=house.document)
    reading = start(service, house, task="read", document_id=house.document)
    part = start(service, house, parent_run_id=talking, parent_call_id="call")
    below = start(service, house, parent_run_id=part, parent_call_id="call")
    columns = "approval, lock_key, root_run_id"
    runs = (thinking, auto, extracting, asking, talking, reading, part, below)
    assert [row(service, run, columns) for run in runs] == [
        ("ask", f"{house.org}/run/{thinking}", thinking),
        ("auto", f"{house.org}/run/{auto}", auto),
        ("auto", f"{house.org}/extraction/{house.extraction}", extracting),
        ("ask", f"{house.org}/extraction/{house.extraction}", asking),
        ("ask", f"{house.org}/thread/{house.thread}", talking),
        ("ask", f"{house.org}/run/{reading}", reading),
        ("ask", f"{house.org}/run/{part}", talking),
        ("ask", f"{house.org}/run/{below}", talking),
    ]


def test_run_without_a_document_is_enqueued_at_once(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        job = "select queue_name, task_name, lock from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        thinking = start(owner, house, created_by=house.owner)
        talking = start(owner, house, created_by=house.owner, task="talk", thread_id=house.thread, background=True)
        # Its document is still being read.
        reading = start(owner, house, created_by=house.owner, task="read", document_id=house.document)
        assert owner.execute(job, [str(thinking)]).fetchall() == [
            ("runs", "execute_run", f"{house.org}/run/{thinking}")
        ]
        assert owner.execute(job, [str(talking)]).fetchall() == [
            ("background", "execute_run", f"{house.org}/thread/{house.thread}")
        ]
        assert owner.execute(job, [str(reading)]).fetchall() == []


# What it is refused --------------------------------------------------------------------------------------------------


def refused(connection: psycopg.Connection, house: House, code: str = "PT422", **columns: Any) -> None:
    with pytest.raises(psycopg.DatabaseError) as error, connection.transaction():
        start(connection, house, **columns)
    assert error.value.sqlstate == code


@pytest.mark.parametrize(
    "columns",
    [
        {"agent": "nobody"},
        {"task": "extract"},
        {"document_id": "document"},  # thinks about nothing
        {"task": "read"},
        {"task": "read", "document_id": "document", "thread_id": "thread"},
        {**EXTRACT, "document_id": "document"},
        {"task": "talk", "thread_id": "other_thread"},
        {"parent_run_id": "other_run", "parent_call_id": "call_1"},
        {"parent_run_id": "newcomer", "parent_call_id": "call_1"},
    ],
    ids=str,
)
def test_run_without_matching_task_is_rejected(
    service: psycopg.Connection, house: House, columns: dict[str, str]
) -> None:
    refused(service, house, **{name: getattr(house, value, value) for name, value in columns.items()})


def test_large_input_and_child_of_ended_run_are_rejected(service: psycopg.Connection, house: House) -> None:
    root = start(service, house, input=Jsonb({"a": "x" * 200_000}))
    refused(service, house, input=Jsonb({"a": "x" * 262_144}))
    service.execute("select private.cancel_run(%s, 'No.')", [root])
    refused(service, house, "PT410", parent_run_id=root, parent_call_id="call")


# Threads -------------------------------------------------------------------------------------------------------------


def test_only_the_threads_creator_starts_runs_in_it(doors: Doors, house: House) -> None:
    at = "select updated_at from threads where id = %s"
    for thread in (house.thread, house.shared_thread):
        for user, can in ((house.owner, True), (house.member, False), (house.stranger, False)):
            with doors.as_service(user, house.org) as connection:
                if not can:
                    refused(connection, house, task="talk", thread_id=thread)
                    continue
                before = connection.execute(at, [thread]).fetchone() or (None,)
                start(connection, house, task="talk", thread_id=thread)
                assert before < (connection.execute(at, [thread]).fetchone() or (None,))
    with doors.as_owner() as owner:
        talk = {"task": "talk", "thread_id": house.thread, "created_by": house.owner}
        start(owner, house, **talk, document_id=house.document)  # the thread is about none
        owner.execute("update threads set document_id = %s where id = %s", [house.document, house.thread])
        start(owner, house, **talk, document_id=house.document)
        for document in (house.member_document, None):
            refused(owner, house, **talk, document_id=document)
        owner.execute("update threads set agent = 'extraction' where id = %s", [house.thread])
        refused(owner, house, **talk, document_id=house.document)


def test_child_runs_are_visible_to_readers_of_the_thread(doors: Doors, house: House) -> None:
    """Also where it is in no thread itself: it may repeat what was said there."""
    events = "select count(*) from run_events where run_id = any(%(runs)s)"
    seen = f"select count(*), ({events}) from runs where id = any(%(runs)s)"
    with doors.as_owner() as connection:
        child = start(connection, house, created_by=house.owner, parent_run_id=house.thread_run, parent_call_id="call")
        below = start(connection, house, created_by=house.owner, parent_run_id=child, parent_call_id="call")
        for run in (child, below):
            connection.execute("select private.append_event(%s, '{}')", [run])
        for user, shared, count in (
            (house.owner, False, 2),
            (house.member, False, 0),
            (house.member, True, 2),
            (house.stranger, True, 0),
        ):
            connection.execute("update threads set shared = %s where id = %s", [shared, house.thread])
            become(connection, "authenticated", {"sub": str(user)})
            # The child has an event of its own, and one that says what the run below it has told.
            assert connection.execute(seen, {"runs": [child, below]}).fetchone() == (count, count and 3)
            connection.execute("reset role")


def conversation(connection: psycopg.Connection, org: UUID) -> UUID:
    session = uuid4()
    connection.execute(
        "insert into agent_sessions (org_id, session_id, entry) values (%s, %s, '{}')",
        [org, str(session)],
    )
    return session


def kept(connection: psycopg.Connection, *sessions: UUID) -> list[bool]:
    query = "select exists (select from agent_sessions where session_id = %s)"
    return [(connection.execute(query, [str(session)]).fetchone() or (None,))[0] for session in sessions]


def test_conversation_is_deleted_when_its_run_ends_or_is_deleted(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        completed, in_thread, removed, open_, elsewhere = (conversation(owner, house.org) for _ in range(5))
        talk = {"created_by": house.owner, "task": "talk", "thread_id": house.thread}
        first, second, third, fourth = (start(owner, house, **talk) for _ in range(4))
        alone = start(owner, house, created_by=house.owner)
        for run, session in ((alone, completed), (first, in_thread), (second, removed), (third, open_)):
            owner.execute("update runs set session_id = %s where id = %s", [session, run])
        # A session's id does not keep two organisations' conversations apart.
        same = "insert into agent_sessions (org_id, session_id, entry) values (%s, %s, '{}')"
        owner.execute(same, [house.other_org, str(completed)])
        owner.execute("update runs set status = 'completed', finished_at = now() where id = any (%s)", [[alone, first]])
        owner.execute("delete from runs where id = any(%s)", [[second, fourth]])
        assert kept(owner, completed, in_thread, removed, open_, elsewhere) == [True, False, False, True, True]
        query = "select org_id from agent_sessions where session_id = %s"
        assert owner.execute(query, [str(completed)]).fetchall() == [(house.other_org,)]
        owner.execute("delete from threads where id = %s", [house.thread])
        assert kept(owner, open_, elsewhere) == [False, True]


def test_thread_state_is_written_only_by_the_service(doors: Doors, house: House) -> None:
    """Also for who decides a call of somebody else's shared thread. What was remembered before stays."""
    keep = "select private.save_thread_state(%s, %s)"
    state = "select working_state from threads where id = %s"
    with doors.as_service(house.owner, house.org) as server:
        server.execute(keep, [house.thread, '{"mine": 1}'])
        server.execute(keep, [house.thread, '{"more": 2}'])
        assert server.execute(state, [house.thread]).fetchone() == ({"mine": 1, "more": 2},)
    with doors.as_service(house.member, house.org) as server:
        server.execute(keep, [house.shared_thread, '{"decided": 1}'])
        ((kept,),) = server.execute(state, [house.shared_thread]).fetchall()
        assert kept["decided"] == 1
    for enter, thread in (
        (doors.as_service(house.member, house.org), house.thread),
        (doors.as_service(house.viewer, house.org), house.shared_thread),
        (doors.as_service(house.stranger, house.other_org), house.shared_thread),
        (doors.as_front_end(house.owner), house.thread),
    ):
        with enter as refused, pytest.raises(psycopg.DatabaseError) as error:
            refused.execute(keep, [thread, '{"mine": 2}'])
        assert error.value.sqlstate == "PT404"

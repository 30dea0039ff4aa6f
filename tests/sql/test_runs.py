"""New runs: the values they get and what is rejected, by task; and the threads they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample, set_role


def start(connection: psycopg.Connection, sample: Sample, **columns: Any) -> UUID:
    """Insert a run in the sample organisation. The default task needs nothing."""
    given = {"org_id": sample.org, "agent": "talker", "task": "think", **columns}
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
def member(roles: Roles, sample: Sample) -> Iterator[psycopg.Connection]:
    with roles.as_front_end(sample.member) as connection:
        yield connection


@pytest.fixture
def service(roles: Roles, sample: Sample) -> Iterator[psycopg.Connection]:
    with roles.as_service(sample.owner, sample.org) as connection:
        yield connection


EXTRACT = {"agent": "extraction", "task": "extract"}


# Defaults ------------------------------------------------------------------------------------------------------------


def test_new_run_gets_approval_lock_key_and_root(service: psycopg.Connection, sample: Sample) -> None:
    subject = {"document_id": sample.document, "extraction_id": sample.extraction}
    thinking, auto = start(service, sample), start(service, sample, approval="auto")
    extracting, asking = (start(service, sample, **EXTRACT, **subject, **more) for more in ({}, {"approval": "ask"}))
    talking = start(service, sample, task="talk", thread_id=sample.thread, document_id=sample.document)
    reading = start(service, sample, task="read", document_id=sample.document)
    part = start(service, sample, parent_run_id=talking, parent_call_id="call")
    grandchild = start(service, sample, parent_run_id=part, parent_call_id="call")
    columns = "approval, lock_key, root_run_id"
    runs = (thinking, auto, extracting, asking, talking, reading, part, grandchild)
    assert [row(service, run, columns) for run in runs] == [
        ("ask", f"{sample.org}/run/{thinking}", thinking),
        ("auto", f"{sample.org}/run/{auto}", auto),
        ("auto", f"{sample.org}/extraction/{sample.extraction}", extracting),
        ("ask", f"{sample.org}/extraction/{sample.extraction}", asking),
        ("ask", f"{sample.org}/thread/{sample.thread}", talking),
        ("ask", f"{sample.org}/run/{reading}", reading),
        ("ask", f"{sample.org}/run/{part}", talking),
        ("ask", f"{sample.org}/run/{grandchild}", talking),
    ]


def test_run_without_a_document_is_enqueued_at_once(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        job = "select queue_name, task_name, lock from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        thinking = start(owner, sample, created_by=sample.owner)
        talking = start(owner, sample, created_by=sample.owner, task="talk", thread_id=sample.thread, background=True)
        # The document is still being read.
        reading = start(owner, sample, created_by=sample.owner, task="read", document_id=sample.document)
        assert owner.execute(job, [str(thinking)]).fetchall() == [
            ("runs", "execute_run", f"{sample.org}/run/{thinking}")
        ]
        assert owner.execute(job, [str(talking)]).fetchall() == [
            ("background", "execute_run", f"{sample.org}/thread/{sample.thread}")
        ]
        assert owner.execute(job, [str(reading)]).fetchall() == []


# Rejected runs -------------------------------------------------------------------------------------------------------


def assert_rejected(connection: psycopg.Connection, sample: Sample, code: str = "PT422", **columns: Any) -> None:
    with pytest.raises(psycopg.DatabaseError) as error, connection.transaction():
        start(connection, sample, **columns)
    assert error.value.sqlstate == code


@pytest.mark.parametrize(
    "columns",
    [
        {"agent": "unknown"},
        {"task": "extract"},
        {"document_id": "document"},  # takes no document
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
    service: psycopg.Connection, sample: Sample, columns: dict[str, str]
) -> None:
    assert_rejected(service, sample, **{name: getattr(sample, value, value) for name, value in columns.items()})


def test_unknown_large_and_deep_input_and_child_of_ended_run_are_rejected(
    service: psycopg.Connection, sample: Sample
) -> None:
    root = start(service, sample, input=Jsonb({"a": "x" * 200_000}))
    assert_rejected(service, sample, input=Jsonb({"a": "x" * 262_144}))
    deep = {levels: '{"a":' * levels + "1" + "}" * levels for levels in (32, 33, 3_000)}
    start(service, sample, input=deep[32])
    for levels in (33, 3_000):  # Python's JSON parser reads a thousand
        assert_rejected(service, sample, input=deep[levels])
    subject = {"document_id": sample.document, "extraction_id": sample.extraction}
    start(service, sample, **EXTRACT, **subject, input=Jsonb({"instructions": "Net."}))
    assert_rejected(service, sample, **EXTRACT, **subject, input=Jsonb({"columns": [{"name": "a"}]}))
    service.execute("select private.cancel_run(%s, 'No.')", [root])
    assert_rejected(service, sample, "PT410", parent_run_id=root, parent_call_id="call")


# Threads -------------------------------------------------------------------------------------------------------------


def test_only_the_threads_creator_starts_runs_in_it(roles: Roles, sample: Sample) -> None:
    at = "select updated_at from threads where id = %s"
    for thread in (sample.thread, sample.shared_thread):
        for user, can in ((sample.owner, True), (sample.member, False), (sample.stranger, False)):
            with roles.as_service(user, sample.org) as connection:
                if not can:
                    assert_rejected(connection, sample, task="talk", thread_id=thread)
                    continue
                before = connection.execute(at, [thread]).fetchone() or (None,)
                start(connection, sample, task="talk", thread_id=thread)
                assert before < (connection.execute(at, [thread]).fetchone() or (None,))
    with roles.as_owner() as owner:
        talk = {"task": "talk", "thread_id": sample.thread, "created_by": sample.owner}
        start(owner, sample, **talk, document_id=sample.document)  # the thread has no document
        owner.execute("update threads set document_id = %s where id = %s", [sample.document, sample.thread])
        start(owner, sample, **talk, document_id=sample.document)
        for document in (sample.member_document, None):
            assert_rejected(owner, sample, **talk, document_id=document)
        owner.execute("update threads set agent = 'extraction' where id = %s", [sample.thread])
        assert_rejected(owner, sample, **talk, document_id=sample.document)


def test_child_runs_are_visible_to_readers_of_the_thread(roles: Roles, sample: Sample) -> None:
    events = "select count(*) from run_events where run_id = any(%(runs)s)"
    seen = f"select count(*), ({events}) from runs where id = any(%(runs)s)"
    with roles.as_owner() as connection:
        child = start(
            connection, sample, created_by=sample.owner, parent_run_id=sample.thread_run, parent_call_id="call"
        )
        grandchild = start(connection, sample, created_by=sample.owner, parent_run_id=child, parent_call_id="call")
        for run in (child, grandchild):
            connection.execute("select private.append_event(%s, '{}')", [run])
        for user, shared, count in (
            (sample.owner, False, 2),
            (sample.member, False, 0),
            (sample.member, True, 2),
            (sample.stranger, True, 0),
        ):
            connection.execute("update threads set shared = %s where id = %s", [shared, sample.thread])
            set_role(connection, "authenticated", {"sub": str(user)})
            # The child has one event of its own and one copied from its own child.
            assert connection.execute(seen, {"runs": [child, grandchild]}).fetchone() == (count, count and 3)
            connection.execute("reset role")


def insert_session(connection: psycopg.Connection, org: UUID) -> UUID:
    session = uuid4()
    connection.execute(
        "insert into agent_sessions (org_id, session_id, entry) values (%s, %s, '{}')", [org, str(session)]
    )
    return session


def sessions_exist(connection: psycopg.Connection, *sessions: UUID) -> list[bool]:
    query = "select exists (select from agent_sessions where session_id = %s)"
    return [(connection.execute(query, [str(session)]).fetchone() or (None,))[0] for session in sessions]


def test_conversation_is_deleted_when_its_run_ends_or_is_deleted(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        completed, in_thread, removed, open_, elsewhere = (insert_session(owner, sample.org) for _ in range(5))
        talk = {"created_by": sample.owner, "task": "talk", "thread_id": sample.thread}
        first, second, third, fourth = (start(owner, sample, **talk) for _ in range(4))
        alone = start(owner, sample, created_by=sample.owner)
        for run, session in ((alone, completed), (first, in_thread), (second, removed), (third, open_)):
            owner.execute("update runs set session_id = %s where id = %s", [session, run])
        # The same session id in another organisation.
        same = "insert into agent_sessions (org_id, session_id, entry) values (%s, %s, '{}')"
        owner.execute(same, [sample.other_org, str(completed)])
        owner.execute("update runs set status = 'completed', finished_at = now() where id = any (%s)", [[alone, first]])
        owner.execute("delete from runs where id = any(%s)", [[second, fourth]])
        assert sessions_exist(owner, completed, in_thread, removed, open_, elsewhere) == [
            True,
            False,
            False,
            True,
            True,
        ]
        query = "select org_id from agent_sessions where session_id = %s"
        assert owner.execute(query, [str(completed)]).fetchall() == [(sample.other_org,)]
        owner.execute("delete from threads where id = %s", [sample.thread])
        assert sessions_exist(owner, open_, elsewhere) == [False, True]


def test_thread_state_is_written_only_by_the_service(roles: Roles, sample: Sample) -> None:
    update = "select private.save_thread_state(%s, %s)"
    state = "select working_state from threads where id = %s"
    with roles.as_service(sample.owner, sample.org) as server:
        server.execute(update, [sample.thread, '{"mine": 1}'])
        server.execute(update, [sample.thread, '{"more": 2}'])
        assert server.execute(state, [sample.thread]).fetchone() == ({"mine": 1, "more": 2},)
    with roles.as_service(sample.member, sample.org) as server:
        server.execute(update, [sample.shared_thread, '{"decided": 1}'])
        ((sessions_exist,),) = server.execute(state, [sample.shared_thread]).fetchall()
        assert sessions_exist["decided"] == 1
    for enter, thread in (
        (roles.as_service(sample.member, sample.org), sample.thread),
        (roles.as_service(sample.viewer, sample.org), sample.shared_thread),
        (roles.as_service(sample.stranger, sample.other_org), sample.shared_thread),
        (roles.as_front_end(sample.owner), sample.thread),
    ):
        with enter as assert_rejected, pytest.raises(psycopg.DatabaseError) as error:
            assert_rejected.execute(update, [thread, '{"mine": 2}'])
        assert error.value.sqlstate == "PT404"

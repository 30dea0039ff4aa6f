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


def test_a_run_asks_a_person_where_its_agent_does_and_nothing_else_is_said(
    member: psycopg.Connection, house: House
) -> None:
    subject = {"document_id": house.document, "extraction_id": house.extraction}
    approvals = [
        row(member, start(member, house, **columns), "approval")[0]
        for columns in ({}, {"approval": "auto"}, {**EXTRACT, **subject}, {**EXTRACT, **subject, "approval": "ask"})
    ]
    assert approvals == ["ask", "auto", "auto", "ask"]


def test_the_lock_key_names_what_a_run_is_about_and_begins_with_its_organisation(
    service: psycopg.Connection, house: House
) -> None:
    extracting = start(service, house, **EXTRACT, document_id=house.document, extraction_id=house.extraction)
    talking = start(service, house, task="talk", thread_id=house.thread, document_id=house.document)
    reading = start(service, house, task="read", document_id=house.document)
    thinking = start(service, house)
    assert [row(service, run, "lock_key, root_run_id") for run in (extracting, talking, reading, thinking)] == [
        (f"{house.org}/extraction/{house.extraction}", extracting),
        (f"{house.org}/thread/{house.thread}", talking),
        (f"{house.org}/run/{reading}", reading),
        (f"{house.org}/run/{thinking}", thinking),
    ]


def test_a_run_without_a_document_is_enqueued_at_once(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        job = "select queue_name, task_name, lock from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        thinking = start(owner, house, created_by=house.owner)
        talking = start(owner, house, created_by=house.owner, task="talk", thread_id=house.thread, background=True)
        # The document is still being read.
        reading = start(owner, house, created_by=house.owner, task="read", document_id=house.document)
        assert owner.execute(job, [str(thinking)]).fetchall() == [
            ("runs", "execute_run", f"{house.org}/run/{thinking}")
        ]
        assert owner.execute(job, [str(talking)]).fetchall() == [
            ("background", "execute_run", f"{house.org}/thread/{house.thread}")
        ]
        assert owner.execute(job, [str(reading)]).fetchall() == []


@pytest.mark.parametrize("status", ["ready", "failed"])
def test_a_run_waits_until_its_document_is_read_and_fails_with_it(doors: Doors, house: House, status: str) -> None:
    with doors.as_owner() as owner:
        reading = start(owner, house, created_by=house.owner, task="read", document_id=house.document)
        elsewhere = start(owner, house, created_by=house.owner, task="read", document_id=house.member_document)
        owner.execute(
            "update documents set status = %s, media_type = 'a/b', page_count = 1, error = %s, error_code = %s "
            "where id = %s",
            [status, *(("No.", "damaged") if status == "failed" else (None, None)), house.document],
        )
        jobs = owner.execute("select args ->> 'run_id' from queue.procrastinate_jobs").fetchall()
        assert ((str(reading),) in jobs) == (status == "ready")
        assert row(owner, reading, "status, error, error_code") == (
            ("queued", None, None) if status == "ready" else ("failed", "No.", "document_failed")
        )
        assert (str(elsewhere),) not in jobs and row(owner, elsewhere, "status") == ("queued",)


def test_the_jobs_of_a_document_are_locked_by_organisation_and_document(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        job = "select lock from queue.procrastinate_jobs where args ->> 'document_id' = %s"
        assert owner.execute(job, [str(house.document)]).fetchone() == (f"{house.org}/document/{house.document}",)


def test_a_part_has_the_root_of_what_it_is_part_of(service: psycopg.Connection, house: House) -> None:
    root = start(service, house)
    child = start(service, house, parent_run_id=root, parent_call_id="call")
    grandchild = start(service, house, parent_run_id=child, parent_call_id="call")
    assert [row(service, run, "root_run_id, parent_run_id") for run in (root, child, grandchild)] == [
        (root, None),
        (root, root),
        (root, child),
    ]


# What it is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        {"agent": "nobody"},
        {"task": "extract"},
        {"agent": "extraction"},
        {"document_id": "document"},  # thinks about nothing
        {"task": "read"},
        {"task": "read", "document_id": "document", "thread_id": "thread"},
        {"task": "talk", "document_id": "document"},
        {**EXTRACT, "document_id": "document"},
        {**EXTRACT, "extraction_id": "extraction"},
        {**EXTRACT, "document_id": "document", "extraction_id": "extraction", "thread_id": "thread"},
        {"task": "talk", "thread_id": "other_thread"},
        {"parent_run_id": "other_run", "parent_call_id": "call_1"},
        {"parent_run_id": "newcomer", "parent_call_id": "call_1"},
    ],
    ids=str,
)
def test_what_fits_no_task_is_refused(service: psycopg.Connection, house: House, columns: dict[str, str]) -> None:
    given = {name: getattr(house, value, value) for name, value in columns.items()}
    with pytest.raises(psycopg.DatabaseError) as error:
        start(service, house, **given)
    assert error.value.sqlstate == "PT422"


def test_a_thread_is_for_its_own_agent_and_its_own_user(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        owner.execute("insert into private.agents (name, approval) values ('chatter', 'ask')")
        owner.execute(
            "insert into private.agent_tasks (agent, task, needs, may_have, speaks) "
            "values ('chatter', 'talk', '{thread_id}', '{}', false)"
        )
        talk = {"task": "talk", "thread_id": house.shared_thread}
        for columns in ({"agent": "chatter", "created_by": house.owner}, {"created_by": house.member}):
            with pytest.raises(psycopg.DatabaseError) as error, owner.transaction():
                start(owner, house, **talk, **columns)
            assert error.value.sqlstate == "PT422"
        start(owner, house, **talk, created_by=house.owner)


def test_a_run_is_no_part_of_one_that_has_ended(service: psycopg.Connection, house: House) -> None:
    root = start(service, house)
    service.execute("select private.cancel_run(%s, 'No.')", [root])
    with pytest.raises(psycopg.DatabaseError) as error:
        start(service, house, parent_run_id=root, parent_call_id="call")
    assert error.value.sqlstate == "PT410"


@pytest.mark.parametrize(
    ("text", "code"), [("x" * 200_000, None), ("x" * 262_144, "PT422"), (None, psycopg.errors.CheckViolation)]
)
def test_an_input_is_an_object_of_at_most_256_kb(
    member: psycopg.Connection, house: House, text: str | None, code: Any
) -> None:
    if code is None:
        assert row(member, start(member, house, input=Jsonb({"a": text})), "input") == ({"a": text},)
        return
    with pytest.raises(psycopg.DatabaseError if isinstance(code, str) else code) as error:
        start(member, house, input=Jsonb([1] if text is None else {"a": text}))
    assert not isinstance(code, str) or error.value.sqlstate == code


def test_a_run_has_an_agent_and_a_task_that_it_names_itself(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        defaults = owner.execute(
            "select column_name, column_default, is_nullable from information_schema.columns "
            "where table_name = 'runs' and column_name in ('agent', 'task', 'approval', 'root_run_id', 'lock_key')"
        ).fetchall()
        assert sorted(defaults) == [
            (name, None, "NO") for name in ("agent", "approval", "lock_key", "root_run_id", "task")
        ]


# Threads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ["thread", "shared_thread"])
def test_only_its_maker_starts_runs_in_a_thread(doors: Doors, house: House, thread: str) -> None:
    """Whoever did would lead the conversation of another."""
    for user, can in ((house.owner, True), (house.member, False), (house.stranger, False)):
        for enter in (doors.as_front_end(user), doors.as_service(user, house.org)):
            with enter as connection:
                columns = {"task": "talk", "thread_id": getattr(house, thread)}
                if can:
                    start(connection, house, **columns)
                    continue
                with pytest.raises(psycopg.DatabaseError) as error:
                    start(connection, house, **columns)
                assert error.value.sqlstate == "PT422"


def test_a_run_in_a_thread_moves_its_time_and_a_front_end_does_not_write_what_it_keeps(
    doors: Doors, house: House
) -> None:
    with doors.as_front_end(house.owner) as owner:
        at = "select updated_at from threads where id = %s"
        before = owner.execute(at, [house.thread]).fetchone()
        start(owner, house, task="talk", thread_id=house.thread)
        after = owner.execute(at, [house.thread]).fetchone()
        assert before is not None and after is not None and before < after
        for change in ("session_id = null", "working_state = '{\"a\": 1}'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), owner.transaction():
                owner.execute(f"update threads set {change} where id = %s", [house.thread])


def test_a_thread_is_about_a_document_of_its_organisation_and_goes_with_it(doors: Doors, house: House) -> None:
    insert = "insert into threads (org_id, agent, document_id) values (%s, 'talker', %s) returning id"
    with doors.as_front_end(house.owner) as owner:
        with pytest.raises(psycopg.errors.ForeignKeyViolation), owner.transaction():
            owner.execute(insert, [house.org, house.other_document])
        (thread,) = owner.execute(insert, [house.org, house.document]).fetchone() or (None,)
        owner.execute("select delete_document(%s)", [house.document])
        assert owner.execute("select from threads where id = %s", [thread]).fetchall() == []


def test_what_is_part_of_a_run_in_a_thread_is_seen_by_whoever_sees_the_thread(doors: Doors, house: House) -> None:
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


def conversation(connection: psycopg.Connection, house: House, session: UUID) -> None:
    connection.execute(
        "insert into agent_sessions (org_id, project, session_id, entry) values (%s, 'runs', %s, '{}')",
        [house.org, str(session)],
    )


def kept(connection: psycopg.Connection, *sessions: UUID) -> list[bool]:
    query = "select exists (select from agent_sessions where session_id = %s)"
    return [(connection.execute(query, [str(session)]).fetchone() or (None,))[0] for session in sessions]


def test_a_conversation_goes_with_its_run_and_that_of_a_thread_with_the_thread(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        of_run, of_thread, before, broken = (uuid4() for _ in range(4))
        for session in (of_run, of_thread, before, broken):
            conversation(owner, house, session)
        alone = start(owner, house, created_by=house.owner)
        talk = {"created_by": house.owner, "task": "talk", "thread_id": house.thread}
        first, second, third, lost = (start(owner, house, **talk) for _ in range(4))
        sessions = ((alone, of_run), (first, of_thread), (second, before), (third, before), (lost, broken))
        for run, session in sessions:
            owner.execute("update runs set session_id = %s where id = %s", [session, run])
        owner.execute("update threads set session_id = %s where id = %s", [of_thread, house.thread])
        owner.execute("delete from runs where id = any(%s)", [[alone, first, second, lost]])
        # The thread is still in one of them, and so is another of its runs.
        assert kept(owner, of_run, of_thread, before, broken) == [False, True, True, False]
        owner.execute("delete from threads where id = %s", [house.thread])
        assert kept(owner, of_thread, before) == [False, False]


def test_a_conversation_of_the_same_name_elsewhere_stays(doors: Doors, house: House) -> None:
    """A session's id is no secret that would keep it apart."""
    with doors.as_owner() as owner:
        session = uuid4()
        for org in (house.org, house.other_org):
            owner.execute(
                "insert into agent_sessions (org_id, project, session_id, entry) values (%s, 'runs', %s, '{}')",
                [org, str(session)],
            )
        run = start(owner, house, created_by=house.owner)
        owner.execute("update runs set session_id = %s where id = %s", [session, run])
        owner.execute("delete from runs where id = %s", [run])
        left = "select org_id from agent_sessions where session_id = %s"
        assert owner.execute(left, [str(session)]).fetchall() == [(house.other_org,)]
        conversation(owner, house, session)
        owner.execute("update threads set session_id = %s where id = %s", [session, house.thread])
        owner.execute("delete from threads where id = %s", [house.thread])
        assert owner.execute(left, [str(session)]).fetchall() == [(house.other_org,)]


def test_a_conversation_is_kept_for_its_own_thread_alone(doors: Doors, house: House) -> None:
    """One that is led under the same name in another thread, or by a run of that, keeps nothing of this one."""
    talk = {"created_by": house.owner, "task": "talk", "thread_id": house.thread}
    for led_by in ("threads", "runs"):
        with doors.as_owner() as owner:
            session = uuid4()
            conversation(owner, house, session)
            run = start(owner, house, **talk)
            owner.execute("update runs set session_id = %s where id = %s", [session, run])
            other = house.other_thread if led_by == "threads" else house.other_thread_run
            owner.execute(f"update {led_by} set session_id = %s where id = %s", [session, other])
            owner.execute("delete from runs where id = %s", [run])
            assert kept(owner, session) == [False]


def test_the_sweep_forgets_a_thread_s_conversation_when_nothing_has_happened_in_it(doors: Doors, house: House) -> None:
    with doors.as_owner() as owner:
        of_thread, of_run = uuid4(), uuid4()
        for session in (of_thread, of_run):
            conversation(owner, house, session)
        talk = {"created_by": house.owner, "task": "talk", "thread_id": house.thread}
        talking, alone = start(owner, house, **talk), start(owner, house, created_by=house.owner)
        ended = "update runs set status = 'completed', finished_at = now() - interval '2 days', session_id = %s "
        for run, session in ((talking, of_thread), (alone, of_run)):
            owner.execute(ended + "where id = %s", [session, run])
        owner.execute("update runs set status = 'completed' where id = %s", [house.thread_run])
        owner.execute("update threads set session_id = %s where id = %s", [of_thread, house.thread])
        forget = "select private.forget_runs(%(keep)s), private.forget_idle_threads(%(keep)s)"
        owner.execute(forget, {"keep": "1 day"})
        assert kept(owner, of_thread, of_run) == [True, False]
        owner.execute("alter table threads disable trigger check_thread")
        owner.execute("update threads set updated_at = now() - interval '2 days' where id = %s", [house.thread])
        # Not while a run of it goes on.
        owner.execute("update runs set status = 'awaiting_runs', waiting_call = 'c' where id = %s", [talking])
        owner.execute(forget, {"keep": "1 day"})
        assert kept(owner, of_thread) == [True]
        owner.execute("update runs set status = 'completed' where id = %s", [talking])
        owner.execute(forget, {"keep": None})
        assert kept(owner, of_thread) == [True]
        owner.execute(forget, {"keep": "1 day"})
        assert kept(owner, of_thread) == [False]


def test_what_its_runs_keep_in_a_thread_is_kept_by_the_service_for_whoever_sees_it(doors: Doors, house: House) -> None:
    """Also for who decides a call of somebody else's shared thread. What was remembered before stays."""
    keep = "select private.keep_in_thread(%s, null, %s)"
    state = "select working_state from threads where id = %s"
    with doors.as_service(house.owner, house.org) as served:
        served.execute(keep, [house.thread, '{"mine": 1}'])
        served.execute(keep, [house.thread, '{"more": 2}'])
        assert served.execute(state, [house.thread]).fetchone() == ({"mine": 1, "more": 2},)
    with doors.as_service(house.member, house.org) as served:
        served.execute(keep, [house.shared_thread, '{"decided": 1}'])
        ((kept,),) = served.execute(state, [house.shared_thread]).fetchall()
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


@pytest.mark.parametrize("title", ["", " a", "a\nb", "a\u202eb", "a\u200bb", "\x1b[2J", "x" * 201])
def test_a_title_is_one_line_that_is_seen(doors: Doors, house: House, title: str) -> None:
    with doors.as_front_end(house.owner) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("update threads set title = %s where id = %s", [title, house.thread])


@pytest.mark.parametrize("status", ["awaiting_approval", "awaiting_runs"])
def test_a_message_that_waits_behind_a_turn_goes_on_when_that_has_ended(
    doors: Doors, house: House, status: str
) -> None:
    with doors.as_owner() as connection:
        turn = {"task": "talk", "thread_id": house.thread, "created_by": house.owner}
        first, second = start(connection, house, **turn), start(connection, house, **turn)
        behind = "private.waits_behind(runs), held_at is not null"
        connection.execute("update runs set status = 'completed' where id = %s", [house.thread_run])
        assert row(connection, second, behind) == (first, False)
        # What is about the same and not in the thread, or part of the turn itself, does not wait for it.
        part = start(connection, house, **turn, parent_run_id=first, parent_call_id="call")
        connection.execute("update runs set status = %s, waiting_call = 'call' where id = %s", [status, first])
        connection.execute("update runs set held_at = now() where id = %s", [second])
        connection.execute("set constraints all immediate")
        assert row(connection, second, behind) == (first, True)
        assert row(connection, part, behind) == (second, False)
        for ended, still in ((part, (first, True)), (first, (None, False))):
            connection.execute("update runs set status = 'cancelled' where id = %s", [ended])
            connection.execute("set constraints all immediate")
            assert row(connection, second, behind) == still

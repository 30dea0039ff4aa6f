"""Two at once: whatever the order of commits, nothing is lost, doubled or left waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import become
from pairs import Pair


def launch(pair: Pair, run: UUID) -> Callable[[psycopg.Connection], None]:
    def insert(connection: psycopg.Connection) -> None:
        connection.execute(
            "insert into runs (id, org_id, agent, task, document_id, extraction_id) "
            "values (%s, %s, 'extraction', 'extract', %s, %s)",
            [run, pair.house.org, pair.house.document, pair.house.extraction],
        )

    return insert


def end_reading(pair: Pair, status: str) -> Callable[[psycopg.Connection], None]:
    found = {
        "ready": "status = 'ready', media_type = 'application/pdf', page_count = 1",
        "failed": "status = 'failed', error = 'It is encrypted.'",
    }[status]

    def update(connection: psycopg.Connection) -> None:
        connection.execute(f"update documents set {found} where id = %s", [pair.house.document])

    return update


def job_of(pair: Pair, run: UUID) -> tuple[Any, ...]:
    return ("execute_run", {"run_id": str(run)}, f"{pair.house.org}/extraction/{pair.house.extraction}")


def status_of(pair: Pair, run: UUID) -> tuple[Any, ...] | None:
    return pair.watch.execute("select status, error from runs where id = %s", [run]).fetchone()


def test_a_run_launched_while_the_reading_ends_well_is_started_once(pair: Pair) -> None:
    run = uuid4()
    pair.meanwhile(end_reading(pair, "ready"), launch(pair, run))
    assert pair.jobs() == [job_of(pair, pair.house.run), job_of(pair, run)]


def test_a_reading_that_ends_well_while_a_run_is_launched_starts_it_once(pair: Pair) -> None:
    run = uuid4()
    pair.meanwhile(launch(pair, run), end_reading(pair, "ready"))
    assert pair.jobs() == [job_of(pair, pair.house.run), job_of(pair, run)]


def test_a_run_launched_while_the_reading_fails_is_refused_with_the_reason(pair: Pair) -> None:
    run = uuid4()
    with pytest.raises(psycopg.DatabaseError, match=r"^It is encrypted\.") as error:
        pair.meanwhile(end_reading(pair, "failed"), launch(pair, run))
    assert error.value.sqlstate == "PT409"
    assert status_of(pair, run) is None
    # The one that had been waiting for the reading has failed with it, and says so in its events.
    assert status_of(pair, pair.house.run) == ("failed", "It is encrypted.")
    assert pair.jobs() == []


def test_a_reading_that_fails_while_a_run_is_launched_fails_it(pair: Pair) -> None:
    run = uuid4()
    pair.meanwhile(launch(pair, run), end_reading(pair, "failed"))
    assert status_of(pair, run) == ("failed", "It is encrypted.")
    assert pair.watch.execute("select number, body from run_events where run_id = %s", [run]).fetchall() == [
        (1, {"type": "error", "error": "It is encrypted.", "code": "document_failed", "run_id": str(run)})
    ]
    assert pair.jobs() == []


def test_a_run_of_a_document_that_is_ready_starts_at_once_and_one_being_read_waits(pair: Pair) -> None:
    waiting, ready = uuid4(), uuid4()
    with pair.acting(pair.first):
        launch(pair, waiting)(pair.first)
    assert pair.jobs() == []
    with pair.acting(pair.first):
        end_reading(pair, "ready")(pair.first)
        launch(pair, ready)(pair.first)
    assert pair.jobs() == [job_of(pair, run) for run in (pair.house.run, waiting, ready)]


def test_what_is_rolled_back_is_not_in_the_queue(pair: Pair) -> None:
    with pair.acting(pair.first):
        end_reading(pair, "ready")(pair.first)
    before = pair.jobs()
    with pytest.raises(ZeroDivisionError), pair.acting(pair.first):
        launch(pair, uuid4())(pair.first)
        raise ZeroDivisionError
    assert pair.jobs() == before


def test_two_events_at_once_are_numbered_in_the_order_of_their_commits(pair: Pair) -> None:
    def append(connection: psycopg.Connection) -> Any:
        return connection.execute("select private.append_event(%s, '{}')", [pair.house.run]).fetchone()

    assert pair.meanwhile(append, append) == (3,)  # the house has one
    numbers = pair.watch.execute("select number from run_events where run_id = %s order by 1", [pair.house.run])
    assert numbers.fetchall() == [(1,), (2,), (3,)]


def test_two_updates_at_once_are_both_kept(pair: Pair) -> None:
    def update(field: str) -> Callable[[psycopg.Connection], Any]:
        return lambda connection: connection.execute(
            "select update_extraction_field(%s, %s, '1', 0.5) - 'changed'", [pair.house.extraction, [field]]
        ).fetchone()

    # The house made version 1.
    assert pair.meanwhile(update("a"), update("b")) == ({"path": "b", "value": 1, "version": 3},)
    row = pair.watch.execute(
        "select extracted_fields ->> 'a', extracted_fields ->> 'b', confidence_scores, private.fields_at(id, 3) = "
        "extracted_fields, private.fields_at(id, 2) = extracted_fields - 'b' from extractions where id = %s",
        [pair.house.extraction],
    ).fetchone()
    assert row == ("1", "1", {"a": 0.5, "b": 0.5}, True, True)


def test_two_removals_at_once_remove_two_items(pair: Pair) -> None:
    pair.watch.execute(
        "update extractions set extracted_fields = '{\"items\": [1, 2, 3]}' where id = %s", [pair.house.extraction]
    )

    def remove(connection: psycopg.Connection) -> Any:
        row = connection.execute(
            "select remove_extraction_field(%s, '{items,0}') -> 'removed'", [pair.house.extraction]
        ).fetchone()
        return row and row[0]

    assert pair.meanwhile(remove, remove) == 2


def test_of_two_decisions_at_once_one_counts(pair: Pair) -> None:
    def decide(accepted: bool) -> Callable[[psycopg.Connection], Any]:
        return lambda connection: connection.execute(
            "select decide_extraction_proposal(%s, %s, %s)", [pair.house.extraction, pair.house.proposal, accepted]
        ).fetchone()

    with pytest.raises(psycopg.DatabaseError, match=r"^The proposal for total is accepted already\.") as error:
        pair.meanwhile(decide(True), decide(False))
    assert error.value.sqlstate == "PT409"
    total = "select extracted_fields -> 'total' from extractions where id = %s"
    assert pair.watch.execute(total, [pair.house.extraction]).fetchone() == (13,)


def test_an_agent_that_writes_while_a_person_does_proposes(pair: Pair) -> None:
    def person(connection: psycopg.Connection) -> Any:
        connection.execute("select update_extraction_field(%s, '{total}', '20')", [pair.house.extraction])

    def agent(connection: psycopg.Connection) -> Any:
        connection.execute(
            "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', 'c', true)",
            [str(pair.house.run)],
        )
        return connection.execute(
            "select update_extraction_field(%s, '{total}', '21') -> 'proposed'", [pair.house.extraction]
        ).fetchone()

    assert pair.meanwhile(person, agent) == (["total"],)


def test_two_first_requests_at_once_make_one_organisation(pair: Pair) -> None:
    user = uuid4()

    def enter(connection: psycopg.Connection) -> Any:
        become(connection, "authenticated", {"sub": str(user)})
        return connection.execute("select private.enter()").fetchone()

    (organisation,) = pair.meanwhile(enter, enter)
    assert pair.watch.execute("select org_id, role from memberships where user_id = %s", [user]).fetchall() == [
        (organisation, "owner")
    ]
    assert pair.watch.execute("select id from organisations where personal_of = %s", [user]).fetchall() == [
        (organisation,)
    ]


def test_starting_a_run_does_not_wait_for_a_field_being_written(pair: Pair) -> None:
    """A foreign key asks for no more than that the extraction goes on existing."""
    with pair.acting(pair.first) as first:
        first.execute("select update_extraction_field(%s, '{a}', '1')", [pair.house.extraction])
        with pair.acting(pair.second) as second:
            second.execute("set local lock_timeout = '2s'")
            launch(pair, uuid4())(second)


def test_a_reading_ends_once(pair: Pair) -> None:
    """Said again, it starts nothing again, although the run still waits in the queue."""
    for _ in range(2):
        with pair.acting(pair.first):
            end_reading(pair, "ready")(pair.first)
    assert pair.jobs() == [job_of(pair, pair.house.run)]


def test_who_follows_is_told_of_events(pair: Pair) -> None:
    pair.watch.execute("listen fieldmark_run_events")
    with pair.acting(pair.first) as connection:
        connection.execute("select private.append_event(%s, '{}')", [pair.house.run])
    heard = [(note.channel, note.payload) for note in pair.watch.notifies(timeout=60, stop_after=1)]
    assert heard == [("fieldmark_run_events", str(pair.house.run))]


@pytest.mark.parametrize(("status", "hears"), [("queued", True), ("completed", False)])
def test_who_follows_is_told_that_an_open_run_is_deleted(pair: Pair, status: str, hears: bool) -> None:
    pair.watch.execute("update runs set status = %s where id = %s", [status, pair.house.run])
    pair.watch.execute("listen fieldmark_run_events; listen fieldmark_work; listen the_end")
    with pair.acting(pair.first) as connection:
        connection.execute("select delete_extraction(%s)", [pair.house.extraction])
        connection.execute("select pg_notify('the_end', 'last')")
    heard = [note.channel for note in pair.watch.notifies(timeout=60, stop_after=3 if hears else 1)]
    assert heard == (["fieldmark_run_events", "fieldmark_work"] if hears else []) + ["the_end"]


def test_a_run_that_was_cancelled_while_it_waited_does_not_start(pair: Pair) -> None:
    pair.watch.execute("update runs set status = 'cancelled' where id = %s", [pair.house.run])
    with pair.acting(pair.first):
        end_reading(pair, "ready")(pair.first)
    assert pair.jobs() == []


# People


def of_second(pair: Pair, who: UUID, statement: str, *parameters: Any) -> Callable[[psycopg.Connection], None]:
    """A statement of somebody's in the organisation that two own."""

    def act(connection: psycopg.Connection) -> None:
        become(connection, "authenticated", {"sub": str(who), "org_id": str(pair.house.second_org)})
        connection.execute(statement, parameters)

    return act


@pytest.mark.parametrize(
    "statement",
    [
        "select remove_member(%s, %s)",
        "update memberships set role = 'viewer' where org_id = %s and user_id = %s",
    ],
)
def test_two_owners_who_go_at_once_leave_one(pair: Pair, statement: str) -> None:
    org, owner, other = pair.house.second_org, pair.house.owner, pair.house.colleague
    with pytest.raises(psycopg.DatabaseError) as refused:
        pair.meanwhile(
            of_second(pair, owner, "select remove_member(%s, %s)", org, owner),
            of_second(pair, other, statement, org, other),
        )
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "last_owner")
    left = pair.watch.execute("select user_id, role from memberships where org_id = %s", [org]).fetchall()
    assert left == [(other, "owner")]


def test_two_who_accept_one_invitation_at_once(pair: Pair) -> None:
    def accepts(who: UUID) -> Callable[[psycopg.Connection], None]:
        def act(connection: psycopg.Connection) -> None:
            become(connection, "authenticated", {"sub": str(who)})
            connection.execute("select accept_invitation('invitation')")

        return act

    with pytest.raises(psycopg.DatabaseError) as refused:
        pair.meanwhile(accepts(pair.house.newcomer), accepts(pair.house.stranger))
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "invitation_used")
    joined = "select user_id from memberships where org_id = %s and user_id in (%s, %s)"
    rows = pair.watch.execute(joined, [pair.house.org, pair.house.newcomer, pair.house.stranger]).fetchall()
    assert rows == [(pair.house.newcomer,)]


def test_nobody_joins_by_an_invitation_whose_maker_is_removed_meanwhile(pair: Pair) -> None:
    org, owner, maker = pair.house.second_org, pair.house.owner, pair.house.colleague
    pair.watch.execute(
        """insert into invitations (org_id, created_by, role, hash, expires_at)
           values (%s, %s, 'owner', sha256('kept'), now() + interval '1 day')""",
        [org, maker],
    )

    def joins(connection: psycopg.Connection) -> None:
        become(connection, "authenticated", {"sub": str(pair.house.newcomer)})
        connection.execute("select accept_invitation('kept')")

    with pytest.raises(psycopg.DatabaseError) as refused:
        pair.meanwhile(of_second(pair, owner, "select remove_member(%s, %s)", org, maker), joins)
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT410", "invitation_revoked")


def test_no_key_is_made_by_whoever_is_removed_meanwhile(pair: Pair) -> None:
    org, owner, maker = pair.house.second_org, pair.house.owner, pair.house.colleague

    def makes(connection: psycopg.Connection) -> None:
        become(connection, "authenticated", {"sub": str(maker)})
        connection.execute("select create_api_key(%s, 'kept', '{documents:read}')", [org])

    with pytest.raises(psycopg.DatabaseError) as refused:
        pair.meanwhile(of_second(pair, owner, "select remove_member(%s, %s)", org, maker), makes)
    assert refused.value.sqlstate == "PT404"
    assert pair.watch.execute("select from api_keys where name = 'kept'").fetchall() == []


def test_nobody_joins_an_organisation_that_is_given_up_meanwhile(pair: Pair) -> None:
    def joins(connection: psycopg.Connection) -> None:
        become(connection, "authenticated", {"sub": str(pair.house.newcomer)})
        connection.execute("select accept_invitation('invitation')")

    with pytest.raises(psycopg.DatabaseError) as refused:
        pair.meanwhile(lambda connection: connection.execute("select delete_organisation(%s)", [pair.house.org]), joins)
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT410", "invitation_revoked")


def test_whose_account_is_deleted_takes_nobody_along(pair: Pair) -> None:
    """Whoever administers the users is not refused because somebody was the last owner. Their keys end."""
    pair.watch.execute("delete from auth.users where id = %s", [pair.house.owner])
    keys = pair.watch.execute("select revoked_at is null from api_keys where id = %s", [pair.house.key]).fetchall()
    assert keys == [(False,)]

"""Concurrent transactions: in any order of commits, nothing is lost, duplicated or left waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from connection_pair import Pair
from role_connections import set_role

Act = Callable[[psycopg.Connection], Any]


def second_error(pair: Pair, first: Act, second: Act) -> tuple[str | None, str | None]:
    """Return the code and detail of the error of the second statement."""
    with pytest.raises(psycopg.DatabaseError) as error:
        pair.run_overlapping(first, second)
    return error.value.sqlstate, error.value.diag.message_detail


def statement_of(statement: str, *values: Any) -> Act:
    return lambda connection: connection.execute(statement.encode(), values).fetchone()


# Document reading and runs -------------------------------------------------------------------------------------------

INSERT_RUN = (
    "insert into runs (id, org_id, agent, task, document_id, extraction_id) "
    "select %s, org_id, 'extraction', 'extract', document_id, id from extractions where id = %s returning id"
)
SET_READY = (
    "update documents set status = 'ready', media_type = 'application/pdf', page_count = 1 where id = %s returning id"
)
SET_FAILED = "update documents set status = 'failed', error = 'It is encrypted.' where id = %s returning id"


def execute_run_job(pair: Pair, run: UUID) -> tuple[Any, ...]:
    return ("execute_run", {"run_id": str(run)}, f"{pair.sample.org}/extraction/{pair.sample.extraction}")


@pytest.mark.parametrize("reading_first", [True, False])
def test_run_created_while_its_document_becomes_ready_starts_once(pair: Pair, reading_first: bool) -> None:
    cancelled = pair.observer.execute(INSERT_RUN, [uuid4(), pair.sample.extraction])
    pair.observer.execute("update runs set status = 'cancelled' where id = %s", cancelled.fetchone())
    run = uuid4()
    acts = [statement_of(SET_READY, pair.sample.document), statement_of(INSERT_RUN, run, pair.sample.extraction)]
    pair.run_overlapping(*(acts if reading_first else reversed(acts)))
    assert pair.jobs() == [execute_run_job(pair, pair.sample.run), execute_run_job(pair, run)]
    with pair.transaction(pair.first) as connection:
        statement_of(SET_READY, pair.sample.document)(connection)  # again, which starts no second run
    assert len(pair.jobs()) == 2


@pytest.mark.parametrize("reading_first", [True, False])
def test_run_created_while_its_document_fails_is_rejected_or_fails(pair: Pair, reading_first: bool) -> None:
    run = uuid4()
    reading, launch = (
        statement_of(SET_FAILED, pair.sample.document),
        statement_of(INSERT_RUN, run, pair.sample.extraction),
    )
    if reading_first:
        assert second_error(pair, reading, launch) == ("PT409", "document_failed")
    else:
        pair.run_overlapping(launch, reading)
    failed = [run] if not reading_first else []
    for run_id in (*failed, pair.sample.run):
        status = pair.observer.execute("select status, error from runs where id = %s", [run_id]).fetchone()
        assert status == ("failed", "It is encrypted.")
    for run_id in failed:
        error = {"type": "error", "error": "It is encrypted.", "code": "document_failed", "run_id": str(run_id)}
        error["text"] = error["error"]
        events = pair.observer.execute("select number, body from run_events where run_id = %s", [run_id])
        assert events.fetchall() == [(1, error)]
    assert pair.jobs() == []


# Writes --------------------------------------------------------------------------------------------------------------


def test_events_are_numbered_in_the_order_of_their_commits(pair: Pair) -> None:
    append = statement_of("select private.append_event(%s, '{}')", pair.sample.run)
    assert pair.run_overlapping(append, append) == (3,)  # the sample has one
    numbers = pair.observer.execute("select number from run_events where run_id = %s order by 1", [pair.sample.run])
    assert numbers.fetchall() == [(1,), (2,), (3,)]


def test_concurrent_updates_are_both_stored(pair: Pair) -> None:
    def update(field: str) -> Act:
        update = "select update_extraction_field(%s, %s, '1', 0.5) - 'changed'"
        return statement_of(update, pair.sample.extraction, [field])

    # The sample has version 1.
    assert pair.run_overlapping(update("a"), update("b")) == ({"path": "b", "value": 1, "version": 3},)
    row = pair.observer.execute(
        "select extracted_fields ->> 'a', extracted_fields ->> 'b', confidences, private.fields_at(id, 3) = "
        "extracted_fields, private.fields_at(id, 2) = extracted_fields - 'b' from extractions where id = %s",
        [pair.sample.extraction],
    ).fetchone()
    assert row == ("1", "1", {"a": 0.5, "b": 0.5}, True, True)


def test_deleting_a_document_while_its_stage_changes_does_not_deadlock(pair: Pair) -> None:
    delete = statement_of("select delete_document(%s)", pair.sample.document)
    with pair.transaction(pair.first) as connection:
        connection.execute("select from extractions where id = %s for no key update", [pair.sample.extraction])
        deleted = pair.start_blocked(delete)
        connection.execute("update extractions set status = 'failed' where id = %s", [pair.sample.extraction])
    assert deleted.result(timeout=60) is not None
    found = pair.observer.execute("select from documents where id = %s", [pair.sample.document])
    assert found.fetchone() is None


def test_concurrent_decisions_of_a_proposal_count_once(pair: Pair) -> None:
    def decide(accepted: bool) -> Act:
        decide = "select decide_extraction_proposals(%s, %s, %s)"
        lists = ([pair.sample.proposal], []) if accepted else ([], [pair.sample.proposal])
        return statement_of(decide, pair.sample.extraction, *lists)

    assert second_error(pair, decide(True), decide(False))[0] == "PT409"
    total = "select extracted_fields -> 'total' from extractions where id = %s"
    assert pair.observer.execute(total, [pair.sample.extraction]).fetchone() == (13,)


def test_agent_write_during_a_user_write_becomes_a_proposal(pair: Pair) -> None:
    def agent(connection: psycopg.Connection) -> Any:
        connection.execute(
            "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', 'c', true)",
            [str(pair.sample.run)],
        )
        update = "select update_extraction_field(%s, '{total}', '21') -> 'proposed'"
        return connection.execute(update, [pair.sample.extraction]).fetchone()

    person = statement_of("select update_extraction_field(%s, '{total}', '20')", pair.sample.extraction)
    assert pair.run_overlapping(person, agent) == (["total"],)


def test_starting_a_run_does_not_wait_for_a_field_being_written(pair: Pair) -> None:
    with pair.transaction(pair.first) as first:
        first.execute("select update_extraction_field(%s, '{a}', '1')", [pair.sample.extraction])
        with pair.transaction(pair.second) as second:
            second.execute("set local lock_timeout = '2s'")
            statement_of(INSERT_RUN, uuid4(), pair.sample.extraction)(second)


# Members -------------------------------------------------------------------------------------------------------------


def as_another_user(who: UUID, act: Act, org: UUID | None = None) -> Act:
    def act_as_user(connection: psycopg.Connection) -> Any:
        set_role(connection, "authenticated", {"sub": str(who)} | ({"org_id": str(org)} if org else {}))
        return act(connection)

    return act_as_user


def removal_of_member(pair: Pair, member: UUID, remover: UUID) -> Act:
    """Return the act of one owner removing a member of an organisation with two owners."""
    org = pair.sample.second_org
    return as_another_user(remover, statement_of("select remove_member(%s, %s)", org, member), org)


def test_concurrent_first_requests_create_one_organisation(pair: Pair) -> None:
    user = uuid4()
    enter = as_another_user(user, statement_of("select private.resolve_organisation()"))
    (organisation,) = pair.run_overlapping(enter, enter)
    made = "select o.id, m.org_id, m.role from organisations o join memberships m on m.user_id = o.personal_of "
    rows = pair.observer.execute(made + "where o.personal_of = %s", [user]).fetchall()
    assert rows == [(organisation, organisation, "owner")]


@pytest.mark.parametrize("how", ["leaves", "becomes a viewer"])
def test_last_two_owners_cannot_both_leave(pair: Pair, how: str) -> None:
    org, owner, other = pair.sample.second_org, pair.sample.owner, pair.sample.colleague
    change = "update memberships set role = 'viewer' where org_id = %s and user_id = %s returning role"
    leaves = (
        removal_of_member(pair, other, other)
        if how == "leaves"
        else as_another_user(other, statement_of(change, org, other), org)
    )
    assert second_error(pair, removal_of_member(pair, owner, owner), leaves) == ("PT409", "last_owner")
    left = pair.observer.execute("select user_id, role from memberships where org_id = %s", [org]).fetchall()
    assert left == [(other, "owner")]


def test_invitation_is_accepted_by_one_of_two_users(pair: Pair) -> None:
    accept = statement_of("select accept_invitation('invitation')")
    newcomer, stranger = pair.sample.newcomer, pair.sample.stranger
    used = second_error(pair, as_another_user(newcomer, accept), as_another_user(stranger, accept))
    assert used == ("PT409", "invitation_used")
    joined = "select user_id from memberships where org_id = %s and user_id in (%s, %s)"
    rows = pair.observer.execute(joined, [pair.sample.org, newcomer, stranger]).fetchall()
    assert rows == [(newcomer,)]


def test_member_being_removed_cannot_create_invitation_or_key(pair: Pair) -> None:
    org, owner, creator = pair.sample.second_org, pair.sample.owner, pair.sample.colleague
    pair.observer.execute(
        """insert into invitations (org_id, created_by, role, hash, expires_at)
           values (%s, %s, 'owner', sha256('kept'), now() + interval '1 day')""",
        [org, creator],
    )
    joins = as_another_user(pair.sample.newcomer, statement_of("select accept_invitation('kept')"))
    assert second_error(pair, removal_of_member(pair, creator, owner), joins) == ("PT410", "invitation_revoked")
    rejoins = "insert into memberships (org_id, user_id, role) values (%s, %s, 'owner')"
    pair.observer.execute(rejoins, [org, creator])
    creates = as_another_user(creator, statement_of("select create_api_key(%s, 'kept', '{documents:read}')", org), org)
    assert second_error(pair, removal_of_member(pair, creator, owner), creates)[0] == "PT404"
    assert pair.observer.execute("select from api_keys where name = 'kept'").fetchall() == []


def test_deleted_organisation_cannot_be_joined_concurrently(pair: Pair) -> None:
    joins = as_another_user(pair.sample.newcomer, statement_of("select accept_invitation('invitation')"))
    deletes = statement_of("select delete_organisation(%s)", pair.sample.org)
    assert second_error(pair, deletes, joins) == ("PT410", "invitation_revoked")


def test_deleting_the_last_owners_account_ends_their_keys(pair: Pair) -> None:
    pair.observer.execute("delete from auth.users where id = %s", [pair.sample.owner])
    keys = pair.observer.execute("select revoked_at is null from api_keys where id = %s", [pair.sample.key]).fetchall()
    assert keys == [(False,)]

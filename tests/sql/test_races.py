"""Two at once: whatever the order of commits, nothing is lost, doubled or left waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import become
from pairs import Pair

Act = Callable[[psycopg.Connection], Any]


def refused(pair: Pair, first: Act, second: Act) -> tuple[str | None, str | None]:
    """The code and detail with which the second is refused."""
    with pytest.raises(psycopg.DatabaseError) as error:
        pair.meanwhile(first, second)
    return error.value.sqlstate, error.value.diag.message_detail


def does(statement: str, *values: Any) -> Act:
    return lambda connection: connection.execute(statement.encode(), values).fetchone()


# Readings and runs ---------------------------------------------------------------------------------------------------

LAUNCH = (
    "insert into runs (id, org_id, agent, task, document_id, extraction_id) "
    "select %s, org_id, 'extraction', 'extract', document_id, id from extractions where id = %s returning id"
)
READY = (
    "update documents set status = 'ready', media_type = 'application/pdf', page_count = 1 where id = %s returning id"
)
FAILED = "update documents set status = 'failed', error = 'It is encrypted.' where id = %s returning id"


def job_of(pair: Pair, run: UUID) -> tuple[Any, ...]:
    return ("execute_run", {"run_id": str(run)}, f"{pair.house.org}/extraction/{pair.house.extraction}")


@pytest.mark.parametrize("reading_first", [True, False])
def test_run_created_while_its_document_becomes_ready_starts_once(pair: Pair, reading_first: bool) -> None:
    cancelled = pair.watch.execute(LAUNCH, [uuid4(), pair.house.extraction])
    pair.watch.execute("update runs set status = 'cancelled' where id = %s", cancelled.fetchone())
    run = uuid4()
    acts = [does(READY, pair.house.document), does(LAUNCH, run, pair.house.extraction)]
    pair.meanwhile(*(acts if reading_first else reversed(acts)))
    assert pair.jobs() == [job_of(pair, pair.house.run), job_of(pair, run)]
    with pair.acting(pair.first) as connection:
        does(READY, pair.house.document)(connection)  # again, it starts nothing again
    assert len(pair.jobs()) == 2


@pytest.mark.parametrize("reading_first", [True, False])
def test_run_created_while_its_document_fails_is_rejected_or_fails(pair: Pair, reading_first: bool) -> None:
    run = uuid4()
    reading, launch = does(FAILED, pair.house.document), does(LAUNCH, run, pair.house.extraction)
    if reading_first:
        assert refused(pair, reading, launch) == ("PT409", "document_failed")
    else:
        pair.meanwhile(launch, reading)
    failed = [run] if not reading_first else []
    for one in (*failed, pair.house.run):
        status = pair.watch.execute("select status, error from runs where id = %s", [one]).fetchone()
        assert status == ("failed", "It is encrypted.")
    for one in failed:
        error = {"type": "error", "error": "It is encrypted.", "code": "document_failed", "run_id": str(one)}
        events = pair.watch.execute("select number, body from run_events where run_id = %s", [one])
        assert events.fetchall() == [(1, error)]
    assert pair.jobs() == []


# Writes --------------------------------------------------------------------------------------------------------------


def test_events_are_numbered_in_the_order_of_their_commits(pair: Pair) -> None:
    append = does("select private.append_event(%s, '{}')", pair.house.run)
    assert pair.meanwhile(append, append) == (3,)  # the house has one
    numbers = pair.watch.execute("select number from run_events where run_id = %s order by 1", [pair.house.run])
    assert numbers.fetchall() == [(1,), (2,), (3,)]


def test_concurrent_updates_are_both_stored(pair: Pair) -> None:
    def update(field: str) -> Act:
        update = "select update_extraction_field(%s, %s, '1', 0.5) - 'changed'"
        return does(update, pair.house.extraction, [field])

    # The house made version 1.
    assert pair.meanwhile(update("a"), update("b")) == ({"path": "b", "value": 1, "version": 3},)
    row = pair.watch.execute(
        "select extracted_fields ->> 'a', extracted_fields ->> 'b', confidence_scores, private.fields_at(id, 3) = "
        "extracted_fields, private.fields_at(id, 2) = extracted_fields - 'b' from extractions where id = %s",
        [pair.house.extraction],
    ).fetchone()
    assert row == ("1", "1", {"a": 0.5, "b": 0.5}, True, True)


def test_concurrent_decisions_of_a_proposal_count_once(pair: Pair) -> None:
    def decide(accepted: bool) -> Act:
        decide = "select decide_extraction_proposals(%s, %s, %s)"
        lists = ([pair.house.proposal], []) if accepted else ([], [pair.house.proposal])
        return does(decide, pair.house.extraction, *lists)

    assert refused(pair, decide(True), decide(False))[0] == "PT409"
    total = "select extracted_fields -> 'total' from extractions where id = %s"
    assert pair.watch.execute(total, [pair.house.extraction]).fetchone() == (13,)


def test_agent_write_during_a_user_write_becomes_a_proposal(pair: Pair) -> None:
    def agent(connection: psycopg.Connection) -> Any:
        connection.execute(
            "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', 'c', true)",
            [str(pair.house.run)],
        )
        update = "select update_extraction_field(%s, '{total}', '21') -> 'proposed'"
        return connection.execute(update, [pair.house.extraction]).fetchone()

    person = does("select update_extraction_field(%s, '{total}', '20')", pair.house.extraction)
    assert pair.meanwhile(person, agent) == (["total"],)


def test_starting_a_run_does_not_wait_for_a_field_being_written(pair: Pair) -> None:
    """A foreign key asks for no more than that the extraction goes on existing."""
    with pair.acting(pair.first) as first:
        first.execute("select update_extraction_field(%s, '{a}', '1')", [pair.house.extraction])
        with pair.acting(pair.second) as second:
            second.execute("set local lock_timeout = '2s'")
            does(LAUNCH, uuid4(), pair.house.extraction)(second)


# People --------------------------------------------------------------------------------------------------------------


def acting_as(who: UUID, act: Act, org: UUID | None = None) -> Act:
    def as_them(connection: psycopg.Connection) -> Any:
        become(connection, "authenticated", {"sub": str(who)} | ({"org_id": str(org)} if org else {}))
        return act(connection)

    return as_them


def removes(pair: Pair, who: UUID, by: UUID) -> Act:
    """A member is removed from an organisation with two owners."""
    org = pair.house.second_org
    return acting_as(by, does("select remove_member(%s, %s)", org, who), org)


def test_concurrent_first_requests_create_one_organisation(pair: Pair) -> None:
    user = uuid4()
    enter = acting_as(user, does("select private.enter()"))
    (organisation,) = pair.meanwhile(enter, enter)
    made = "select o.id, m.org_id, m.role from organisations o join memberships m on m.user_id = o.personal_of "
    rows = pair.watch.execute(made + "where o.personal_of = %s", [user]).fetchall()
    assert rows == [(organisation, organisation, "owner")]


@pytest.mark.parametrize("how", ["leaves", "becomes a viewer"])
def test_last_two_owners_cannot_both_leave(pair: Pair, how: str) -> None:
    org, owner, other = pair.house.second_org, pair.house.owner, pair.house.colleague
    change = "update memberships set role = 'viewer' where org_id = %s and user_id = %s returning role"
    goes = removes(pair, other, other) if how == "leaves" else acting_as(other, does(change, org, other), org)
    assert refused(pair, removes(pair, owner, owner), goes) == ("PT409", "last_owner")
    left = pair.watch.execute("select user_id, role from memberships where org_id = %s", [org]).fetchall()
    assert left == [(other, "owner")]


def test_invitation_is_accepted_by_one_of_two_users(pair: Pair) -> None:
    accept = does("select accept_invitation('invitation')")
    newcomer, stranger = pair.house.newcomer, pair.house.stranger
    used = refused(pair, acting_as(newcomer, accept), acting_as(stranger, accept))
    assert used == ("PT409", "invitation_used")
    joined = "select user_id from memberships where org_id = %s and user_id in (%s, %s)"
    rows = pair.watch.execute(joined, [pair.house.org, newcomer, stranger]).fetchall()
    assert rows == [(newcomer,)]


def test_member_being_removed_cannot_create_invitation_or_key(pair: Pair) -> None:
    org, owner, maker = pair.house.second_org, pair.house.owner, pair.house.colleague
    pair.watch.execute(
        """insert into invitations (org_id, created_by, role, hash, expires_at)
           values (%s, %s, 'owner', sha256('kept'), now() + interval '1 day')""",
        [org, maker],
    )
    joins = acting_as(pair.house.newcomer, does("select accept_invitation('kept')"))
    assert refused(pair, removes(pair, maker, owner), joins) == ("PT410", "invitation_revoked")
    back = "insert into memberships (org_id, user_id, role) values (%s, %s, 'owner')"
    pair.watch.execute(back, [org, maker])
    makes = acting_as(maker, does("select create_api_key(%s, 'kept', '{documents:read}')", org), org)
    assert refused(pair, removes(pair, maker, owner), makes)[0] == "PT404"
    assert pair.watch.execute("select from api_keys where name = 'kept'").fetchall() == []


def test_deleted_organisation_cannot_be_joined_concurrently(pair: Pair) -> None:
    joins = acting_as(pair.house.newcomer, does("select accept_invitation('invitation')"))
    deletes = does("select delete_organisation(%s)", pair.house.org)
    assert refused(pair, deletes, joins) == ("PT410", "invitation_revoked")


def test_deleting_the_last_owners_account_ends_their_keys(pair: Pair) -> None:
    pair.watch.execute("delete from auth.users where id = %s", [pair.house.owner])
    keys = pair.watch.execute("select revoked_at is null from api_keys where id = %s", [pair.house.key]).fetchall()
    assert keys == [(False,)]

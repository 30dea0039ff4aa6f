"""Decisions about tool calls: each is made once, on the arguments shown, in one transaction with the write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from owner_runs import OwnerRuns
from role_connections import Roles, Sample, set_role


@pytest.fixture
def owner_runs(roles: Roles, sample: Sample) -> Iterator[OwnerRuns]:
    with roles.as_service(sample.owner, sample.org) as connection:
        yield OwnerRuns(connection, sample)


# Waiting -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attached", [True, False])
def test_run_waits_for_approval_and_shows_the_call(owner_runs: OwnerRuns, attached: bool) -> None:
    run = owner_runs.create_waiting(attached, {"type": "approval"})
    assert owner_runs.run_columns(run, "status, waiting_call, attached") == ("awaiting_approval", "call", attached)
    assert owner_runs.events(run) == [{"type": "approval"}]
    assert owner_runs.call_columns(run, "status, changes, target_hash, result") == (
        "pending",
        [{"path": "a"}],
        "a" * 64,
        None,
    )
    # Its worker may write while its CLI is there.
    owner_runs.assert_rejected("PT410", lambda: owner_runs.fence(run, owner_runs.token + 1))
    if attached:
        owner_runs.fence(run)
    else:
        owner_runs.assert_rejected("PT410", lambda: owner_runs.fence(run))


def test_only_the_current_worker_records_a_call(owner_runs: OwnerRuns) -> None:
    run, other = owner_runs.create(), owner_runs.create()
    owner_runs.assert_rejected("PT410", lambda: owner_runs.await_approval(run))  # no such call
    owner_runs.record_call(run, "approved")
    owner_runs.record_call(other, "pending")
    owner_runs.assert_rejected(
        "PT410", lambda: owner_runs.await_approval(run)
    )  # it does not wait, but a call with this id in another run does
    owner_runs.assert_rejected("PT410", lambda: owner_runs.await_approval(other, token=owner_runs.token - 1))
    assert owner_runs.status(run) == owner_runs.status(other) == "running"
    owner_runs.connection.execute("update runs set fencing_token = fencing_token + 1 where id = %s", [other])
    owner_runs.assert_rejected("PT410", lambda: owner_runs.record_call(other, call="later"))  # another worker runs it
    for status in ("queued", "awaiting_approval", "completed"):
        owner_runs.set_status(run, status)
        owner_runs.assert_rejected("PT410", lambda: owner_runs.record_call(run, call="later"))
    assert (
        owner_runs.call_columns(run, "status") == ("approved",)
        and owner_runs.call_columns(run, "status", "later") is None
    )


def test_call_with_changed_target_is_shown_again(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting()
    shown_event = 'select private.show_updated_call(%s, %s, \'[{"path": "b"}]\', %s, 7, \'{"type": "approval"}\')'
    owner_runs.connection.execute(shown_event, [run, "call", "b" * 64])
    assert owner_runs.call_columns(run, "changes, target_hash, target_version") == ([{"path": "b"}], "b" * 64, 7)
    assert owner_runs.status(run) == "awaiting_approval" and owner_runs.events(run) == [{"type": "approval"}]
    owner_runs.assert_rejected("PT409", lambda: owner_runs.connection.execute(shown_event, [run, "another", "b" * 64]))
    owner_runs.decide(run)
    owner_runs.assert_rejected("PT409", lambda: owner_runs.connection.execute(shown_event, [run, "call", "c" * 64]))


# Deciding ------------------------------------------------------------------------------------------------------------


def test_decision_and_its_write_are_one_transaction(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting()
    assert owner_runs.decide(run) == "approved"
    # The run waits until the call is executed.
    assert owner_runs.status(run) == "awaiting_approval"
    assert owner_runs.call_columns(run, "status, approved_by, decided_by, reason") == (
        *("approved", "person", owner_runs.sample.owner),
        "Because.",
    )
    changed = "select update_extraction_field(%s, '{total}', '77') -> 'version'"
    owner_runs.connection.execute(changed, [owner_runs.sample.extraction])
    entry = owner_runs.connection.execute(
        "select actor, run_id, call_id, created_by from extraction_journal where extraction_id = %s "
        "order by id desc limit 1",
        [owner_runs.sample.extraction],
    ).fetchone()
    assert entry == ("agent", run, "call", owner_runs.sample.owner)
    # An approved write is locked for the approver.
    lock = "select locks -> 'total' ->> 'by' from extractions where id = %s"
    assert owner_runs.fetch(lock, owner_runs.sample.extraction) == str(owner_runs.sample.owner)
    owner_runs.finish(run, {"type": "changed"}, {"type": "tool"})
    assert owner_runs.call_columns(run, "status, result, code, data") == ("done", "Done.", "ok", {"n": 1})
    assert owner_runs.events(run) == [{"type": "changed"}, {"type": "tool"}]
    assert owner_runs.resume(run) == "queued"
    assert owner_runs.run_columns(run, "status, waiting_call, consecutive_failures") == ("queued", "call", 0)


def test_rejection_continues_the_run_and_approves_nothing(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting()
    assert owner_runs.decide(run, approved=False) == "refused"
    assert owner_runs.fetch("select private.approving_user()") is None
    assert owner_runs.call_columns(run, "status, approved_by, result") == ("refused", None, None)
    owner_runs.assert_rejected("PT409", lambda: owner_runs.finish(run))
    assert owner_runs.resume(run) == "queued"


def test_decision_affects_only_its_own_run(owner_runs: OwnerRuns) -> None:
    run, waiting, working = owner_runs.create_waiting(), owner_runs.create_waiting(attached=True), owner_runs.create()
    owner_runs.record_call(working)
    columns = "status, waiting_call, attached, fencing_token, consecutive_failures"
    call = "status, approved_by, arguments, changes, result, decided_by"

    def other_rows() -> list[Any]:
        return [
            (owner_runs.run_columns(one, columns), owner_runs.call_columns(one, call), owner_runs.events(one))
            for one in (waiting, working)
        ]

    before = other_rows()
    shown_event = 'select private.show_updated_call(%s, %s, \'[{"path": "b"}]\', %s, 7, \'{"type": "approval"}\')'
    owner_runs.connection.execute(shown_event, [run, "call", "b" * 64])
    owner_runs.decide(run, arguments={"a": 2})
    owner_runs.finish(run, {"type": "tool"})
    owner_runs.resume(run)
    owner_runs.detach_dead_worker(run)
    owner_runs.cancel(run)
    assert (owner_runs.status(run), owner_runs.call_columns(run, "status")) == ("cancelled", ("done",))
    assert other_rows() == before
    # Ending a waiting run leaves the other waiting.
    owner_runs.cancel(owner_runs.create_waiting())
    assert other_rows() == before


def test_edited_arguments_are_the_ones_that_run(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting(attached=True)
    assert owner_runs.decide(run, arguments={"a": 2}) == "approved"
    assert owner_runs.call_columns(run, "arguments, proposed, arguments_hash") == ({"a": 2}, {}, "2" * 64)
    assert owner_runs.resume(run) == "running"
    assert owner_runs.claim(run) is None
    assert owner_runs.claim(run, hash="2" * 64) == ("approved", None, None, None)


def test_decision_needs_the_right_user_and_the_shown_arguments_and_counts_once(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting()
    set_role(
        owner_runs.connection,
        "authenticated",
        {"sub": str(owner_runs.sample.member), "org_id": str(owner_runs.sample.org)},
    )
    assert owner_runs.decide(run) is None
    set_role(
        owner_runs.connection,
        "authenticated",
        {"sub": str(owner_runs.sample.owner), "org_id": str(owner_runs.sample.org)},
    )
    assert owner_runs.decide(run, shown_hash="3" * 64) is None
    assert owner_runs.call_columns(run, "status") == ("pending",)
    # No rejected decision has set the approving user.
    assert owner_runs.fetch("select coalesce(current_setting('fieldmark.call_id', true), '')") == ""
    assert owner_runs.decide(run, approved=False) == "refused"
    assert owner_runs.decide(run) is None
    assert owner_runs.call_columns(run, "status") == ("refused",)


def test_front_end_cannot_decide_without_the_service(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        run = OwnerRuns(connection, sample).create_waiting()
        connection.execute("set local session authorization authenticator")
        set_role(connection, "authenticated", {"sub": str(sample.owner)})
        assert OwnerRuns(connection, sample).decide(run) is None


def test_only_the_service_approves_later_calls(roles: Roles, sample: Sample) -> None:
    approve_later_calls = "select private.approve_later_calls(%s, '{write, read}')"
    with roles.as_owner() as connection:
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        owner_runs = OwnerRuns(connection, sample)
        run, other = owner_runs.create_waiting(), owner_runs.create_waiting()
        connection.execute("reset role")
        connection.execute("update runs set auto_approved_tools = '{read, list}' where id = %s", [run])
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        assert owner_runs.fetch(approve_later_calls, run) is True
        assert owner_runs.run_columns(run, "auto_approved_tools") == (["list", "read", "write"],)
        assert owner_runs.run_columns(other, "auto_approved_tools") == ([],)
        connection.execute("set local session authorization authenticator")
        set_role(connection, "authenticated", {"sub": str(sample.owner)})
        assert owner_runs.fetch(approve_later_calls, other) is False


# Continuing ----------------------------------------------------------------------------------------------------------


def test_run_continues_only_after_its_decision(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting(attached=True)
    owner_runs.assert_rejected("PT409", lambda: owner_runs.resume(run))
    assert owner_runs.run_columns(run, "status, attached") == ("awaiting_approval", True)
    other = owner_runs.create()
    for status in ("running", "queued", "awaiting_runs"):  # it awaits no decision
        owner_runs.set_status(other, status)
        assert owner_runs.resume(other) == owner_runs.status(other) == status
    owner_runs.cancel(other)
    assert owner_runs.resume(other) is None


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("max_concurrent_runs = 1", "queued"),
        ("max_concurrent_runs = 2", "running"),
        ("max_usd = 0", "queued"),
        ("max_usd = 3", "running"),
    ],
)
def test_decided_run_is_queued_without_capacity_or_credit(
    roles: Roles, sample: Sample, limit: str, status: str
) -> None:
    with roles.as_owner() as connection:
        connection.execute("delete from usage; delete from usage_by_day")
        connection.execute(f"update credit_limits set {limit}".encode())
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        owner_runs = OwnerRuns(connection, sample)
        run = owner_runs.create_waiting(attached=True)
        owner_runs.create()  # another run takes its capacity
        owner_runs.decide(run)
        assert owner_runs.resume(run) == status
        assert owner_runs.run_columns(run, "attached") == (False,)


def test_decided_run_is_queued_while_its_lock_key_is_busy(owner_runs: OwnerRuns) -> None:
    owner_runs.cancel(owner_runs.sample.thread_run)
    run, other = (owner_runs.create(task="talk", thread_id=owner_runs.sample.thread) for _ in range(2))
    owner_runs.record_call(run, "pending")
    owner_runs.await_approval(run, attached=True)
    owner_runs.decide(run)
    assert (owner_runs.status(other), owner_runs.resume(run)) == ("running", "queued")


def test_detached_run_stays_waiting_or_is_queued(owner_runs: OwnerRuns) -> None:
    waits, decided, other_run, ended = (owner_runs.create_waiting(attached=True) for _ in range(4))
    assert owner_runs.detach(waits) == "awaiting_approval"
    assert owner_runs.run_columns(waits, "status, attached, waiting_call") == ("awaiting_approval", False, "call")
    owner_runs.connection.execute("update runs set status = 'running', attached = false where id = %s", [decided])
    assert owner_runs.detach(decided) == owner_runs.status(decided) == "queued"
    assert owner_runs.detach(decided) == "queued"
    owner_runs.assert_rejected("PT410", lambda: owner_runs.detach(other_run, owner_runs.token + 1))
    owner_runs.cancel(ended)
    assert owner_runs.run_columns(ended, "status, attached") == ("cancelled", False)
    owner_runs.assert_rejected("PT410", lambda: owner_runs.detach(ended))


def test_run_of_a_dead_worker_keeps_waiting(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create_waiting(attached=True)
    owner_runs.detach_dead_worker(run)
    assert owner_runs.run_columns(run, "status, attached, waiting_call") == ("awaiting_approval", False, "call")
    # If that worker is still alive, its writes are rejected; the user's decision is not.
    owner_runs.assert_rejected("PT410", lambda: owner_runs.fence(run))
    owner_runs.assert_rejected("PT410", lambda: owner_runs.detach(run))
    assert owner_runs.decide(run) == "approved" and owner_runs.resume(run) == "queued"


def test_detaching_a_dead_worker_changes_only_attached_runs(owner_runs: OwnerRuns) -> None:
    for run in (owner_runs.create_waiting(), *map(owner_runs.create, ("queued", "running", "completed"))):
        before = owner_runs.run_columns(run, "status, attached, fencing_token")
        owner_runs.detach_dead_worker(run)
        assert owner_runs.run_columns(run, "status, attached, fencing_token") == before


# Tool calls ----------------------------------------------------------------------------------------------------------


def test_call_finishes_once_and_a_failed_call_is_no_progress(owner_runs: OwnerRuns) -> None:
    run = owner_runs.create()
    owner_runs.assert_rejected("PT409", lambda: owner_runs.finish(run))
    owner_runs.record_call(run)
    assert owner_runs.claim(run) == ("approved", None, None, None)
    owner_runs.finish(run, failed=True, code="invalid")
    assert owner_runs.claim(run) == ("failed", "Done.", "invalid", {"n": 1})
    assert owner_runs.run_columns(run, "consecutive_failures") == (2,)
    owner_runs.assert_rejected("PT409", lambda: owner_runs.finish(run))
    owner_runs.record_call(run, call="second")
    owner_runs.finish(run, call="second")
    assert owner_runs.run_columns(run, "consecutive_failures") == (0,)

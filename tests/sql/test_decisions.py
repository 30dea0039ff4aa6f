"""Decisions about tool calls: each is made once, on the arguments shown, in one transaction with the write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from owner_runs import OwnerRuns
from role_connections import Roles, Sample, set_role


@pytest.fixture
def runs(roles: Roles, sample: Sample) -> Iterator[OwnerRuns]:
    with roles.as_service(sample.owner, sample.org) as connection:
        yield OwnerRuns(connection, sample)


# Waiting -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attached", [True, False])
def test_run_waits_for_approval_and_shows_the_call(runs: OwnerRuns, attached: bool) -> None:
    run = runs.create_waiting(attached, {"type": "approval"})
    assert runs.run_columns(run, "status, waiting_call, attached") == ("awaiting_approval", "call", attached)
    assert runs.events(run) == [{"type": "approval"}]
    assert runs.call_columns(run, "status, changes, target_hash, result") == (
        "pending",
        [{"path": "a"}],
        "a" * 64,
        None,
    )
    # Its worker may write while its CLI is there.
    runs.assert_rejected("PT410", lambda: runs.fence(run, runs.token + 1))
    if attached:
        runs.fence(run)
    else:
        runs.assert_rejected("PT410", lambda: runs.fence(run))


def test_only_the_current_worker_records_a_call(runs: OwnerRuns) -> None:
    run, other = runs.create(), runs.create()
    runs.assert_rejected("PT410", lambda: runs.await_approval(run))  # no such call
    runs.record_call(run, "approved")
    runs.record_call(other, "pending")
    runs.assert_rejected(
        "PT410", lambda: runs.await_approval(run)
    )  # it does not wait, but a call with this id in another run does
    runs.assert_rejected("PT410", lambda: runs.await_approval(other, token=runs.token - 1))
    assert runs.status(run) == runs.status(other) == "running"
    runs.connection.execute("update runs set fencing_token = fencing_token + 1 where id = %s", [other])
    runs.assert_rejected("PT410", lambda: runs.record_call(other, call="later"))  # another worker runs it
    for status in ("queued", "awaiting_approval", "completed"):
        runs.set_status(run, status)
        runs.assert_rejected("PT410", lambda: runs.record_call(run, call="later"))
    assert runs.call_columns(run, "status") == ("approved",) and runs.call_columns(run, "status", "later") is None


def test_call_with_changed_target_is_shown_again(runs: OwnerRuns) -> None:
    run = runs.create_waiting()
    shown_event = 'select private.show_updated_call(%s, %s, \'[{"path": "b"}]\', %s, 7, \'{"type": "approval"}\')'
    runs.connection.execute(shown_event, [run, "call", "b" * 64])
    assert runs.call_columns(run, "changes, target_hash, target_version") == ([{"path": "b"}], "b" * 64, 7)
    assert runs.status(run) == "awaiting_approval" and runs.events(run) == [{"type": "approval"}]
    runs.assert_rejected("PT409", lambda: runs.connection.execute(shown_event, [run, "another", "b" * 64]))
    runs.decide(run)
    runs.assert_rejected("PT409", lambda: runs.connection.execute(shown_event, [run, "call", "c" * 64]))


# Deciding ------------------------------------------------------------------------------------------------------------


def test_decision_and_its_write_are_one_transaction(runs: OwnerRuns) -> None:
    run = runs.create_waiting()
    assert runs.decide(run) == "approved"
    # The run waits until the call is executed.
    assert runs.status(run) == "awaiting_approval"
    assert runs.call_columns(run, "status, approved_by, decided_by, reason") == (
        *("approved", "person", runs.sample.owner),
        "Because.",
    )
    changed = "select update_extraction_field(%s, '{total}', '77') -> 'version'"
    runs.connection.execute(changed, [runs.sample.extraction])
    entry = runs.connection.execute(
        "select actor, run_id, call_id, created_by from extraction_journal where extraction_id = %s "
        "order by id desc limit 1",
        [runs.sample.extraction],
    ).fetchone()
    assert entry == ("agent", run, "call", runs.sample.owner)
    # An approved write is locked for the approver.
    lock = "select locks -> 'total' ->> 'by' from extractions where id = %s"
    assert runs.fetch(lock, runs.sample.extraction) == str(runs.sample.owner)
    runs.finish(run, {"type": "changed"}, {"type": "tool"})
    assert runs.call_columns(run, "status, result, code, data") == ("done", "Done.", "ok", {"n": 1})
    assert runs.events(run) == [{"type": "changed"}, {"type": "tool"}]
    assert runs.resume(run) == "queued"
    assert runs.run_columns(run, "status, waiting_call, consecutive_failures") == ("queued", "call", 0)


def test_rejection_continues_the_run_and_approves_nothing(runs: OwnerRuns) -> None:
    run = runs.create_waiting()
    assert runs.decide(run, approved=False) == "refused"
    assert runs.fetch("select private.approving_user()") is None
    assert runs.call_columns(run, "status, approved_by, result") == ("refused", None, None)
    runs.assert_rejected("PT409", lambda: runs.finish(run))
    assert runs.resume(run) == "queued"


def test_decision_affects_only_its_own_run(runs: OwnerRuns) -> None:
    run, waiting, working = runs.create_waiting(), runs.create_waiting(attached=True), runs.create()
    runs.record_call(working)
    columns = "status, waiting_call, attached, fencing_token, consecutive_failures"
    call = "status, approved_by, arguments, changes, result, decided_by"

    def other_rows() -> list[Any]:
        return [
            (runs.run_columns(one, columns), runs.call_columns(one, call), runs.events(one))
            for one in (waiting, working)
        ]

    before = other_rows()
    shown_event = 'select private.show_updated_call(%s, %s, \'[{"path": "b"}]\', %s, 7, \'{"type": "approval"}\')'
    runs.connection.execute(shown_event, [run, "call", "b" * 64])
    runs.decide(run, arguments={"a": 2})
    runs.finish(run, {"type": "tool"})
    runs.resume(run)
    runs.detach_dead_worker(run)
    runs.cancel(run)
    assert (runs.status(run), runs.call_columns(run, "status")) == ("cancelled", ("done",))
    assert other_rows() == before
    # Ending a waiting run leaves the other waiting.
    runs.cancel(runs.create_waiting())
    assert other_rows() == before


def test_edited_arguments_are_the_ones_that_run(runs: OwnerRuns) -> None:
    run = runs.create_waiting(attached=True)
    assert runs.decide(run, arguments={"a": 2}) == "approved"
    assert runs.call_columns(run, "arguments, proposed, arguments_hash") == ({"a": 2}, {}, "2" * 64)
    assert runs.resume(run) == "running"
    assert runs.claim(run) is None
    assert runs.claim(run, hash="2" * 64) == ("approved", None, None, None)


def test_decision_needs_the_right_user_and_the_shown_arguments_and_counts_once(runs: OwnerRuns) -> None:
    run = runs.create_waiting()
    set_role(runs.connection, "authenticated", {"sub": str(runs.sample.member), "org_id": str(runs.sample.org)})
    assert runs.decide(run) is None
    set_role(runs.connection, "authenticated", {"sub": str(runs.sample.owner), "org_id": str(runs.sample.org)})
    assert runs.decide(run, shown_hash="3" * 64) is None
    assert runs.call_columns(run, "status") == ("pending",)
    # No rejected decision has set the approving user.
    assert runs.fetch("select coalesce(current_setting('fieldmark.call_id', true), '')") == ""
    assert runs.decide(run, approved=False) == "refused"
    assert runs.decide(run) is None
    assert runs.call_columns(run, "status") == ("refused",)


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
        runs = OwnerRuns(connection, sample)
        run, other = runs.create_waiting(), runs.create_waiting()
        connection.execute("reset role")
        connection.execute("update runs set auto_approved_tools = '{read, list}' where id = %s", [run])
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        assert runs.fetch(approve_later_calls, run) is True
        assert runs.run_columns(run, "auto_approved_tools") == (["list", "read", "write"],)
        assert runs.run_columns(other, "auto_approved_tools") == ([],)
        connection.execute("set local session authorization authenticator")
        set_role(connection, "authenticated", {"sub": str(sample.owner)})
        assert runs.fetch(approve_later_calls, other) is False


# Continuing ----------------------------------------------------------------------------------------------------------


def test_run_continues_only_after_its_decision(runs: OwnerRuns) -> None:
    run = runs.create_waiting(attached=True)
    runs.assert_rejected("PT409", lambda: runs.resume(run))
    assert runs.run_columns(run, "status, attached") == ("awaiting_approval", True)
    other = runs.create()
    for status in ("running", "queued", "awaiting_runs"):  # it awaits no decision
        runs.set_status(other, status)
        assert runs.resume(other) == runs.status(other) == status
    runs.cancel(other)
    assert runs.resume(other) is None


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
        runs = OwnerRuns(connection, sample)
        run = runs.create_waiting(attached=True)
        runs.create()  # another run takes its capacity
        runs.decide(run)
        assert runs.resume(run) == status
        assert runs.run_columns(run, "attached") == (False,)


def test_decided_run_is_queued_while_its_lock_key_is_busy(runs: OwnerRuns) -> None:
    runs.cancel(runs.sample.thread_run)
    run, other = (runs.create(task="talk", thread_id=runs.sample.thread) for _ in range(2))
    runs.record_call(run, "pending")
    runs.await_approval(run, attached=True)
    runs.decide(run)
    assert (runs.status(other), runs.resume(run)) == ("running", "queued")


def test_detached_run_stays_waiting_or_is_queued(runs: OwnerRuns) -> None:
    waits, decided, other_run, ended = (runs.create_waiting(attached=True) for _ in range(4))
    assert runs.detach(waits) == "awaiting_approval"
    assert runs.run_columns(waits, "status, attached, waiting_call") == ("awaiting_approval", False, "call")
    runs.connection.execute("update runs set status = 'running', attached = false where id = %s", [decided])
    assert runs.detach(decided) == runs.status(decided) == "queued"
    assert runs.detach(decided) == "queued"
    runs.assert_rejected("PT410", lambda: runs.detach(other_run, runs.token + 1))
    runs.cancel(ended)
    assert runs.run_columns(ended, "status, attached") == ("cancelled", False)
    runs.assert_rejected("PT410", lambda: runs.detach(ended))


def test_run_of_a_dead_worker_keeps_waiting(runs: OwnerRuns) -> None:
    run = runs.create_waiting(attached=True)
    runs.detach_dead_worker(run)
    assert runs.run_columns(run, "status, attached, waiting_call") == ("awaiting_approval", False, "call")
    # If that worker is still alive, its writes are rejected; the user's decision is not.
    runs.assert_rejected("PT410", lambda: runs.fence(run))
    runs.assert_rejected("PT410", lambda: runs.detach(run))
    assert runs.decide(run) == "approved" and runs.resume(run) == "queued"


def test_detaching_a_dead_worker_changes_only_attached_runs(runs: OwnerRuns) -> None:
    for run in (runs.create_waiting(), *map(runs.create, ("queued", "running", "completed"))):
        before = runs.run_columns(run, "status, attached, fencing_token")
        runs.detach_dead_worker(run)
        assert runs.run_columns(run, "status, attached, fencing_token") == before


# Tool calls ----------------------------------------------------------------------------------------------------------


def test_call_finishes_once_and_a_failed_call_is_no_progress(runs: OwnerRuns) -> None:
    run = runs.create()
    runs.assert_rejected("PT409", lambda: runs.finish(run))
    runs.record_call(run)
    assert runs.claim(run) == ("approved", None, None, None)
    runs.finish(run, failed=True, code="invalid")
    assert runs.claim(run) == ("failed", "Done.", "invalid", {"n": 1})
    assert runs.run_columns(run, "consecutive_failures") == (2,)
    runs.assert_rejected("PT409", lambda: runs.finish(run))
    runs.record_call(run, call="second")
    runs.finish(run, call="second")
    assert runs.run_columns(run, "consecutive_failures") == (0,)

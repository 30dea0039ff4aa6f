"""A person decides: once, as it was shown, in one transaction with what the call does; and the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from doors import Doors, House, become
from ledger import Ledger


@pytest.fixture
def ledger(doors: Doors, house: House) -> Iterator[Ledger]:
    with doors.as_service(house.owner, house.org) as connection:
        yield Ledger(connection, house)


# Waiting -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attached", [True, False])
def test_run_waits_for_approval_and_shows_the_call(ledger: Ledger, attached: bool) -> None:
    run = ledger.waiting(attached, {"type": "approval"})
    assert ledger.row(run, "status, waiting_call, attached") == ("awaiting_approval", "call", attached)
    assert ledger.events(run) == [{"type": "approval"}]
    assert ledger.call(run, "status, changes, target_hash, result") == ("pending", [{"path": "a"}], "a" * 64, None)
    # Its worker may write while its CLI is there.
    ledger.refused("PT410", lambda: ledger.fence(run, ledger.token + 1))
    if attached:
        ledger.fence(run)
    else:
        ledger.refused("PT410", lambda: ledger.fence(run))


def test_only_the_current_worker_records_a_call(ledger: Ledger) -> None:
    run, other = ledger.run(), ledger.run()
    ledger.refused("PT410", lambda: ledger.await_approval(run))  # there is no such call
    ledger.enter(run, "approved")
    ledger.enter(other, "pending")
    ledger.refused("PT410", lambda: ledger.await_approval(run))  # it does not wait; another's of the same name does
    ledger.refused("PT410", lambda: ledger.await_approval(other, token=ledger.token - 1))
    assert ledger.status(run) == ledger.status(other) == "running"
    ledger.connection.execute("update runs set fencing_token = fencing_token + 1 where id = %s", [other])
    ledger.refused("PT410", lambda: ledger.enter(other, call="later"))  # another worker has taken it up
    for status in ("queued", "awaiting_approval", "completed"):
        ledger.set_status(run, status)
        ledger.refused("PT410", lambda: ledger.enter(run, call="later"))
    assert ledger.call(run, "status") == ("approved",) and ledger.call(run, "status", "later") is None


def test_call_with_changed_target_is_shown_again(ledger: Ledger) -> None:
    run = ledger.waiting()
    show = 'select private.show_updated_call(%s, %s, \'[{"path": "b"}]\', %s, 7, \'{"type": "approval"}\')'
    ledger.connection.execute(show, [run, "call", "b" * 64])
    assert ledger.call(run, "changes, target_hash, target_version") == ([{"path": "b"}], "b" * 64, 7)
    assert ledger.status(run) == "awaiting_approval" and ledger.events(run) == [{"type": "approval"}]
    ledger.refused("PT409", lambda: ledger.connection.execute(show, [run, "another", "b" * 64]))
    ledger.decide(run)
    ledger.refused("PT409", lambda: ledger.connection.execute(show, [run, "call", "c" * 64]))


# Deciding ------------------------------------------------------------------------------------------------------------


def test_decision_and_its_write_are_one_transaction(ledger: Ledger) -> None:
    run = ledger.waiting()
    assert ledger.decide(run) == "approved"
    # The run still waits: it goes on when the call is carried out.
    assert ledger.status(run) == "awaiting_approval"
    assert ledger.call(run, "status, approved_by, decided_by, reason") == (
        *("approved", "person", ledger.house.owner),
        "Because.",
    )
    changed = "select update_extraction_field(%s, '{total}', '77') -> 'version'"
    ledger.connection.execute(changed, [ledger.house.extraction])
    entry = ledger.connection.execute(
        "select actor, run_id, call_id, created_by from extraction_journal where extraction_id = %s "
        "order by id desc limit 1",
        [ledger.house.extraction],
    ).fetchone()
    assert entry == ("agent", run, "call", ledger.house.owner)
    # With the person's word: what they have approved is theirs.
    lock = "select locks -> 'total' ->> 'by' from extractions where id = %s"
    assert ledger.ask(lock, ledger.house.extraction) == str(ledger.house.owner)
    ledger.finish(run, {"type": "changed"}, {"type": "tool"})
    assert ledger.call(run, "status, result, code, data") == ("done", "Done.", "ok", {"n": 1})
    assert ledger.events(run) == [{"type": "changed"}, {"type": "tool"}]
    assert ledger.resume(run) == "queued"
    assert ledger.row(run, "status, waiting_call, consecutive_failures") == ("queued", "call", 0)


def test_rejection_continues_the_run_and_approves_nothing(ledger: Ledger) -> None:
    run = ledger.waiting()
    assert ledger.decide(run, approved=False) == "refused"
    assert ledger.ask("select private.approving_user()") is None
    assert ledger.call(run, "status, approved_by, result") == ("refused", None, None)
    ledger.refused("PT409", lambda: ledger.finish(run))
    assert ledger.resume(run) == "queued"


def test_decision_affects_only_its_own_run(ledger: Ledger) -> None:
    run, waiting, working = ledger.waiting(), ledger.waiting(attached=True), ledger.run()
    ledger.enter(working)
    columns = "status, waiting_call, attached, fencing_token, consecutive_failures"
    call = "status, approved_by, arguments, changes, result, decided_by"

    def others() -> list[Any]:
        return [(ledger.row(one, columns), ledger.call(one, call), ledger.events(one)) for one in (waiting, working)]

    before = others()
    show = 'select private.show_updated_call(%s, %s, \'[{"path": "b"}]\', %s, 7, \'{"type": "approval"}\')'
    ledger.connection.execute(show, [run, "call", "b" * 64])
    ledger.decide(run, arguments={"a": 2})
    ledger.finish(run, {"type": "tool"})
    ledger.resume(run)
    ledger.disown(run)
    ledger.cancel(run)
    assert (ledger.status(run), ledger.call(run, "status")) == ("cancelled", ("done",))
    assert others() == before
    # Nor does one that waits end with another that does.
    ledger.cancel(ledger.waiting())
    assert others() == before


def test_edited_arguments_are_the_ones_that_run(ledger: Ledger) -> None:
    run = ledger.waiting(attached=True)
    assert ledger.decide(run, arguments={"a": 2}) == "approved"
    assert ledger.call(run, "arguments, proposed, arguments_hash") == ({"a": 2}, {}, "2" * 64)
    assert ledger.resume(run) == "running"
    assert ledger.claim(run) is None
    assert ledger.claim(run, hash="2" * 64) == ("approved", None, None, None)


def test_decision_needs_the_right_user_and_the_shown_arguments_and_counts_once(ledger: Ledger) -> None:
    run = ledger.waiting()
    become(ledger.connection, "authenticated", {"sub": str(ledger.house.member), "org_id": str(ledger.house.org)})
    assert ledger.decide(run) is None
    become(ledger.connection, "authenticated", {"sub": str(ledger.house.owner), "org_id": str(ledger.house.org)})
    assert ledger.decide(run, seen="3" * 64) is None
    assert ledger.call(run, "status") == ("pending",)
    # None of these has said for whom this transaction writes.
    assert ledger.ask("select coalesce(current_setting('fieldmark.call_id', true), '')") == ""
    assert ledger.decide(run, approved=False) == "refused"
    assert ledger.decide(run) is None
    assert ledger.call(run, "status") == ("refused",)


def test_front_end_cannot_decide_without_the_service(doors: Doors, house: House) -> None:
    """It may call what is in `private` only where PostgREST shows it; the rows are closed to it as well."""
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        run = Ledger(connection, house).waiting()
        connection.execute("set local session authorization authenticator")
        become(connection, "authenticated", {"sub": str(house.owner)})
        assert Ledger(connection, house).decide(run) is None


def test_only_the_service_approves_later_calls(doors: Doors, house: House) -> None:
    approve = "select private.approve_later_calls(%s, '{write, read}')"
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        run, other = ledger.waiting(), ledger.waiting()
        connection.execute("reset role")
        connection.execute("update runs set auto_approved_tools = '{read, list}' where id = %s", [run])
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        assert ledger.ask(approve, run) is True
        assert ledger.row(run, "auto_approved_tools") == (["list", "read", "write"],)
        assert ledger.row(other, "auto_approved_tools") == ([],)
        connection.execute("set local session authorization authenticator")
        become(connection, "authenticated", {"sub": str(house.owner)})
        assert ledger.ask(approve, other) is False


# Going on ------------------------------------------------------------------------------------------------------------


def test_run_continues_only_after_its_decision(ledger: Ledger) -> None:
    run = ledger.waiting(attached=True)
    ledger.refused("PT409", lambda: ledger.resume(run))
    assert ledger.row(run, "status, attached") == ("awaiting_approval", True)
    other = ledger.run()
    for status in ("running", "queued", "awaiting_runs"):  # it waits for nobody
        ledger.set_status(other, status)
        assert ledger.resume(other) == ledger.status(other) == status
    ledger.cancel(other)
    assert ledger.resume(other) is None


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("max_concurrent_runs = 1", "queued"),
        ("max_concurrent_runs = 2", "running"),
        ("max_usd = 0", "queued"),
        ("max_usd = 3", "running"),
    ],
)
def test_decided_run_is_queued_without_capacity_or_credit(doors: Doors, house: House, limit: str, status: str) -> None:
    with doors.as_owner() as connection:
        connection.execute("delete from usage; delete from usage_by_day")
        connection.execute(f"update credit_limits set {limit}".encode())
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        run = ledger.waiting(attached=True)
        ledger.run()  # another takes the place that it has left
        ledger.decide(run)
        assert ledger.resume(run) == status
        assert ledger.row(run, "attached") == (False,)


def test_decided_run_is_queued_while_its_lock_key_is_busy(ledger: Ledger) -> None:
    ledger.cancel(ledger.house.thread_run)
    run, other = (ledger.run(task="talk", thread_id=ledger.house.thread) for _ in range(2))
    ledger.enter(run, "pending")
    ledger.await_approval(run, attached=True)
    ledger.decide(run)
    assert (ledger.status(other), ledger.resume(run)) == ("running", "queued")


def test_detached_run_stays_waiting_or_is_queued(ledger: Ledger) -> None:
    waits, decided, elsewhere, ended = (ledger.waiting(attached=True) for _ in range(4))
    assert ledger.detach(waits) == "awaiting_approval"
    assert ledger.row(waits, "status, attached, waiting_call") == ("awaiting_approval", False, "call")
    ledger.connection.execute("update runs set status = 'running', attached = false where id = %s", [decided])
    assert ledger.detach(decided) == ledger.status(decided) == "queued"
    assert ledger.detach(decided) == "queued"
    ledger.refused("PT410", lambda: ledger.detach(elsewhere, ledger.token + 1))
    ledger.cancel(ended)
    assert ledger.row(ended, "status, attached") == ("cancelled", False)
    ledger.refused("PT410", lambda: ledger.detach(ended))


def test_run_of_a_dead_worker_keeps_waiting(ledger: Ledger) -> None:
    run = ledger.waiting(attached=True)
    ledger.disown(run)
    assert ledger.row(run, "status, attached, waiting_call") == ("awaiting_approval", False, "call")
    # That worker may do nothing more, should it only have seemed dead; the person may.
    ledger.refused("PT410", lambda: ledger.fence(run))
    ledger.refused("PT410", lambda: ledger.detach(run))
    assert ledger.decide(run) == "approved" and ledger.resume(run) == "queued"


def test_detaching_a_dead_worker_changes_only_attached_runs(ledger: Ledger) -> None:
    for run in (ledger.waiting(), *map(ledger.run, ("queued", "running", "completed"))):
        before = ledger.row(run, "status, attached, fencing_token")
        ledger.disown(run)
        assert ledger.row(run, "status, attached, fencing_token") == before


# The ledger ----------------------------------------------------------------------------------------------------------


def test_call_finishes_once_and_a_failed_call_is_no_progress(ledger: Ledger) -> None:
    run = ledger.run()
    ledger.refused("PT409", lambda: ledger.finish(run))
    ledger.enter(run)
    assert ledger.claim(run) == ("approved", None, None, None)
    ledger.finish(run, failed=True, code="invalid")
    assert ledger.claim(run) == ("failed", "Done.", "invalid", {"n": 1})
    assert ledger.row(run, "consecutive_failures") == (2,)
    ledger.refused("PT409", lambda: ledger.finish(run))
    ledger.enter(run, call="second")
    ledger.finish(run, call="second")
    assert ledger.row(run, "consecutive_failures") == (0,)

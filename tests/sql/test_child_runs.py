"""Runs that are part of another: it waits for them without a worker, is woken once, and takes them along."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from doors import Doors, House, become, furnish
from ledger import Ledger


@pytest.fixture
def ledger(doors: Doors, house: House) -> Iterator[Ledger]:
    with doors.as_service(house.owner, house.org) as connection:
        yield Ledger(connection, house)


def waiting(ledger: Ledger, children: int = 2) -> tuple[Any, list[Any]]:
    """A run that waits for children of its call without a worker, and these."""
    parent = ledger.run()
    ledger.enter(parent)
    ledger.claim(parent)
    parts = [ledger.child(parent) for _ in range(children)]
    ledger.await_runs(parent)
    assert ledger.detach(parent) == "awaiting_runs"
    return parent, parts


def end(ledger: Ledger, run: Any, status: str = "completed") -> None:
    error = "No." if status == "failed" else None
    ledger.connection.execute("update runs set status = %s, error = %s where id = %s", [status, error, run])


# Waiting and waking --------------------------------------------------------------------------------------------------


def test_a_run_waits_for_all_that_its_call_has_started(ledger: Ledger) -> None:
    parent, (first, second) = waiting(ledger)
    assert ledger.row(parent, "status, waiting_call, consecutive_failures") == ("awaiting_runs", "call", 0)
    assert ledger.call(parent, "status, result") == ("waiting", None)
    end(ledger, first)
    assert ledger.status(parent) == "awaiting_runs"
    end(ledger, second, "failed")
    assert ledger.row(parent, "status, waiting_call") == ("queued", "call")
    # Taken up again, it finds the call as it left it, and answers it.
    ledger.connection.execute("update runs set status = 'running' where id = %s", [parent])
    assert ledger.claim(parent) == ("waiting", None, None, None)
    ledger.finish(parent)
    assert ledger.call(parent, "status, result") == ("done", "Done.")


def test_one_that_is_taken_up_before_its_parts_have_ended_waits_on(ledger: Ledger) -> None:
    parent, (first, second) = waiting(ledger)
    end(ledger, first)
    ledger.connection.execute("update runs set status = 'running' where id = %s", [parent])
    assert ledger.detach(parent) == ledger.status(parent) == "awaiting_runs"
    end(ledger, second)
    assert ledger.status(parent) == "queued"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "deleted"])
def test_however_the_last_of_them_ends(doors: Doors, house: House, status: str) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        parent, (child,) = waiting(ledger, 1)
        connection.execute("reset role")
        count = "select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        before = ledger.ask(count, str(parent))
        if status == "deleted":
            connection.execute("delete from runs where id = %s", [child])
        else:
            end(ledger, child, status)
        assert ledger.status(parent) == "queued"
        assert ledger.ask(count, str(parent)) == before + 1
        # Said again, it wakes nobody again.
        end(ledger, parent, "running")
        end(ledger, child)
        assert ledger.status(parent) == "running"


def test_those_of_another_call_do_not_wake_it(ledger: Ledger) -> None:
    parent = ledger.run()
    for call in ("first", "second"):
        ledger.enter(parent, call=call)
    others = ledger.child(parent, "first")
    awaited = ledger.child(parent, "second")
    ledger.await_runs(parent, "second")
    assert ledger.detach(parent) == "awaiting_runs"
    end(ledger, others)
    assert ledger.status(parent) == "awaiting_runs"
    end(ledger, awaited)
    assert ledger.status(parent) == "queued"


def test_one_that_waits_for_a_person_or_for_runs_itself_has_not_ended(ledger: Ledger) -> None:
    parent, (first, second) = waiting(ledger)
    end(ledger, second)
    for status in ("awaiting_approval", "awaiting_runs", "queued", "running"):
        ledger.connection.execute("update runs set status = %s, waiting_call = 'c' where id = %s", [status, first])
        assert ledger.status(parent) == "awaiting_runs"


def test_where_none_is_open_it_goes_on_through_the_queue(ledger: Ledger) -> None:
    """Else it would wait for ever: nobody is left to wake it."""
    parent = ledger.run()
    ledger.enter(parent)
    end(ledger, ledger.child(parent))
    ledger.await_runs(parent)
    assert ledger.detach(parent) == "queued"
    assert ledger.row(parent, "status, waiting_call") == ("queued", "call")
    assert ledger.call(parent, "status") == ("waiting",)
    # Where a decision starts them and no CLI is there, nobody has to let go of it first.
    decided = ledger.waiting()
    assert ledger.decide(decided) == "admitted"
    end(ledger, ledger.child(decided))
    ledger.await_runs(decided)
    assert ledger.row(decided, "status, attached") == ("queued", False)


def test_while_its_cli_has_not_gone_nobody_wakes_it_and_it_goes_on_when_it_has(ledger: Ledger) -> None:
    parent = ledger.run()
    ledger.enter(parent)
    child = ledger.child(parent)
    ledger.await_runs(parent)
    assert ledger.row(parent, "status, attached") == ("awaiting_runs", True)
    ledger.fence(parent)  # it may still say what came before
    ledger.refused("PT410", lambda: ledger.fence(parent, ledger.token + 1))
    end(ledger, child)
    assert ledger.row(parent, "status, attached") == ("awaiting_runs", True)
    assert ledger.detach(parent) == "queued"
    assert ledger.row(parent, "status, attached, waiting_call") == ("queued", False, "call")
    ledger.refused("PT410", lambda: ledger.fence(parent))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_run_whose_worker_died_while_it_waits_for_runs_goes_on_all_the_same(ledger: Ledger, is_open: bool) -> None:
    parent = ledger.run()
    ledger.enter(parent)
    child = ledger.child(parent)
    ledger.await_runs(parent)
    if not is_open:
        end(ledger, child)
    ledger.disown(parent)
    assert ledger.row(parent, "status, attached") == ("awaiting_runs" if is_open else "queued", False)
    # That worker may do nothing more, should it only have seemed dead.
    ledger.refused("PT410", lambda: ledger.detach(parent))
    ledger.refused("PT410", lambda: ledger.fence(parent))
    if is_open:
        end(ledger, child)
        assert ledger.status(parent) == "queued"


@pytest.mark.parametrize(
    ("status", "is_open"),
    [("queued", True), ("running", True), ("awaiting_approval", True), ("awaiting_runs", True),
     ("completed", False), ("failed", False), ("cancelled", False)],
)  # fmt: skip
def test_a_call_has_open_children_until_each_has_ended(ledger: Ledger, status: str, is_open: bool) -> None:
    parent = ledger.run()
    has = "select private.has_open_children(%s, %s)"
    assert ledger.ask(has, parent, "call") is False
    ledger.child(parent, "another")
    child, other = ledger.child(parent), ledger.child(parent)
    end(ledger, other)
    error = "No." if status == "failed" else None
    ledger.connection.execute(
        "update runs set status = %s, error = %s, waiting_call = 'c' where id = %s", [status, error, child]
    )
    assert ledger.ask(has, parent, "call") is is_open
    assert ledger.ask(has, parent, "another") is True and ledger.ask(has, child, "call") is False


def test_a_call_that_a_person_has_approved_may_start_runs(ledger: Ledger) -> None:
    run = ledger.waiting(attached=True)
    assert ledger.decide(run) == "admitted"
    child = ledger.child(run)
    ledger.await_runs(run)
    assert ledger.row(run, "status, attached") == ("awaiting_runs", True)  # its CLI is still there
    assert ledger.resume(run) == "awaiting_runs"  # it does not go on before they have ended
    assert ledger.detach(run) == "awaiting_runs"
    assert ledger.row(run, "status, attached") == ("awaiting_runs", False)
    end(ledger, child)
    assert ledger.status(run) == "queued"


def test_only_a_call_that_is_carried_out_waits(ledger: Ledger) -> None:
    run = ledger.run()
    ledger.refused("PT409", lambda: ledger.await_runs(run))
    ledger.enter(run, "pending")
    ledger.refused("PT409", lambda: ledger.await_runs(run))
    ledger.enter(run, call="done")
    ledger.finish(run, call="done")
    ledger.refused("PT409", lambda: ledger.await_runs(run, "done"))
    queued = ledger.run("queued")
    ledger.refused("PT410", lambda: ledger.await_runs(queued))


# Cancelling ----------------------------------------------------------------------------------------------------------


def test_cancelling_a_run_cancels_all_below_it_and_nothing_above(ledger: Ledger) -> None:
    root, (middle, other) = waiting(ledger)
    ledger.enter(middle)
    leaf = ledger.child(middle)
    asking = ledger.child(middle)
    ledger.enter(asking, "pending")
    ledger.await_approval(asking)
    ended = ledger.child(middle)
    end(ledger, ended)
    ledger.await_runs(middle)
    assert ledger.cancel(middle) is True
    assert [ledger.status(run) for run in (middle, leaf, asking, ended)] == [*["cancelled"] * 3, "completed"]
    assert [ledger.status(run) for run in (root, other)] == ["awaiting_runs", "running"]
    for run in (middle, leaf, asking):
        (last,) = ledger.events(run)
        assert last == {"type": "error", "error": "No more.", "code": "cancelled", "run_id": str(run)}
    assert ledger.events(ended) == []
    assert ledger.call(asking, "status, admitted_by") == ("refused", None)
    assert ledger.call(middle, "status, code, result") == ("failed", "cancelled", "No more.")
    assert ledger.row(middle, "waiting_call, error_code") == (None, "cancelled")
    assert ledger.cancel(middle) is False and ledger.cancel(ended) is False
    # Nothing of what was cancelled goes on because of it.
    end(ledger, other)
    assert ledger.status(root) == "queued" and ledger.cancel(root) is True
    assert [ledger.status(run) for run in (root, middle, ended)] == ["cancelled", "cancelled", "completed"]


def test_a_run_that_waits_for_runs_or_for_a_person_can_be_cancelled(ledger: Ledger) -> None:
    parent, children = waiting(ledger)
    asking = ledger.waiting(attached=True)
    assert ledger.cancel(parent) and ledger.cancel(asking)
    assert {ledger.status(run) for run in (parent, asking, *children)} == {"cancelled"}


def test_with_a_run_go_its_parts_and_what_they_used_stays_spent(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        root, (child, other) = waiting(ledger)
        leaf = ledger.child(child)
        for run, cost in ((root, 1), (child, 2), (other, 4), (leaf, 8)):
            charge(ledger, run, cost)
        assert [cost_of(ledger, run) for run in (root, child, other, leaf)] == [15, 10, 4, 8]
        connection.execute("reset role")
        connection.execute("delete from runs where id = %s", [child])
        assert ledger.row(leaf, "id") is None
        assert [cost_of(ledger, run) for run in (root, other)] == [15, 4]
        # A message that comes late is still the root's to pay.
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        assert charge(ledger, child, 16, "late") is None
        connection.execute("reset role")
        assert [cost_of(ledger, run) for run in (root, child)] == [31, 18]
        connection.execute("delete from runs where id = %s", [root])
        assert ledger.row(other, "id") is None
        assert cost_of(ledger, root) == 31


def charge(ledger: Ledger, run: Any, cost: float | None, message: str = "m") -> str | None:
    return ledger.ask(
        "select private.charge(%s, %s, 'talker', %s, 'm', 1, 1, 0, 0, 0, %s)", run, ledger.house.org, message, cost
    )


def cost_of(ledger: Ledger, run: Any) -> Any:
    return ledger.ask("select private.cost_of_run(%s)", run)


# Budgets and room ----------------------------------------------------------------------------------------------------


def test_a_budget_holds_for_the_root_and_all_below_it(ledger: Ledger) -> None:
    root = ledger.run(max_cost_usd=10)
    child = ledger.child(root)
    leaf = ledger.child(child, status="queued")
    assert ledger.ask("select private.find_room(%s, true)", leaf) == "granted"
    assert charge(ledger, child, 9) is None
    assert charge(ledger, root, 1) == "max_cost"
    assert charge(ledger, child, 0, "n") == "max_cost"
    assert ledger.ask("select private.find_room(%s, true)", leaf) == "max_cost"
    assert ledger.ask("select private.find_room(%s, false)", leaf) == "model_unpriced"
    other = ledger.run("queued")
    assert ledger.ask("select private.find_room(%s, true)", other) == "granted"


def test_a_part_may_have_a_smaller_budget_of_its_own(ledger: Ledger) -> None:
    root = ledger.run(max_cost_usd=10)
    child = ledger.run(parent_run_id=root, parent_call_id="call", max_cost_usd=2)
    assert charge(ledger, child, 2) == "max_cost"
    assert charge(ledger, root, 1) is None


def test_with_room_for_one_a_parent_and_its_part_take_turns(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        connection.execute("update credit_limits set max_concurrent_runs = 1, max_usd = null")
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        parent = ledger.run()
        ledger.enter(parent)
        child = ledger.child(parent, status="queued")
        assert ledger.ask("select private.find_room(%s, true)", child) == "held"
        ledger.await_runs(parent)
        ledger.detach(parent)
        connection.execute("set constraints all immediate")  # the end of the transaction
        assert ledger.row(child, "held_at") == (None,)
        assert ledger.ask("select private.find_room(%s, true)", child) == "granted"
        connection.execute("update runs set status = 'running' where id = %s", [child])
        end(ledger, child)
        assert ledger.status(parent) == "queued"
        assert ledger.ask("select private.find_room(%s, true)", parent) == "granted"


# Two at once ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(clone: Any) -> Iterator[tuple[House, psycopg.Connection, list[psycopg.Connection]]]:
    with (
        psycopg.connect(clone.owner_url, autocommit=True) as owner,
        psycopg.connect(clone.app_url, autocommit=True) as first,
        psycopg.connect(clone.app_url, autocommit=True) as second,
    ):
        house = furnish(owner)
        owner.execute("delete from credit_limits")
        yield house, owner, [first, second]


def serving(connection: psycopg.Connection, house: House) -> Ledger:
    become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
    return Ledger(connection, house)


def until_it_waits(owner: psycopg.Connection, other: psycopg.Connection) -> None:
    deadline = time.monotonic() + 60
    waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
    while owner.execute(waits, [other.info.backend_pid]).fetchone() != (True,):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_of_two_that_end_at_the_same_moment_one_wakes_it(three: Any) -> None:
    house, owner, (one, two) = three
    with one.transaction():
        parent, children = waiting(serving(one, house))

    def other() -> None:
        with two.transaction():
            end(serving(two, house), children[1])

    with ThreadPoolExecutor(1) as pool:
        with one.transaction():
            ledger = serving(one, house)
            end(ledger, children[0])
            assert ledger.status(parent) == "awaiting_runs"
            ended = pool.submit(other)
            until_it_waits(owner, two)
        ended.result(timeout=60)
    assert owner.execute("select status from runs where id = %s", [parent]).fetchone() == ("queued",)


def test_one_that_ends_while_its_parent_begins_to_wait_is_not_missed(three: Any) -> None:
    house, owner, (one, two) = three
    with one.transaction():
        ledger = serving(one, house)
        parent = ledger.run()
        ledger.enter(parent)
        child = ledger.child(parent)

    def other() -> None:
        with two.transaction():
            end(serving(two, house), child)

    with ThreadPoolExecutor(1) as pool:
        with one.transaction():
            ledger = serving(one, house)
            ledger.claim(parent)
            ledger.await_runs(parent)
            ledger.detach(parent)
            ended = pool.submit(other)
            until_it_waits(owner, two)
        ended.result(timeout=60)
    assert owner.execute("select status from runs where id = %s", [parent]).fetchone() == ("queued",)


def test_one_that_is_decided_while_its_cli_goes_waits_for_what_the_decision_has_started(three: Any) -> None:
    house, owner, (one, two) = three
    with one.transaction():
        parent = serving(one, house).waiting(attached=True)

    def leave() -> str:
        with two.transaction():
            return serving(two, house).detach(parent)

    with ThreadPoolExecutor(1) as pool:
        with one.transaction():
            ledger = serving(one, house)
            ledger.decide(parent)
            ledger.claim(parent)
            child = ledger.child(parent)
            ledger.await_runs(parent)
            left = pool.submit(leave)
            until_it_waits(owner, two)
        assert left.result(timeout=60) == "awaiting_runs"
    with one.transaction():
        end(serving(one, house), child)
    assert owner.execute("select status from runs where id = %s", [parent]).fetchone() == ("queued",)


def test_cancelling_a_run_while_its_part_ends_keeps_neither_waiting_for_the_other(three: Any) -> None:
    """Both lock the part first."""
    house, owner, (one, two) = three
    for _ in range(20):
        with one.transaction():
            parent, (child,) = waiting(serving(one, house), 1)

        def cancel(parent: Any = parent) -> None:
            with two.transaction():
                serving(two, house).cancel(parent)

        with ThreadPoolExecutor(1) as pool:
            with one.transaction():
                ledger = serving(one, house)
                ledger.connection.execute("select from runs where id = %s for no key update", [child])
                cancelled = pool.submit(cancel)
                until_it_waits(owner, two)
                end(ledger, child)
            cancelled.result(timeout=60)
        assert owner.execute("select status from runs where id = %s", [parent]).fetchone() == ("cancelled",)
        assert owner.execute("select status from runs where id = %s", [child]).fetchone() == ("completed",)

"""Runs that are part of another: it waits for them without a worker, is woken once, and takes them along."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from doors import Doors, House, become
from ledger import Ledger
from pairs import Pair


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


# Waiting and waking --------------------------------------------------------------------------------------------------


def test_run_waits_for_all_child_runs_of_its_call(ledger: Ledger) -> None:
    parent, (first, second) = waiting(ledger)
    assert ledger.row(parent, "status, waiting_call, consecutive_failures") == ("awaiting_runs", "call", 0)
    assert ledger.call(parent, "status, result") == ("waiting", None)
    ledger.set_status(first, "completed")
    for status in ("awaiting_approval", "awaiting_runs", "queued", "running"):  # it has not ended
        ledger.set_status(second, status)
        assert ledger.status(parent) == "awaiting_runs"
    # One that is taken up before its children have ended waits on.
    ledger.set_status(parent, "running")
    assert ledger.detach(parent) == ledger.status(parent) == "awaiting_runs"
    ledger.set_status(second, "failed")
    assert ledger.row(parent, "status, waiting_call") == ("queued", "call")
    # Taken up again, it finds the call as it left it, and answers it.
    ledger.set_status(parent, "running")
    assert ledger.claim(parent) == ("waiting", None, None, None)
    ledger.finish(parent)
    assert ledger.call(parent, "status, result") == ("done", "Done.")


@pytest.mark.parametrize("ends", ["cancelled", "deleted"])
def test_parent_is_queued_once_when_its_last_child_ends(doors: Doors, house: House, ends: str) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        parent, (child,) = waiting(ledger, 1)
        connection.execute("reset role")
        count = "select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        before = ledger.ask(count, str(parent))
        if ends == "deleted":
            connection.execute("delete from runs where id = %s", [child])
        else:
            ledger.set_status(child, ends)
        assert ledger.status(parent) == "queued"
        assert ledger.ask(count, str(parent)) == before + 1
        ledger.set_status(parent, "running")
        ledger.set_status(child, "completed")
        assert ledger.status(parent) == "running"


def test_children_of_another_call_do_not_wake_a_run(ledger: Ledger) -> None:
    parent = ledger.run()
    for call in ("first", "second"):
        ledger.enter(parent, call=call)
    other, awaited = ledger.child(parent, "first"), ledger.child(parent, "second")
    ledger.await_runs(parent, "second")
    assert ledger.detach(parent) == "awaiting_runs"
    ledger.set_status(other, "completed")
    assert ledger.status(parent) == "awaiting_runs"
    ledger.set_status(awaited, "completed")
    assert ledger.status(parent) == "queued"


def test_run_without_open_children_is_queued(ledger: Ledger) -> None:
    """Else it would wait for ever."""
    parent = ledger.run()
    ledger.enter(parent)
    ledger.set_status(ledger.child(parent), "completed")
    ledger.await_runs(parent)
    assert ledger.detach(parent) == "queued"
    assert ledger.row(parent, "status, waiting_call") == ("queued", "call")
    assert ledger.call(parent, "status") == ("waiting",)
    # Where a decision starts them and no CLI is attached, nobody has to let go of it first.
    decided = ledger.waiting()
    assert ledger.decide(decided) == "approved"
    ledger.set_status(ledger.child(decided), "completed")
    ledger.await_runs(decided)
    assert ledger.row(decided, "status, attached") == ("queued", False)


def test_run_is_woken_only_after_its_cli_ended(ledger: Ledger) -> None:
    parent = ledger.run()
    ledger.enter(parent)
    child = ledger.child(parent)
    ledger.await_runs(parent)
    ledger.fence(parent)  # the CLI may still report what came before
    ledger.refused("PT410", lambda: ledger.fence(parent, ledger.token + 1))
    ledger.set_status(child, "completed")
    assert ledger.row(parent, "status, attached") == ("awaiting_runs", True)
    assert ledger.detach(parent) == "queued"
    assert ledger.row(parent, "status, attached, waiting_call") == ("queued", False, "call")
    ledger.refused("PT410", lambda: ledger.fence(parent))


@pytest.mark.parametrize("is_open", [True, False])
def test_run_of_a_dead_worker_continues_after_its_children(ledger: Ledger, is_open: bool) -> None:
    parent = ledger.run()
    ledger.enter(parent)
    child = ledger.child(parent)
    ledger.await_runs(parent)
    if not is_open:
        ledger.set_status(child, "completed")
    ledger.disown(parent)
    assert ledger.row(parent, "status, attached") == ("awaiting_runs" if is_open else "queued", False)
    # That worker can write nothing more, if it only seemed dead.
    ledger.refused("PT410", lambda: ledger.detach(parent))
    ledger.refused("PT410", lambda: ledger.fence(parent))


def test_approved_call_may_start_runs(ledger: Ledger) -> None:
    run = ledger.waiting(attached=True)
    assert ledger.decide(run) == "approved"
    child = ledger.child(run)
    ledger.await_runs(run)
    assert ledger.row(run, "status, attached") == ("awaiting_runs", True)  # its CLI is still there
    assert ledger.resume(run) == "awaiting_runs"  # it does not go on before they have ended
    assert ledger.detach(run) == "awaiting_runs"
    ledger.set_status(child, "completed")
    assert ledger.status(run) == "queued"


def test_only_an_approved_call_of_an_active_run_waits_for_children(ledger: Ledger) -> None:
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


def test_cancelling_a_run_cancels_descendants_only(ledger: Ledger) -> None:
    root, (middle, other) = waiting(ledger)
    ledger.enter(middle)
    leaf, asking, ended = (ledger.child(middle) for _ in range(3))
    ledger.enter(asking, "pending")
    ledger.await_approval(asking)
    ledger.set_status(ended, "completed")
    ledger.await_runs(middle)
    assert ledger.cancel(middle) is True
    assert [ledger.status(run) for run in (middle, leaf, asking, ended)] == [*["cancelled"] * 3, "completed"]
    assert [ledger.status(run) for run in (root, other)] == ["awaiting_runs", "running"]
    for run in (middle, leaf, asking):
        (last,) = ledger.events(run)
        assert last == {"type": "error", "error": "No more.", "code": "cancelled", "run_id": str(run)}
    assert ledger.events(ended) == []
    assert ledger.call(asking, "status, approved_by") == ("refused", None)
    assert ledger.call(middle, "status, code, result") == ("failed", "cancelled", "No more.")
    assert ledger.row(middle, "waiting_call, error_code") == (None, "cancelled")
    assert ledger.cancel(middle) is False and ledger.cancel(ended) is False
    ledger.set_status(other, "completed")
    assert ledger.status(root) == "queued" and ledger.cancel(root) is True
    assert [ledger.status(run) for run in (root, middle, ended)] == ["cancelled", "cancelled", "completed"]


def charge(ledger: Ledger, run: Any, cost: float, message: str = "m") -> str | None:
    return ledger.ask(
        "select private.charge(%s, %s, 'talker', %s, 'm', 1, 1, 0, 0, 0, %s)", run, ledger.house.org, message, str(cost)
    )


def test_child_runs_are_deleted_with_their_parent_and_usage_is_kept(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)

        def costs(*runs: Any) -> list[Any]:
            return [ledger.ask("select private.cost_of_run(%s)", run) for run in runs]

        root, (child, other) = waiting(ledger)
        leaf = ledger.child(child)
        for run, cost in ((root, 1), (child, 2), (other, 4), (leaf, 8)):
            charge(ledger, run, cost)
        assert costs(root, child, other, leaf) == [15, 10, 4, 8]
        ledger.set_status(other, "completed")  # by itself it is deleted as little as an open run
        for run in (other, root):
            ledger.refused("PT409", lambda run=run: connection.execute("select delete_run(%s)", [run]))
        connection.execute("reset role")
        connection.execute("delete from runs where id = %s", [child])
        assert ledger.row(leaf, "id") is None and costs(root, other) == [15, 4]
        # A message that comes late is still the root's to pay.
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        assert charge(ledger, child, 16, "late") is None
        connection.execute("reset role")
        connection.execute("delete from runs where id = %s", [root])
        assert ledger.row(other, "id") is None and costs(root) == [31]


# Budgets and room ----------------------------------------------------------------------------------------------------


def test_budget_covers_the_root_and_all_descendants(ledger: Ledger) -> None:
    root = ledger.run(max_cost_usd=10)
    child = ledger.run(parent_run_id=root, parent_call_id="call", max_cost_usd=9.5)
    leaf = ledger.child(child, status="queued")
    room = "select private.find_room(%s, %s)"
    assert ledger.ask(room, leaf, True) == "granted"
    assert charge(ledger, child, 9) is None
    assert charge(ledger, child, 0.5, "n") == "max_cost"  # its own
    assert charge(ledger, root, 0.4) is None
    assert charge(ledger, root, 0.1, "n") == "max_cost"
    assert ledger.ask(room, leaf, True) == "max_cost" and ledger.ask(room, leaf, False) == "model_unpriced"
    assert ledger.ask(room, ledger.run("queued"), True) == "granted"


def test_parent_and_child_share_a_capacity_of_one(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        connection.execute("update credit_limits set max_concurrent_runs = 1, max_usd = null")
        become(connection, "authenticated", {"sub": str(house.owner), "org_id": str(house.org)})
        ledger = Ledger(connection, house)
        room = "select private.find_room(%s, true)"
        parent = ledger.run()
        ledger.enter(parent)
        child = ledger.child(parent, status="queued")
        assert ledger.ask(room, child) == "held"
        ledger.await_runs(parent)
        ledger.detach(parent)
        connection.execute("set constraints all immediate")  # the end of the transaction
        assert ledger.row(child, "waiting_for_capacity_since") == (None,) and ledger.ask(room, child) == "granted"
        ledger.set_status(child, "running")
        ledger.set_status(child, "completed")
        assert ledger.status(parent) == "queued" and ledger.ask(room, parent) == "granted"


# Two at once ---------------------------------------------------------------------------------------------------------


def status_of(pair: Pair, run: Any) -> Any:
    return (pair.watch.execute("select status from runs where id = %s", [run]).fetchone() or (None,))[0]


def begun(pair: Pair, begin: Any) -> Any:
    pair.watch.execute("delete from credit_limits")
    with pair.acting(pair.first) as connection:
        return begin(Ledger(connection, pair.house))


def ends(pair: Pair, run: Any) -> Any:
    return lambda connection: Ledger(connection, pair.house).set_status(run, "completed")


def test_parent_is_woken_once_if_two_children_end_together(pair: Pair) -> None:
    parent, (first, second) = begun(pair, waiting)
    pair.meanwhile(ends(pair, first), ends(pair, second))
    assert status_of(pair, parent) == "queued"


def test_child_ending_while_its_parent_starts_waiting_is_noticed(pair: Pair) -> None:
    def work(ledger: Ledger) -> tuple[Any, Any]:
        parent = ledger.run()
        ledger.enter(parent)
        return parent, ledger.child(parent)

    parent, child = begun(pair, work)

    def wait(connection: psycopg.Connection) -> None:
        ledger = Ledger(connection, pair.house)
        ledger.claim(parent)
        ledger.await_runs(parent)
        ledger.detach(parent)

    pair.meanwhile(wait, ends(pair, child))
    assert status_of(pair, parent) == "queued"


def test_run_decided_while_its_cli_ends_waits_for_new_children(pair: Pair) -> None:
    parent = begun(pair, lambda ledger: ledger.waiting(attached=True))
    started: list[Any] = []

    def decide(connection: psycopg.Connection) -> None:
        ledger = Ledger(connection, pair.house)
        ledger.decide(parent)
        ledger.claim(parent)
        started.append(ledger.child(parent))
        ledger.await_runs(parent)

    left = pair.meanwhile(decide, lambda connection: Ledger(connection, pair.house).detach(parent))
    assert left == "awaiting_runs"
    with pair.acting(pair.first) as connection:
        ends(pair, started[0])(connection)
    assert status_of(pair, parent) == "queued"


def test_cancelling_a_run_while_its_child_ends_does_not_deadlock(pair: Pair) -> None:
    """Both lock the child first."""
    parent, (child,) = begun(pair, lambda ledger: waiting(ledger, 1))
    with pair.acting(pair.first) as connection:
        connection.execute("select from runs where id = %s for no key update", [child])
        cancelled = pair.start(lambda other: Ledger(other, pair.house).cancel(parent))
        ends(pair, child)(connection)
    assert cancelled.result(timeout=60) is True
    assert (status_of(pair, parent), status_of(pair, child)) == ("cancelled", "completed")

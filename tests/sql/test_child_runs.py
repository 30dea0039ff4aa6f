"""Child runs: the parent waits without a worker, is queued once when they end, and shares its budget and capacity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from connection_pair import Pair
from owner_runs import OwnerRuns
from role_connections import Roles, Sample, set_role


@pytest.fixture
def runs(roles: Roles, sample: Sample) -> Iterator[OwnerRuns]:
    with roles.as_service(sample.owner, sample.org) as connection:
        yield OwnerRuns(connection, sample)


def create_waiting_parent(runs: OwnerRuns, children: int = 2) -> tuple[Any, list[Any]]:
    """Create a run without a worker that waits for child runs of its call. Return it and its child runs."""
    parent = runs.create()
    runs.record_call(parent)
    runs.claim(parent)
    parts = [runs.create_child(parent) for _ in range(children)]
    runs.await_runs(parent)
    assert runs.detach(parent) == "awaiting_runs"
    return parent, parts


# Waiting and continuing ----------------------------------------------------------------------------------------------


def test_run_waits_for_all_child_runs_of_its_call(runs: OwnerRuns) -> None:
    parent, (first, second) = create_waiting_parent(runs)
    assert runs.run_columns(parent, "status, waiting_call, consecutive_failures") == ("awaiting_runs", "call", 0)
    assert runs.call_columns(parent, "status, result") == ("waiting", None)
    runs.set_status(first, "completed")
    for status in ("awaiting_approval", "awaiting_runs", "queued", "running"):  # it has not ended
        runs.set_status(second, status)
        assert runs.status(parent) == "awaiting_runs"
    # One that is taken up before its children have ended waits on.
    runs.set_status(parent, "running")
    assert runs.detach(parent) == runs.status(parent) == "awaiting_runs"
    runs.set_status(second, "failed")
    assert runs.run_columns(parent, "status, waiting_call") == ("queued", "call")
    # Taken up again, it finds the call as it left it, and answers it.
    runs.set_status(parent, "running")
    assert runs.claim(parent) == ("waiting", None, None, None)
    runs.finish(parent)
    assert runs.call_columns(parent, "status, result") == ("done", "Done.")


@pytest.mark.parametrize("end_child", ["cancelled", "deleted"])
def test_parent_is_queued_once_when_its_last_child_ends(roles: Roles, sample: Sample, end_child: str) -> None:
    with roles.as_owner() as connection:
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        runs = OwnerRuns(connection, sample)
        parent, (child,) = create_waiting_parent(runs, 1)
        connection.execute("reset role")
        count = "select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        before = runs.fetch(count, str(parent))
        if end_child == "deleted":
            connection.execute("delete from runs where id = %s", [child])
        else:
            runs.set_status(child, end_child)
        assert runs.status(parent) == "queued"
        assert runs.fetch(count, str(parent)) == before + 1
        runs.set_status(parent, "running")
        runs.set_status(child, "completed")
        assert runs.status(parent) == "running"


def test_children_of_another_call_do_not_wake_a_run(runs: OwnerRuns) -> None:
    parent = runs.create()
    for call in ("first", "second"):
        runs.record_call(parent, call=call)
    other, awaited_call = runs.create_child(parent, "first"), runs.create_child(parent, "second")
    runs.await_runs(parent, "second")
    assert runs.detach(parent) == "awaiting_runs"
    runs.set_status(other, "completed")
    assert runs.status(parent) == "awaiting_runs"
    runs.set_status(awaited_call, "completed")
    assert runs.status(parent) == "queued"


def test_run_without_open_children_is_queued(runs: OwnerRuns) -> None:
    parent = runs.create()
    runs.record_call(parent)
    runs.set_status(runs.create_child(parent), "completed")
    runs.await_runs(parent)
    assert runs.detach(parent) == "queued"
    assert runs.run_columns(parent, "status, waiting_call") == ("queued", "call")
    assert runs.call_columns(parent, "status") == ("waiting",)
    # After a decision without a CLI attached, no CLI has to end first.
    decided = runs.create_waiting()
    assert runs.decide(decided) == "approved"
    runs.set_status(runs.create_child(decided), "completed")
    runs.await_runs(decided)
    assert runs.run_columns(decided, "status, attached") == ("queued", False)


def test_run_is_woken_only_after_its_cli_ended(runs: OwnerRuns) -> None:
    parent = runs.create()
    runs.record_call(parent)
    child = runs.create_child(parent)
    runs.await_runs(parent)
    runs.fence(parent)  # the CLI may still report what came before
    runs.assert_rejected("PT410", lambda: runs.fence(parent, runs.token + 1))
    runs.set_status(child, "completed")
    assert runs.run_columns(parent, "status, attached") == ("awaiting_runs", True)
    assert runs.detach(parent) == "queued"
    assert runs.run_columns(parent, "status, attached, waiting_call") == ("queued", False, "call")
    runs.assert_rejected("PT410", lambda: runs.fence(parent))


@pytest.mark.parametrize("is_open", [True, False])
def test_run_of_a_dead_worker_continues_after_its_children(runs: OwnerRuns, is_open: bool) -> None:
    parent = runs.create()
    runs.record_call(parent)
    child = runs.create_child(parent)
    runs.await_runs(parent)
    if not is_open:
        runs.set_status(child, "completed")
    runs.detach_dead_worker(parent)
    assert runs.run_columns(parent, "status, attached") == ("awaiting_runs" if is_open else "queued", False)
    # That worker can write nothing more, if it only seemed dead.
    runs.assert_rejected("PT410", lambda: runs.detach(parent))
    runs.assert_rejected("PT410", lambda: runs.fence(parent))


def test_approved_call_may_start_runs(runs: OwnerRuns) -> None:
    run = runs.create_waiting(attached=True)
    assert runs.decide(run) == "approved"
    child = runs.create_child(run)
    runs.await_runs(run)
    assert runs.run_columns(run, "status, attached") == ("awaiting_runs", True)  # its CLI is still there
    assert runs.resume(run) == "awaiting_runs"  # it does not go on before they have ended
    assert runs.detach(run) == "awaiting_runs"
    runs.set_status(child, "completed")
    assert runs.status(run) == "queued"


def test_only_an_approved_call_of_an_active_run_waits_for_children(runs: OwnerRuns) -> None:
    run = runs.create()
    runs.assert_rejected("PT409", lambda: runs.await_runs(run))
    runs.record_call(run, "pending")
    runs.assert_rejected("PT409", lambda: runs.await_runs(run))
    runs.record_call(run, call="done")
    runs.finish(run, call="done")
    runs.assert_rejected("PT409", lambda: runs.await_runs(run, "done"))
    queued = runs.create("queued")
    runs.assert_rejected("PT410", lambda: runs.await_runs(queued))


# Cancelling ----------------------------------------------------------------------------------------------------------


def test_cancelling_a_run_cancels_descendants_only(runs: OwnerRuns) -> None:
    root, (middle, other) = create_waiting_parent(runs)
    runs.record_call(middle)
    leaf, waiting_run, ended = (runs.create_child(middle) for _ in range(3))
    runs.record_call(waiting_run, "pending")
    runs.await_approval(waiting_run)
    runs.set_status(ended, "completed")
    runs.await_runs(middle)
    assert runs.cancel(middle) is True
    assert [runs.status(run) for run in (middle, leaf, waiting_run, ended)] == [*["cancelled"] * 3, "completed"]
    assert [runs.status(run) for run in (root, other)] == ["awaiting_runs", "running"]
    for run in (middle, leaf, waiting_run):
        (last,) = runs.events(run)
        assert last == {
            "type": "error",
            "error": "No more.",
            "code": "cancelled",
            "run_id": str(run),
            "text": "No more.",
        }
    assert runs.events(ended) == []
    assert runs.call_columns(waiting_run, "status, approved_by") == ("refused", None)
    assert runs.call_columns(middle, "status, code, result") == ("failed", "cancelled", "No more.")
    assert runs.run_columns(middle, "waiting_call, error_code") == (None, "cancelled")
    assert runs.cancel(middle) is False and runs.cancel(ended) is False
    runs.set_status(other, "completed")
    assert runs.status(root) == "queued" and runs.cancel(root) is True
    assert [runs.status(run) for run in (root, middle, ended)] == ["cancelled", "cancelled", "completed"]


def charge(runs: OwnerRuns, run: Any, cost: float, message: str = "m") -> str | None:
    return runs.fetch(
        "select private.charge(%s, %s, 'talker', %s, 'm', 1, 1, 0, 0, 0, %s)", run, runs.sample.org, message, str(cost)
    )


def test_child_runs_are_deleted_with_their_parent_and_usage_is_kept(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        runs = OwnerRuns(connection, sample)

        def costs(*run_ids: Any) -> list[Any]:
            return [runs.fetch("select private.cost_of_run(%s)", run) for run in run_ids]

        root, (child, other) = create_waiting_parent(runs)
        leaf = runs.create_child(child)
        for run, cost in ((root, 1), (child, 2), (other, 4), (leaf, 8)):
            charge(runs, run, cost)
        assert costs(root, child, other, leaf) == [15, 10, 4, 8]
        runs.set_status(other, "completed")  # by itself it is deleted as little as an open run
        for run in (other, root):
            runs.assert_rejected("PT409", lambda run=run: connection.execute("select delete_run(%s)", [run]))
        connection.execute("reset role")
        connection.execute("delete from runs where id = %s", [child])
        assert runs.run_columns(leaf, "id") is None and costs(root, other) == [15, 4]
        # A message that comes late is still the root's to pay.
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        assert charge(runs, child, 16, "late") is None
        connection.execute("reset role")
        connection.execute("delete from runs where id = %s", [root])
        assert runs.run_columns(other, "id") is None and costs(root) == [31]


# Budgets and capacity ------------------------------------------------------------------------------------------------


def test_budget_covers_the_root_and_all_descendants(runs: OwnerRuns) -> None:
    root = runs.create(max_cost_usd=10)
    child = runs.create(parent_run_id=root, parent_call_id="call", max_cost_usd=9.5)
    leaf = runs.create_child(child, status="queued")
    room = "select private.check_capacity(%s, %s)"
    assert runs.fetch(room, leaf, True) == "granted"
    assert charge(runs, child, 9) is None
    assert charge(runs, child, 0.5, "n") == "max_cost"  # its own
    assert charge(runs, root, 0.4) is None
    assert charge(runs, root, 0.1, "n") == "max_cost"
    assert runs.fetch(room, leaf, True) == "max_cost" and runs.fetch(room, leaf, False) == "model_unpriced"
    assert runs.fetch(room, runs.create("queued"), True) == "granted"


def test_parent_and_child_share_a_capacity_of_one(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        connection.execute("update credit_limits set max_concurrent_runs = 1, max_usd = null")
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        runs = OwnerRuns(connection, sample)
        room = "select private.check_capacity(%s, true)"
        parent = runs.create()
        runs.record_call(parent)
        child = runs.create_child(parent, status="queued")
        assert runs.fetch(room, child) == "held"
        runs.await_runs(parent)
        runs.detach(parent)
        connection.execute("set constraints all immediate")  # the end of the transaction
        assert runs.run_columns(child, "waiting_for_capacity_since") == (None,) and runs.fetch(room, child) == "granted"
        runs.set_status(child, "running")
        runs.set_status(child, "completed")
        assert runs.status(parent) == "queued" and runs.fetch(room, parent) == "granted"


# Concurrency ---------------------------------------------------------------------------------------------------------


def run_status(pair: Pair, run: Any) -> Any:
    return (pair.observer.execute("select status from runs where id = %s", [run]).fetchone() or (None,))[0]


def commit_with_owner_runs(pair: Pair, action: Any) -> Any:
    pair.observer.execute("delete from credit_limits")
    with pair.transaction(pair.first) as connection:
        return action(OwnerRuns(connection, pair.sample))


def end_child(pair: Pair, run: Any) -> Any:
    return lambda connection: OwnerRuns(connection, pair.sample).set_status(run, "completed")


def test_parent_is_woken_once_if_two_children_end_together(pair: Pair) -> None:
    parent, (first, second) = commit_with_owner_runs(pair, create_waiting_parent)
    pair.run_overlapping(end_child(pair, first), end_child(pair, second))
    assert run_status(pair, parent) == "queued"


def test_child_ending_while_its_parent_starts_waiting_is_noticed(pair: Pair) -> None:
    def create_parent_and_child(runs: OwnerRuns) -> tuple[Any, Any]:
        parent = runs.create()
        runs.record_call(parent)
        return parent, runs.create_child(parent)

    parent, child = commit_with_owner_runs(pair, create_parent_and_child)

    def wait(connection: psycopg.Connection) -> None:
        runs = OwnerRuns(connection, pair.sample)
        runs.claim(parent)
        runs.await_runs(parent)
        runs.detach(parent)

    pair.run_overlapping(wait, end_child(pair, child))
    assert run_status(pair, parent) == "queued"


def test_run_decided_while_its_cli_ends_waits_for_new_children(pair: Pair) -> None:
    parent = commit_with_owner_runs(pair, lambda runs: runs.create_waiting(attached=True))
    started: list[Any] = []

    def decide(connection: psycopg.Connection) -> None:
        runs = OwnerRuns(connection, pair.sample)
        runs.decide(parent)
        runs.claim(parent)
        started.append(runs.create_child(parent))
        runs.await_runs(parent)

    left = pair.run_overlapping(decide, lambda connection: OwnerRuns(connection, pair.sample).detach(parent))
    assert left == "awaiting_runs"
    with pair.transaction(pair.first) as connection:
        end_child(pair, started[0])(connection)
    assert run_status(pair, parent) == "queued"


def test_cancelling_a_run_while_its_child_ends_does_not_deadlock(pair: Pair) -> None:
    parent, (child,) = commit_with_owner_runs(pair, lambda runs: create_waiting_parent(runs, 1))
    with pair.transaction(pair.first) as connection:
        connection.execute("select from runs where id = %s for no key update", [child])
        cancelled = pair.start_blocked(lambda other: OwnerRuns(other, pair.sample).cancel(parent))
        end_child(pair, child)(connection)
    assert cancelled.result(timeout=60) is True
    assert (run_status(pair, parent), run_status(pair, child)) == ("cancelled", "completed")

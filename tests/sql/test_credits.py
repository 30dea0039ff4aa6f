"""Room and credit in an organisation: asked for by many at once, never given twice, and no run forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import House, become, furnish


@dataclass(frozen=True)
class Office:
    """A house whose owner starts runs, each on an extraction of its own, and connections of several workers."""

    house: House
    owner: psycopg.Connection
    workers: list[psycopg.Connection]

    def limit(self, max_usd: str | None = None, runs: int | None = None) -> None:
        self.owner.execute(
            "update credit_limits set max_usd = %s, max_concurrent_runs = %s where org_id = %s",
            [max_usd, runs, self.house.org],
        )

    def launch(self, count: int, **columns: Any) -> list[UUID]:
        return [self.start(self.extraction(), **columns) for _ in range(count)]

    def extraction(self) -> UUID:
        house, extraction = self.house, uuid4()
        self.owner.execute(
            "insert into extractions (id, org_id, document_id, created_by) values (%s, %s, %s, %s)",
            [extraction, house.org, house.document, house.owner],
        )
        return extraction

    def start(self, extraction: UUID, max_cost_usd: str | None = None) -> UUID:
        house, run = self.house, uuid4()
        self.owner.execute(
            "insert into runs (id, org_id, agent, task, document_id, extraction_id, created_by, max_cost_usd) "
            "values (%s, %s, 'extraction', 'extract', %s, %s, %s, %s)",
            [run, house.org, house.document, extraction, house.owner, max_cost_usd],
        )
        self.owner.execute("delete from queue.procrastinate_jobs")
        return run

    def take(self, run: UUID, priced: bool = True, worker: int = 0) -> str | None:
        """What a worker does with a run's job."""
        connection = self.workers[worker]
        with connection.transaction():
            become(connection, "authenticated", {"sub": str(self.house.owner), "org_id": str(self.house.org)})
            row = connection.execute("select private.find_room(%s, %s)", [run, priced]).fetchone()
            answer = row and row[0]
            if answer == "granted":
                connection.execute(
                    "update runs set status = 'running', fencing_token = fencing_token + 1, "
                    "waiting_for_capacity_since = null "
                    "where id = %s",
                    [run],
                )
            return answer

    def charge(self, run: UUID, cost: str | None, worker: int = 0, message: str | None = None) -> Any:
        connection = self.workers[worker]
        with connection.transaction():
            become(connection, "authenticated", {"sub": str(self.house.owner), "org_id": str(self.house.org)})
            row = connection.execute(
                "select private.charge(%s, %s, 'extraction', %s, 'm', 1, 1, 0, 0, 0, %s)",
                [run, self.house.org, message or str(uuid4()), cost],
            ).fetchone()
            return row and row[0]

    def end(self, run: UUID, status: str = "completed") -> None:
        if status == "deleted":
            self.owner.execute("delete from runs where id = %s", [run])
            return
        self.owner.execute("update runs set status = %s, waiting_call = 'c' where id = %s", [status, run])

    def status(self, run: UUID) -> tuple[str, bool]:
        """Its status, and whether it is held."""
        row = self.owner.execute(
            "select status, waiting_for_capacity_since is not null from runs where id = %s", [run]
        ).fetchone()
        assert row is not None
        return row

    def jobs(self) -> list[UUID]:
        """The runs in the queue, in order; those are then gone from it."""
        with self.owner.transaction():
            rows = self.owner.execute("select args ->> 'run_id' from queue.procrastinate_jobs order by id").fetchall()
            self.owner.execute("delete from queue.procrastinate_jobs")
        return [UUID(run) for (run,) in rows]

    def at_once(self, *calls: Any) -> list[Any]:
        """Call each with a worker of its own, all at the same moment."""
        barrier = Barrier(len(calls))

        def go(worker: int) -> Any:
            barrier.wait()
            return calls[worker](worker)

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(go, range(len(calls))))


@pytest.fixture
def office(clone: Any) -> Iterator[Office]:
    with ExitStack() as stack:
        owner = stack.enter_context(psycopg.connect(clone.owner_url, autocommit=True))
        workers = [stack.enter_context(psycopg.connect(clone.app_url, autocommit=True)) for _ in range(4)]
        owner.execute("set search_path = public, queue")  # its triggers name no schema
        house = furnish(owner)
        owner.execute(
            "update documents set status = 'ready', media_type = 'a/b', page_count = 1 where id = %s", [house.document]
        )
        owner.execute(
            "delete from runs; delete from usage; delete from usage_by_day; delete from queue.procrastinate_jobs"
        )
        yield Office(house, owner, workers)


# Room ----------------------------------------------------------------------------------------------------------------


def test_runs_start_up_to_the_capacity(office: Office) -> None:
    office.limit(runs=2)
    runs = office.launch(4)
    answers = office.at_once(*[lambda worker, run=run: office.take(run, worker=worker) for run in runs])
    assert Counter(answers) == {"granted": 2, "held": 2}
    held = [run for run, answer in zip(runs, answers, strict=True) if answer == "held"]
    assert all(office.status(run) == ("queued", True) for run in held) and office.jobs() == []
    # As each ends, the oldest that waits goes on, until all have had their turn.
    working = [run for run in runs if run not in held]
    assert office.take(working[0]) == "granted"  # it has its place already
    while working:
        office.end(working.pop(0))
        for run in office.jobs():
            assert run == held.pop(0) and office.take(run) == "granted"
            working.append(run)
    assert held == [] and {office.status(run) for run in runs} == {("completed", False)}


def test_run_asking_for_capacity_while_another_ends_is_not_lost(office: Office) -> None:
    """Whichever comes first: nothing waits for ever."""
    office.limit(runs=1)
    for _ in range(10):
        first, second = office.launch(2)
        assert office.take(first) == "granted"
        _, answer = office.at_once(
            lambda _, run=first: office.end(run), lambda worker, run=second: office.take(run, worker=worker)
        )
        assert (answer, office.jobs()) in [("granted", []), ("held", [second])]
        if answer == "held":
            assert office.take(second) == "granted"
        office.end(second)


def test_capacity_is_freed_however_a_run_ends(office: Office) -> None:
    office.limit(runs=1)
    for how in ("cancelled", "deleted", "awaiting_approval", "queued"):
        first, second, third, fourth = office.launch(4)
        assert [office.take(run) for run in (first, second, third, fourth)] == ["granted", "held", "held", "held"]
        office.end(fourth, "cancelled")  # one that waits and is cancelled is left alone
        office.end(first, how)
        assert set(office.jobs()) == ({first, second} if how == "queued" else {second}), how
        # The second was let go on and never starts.
        office.end(second, "deleted" if how == "deleted" else "cancelled")
        assert office.jobs() == [third] and office.take(third) == "granted"
        for run in (first, third):
            office.end(run, "deleted")
        office.jobs()


def test_ending_a_run_locks_the_organisation_only_at_the_commit(office: Office) -> None:
    """The lock comes after all rows: the other way round two could wait for each other for ever."""
    office.limit(runs=1)
    first, second = office.launch(2)
    assert office.take(first) == "granted"
    office.workers[0].execute("set lock_timeout = '2s'")
    with office.owner.transaction():
        office.end(first)
        assert office.take(second) == "held"
    assert office.jobs() == [second]


def test_raised_capacity_is_used_at_once(office: Office) -> None:
    office.limit(runs=1)
    runs = office.launch(3)
    assert [office.take(run) for run in runs] == ["granted", "held", "held"]
    office.owner.execute("delete from credit_limits")
    # The next is let go on when the one before it has started.
    for run in runs[1:]:
        assert office.jobs() == [run] and office.take(run) == "granted"
    assert office.jobs() == []


def test_runs_with_one_lock_key_run_in_order(office: Office) -> None:
    """Also where the older was put back into the queue while the younger was at work."""
    office.limit(runs=2)
    extraction = office.extraction()
    first, second = office.start(extraction), office.start(extraction)
    assert (office.take(second), office.take(first)) == ("held", "granted")
    office.end(first, "awaiting_approval")
    assert office.jobs() == [second] and office.take(second) == "granted"
    office.end(first, "queued")
    assert office.jobs() == [first] and office.take(first) == "held"
    # Room is not left to one that is blocked: a run that could start would wait for nothing.
    other, free = office.launch(2)
    assert (office.take(other), office.take(free)) == ("granted", "held")
    office.end(other)
    assert office.jobs() == [free] and office.take(free) == "granted"
    office.end(second)
    assert office.jobs() == [first] and office.take(first) == "granted"


def test_capacity_counts_all_members_and_no_other_organisation(office: Office) -> None:
    """Also in threads that whoever asks for room does not see."""
    house = office.house
    office.limit(runs=1)
    office.owner.execute(
        "insert into runs (org_id, agent, task, document_id, extraction_id, created_by, status) "
        "values (%s, 'extraction', 'extract', %s, %s, %s, 'running')",
        [house.other_org, house.other_document, house.other_extraction, house.stranger],
    )
    (run,) = office.launch(1)
    (thread,) = office.owner.execute(
        "insert into threads (org_id, agent, created_by) values (%s, 'talker', %s) returning id",
        [house.org, house.member],
    ).fetchone() or (None,)
    office.owner.execute(
        "insert into runs (org_id, agent, task, thread_id, created_by, status) "
        "values (%s, 'talker', 'talk', %s, %s, 'running')",
        [house.org, thread, house.member],
    )
    assert office.take(run) == "held"
    office.limit(runs=2)
    assert office.take(run) == "granted"


# Credit --------------------------------------------------------------------------------------------------------------


def test_parallel_runs_exceed_the_limit_only_by_messages_in_progress(office: Office) -> None:
    """Each may have a message that the others do not see yet, and ask for one more."""
    office.limit("1")
    runs = office.launch(4)
    step = Decimal("0.03")
    assert {office.take(run) for run in runs} == {"granted"}

    def go(run: UUID, worker: int) -> int:
        steps = 1
        while office.charge(run, str(step), worker) is None:
            steps += 1
        return steps

    taken = office.at_once(*[lambda worker, run=run: go(run, worker) for run in runs])
    spent = office.owner.execute("select sum(cost_usd) from usage where org_id = %s", [office.house.org]).fetchone()
    assert spent == (sum(taken) * step,) and 1 <= spent[0] <= 1 + 2 * 4 * step


def test_without_credit_runs_neither_start_nor_continue(office: Office) -> None:
    office.limit("0.25", runs=1)
    first, second = office.launch(2)
    assert office.take(first) == "granted"
    assert office.charge(first, "0.2") is None
    assert office.take(second) == "held"
    assert office.charge(first, "0.1") == "out_of_credit"
    office.end(first, "cancelled")
    assert office.jobs() == [second] and office.take(second) == "out_of_credit"


def test_unpriced_model_runs_only_without_limits(office: Office) -> None:
    for max_usd, max_cost_usd in (("9", None), (None, "9"), (None, None)):
        office.limit(max_usd)
        (run,) = office.launch(1, max_cost_usd=max_cost_usd)
        assert office.take(run, False) == ("model_unpriced" if max_usd or max_cost_usd else "granted")
    cost = "select private.cost_of_run(%s)"
    office.charge(run, "0.1")
    assert office.owner.execute(cost, [run]).fetchone() == (Decimal("0.1"),)
    office.charge(run, None)
    assert office.owner.execute(cost, [run]).fetchone() == (None,)


def test_only_the_service_can_charge_its_organisation(office: Office) -> None:
    house = office.house
    (run,) = office.launch(1)
    charge = "select private.charge(%s, %s, 'extraction', 'm', 'm', 1, 1, 0, 0, 0, 1)"
    for on, user, org in (
        (office.workers[0], house.stranger, house.other_org),
        (office.owner, house.owner, house.org),  # a front end, for its own organisation
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), on.transaction():
            if on is office.owner:
                on.execute("set local session authorization authenticator")
            become(on, "authenticated", {"sub": str(user), "org_id": str(org)})
            on.execute(charge, [run, house.org])
    assert office.charge(run, "1") is None


# Sums ----------------------------------------------------------------------------------------------------------------


def sums(office: Office) -> tuple[Any, ...]:
    row = office.owner.execute("select count(*), sum(messages), sum(cost_usd) from usage_by_day").fetchone()
    assert row is not None
    return row


def test_each_message_is_charged_once(office: Office) -> None:
    """What the model's service calls its messages proves nothing: ours are counted by attempt and position."""
    (run,) = office.launch(1)
    assert office.take(run) == "granted"
    for ours in ("1.1 same", "1.2 same", "2.1 same", "2.1 same", "1.2 same"):
        assert office.charge(run, "0.1", message=ours) is None
    office.at_once(*[lambda worker: office.charge(run, "0.1", worker=worker, message="m") for _ in range(4)])
    assert office.owner.execute("select count(*), sum(cost_usd) from usage").fetchone() == (4, Decimal("0.4"))
    assert sums(office)[1:] == (4, Decimal("0.4"))


def test_daily_usage_counts_concurrent_messages(office: Office) -> None:
    office.limit("1000")
    runs = office.launch(4)
    assert {office.take(run) for run in runs} == {"granted"}

    def go(run: UUID, worker: int) -> None:
        for _ in range(25):
            assert office.charge(run, "0.01", worker=worker) is None

    office.at_once(*[lambda worker, run=run: go(run, worker) for run in runs])
    rows, *rest = sums(office)
    assert rest == [100, 1] and rows > 1  # connections have a row each, and do not wait for each other
    # No lock of the organisation is held while the disk writes.
    office.workers[0].execute("set lock_timeout = '2s'")
    with office.owner.transaction():
        office.owner.execute("select from organisations where id = %s for no key update", [office.house.org])
        assert office.charge(runs[0], "0.1") is None

"""Capacity and credit of an organisation under concurrency: never granted twice, and no run is forgotten."""

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
from role_connections import Sample, insert_sample_rows, set_role


@dataclass(frozen=True)
class OrganisationRuns:
    """The runs of one organisation, and connections of several workers."""

    sample: Sample
    owner: psycopg.Connection
    workers: list[psycopg.Connection]

    def set_limits(self, max_usd: str | None = None, runs: int | None = None) -> None:
        self.owner.execute(
            "update credit_limits set max_usd = %s, max_concurrent_runs = %s where org_id = %s",
            [max_usd, runs, self.sample.org],
        )

    def create_many(self, count: int, **columns: Any) -> list[UUID]:
        return [self.create(self.create_extraction(), **columns) for _ in range(count)]

    def create_extraction(self) -> UUID:
        sample, extraction = self.sample, uuid4()
        self.owner.execute(
            "insert into extractions (id, org_id, document_id, created_by) values (%s, %s, %s, %s)",
            [extraction, sample.org, sample.document, sample.owner],
        )
        return extraction

    def create(self, extraction: UUID, max_cost_usd: str | None = None) -> UUID:
        sample, run = self.sample, uuid4()
        self.owner.execute(
            "insert into runs (id, org_id, agent, task, document_id, extraction_id, created_by, max_cost_usd) "
            "values (%s, %s, 'extraction', 'extract', %s, %s, %s, %s)",
            [run, sample.org, sample.document, extraction, sample.owner, max_cost_usd],
        )
        self.owner.execute("delete from queue.procrastinate_jobs")
        return run

    def start_job(self, run: UUID, priced: bool = True, worker: int = 0) -> str | None:
        connection = self.workers[worker]
        with connection.transaction():
            set_role(connection, "authenticated", {"sub": str(self.sample.owner), "org_id": str(self.sample.org)})
            row = connection.execute("select private.check_capacity(%s, %s)", [run, priced]).fetchone()
            result = row and row[0]
            if result == "granted":
                connection.execute(
                    "update runs set status = 'running', fencing_token = fencing_token + 1, "
                    "waiting_for_capacity_since = null "
                    "where id = %s",
                    [run],
                )
            return result

    def charge(self, run: UUID, cost: str | None, worker: int = 0, message: str | None = None) -> Any:
        connection = self.workers[worker]
        with connection.transaction():
            set_role(connection, "authenticated", {"sub": str(self.sample.owner), "org_id": str(self.sample.org)})
            row = connection.execute(
                "select private.charge(%s, %s, 'extraction', %s, 'm', 1, 1, 0, 0, 0, %s)",
                [run, self.sample.org, message or str(uuid4()), cost],
            ).fetchone()
            return row and row[0]

    def end_run(self, run: UUID, status: str = "completed") -> None:
        if status == "deleted":
            self.owner.execute("delete from runs where id = %s", [run])
            return
        self.owner.execute("update runs set status = %s, waiting_call = 'c' where id = %s", [status, run])

    def status(self, run: UUID) -> tuple[str, bool]:
        row = self.owner.execute(
            "select status, waiting_for_capacity_since is not null from runs where id = %s", [run]
        ).fetchone()
        assert row is not None
        return row

    def jobs(self) -> list[UUID]:
        """Remove all jobs from the queue and return their runs in order."""
        with self.owner.transaction():
            rows = self.owner.execute("select args ->> 'run_id' from queue.procrastinate_jobs order by id").fetchall()
            self.owner.execute("delete from queue.procrastinate_jobs")
        return [UUID(run) for (run,) in rows]

    def run_together(self, *calls: Any) -> list[Any]:
        """Run all calls at the same time, each with the number of its own worker."""
        barrier = Barrier(len(calls))

        def use_worker(worker: int) -> Any:
            barrier.wait()
            return calls[worker](worker)

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(use_worker, range(len(calls))))


@pytest.fixture
def runs_of_org(clone: Any) -> Iterator[OrganisationRuns]:
    with ExitStack() as stack:
        owner = stack.enter_context(psycopg.connect(clone.owner_url, autocommit=True))
        workers = [stack.enter_context(psycopg.connect(clone.app_url, autocommit=True)) for _ in range(4)]
        owner.execute("set search_path = public, queue")  # its triggers name no schema
        sample = insert_sample_rows(owner)
        owner.execute(
            "update documents set status = 'ready', media_type = 'a/b', page_count = 1 where id = %s", [sample.document]
        )
        owner.execute(
            "delete from runs; delete from usage; delete from usage_by_day; delete from queue.procrastinate_jobs"
        )
        yield OrganisationRuns(sample, owner, workers)


# Capacity ------------------------------------------------------------------------------------------------------------


def test_runs_start_up_to_the_capacity(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits(runs=2)
    runs = runs_of_org.create_many(4)
    results = runs_of_org.run_together(
        *[lambda worker, run=run: runs_of_org.start_job(run, worker=worker) for run in runs]
    )
    assert Counter(results) == {"granted": 2, "held": 2}
    held = [run for run, result in zip(runs, results, strict=True) if result == "held"]
    assert all(runs_of_org.status(run) == ("queued", True) for run in held) and runs_of_org.jobs() == []
    # When a run ends, the oldest waiting run starts.
    working = [run for run in runs if run not in held]
    assert runs_of_org.start_job(working[0]) == "granted"  # it runs already
    while working:
        runs_of_org.end_run(working.pop(0))
        for run in runs_of_org.jobs():
            assert run == held.pop(0) and runs_of_org.start_job(run) == "granted"
            working.append(run)
    assert held == [] and {runs_of_org.status(run) for run in runs} == {("completed", False)}


def test_run_asking_for_capacity_while_another_ends_is_not_lost(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits(runs=1)
    for _ in range(10):
        first, second = runs_of_org.create_many(2)
        assert runs_of_org.start_job(first) == "granted"
        _, result = runs_of_org.run_together(
            lambda _, run=first: runs_of_org.end_run(run),
            lambda worker, run=second: runs_of_org.start_job(run, worker=worker),
        )
        assert (result, runs_of_org.jobs()) in [("granted", []), ("held", [second])]
        if result == "held":
            assert runs_of_org.start_job(second) == "granted"
        runs_of_org.end_run(second)


def test_capacity_is_freed_however_a_run_ends(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits(runs=1)
    for how in ("cancelled", "deleted", "awaiting_approval", "queued"):
        first, second, third, fourth = runs_of_org.create_many(4)
        assert [runs_of_org.start_job(run) for run in (first, second, third, fourth)] == [
            "granted",
            "held",
            "held",
            "held",
        ]
        runs_of_org.end_run(fourth, "cancelled")  # cancelling a waiting run starts no other
        runs_of_org.end_run(first, how)
        assert set(runs_of_org.jobs()) == ({first, second} if how == "queued" else {second}), how
        # The second run was queued and is deleted before it starts.
        runs_of_org.end_run(second, "deleted" if how == "deleted" else "cancelled")
        assert runs_of_org.jobs() == [third] and runs_of_org.start_job(third) == "granted"
        for run in (first, third):
            runs_of_org.end_run(run, "deleted")
        runs_of_org.jobs()


def test_ending_a_run_locks_the_organisation_only_at_the_commit(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits(runs=1)
    first, second = runs_of_org.create_many(2)
    assert runs_of_org.start_job(first) == "granted"
    runs_of_org.workers[0].execute("set lock_timeout = '2s'")
    with runs_of_org.owner.transaction():
        runs_of_org.end_run(first)
        assert runs_of_org.start_job(second) == "held"
    assert runs_of_org.jobs() == [second]


def test_raised_capacity_is_used_at_once(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits(runs=1)
    runs = runs_of_org.create_many(3)
    assert [runs_of_org.start_job(run) for run in runs] == ["granted", "held", "held"]
    runs_of_org.owner.execute("delete from credit_limits")
    # The next run is queued when the one before it starts.
    for run in runs[1:]:
        assert runs_of_org.jobs() == [run] and runs_of_org.start_job(run) == "granted"
    assert runs_of_org.jobs() == []


def test_runs_with_one_lock_key_run_in_order(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits(runs=2)
    extraction = runs_of_org.create_extraction()
    first, second = runs_of_org.create(extraction), runs_of_org.create(extraction)
    assert (runs_of_org.start_job(second), runs_of_org.start_job(first)) == ("held", "granted")
    runs_of_org.end_run(first, "awaiting_approval")
    assert runs_of_org.jobs() == [second] and runs_of_org.start_job(second) == "granted"
    runs_of_org.end_run(first, "queued")
    assert runs_of_org.jobs() == [first] and runs_of_org.start_job(first) == "held"
    # Capacity is not reserved for a blocked run.
    other, free = runs_of_org.create_many(2)
    assert (runs_of_org.start_job(other), runs_of_org.start_job(free)) == ("granted", "held")
    runs_of_org.end_run(other)
    assert runs_of_org.jobs() == [free] and runs_of_org.start_job(free) == "granted"
    runs_of_org.end_run(second)
    assert runs_of_org.jobs() == [first] and runs_of_org.start_job(first) == "granted"


def test_capacity_counts_all_members_and_no_other_organisation(runs_of_org: OrganisationRuns) -> None:
    sample = runs_of_org.sample
    runs_of_org.set_limits(runs=1)
    runs_of_org.owner.execute(
        "insert into runs (org_id, agent, task, document_id, extraction_id, created_by, status) "
        "values (%s, 'extraction', 'extract', %s, %s, %s, 'running')",
        [sample.other_org, sample.other_document, sample.other_extraction, sample.stranger],
    )
    (run,) = runs_of_org.create_many(1)
    (thread,) = runs_of_org.owner.execute(
        "insert into threads (org_id, agent, created_by) values (%s, 'talker', %s) returning id",
        [sample.org, sample.member],
    ).fetchone() or (None,)
    runs_of_org.owner.execute(
        "insert into runs (org_id, agent, task, thread_id, created_by, status) "
        "values (%s, 'talker', 'talk', %s, %s, 'running')",
        [sample.org, thread, sample.member],
    )
    assert runs_of_org.start_job(run) == "held"
    runs_of_org.set_limits(runs=2)
    assert runs_of_org.start_job(run) == "granted"


# Credit --------------------------------------------------------------------------------------------------------------


def test_parallel_runs_exceed_the_limit_only_by_messages_in_progress(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits("1")
    runs = runs_of_org.create_many(4)
    step = Decimal("0.03")
    assert {runs_of_org.start_job(run) for run in runs} == {"granted"}

    def use_worker(run: UUID, worker: int) -> int:
        steps = 1
        while runs_of_org.charge(run, str(step), worker) is None:
            steps += 1
        return steps

    taken = runs_of_org.run_together(*[lambda worker, run=run: use_worker(run, worker) for run in runs])
    spent = runs_of_org.owner.execute(
        "select sum(cost_usd) from usage where org_id = %s", [runs_of_org.sample.org]
    ).fetchone()
    assert spent == (sum(taken) * step,) and 1 <= spent[0] <= 1 + 2 * 4 * step


def test_without_credit_runs_neither_start_nor_continue(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits("0.25", runs=1)
    first, second = runs_of_org.create_many(2)
    assert runs_of_org.start_job(first) == "granted"
    assert runs_of_org.charge(first, "0.2") is None
    assert runs_of_org.start_job(second) == "held"
    assert runs_of_org.charge(first, "0.1") == "out_of_credit"
    runs_of_org.end_run(first, "cancelled")
    assert runs_of_org.jobs() == [second] and runs_of_org.start_job(second) == "out_of_credit"


def test_unpriced_model_runs_only_without_limits(runs_of_org: OrganisationRuns) -> None:
    for max_usd, max_cost_usd in (("9", None), (None, "9"), (None, None)):
        runs_of_org.set_limits(max_usd)
        (run,) = runs_of_org.create_many(1, max_cost_usd=max_cost_usd)
        assert runs_of_org.start_job(run, False) == ("model_unpriced" if max_usd or max_cost_usd else "granted")
    cost = "select private.cost_of_run(%s)"
    runs_of_org.charge(run, "0.1")
    assert runs_of_org.owner.execute(cost, [run]).fetchone() == (Decimal("0.1"),)
    runs_of_org.charge(run, None)
    assert runs_of_org.owner.execute(cost, [run]).fetchone() == (None,)


def test_only_the_service_can_charge_its_organisation(runs_of_org: OrganisationRuns) -> None:
    """"""
    sample = runs_of_org.sample
    (run,) = runs_of_org.create_many(1)
    charge = "select private.charge(%s, %s, 'extraction', 'm', 'm', 1, 1, 0, 0, 0, 1)"
    for on, user, org in (
        (runs_of_org.workers[0], sample.stranger, sample.other_org),
        (runs_of_org.owner, sample.owner, sample.org),  # a front end, for its own organisation
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), on.transaction():
            if on is runs_of_org.owner:
                on.execute("set local session authorization authenticator")
            set_role(on, "authenticated", {"sub": str(user), "org_id": str(org)})
            on.execute(charge, [run, sample.org])
    assert runs_of_org.charge(run, "1") is None


# Sums ----------------------------------------------------------------------------------------------------------------


def recorded_costs(runs_of_org: OrganisationRuns) -> tuple[Any, ...]:
    row = runs_of_org.owner.execute("select count(*), sum(messages), sum(cost_usd) from usage_by_day").fetchone()
    assert row is not None
    return row


def test_each_message_is_charged_once(runs_of_org: OrganisationRuns) -> None:
    """Messages are counted by attempt and position, since message ids of the model provider are not trusted."""
    (run,) = runs_of_org.create_many(1)
    assert runs_of_org.start_job(run) == "granted"
    for own_messages in ("1.1 same", "1.2 same", "2.1 same", "2.1 same", "1.2 same"):
        assert runs_of_org.charge(run, "0.1", message=own_messages) is None
    runs_of_org.run_together(
        *[lambda worker: runs_of_org.charge(run, "0.1", worker=worker, message="m") for _ in range(4)]
    )
    assert runs_of_org.owner.execute("select count(*), sum(cost_usd) from usage").fetchone() == (4, Decimal("0.4"))
    assert recorded_costs(runs_of_org)[1:] == (4, Decimal("0.4"))


def test_daily_usage_counts_concurrent_messages(runs_of_org: OrganisationRuns) -> None:
    runs_of_org.set_limits("1000")
    runs = runs_of_org.create_many(4)
    assert {runs_of_org.start_job(run) for run in runs} == {"granted"}

    def use_worker(run: UUID, worker: int) -> None:
        for _ in range(25):
            assert runs_of_org.charge(run, "0.01", worker=worker) is None

    runs_of_org.run_together(*[lambda worker, run=run: use_worker(run, worker) for run in runs])
    rows, *rest = recorded_costs(runs_of_org)
    slots = {worker.info.backend_pid % 8 for worker in runs_of_org.workers}  # connections of a slot share a row
    assert rest == [100, 1] and rows >= len(slots)  # others do not wait for each other
    # No lock of the organisation is held while the disk writes.
    runs_of_org.workers[0].execute("set lock_timeout = '2s'")
    with runs_of_org.owner.transaction():
        runs_of_org.owner.execute("select from organisations where id = %s for no key update", [runs_of_org.sample.org])
        assert runs_of_org.charge(runs[0], "0.1") is None

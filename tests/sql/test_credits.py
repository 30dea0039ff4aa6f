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
        return [self._launch(uuid4(), uuid4(), **columns) for _ in range(count)]

    def _launch(self, run: UUID, extraction: UUID, **columns: Any) -> UUID:
        house = self.house
        self.owner.execute(
            "insert into extractions (id, org_id, document_id, created_by) values (%s, %s, %s, %s)",
            [extraction, house.org, house.document, house.owner],
        )
        return self.start(run, extraction, **columns)

    def start(self, run: UUID, extraction: UUID, max_cost_usd: str | None = None) -> UUID:
        house = self.house
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
                    "update runs set status = 'running', fencing_token = fencing_token + 1, held_at = null "
                    "where id = %s",
                    [run],
                )
            return answer

    def charge(self, run: UUID, cost: str, worker: int = 0, message: str | None = None) -> Any:
        connection = self.workers[worker]
        with connection.transaction():
            become(connection, "authenticated", {"sub": str(self.house.owner), "org_id": str(self.house.org)})
            row = connection.execute(
                "select private.charge(%s, %s, 'extraction', %s, 'm', 1, 1, 0, 0, 0, %s)",
                [run, self.house.org, message or str(uuid4()), cost],
            ).fetchone()
            return row and row[0]

    def end(self, run: UUID, status: str = "completed") -> None:
        self.owner.execute("update runs set status = %s where id = %s", [status, run])

    def status(self, run: UUID) -> tuple[str, bool]:
        """Its status, and whether it is held."""
        row = self.owner.execute("select status, held_at is not null from runs where id = %s", [run]).fetchone()
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


@pytest.mark.parametrize("room", [1, 2, 3])
def test_of_several_at_once_as_many_start_as_there_is_room_for(office: Office, room: int) -> None:
    office.limit(runs=room)
    runs = office.launch(4)
    answers = office.at_once(*[lambda worker, run=run: office.take(run, worker=worker) for run in runs])
    assert Counter(answers) == {"granted": room, "held": 4 - room}
    held = [run for run, answer in zip(runs, answers, strict=True) if answer == "held"]
    assert all(office.status(run) == ("queued", True) for run in held) and office.jobs() == []
    # As each ends, the oldest that waits goes on, until all have had their turn.
    working = [run for run in runs if run not in held]
    while working:
        office.end(working.pop(0))
        for run in office.jobs():
            assert run == held.pop(0) and office.take(run) == "granted"
            working.append(run)
    assert held == [] and {office.status(run) for run in runs} == {("completed", False)}


def test_without_limits_all_start(office: Office) -> None:
    office.owner.execute("delete from credit_limits")
    runs = office.launch(4)
    answers = office.at_once(*[lambda worker, run=run: office.take(run, False, worker=worker) for run in runs])
    assert answers == ["granted"] * 4


def test_one_that_ends_while_another_looks_for_room_leaves_it_none_or_a_job(office: Office) -> None:
    """Whichever comes first: nothing waits for ever."""
    office.limit(runs=1)
    for _ in range(20):
        first, second = office.launch(2)
        assert office.take(first) == "granted"
        _, answer = office.at_once(
            lambda _, run=first: office.end(run), lambda worker, run=second: office.take(run, worker=worker)
        )
        assert (answer, office.jobs()) in [("granted", []), ("held", [second])]
        if answer == "held":
            assert office.take(second) == "granted"
        office.end(second)


@pytest.mark.parametrize("how", ["completed", "cancelled", "awaiting_approval", "queued", "deleted"])
def test_room_is_left_however_a_run_leaves_it(office: Office, how: str) -> None:
    office.limit(runs=1)
    first, second = office.launch(2)
    assert (office.take(first), office.take(second)) == ("granted", "held")
    if how == "deleted":
        office.owner.execute("delete from runs where id = %s", [first])
    else:
        office.owner.execute("update runs set status = %s, waiting_call = 'c' where id = %s", [how, first])
    assert set(office.jobs()) == ({first, second} if how == "queued" else {second})


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
def test_one_that_was_let_go_on_and_never_starts_leaves_its_room_to_the_next(office: Office, how: str) -> None:
    office.limit(runs=1)
    first, second, third = office.launch(3)
    assert [office.take(run) for run in (first, second, third)] == ["granted", "held", "held"]
    office.end(first)
    assert office.jobs() == [second]
    if how == "deleted":
        office.owner.execute("delete from runs where id = %s", [second])
    else:
        office.end(second, "cancelled")
    assert office.jobs() == [third] and office.take(third) == "granted"


def test_who_ends_a_run_keeps_nobody_waiting_before_the_end_of_the_transaction(office: Office) -> None:
    """The lock comes after all rows: the other way round two could wait for each other for ever."""
    office.limit(runs=1)
    first, second = office.launch(2)
    assert office.take(first) == "granted"
    office.workers[0].execute("set lock_timeout = '2s'")
    with office.owner.transaction():
        office.end(first)
        assert office.take(second) == "held"
    assert office.jobs() == [second]


def test_one_that_waits_and_is_cancelled_is_let_be(office: Office) -> None:
    office.limit(runs=1)
    first, second = office.launch(2)
    assert (office.take(first), office.take(second)) == ("granted", "held")
    office.end(second, "cancelled")
    office.end(first)
    assert office.jobs() == [] and office.take(second) is None


@pytest.mark.parametrize("change", ["update credit_limits set max_concurrent_runs = 3", "delete from credit_limits"])
def test_more_room_is_taken_at_once(office: Office, change: str) -> None:
    office.limit(runs=1)
    runs = office.launch(3)
    assert [office.take(run) for run in runs] == ["granted", "held", "held"]
    office.owner.execute(change)
    # The next is let go on when the one before it has started.
    for run in runs[1:]:
        assert office.jobs() == [run] and office.take(run) == "granted"
    assert office.jobs() == []


def test_a_run_that_is_taken_up_again_has_its_place_already(office: Office) -> None:
    office.limit(runs=1)
    first, second = office.launch(2)
    assert [office.take(run) for run in (first, second, first)] == ["granted", "held", "granted"]


@pytest.mark.parametrize("room", [1, None])
def test_runs_on_one_extraction_keep_their_order(office: Office, room: int | None) -> None:
    """Whichever job a worker sees first: one that was put back into the queue comes behind newer ones there."""
    office.limit(runs=room)
    (first,) = office.launch(1)
    extraction = office.owner.execute("select extraction_id from runs").fetchone()
    assert extraction is not None
    second = office.start(uuid4(), extraction[0])
    assert office.take(second) == "held"
    assert office.take(first) == "granted"
    office.end(first)
    assert office.jobs() == [second] and office.take(second) == "granted"


@pytest.mark.parametrize("room", [1, None])
def test_of_runs_with_one_lock_key_one_is_at_work(office: Office, room: int | None) -> None:
    """Also where the older one was put back into the queue, or went on without it, while the younger was at work."""
    office.limit(runs=room)
    (first,) = office.launch(1)
    extraction = office.owner.execute("select extraction_id from runs").fetchone()
    assert extraction is not None
    assert office.take(first) == "granted"
    office.owner.execute("update runs set status = 'awaiting_approval', waiting_call = 'c' where id = %s", [first])
    second = office.start(uuid4(), extraction[0])
    assert office.take(second) == "granted"
    office.owner.execute("update runs set status = 'queued' where id = %s", [first])
    assert office.jobs() == [first] and office.take(first) == "held"
    office.end(second)
    assert office.jobs() == [first] and office.take(first) == "granted"


def test_room_is_not_left_to_one_that_another_with_its_lock_key_blocks(office: Office) -> None:
    """It would only be held again, and a run that could begin would wait for nothing."""
    office.limit(runs=2)
    first, other = office.launch(2)
    extraction = office.owner.execute("select extraction_id from runs where id = %s", [first]).fetchone()
    assert extraction is not None
    blocked = office.start(uuid4(), extraction[0])
    (free,) = office.launch(1)
    answers = [office.take(run) for run in (first, other, blocked, free)]
    assert answers == ["granted", "granted", "held", "held"]
    office.end(other)
    assert office.jobs() == [free] and office.take(free) == "granted"
    office.end(first)
    assert office.jobs() == [blocked] and office.take(blocked) == "granted"


def test_runs_in_the_threads_of_other_members_take_room_too(office: Office) -> None:
    """Whoever looks for room does not see them."""
    house = office.house
    office.limit(runs=1)
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


def test_another_organisation_s_runs_take_no_room(office: Office) -> None:
    office.limit(runs=1)
    office.owner.execute(
        "insert into runs (org_id, agent, task, document_id, extraction_id, created_by, status) "
        "values (%s, 'extraction', 'extract', %s, %s, %s, 'running')",
        [office.house.other_org, office.house.other_document, office.house.other_extraction, office.house.stranger],
    )
    assert office.take(office.launch(1)[0]) == "granted"


# Credit


def test_runs_at_once_pass_the_limit_by_what_they_have_under_way(office: Office) -> None:
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


def test_without_credit_no_run_goes_on_and_none_begins(office: Office) -> None:
    office.limit("0.25", runs=1)
    first, second = office.launch(2)
    assert office.take(first) == "granted"
    assert office.charge(first, "0.2") is None
    assert office.take(second) == "held"
    assert office.charge(first, "0.1") == "out_of_credit"
    office.end(first, "cancelled")
    assert office.jobs() == [second] and office.take(second) == "out_of_credit"


def test_a_run_s_own_limit_holds_at_every_step_and_when_it_is_taken_up_again(office: Office) -> None:
    office.limit(None)
    (run,) = office.launch(1, max_cost_usd="0.2")
    assert office.take(run) == "granted"
    assert office.charge(run, "0.1") is None and office.charge(run, "0.1") == "max_cost"
    assert office.take(run) == "max_cost"


@pytest.mark.parametrize(("max_usd", "max_cost_usd"), [("9", None), (None, "9"), (None, None)])
def test_without_a_price_no_limit_can_be_kept(office: Office, max_usd: str | None, max_cost_usd: str | None) -> None:
    office.limit(max_usd)
    (run,) = office.launch(1, max_cost_usd=max_cost_usd)
    assert office.take(run, False) == ("model_unpriced" if max_usd or max_cost_usd else "granted")


def test_the_same_message_is_charged_once_by_two_at_once(office: Office) -> None:
    (run,) = office.launch(1)
    office.take(run)
    office.at_once(*[lambda worker: office.charge(run, "0.1", worker=worker, message="m") for _ in range(4)])
    assert office.owner.execute("select count(*), sum(cost_usd) from usage").fetchone() == (1, Decimal("0.1"))


def test_what_was_used_is_recorded_of_a_run_that_has_ended_or_is_gone(office: Office) -> None:
    (run,) = office.launch(1)
    office.take(run)
    office.end(run, "cancelled")
    assert office.charge(run, "0.1") is None
    office.owner.execute("delete from documents where id = %s", [office.house.document])
    assert office.charge(run, "0.2") is None
    assert office.owner.execute("select private.cost_of_run(%s)", [run]).fetchone() == (Decimal("0.3"),)


def test_nobody_charges_another_organisation(office: Office) -> None:
    (run,) = office.launch(1)
    connection = office.workers[0]
    charge = "select private.charge(%s, %s, 'extraction', 'm', 'm', 1, 1, 0, 0, 0, 1)"
    for user, org, service in [
        (office.house.stranger, office.house.other_org, True),
        (office.house.owner, office.house.org, False),  # a front end, for its own organisation
    ]:
        on = connection if service else office.owner
        with pytest.raises(psycopg.errors.InsufficientPrivilege), on.transaction():
            if not service:
                on.execute("set local session authorization authenticator")
            become(on, "authenticated", {"sub": str(user), "org_id": str(org)})
            on.execute(charge, [run, office.house.org])
    assert office.charge(run, "1") is None


def test_the_price_of_one_unknown_message_is_the_price_of_the_run(office: Office) -> None:
    (run,) = office.launch(1)
    office.charge(run, "0.1")
    assert office.owner.execute("select private.cost_of_run(%s)", [run]).fetchone() == (Decimal("0.1"),)
    connection = office.workers[0]
    with connection.transaction():
        become(connection, "authenticated", {"sub": str(office.house.owner), "org_id": str(office.house.org)})
        connection.execute(
            "select private.charge(%s, %s, 'extraction', 'x', 'm', 1, 1, 0, 0, 0, null)", [run, office.house.org]
        )
    assert office.owner.execute("select private.cost_of_run(%s)", [run]).fetchone() == (None,)


# Sums


def sums(office: Office) -> tuple[Any, ...] | None:
    return office.owner.execute("select count(*), sum(messages), sum(cost_usd) from usage_by_day").fetchone()


def test_each_message_is_charged_and_the_same_write_again_is_not(office: Office) -> None:
    """What the service calls its messages proves nothing: ours are counted by attempt and place."""
    office.limit("10")
    (run,) = office.launch(1)
    assert office.take(run) == "granted"
    for ours in ("1.1 same", "1.2 same", "2.1 same", "2.1 same", "1.2 same"):
        assert office.charge(run, "0.1", message=ours) is None
    assert office.owner.execute("select count(*), sum(cost_usd) from usage").fetchone() == (3, Decimal("0.3"))
    assert sums(office) == (1, 3, Decimal("0.3"))


@pytest.mark.parametrize("max_usd", [None, "1000"])
def test_many_at_once_lose_no_message_in_the_sums(office: Office, max_usd: str | None) -> None:
    office.limit(max_usd)
    runs = office.launch(4)
    assert {office.take(run) for run in runs} == {"granted"}

    def go(run: UUID, worker: int) -> None:
        for _ in range(25):
            assert office.charge(run, "0.01", worker=worker) is None

    office.at_once(*[lambda worker, run=run: go(run, worker) for run in runs])
    rows, messages, cost = sums(office) or (0, 0, 0)
    assert (messages, cost) == (100, 1) and rows > 1  # connections have a row each, and do not wait for each other


@pytest.mark.parametrize("max_usd", [None, "1000"])
def test_a_charge_waits_for_no_lock_of_the_organisation(office: Office, max_usd: str | None) -> None:
    """No lock is held while the disk writes."""
    (run,) = office.launch(1)
    office.limit(max_usd)
    assert office.take(run) == "granted"
    office.workers[0].execute("set lock_timeout = '2s'")
    with office.owner.transaction():
        office.owner.execute("select from organisations where id = %s for no key update", [office.house.org])
        assert office.charge(run, "0.1") is None


def test_the_lock_is_the_organisation_s_own_row_and_for_the_service_alone(office: Office) -> None:
    worker, house = office.workers[0], office.house
    worker.execute("set lock_timeout = '2s'")

    def holds(on: psycopg.Connection, user: UUID, org: UUID) -> bool:
        with on.transaction():
            if on is office.owner:
                on.execute("set local session authorization authenticator")
            become(on, "authenticated", {"sub": str(user), "org_id": str(org)})
            on.execute("select private.lock_credit(%s)", [house.org])
            on.execute("reset role")
            return bool(
                on.execute(
                    "select from pg_locks where pid = pg_backend_pid() and relation = 'public.organisations'::regclass "
                    "and mode = 'RowShareLock'"
                ).rowcount
            )

    assert holds(worker, house.owner, house.org)
    assert not holds(worker, house.stranger, house.other_org)
    assert not holds(office.owner, house.owner, house.org)  # a front end

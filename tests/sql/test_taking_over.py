"""A run whose user has left the organisation is taken over: by whom, when, and what goes along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest
from doors import Doors, House, become
from ledger import Ledger


@dataclass
class Left:
    """The house after its member has left: as the service sees it in anybody's name."""

    owner: psycopg.Connection
    house: House
    ledger: Ledger

    def acting(self, user: UUID, org: UUID | None = None) -> None:
        claims = {"sub": str(user), "org_id": str(org or self.house.org)}
        become(self.owner, "authenticated", claims)

    def as_owner(self, query: str, *parameters: Any) -> None:
        self.owner.execute("reset role")
        self.owner.execute(query.encode(), parameters)

    def leave(self) -> None:
        self.as_owner("delete from memberships where user_id = %s", self.house.member)
        self.acting(self.house.colleague)

    def take(self, run: UUID) -> None:
        self.owner.execute("select private.take_over(%s)", [run])

    def stays(self, run: UUID) -> None:
        """Nobody takes the run over here."""
        self.ledger.refused("PT409", lambda: self.take(run))

    def whose(self, run: UUID) -> tuple[Any, ...]:
        self.owner.execute("reset role")
        row = self.ledger.row(run, "created_by, started_by, fencing_token, attached, idempotency_key")
        assert row is not None
        return row


@pytest.fixture
def left(doors: Doors, house: House) -> Iterator[Left]:
    """While its member is still there, and acts."""
    with doors.as_owner() as owner:
        made = Left(owner, house, Ledger(owner, house))
        made.acting(house.member)
        yield made


@pytest.mark.parametrize("attached", [True, False])
def test_it_becomes_the_run_of_who_takes_it_and_a_worker_that_waits_loses_it(left: Left, attached: bool) -> None:
    run, house = left.ledger.waiting(attached), left.house
    left.as_owner("update runs set idempotency_key = 'mine' where id = %s", run)
    left.leave()
    left.take(run)
    assert left.whose(run) == (house.colleague, house.member, Ledger.token + attached, False, None)
    # Who takes it over from them is not who started it.
    left.as_owner("delete from memberships where user_id = %s", house.colleague)
    left.acting(house.owner)
    left.take(run)
    assert left.whose(run)[:2] == (house.owner, house.member)


def test_not_while_its_user_is_there(left: Left) -> None:
    run = left.ledger.waiting()
    left.acting(left.house.colleague)
    left.stays(run)


@pytest.mark.parametrize("status", ["queued", "running", "awaiting_runs", "completed"])
def test_not_unless_it_waits_for_a_person(left: Left, status: str) -> None:
    run = left.ledger.waiting()
    left.as_owner("update runs set status = %s where id = %s", status, run)
    left.leave()
    left.stays(run)


def test_not_by_a_stranger_nor_in_another_organisation(left: Left) -> None:
    run, house = left.ledger.waiting(), left.house
    left.leave()
    left.acting(house.stranger, house.other_org)
    left.stays(run)
    left.acting(house.owner, house.second_org)
    left.stays(run)
    left.acting(house.owner)
    left.take(run)


def test_not_by_a_front_end(left: Left) -> None:
    run = left.ledger.waiting()
    left.leave()
    left.owner.execute("set local session authorization authenticator")
    left.acting(left.house.owner)
    left.stays(run)


@pytest.mark.parametrize("shared", [True, False])
def test_in_a_thread_only_where_that_is_shared(left: Left, shared: bool) -> None:
    thread = left.ledger.ask("insert into threads (org_id, agent) values (%s, 'talker') returning id", left.house.org)
    run = left.ledger.run(task="talk", thread_id=thread)
    left.ledger.enter(run, "pending")
    left.ledger.await_approval(run)
    left.as_owner("update threads set shared = %s where id = %s", shared, thread)
    left.leave()
    if shared:
        left.take(run)
        assert left.whose(run)[0] == left.house.colleague
    else:
        left.stays(run)


def test_what_it_is_part_of_goes_along_and_nothing_else_does(left: Left) -> None:
    ledger, house = left.ledger, left.house
    root = ledger.run()
    ledger.enter(root)
    ledger.await_runs(root)
    asking, queued, ended = ledger.child(root), ledger.child(root, status="queued"), ledger.child(root)
    ledger.enter(asking, "pending")
    ledger.await_approval(asking)
    working, somebody_s = ledger.child(root), ledger.child(root, status="queued")
    apart = ledger.waiting()
    left.as_owner("update runs set status = 'completed' where id = %s", ended)
    left.as_owner("update runs set created_by = %s where id = %s", house.owner, somebody_s)
    left.leave()
    left.take(asking)
    assert {run: left.whose(run)[0] for run in (root, asking, queued, ended, working, somebody_s, apart)} == {
        **dict.fromkeys((root, asking, queued), house.colleague),
        **dict.fromkeys((ended, working, apart), house.member),
        somebody_s: house.owner,
    }

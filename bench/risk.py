"""Simulates organisations whose reviewers audit values: does the stated bound hold?

    python bench/risk.py [--organisations 200] [--seed 1]

The random numbers come from the database (`private.draw`, in an embedded Postgres), the rate of each document from
`private.audit_rate`, the claim from `fieldmark.domain.audits`: as in the service. For each organisation the claim is
compared, at the end and at each tenth of its documents, with the known share of wrong values among those that no one
looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.domain.audits import AuditCount, Claim

GOAL = 0.01
VALUES = 30
"""Values of a document."""


@dataclass(frozen=True)
class World:
    """How errors and reviewers are. `clustered`: errors are in one document of ten. `drift`: the last documents have
    three times the errors of the first. `missed`: the share of errors that reviewers confirm. `unanswered`: the share
    of audits that no one looks at. `layouts`: how many the documents have. `new_layout`: the last tenth of the
    documents have another layout, with ten times the errors, and no one looks at this share of its audits."""

    name: str
    clustered: bool = False
    drift: bool = False
    missed: float = 0
    unanswered: float = 0
    layouts: int = 1
    new_layout: float | None = None


WORLDS = (
    World("independent errors"),
    World("in one document of ten", clustered=True),
    World("three times as many at the end", drift=True),
    World("a fifth of the audits unanswered", clustered=True, drift=True, unanswered=0.2),
    World("a fifth unanswered, of 20 layouts", clustered=True, drift=True, unanswered=0.2, layouts=20),
    World("ten times as many in a new layout", new_layout=0),
    World("the same, and no one looked at it yet", new_layout=1),
    World("the same, and a third was looked at", new_layout=0.67),
    World("reviewers confirm 5 % of the errors", clustered=True, drift=True, missed=0.05),
    World("reviewers confirm 20 % of the errors", clustered=True, drift=True, missed=0.2),
)


class Draws:
    """Random numbers and rates of the database."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._numbers: Iterator[float] = iter(())

    def number(self) -> float:
        found = next(self._numbers, None)
        if found is None:
            rows = self._connection.execute("select private.draw() from generate_series(1, 500000)").fetchall()
            self._numbers = iter([row[0] for row in rows])
            return next(self._numbers)
        return found

    def rates(self, documents: int) -> list[float]:
        query = "select private.audit_rate(%s::numeric, n * %s) from generate_series(0, %s - 1) as n"
        return [row[0] for row in self._connection.execute(query, [GOAL, VALUES, documents]).fetchall()]

    def is_new(self, looked_at: int, drawn: int) -> bool:
        found = self._connection.execute("select private.is_new_layout(%s, %s)", [looked_at, drawn]).fetchone()
        return found is not None and found[0]


@dataclass
class _Audit:
    draw: float
    layout: int
    is_seen_wrong: bool | None


def claims(
    world: World, share: float, documents: int, draws: Draws, chance: random.Random
) -> Iterator[tuple[Claim, float]]:
    """Yield the claim and the true share of wrong values at each tenth of an organisation's documents."""
    audits: list[_Audit] = []
    unseen = wrong = 0
    for number, rate in enumerate(draws.rates(documents)):
        of_document = share * (0.5 + number / documents if world.drift else 1)
        layout, unanswered = chance.randrange(world.layouts), world.unanswered
        if world.new_layout is not None and number >= documents * 0.9:
            of_document, layout, unanswered = min(of_document * 10, 1), world.layouts, world.new_layout
        if world.clustered:
            of_document = min(of_document * 10, 1) if chance.random() < 0.1 else 0
        for _ in range(VALUES):
            is_wrong = chance.random() < of_document
            draw = draws.number()
            if draw >= rate:
                unseen += 1
                wrong += is_wrong
                continue
            seen = None if chance.random() < unanswered else is_wrong and chance.random() >= world.missed
            audits.append(_Audit(draw, layout, seen))
        if (number + 1) % (documents // 10) == 0:
            yield Claim.of(unseen, _count(audits, rate, draws), GOAL), wrong / unseen


def _count(audits: list[_Audit], rate: float, draws: Draws) -> list[AuditCount]:
    found: list[AuditCount] = []
    for layout in {one.layout for one in audits}:
        counted = [one.is_seen_wrong for one in audits if one.layout == layout and one.draw < rate]
        wrong, right, waiting = (counted.count(outcome) for outcome in (True, False, None))
        found.append(AuditCount(1, True, right, wrong, waiting, waiting * draws.is_new(right + wrong, len(counted))))
    return found


def simulate(world: World, organisations: int, draws: Draws, chance: random.Random) -> str:
    held = at_each = claimed = proven = false_proofs = 0
    for _ in range(organisations):
        share, documents = chance.choice((0.001, 0.003, 0.006, 0.01, 0.03)), chance.choice((50, 200, 1000))
        found = [
            (claim.at_most is None or truth <= claim.at_most, claim, truth)
            for claim, truth in claims(world, share, documents, draws, chance)
        ]
        held += found[-1][0]
        at_each += sum(holds for holds, _, _ in found)
        claimed += len(found)
        proven += found[-1][1].is_proven
        false_proofs += any(claim.is_proven and truth > GOAL for _, claim, truth in found)
    return (
        f"{world.name}: the bound holds in {held / organisations:.1%} of {organisations} organisations at the end, in "
        f"{at_each / claimed:.1%} of all claims; {proven} prove {GOAL:.0%}, {false_proofs} once say so wrongly"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--organisations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as home, embedded_postgres(Path(home), 18) as server:
        asyncio.run(migrate(server.owner_url, app_password=server.app_password, agents=agent_rows()))
        with psycopg.connect(server.owner_url, autocommit=True) as connection:
            draws = Draws(connection)
            for world in WORLDS:
                print(simulate(world, arguments.organisations, draws, chance), flush=True)


if __name__ == "__main__":
    main()

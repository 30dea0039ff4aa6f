"""Simulates organisations whose reviewers audit values: does the stated bound hold?

    python bench/risk.py [--organisations 200] [--seed 1]

The random numbers come from the database (`private.draw`, in an embedded Postgres), the rate of each document from
`private.audit_rate`, the claim from `fieldmark.domain.audits`: as in the service. For each organisation the claim is
compared, at the end and at each tenth of its documents, with the known share of wrong values among those that it covers
and no one looked at.
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
    of audits that no one looks at. `layouts`: how many the documents have. `lone`: the share of documents that look
    like no other, without errors. `new_layout`: the last tenth of the documents have another layout, with ten times
    the errors, and no one looks at this share of its audits."""

    name: str
    clustered: bool = False
    drift: bool = False
    missed: float = 0
    unanswered: float = 0
    layouts: int = 1
    lone: float = 0
    new_layout: float | None = None


WORLDS = (
    World("independent errors"),
    World("in one document of ten", clustered=True),
    World("three times as many at the end", drift=True),
    World("a fifth of the audits unanswered", clustered=True, drift=True, unanswered=0.2),
    World("a fifth unanswered, of 20 layouts", clustered=True, drift=True, unanswered=0.2, layouts=20),
    World("nine documents of ten look like no other, errors in the others", lone=0.9),
    World("layouts of a few documents each", clustered=True, layouts=300),
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


@dataclass
class _Layout:
    documents: int = 0
    unseen: int = 0
    wrong: int = 0


def claims(
    world: World, share: float, documents: int, draws: Draws, chance: random.Random
) -> Iterator[tuple[Claim, float]]:
    """Yield the claim and the true share of wrong values at each tenth of an organisation's documents."""
    audits: list[_Audit] = []
    layouts: dict[int, _Layout] = {}
    audited = set[int]()
    for number, rate in enumerate(draws.rates(documents)):
        of_document = share * (0.5 + number / documents if world.drift else 1)
        layout, unanswered = chance.randrange(world.layouts), world.unanswered
        if world.new_layout is not None and number >= documents * 0.9:
            of_document, layout, unanswered = min(of_document * 10, 1), world.layouts, world.new_layout
        elif chance.random() < world.lone:
            of_document, layout = 0, -number - 1
        if world.clustered:
            of_document = min(of_document * 10, 1) if chance.random() < 0.1 else 0
        of_layout = layouts.setdefault(layout, _Layout())
        of_layout.documents += 1
        values = [(draws.number(), chance.random() < of_document) for _ in range(VALUES)]
        is_unaudited = of_layout.documents > 1 and layout not in audited
        lowest = min(values)[0] if is_unaudited else 0
        for draw, is_wrong in values:
            if draw >= rate and draw != lowest:
                of_layout.unseen += 1
                of_layout.wrong += is_wrong
                continue
            seen = None if chance.random() < unanswered else is_wrong and chance.random() >= world.missed
            audits.append(_Audit(draw, layout, seen))
            audited.add(layout)
        if (number + 1) % (documents // 10) == 0:
            yield _claim(audits, layouts, rate, draws)


def _claim(audits: list[_Audit], layouts: dict[int, _Layout], rate: float, draws: Draws) -> tuple[Claim, float]:
    alike: dict[int | None, list[int]] = {}
    for layout, one in layouts.items():
        alike.setdefault(layout if one.documents > 1 else None, []).append(layout)
    of_layouts: dict[int, list[_Audit]] = {}
    for one in audits:
        of_layouts.setdefault(one.layout, []).append(one)
    counts: list[AuditCount] = []
    unseen = wrong = uncovered = 0
    for members in alike.values():
        drawn = [one for layout in members for one in of_layouts.get(layout, [])]
        is_covered = not draws.is_new(sum(one.is_seen_wrong is not None for one in drawn), len(drawn))
        counted = [one.is_seen_wrong for one in drawn if one.draw < rate]
        counts.append(AuditCount(1, True, is_covered, *(counted.count(one) for one in (False, True, None))))
        values = sum(layouts[layout].unseen for layout in members)
        unseen += values
        if is_covered:
            wrong += sum(layouts[layout].wrong for layout in members)
        else:
            uncovered += values
    return Claim.of(unseen, counts, GOAL, (uncovered, 0)), wrong / max(unseen - uncovered, 1)


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

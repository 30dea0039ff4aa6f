"""Simulates queue and fairness at 100 million documents a month, with the ordering rule of the product.

    pip install '.[bench]' && python bench/queue_simulation.py [--hours 1] [--a-month 100000000]

10,000 organisations of very different size (Zipf) send documents all the time, half as many again as on average. After
ten minutes one small organisation sends 200,000 at once. Each worker has slots, and an answer of the model takes 15 s
on average. The queue is ordered as by `private.enqueue` and `private.claim_job`, which
tests/sql/test_queue_simulation.py compares with this program; and for comparison first come, first served.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import simpy

MONTH_SECONDS = 30 * 86_400
ORGANISATIONS = 10_000
BULK, BULK_DOCUMENTS, BULK_AT = ORGANISATIONS, 200_000, 600.0
MAX_WAITING = (
    2_000  # of an organisation: the service refuses more (`private.queue_defaults`), and its client tries again
)
ANSWER_SECONDS = 15.0
PEAK = 1.5
SPARE = 1.25  # slots, relative to those that the peak needs
SLOTS_OF_A_WORKER = 16


@dataclass
class FairQueue:
    """The queue of `private.enqueue` and `private.claim_job`: a job's number is one after the organisation's last
    waiting job, or else the head of the queue. The lowest number is claimed first."""

    is_fair: bool = True
    heap: list[tuple[int, int, int]] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    last: dict[int, int] = field(default_factory=dict)
    running: list[int] = field(default_factory=list)  # a heap of negative numbers, with ended ones
    ended: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    ids: Any = field(default_factory=itertools.count)

    def add(self, organisation: int) -> tuple[int, int]:
        """Add a job and return its number and id."""
        while self.running and self.ended[-self.running[0]]:
            self.ended[-heapq.heappop(self.running)] -= 1
        head = -self.running[0] if self.running else self.heap[0][0] if self.heap else 0
        number = max(head, self.last[organisation] + 1) if self.waiting[organisation] else head
        job = (number if self.is_fair else 0, next(self.ids), organisation)
        self.waiting[organisation] += 1
        self.last[organisation] = number
        heapq.heappush(self.heap, job)
        return job[0], job[1]

    def claim(self) -> tuple[int, int, int]:
        """Claim the next job: its number, id and organisation."""
        job = heapq.heappop(self.heap)
        self.waiting[job[2]] -= 1
        heapq.heappush(self.running, -job[0])
        return job

    def end(self, number: int) -> None:
        """End a job that runs, by its number."""
        self.ended[number] += 1


def simulate(hours: float, a_month: float, is_fair: bool, seed: int = 1) -> dict[str, Any]:
    """Return seconds of waiting: of all organisations but the one with the bulk, and of this one."""
    draw = random.Random(seed)
    rate = a_month / MONTH_SECONDS * PEAK
    slots = math.ceil(rate * ANSWER_SECONDS * SPARE)
    env, queue = simpy.Environment(), FairQueue(is_fair)
    idle: list[simpy.Event] = []
    arrived: dict[int, float] = {}
    waits: dict[str, list[float]] = {"small": [], "large": [], "bulk": []}
    longest = 0
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(ORGANISATIONS)))

    def send(organisation: int) -> None:
        nonlocal longest
        _, job = queue.add(organisation)
        arrived[job] = env.now
        longest = max(longest, len(queue.heap))
        if idle:
            idle.pop().succeed()

    def traffic() -> Generator[simpy.Event, Any, None]:
        while True:
            yield env.timeout(draw.expovariate(rate))
            send(draw.choices(range(ORGANISATIONS), cum_weights=weights)[0])

    def bulk() -> Generator[simpy.Event, Any, None]:
        yield env.timeout(BULK_AT)
        left = BULK_DOCUMENTS
        while left:
            for _ in range(min(left, MAX_WAITING - queue.waiting[BULK])):
                send(BULK)
                left -= 1
            yield env.timeout(1)

    def slot() -> Generator[simpy.Event, Any, None]:
        while True:
            while not queue.heap:
                woken = env.event()
                idle.append(woken)
                yield woken
            number, job, organisation = queue.claim()
            kind = "bulk" if organisation == BULK else "large" if organisation < 100 else "small"
            waits[kind].append(env.now - arrived.pop(job))
            yield env.timeout(draw.lognormvariate(math.log(ANSWER_SECONDS) - 0.125, 0.5))
            queue.end(number)

    env.process(traffic())
    env.process(bulk())
    for _ in range(slots):
        env.process(slot())
    env.run(until=hours * 3600)
    return {"rate": rate, "slots": slots, "longest queue": longest, "waits": waits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--a-month", type=float, default=100e6)
    given = parser.parse_args()
    for is_fair in (True, False):
        found = simulate(given.hours, given.a_month, is_fair)
        workers = math.ceil(found["slots"] / SLOTS_OF_A_WORKER)
        print(
            f"{'as the product' if is_fair else 'first come, first served'}: {found['rate']:.0f} documents a second, "
            f"{found['slots']} slots ({workers} workers of {SLOTS_OF_A_WORKER}), longest queue {found['longest queue']}"
        )
        for kind, seconds in found["waits"].items():
            ordered = sorted(seconds) or [math.nan]
            middle, late, latest = statistics.median(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1]
            print(
                f"    {kind}: {len(seconds)} started; wait {middle:.2f} s (median), {late:.1f} s (99 %), {latest:.1f} s"
            )


if __name__ == "__main__":
    main()

"""bench/queue_simulation.py orders jobs as the database does."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from uuid import UUID

import pytest
from role_connections import Roles

pytest.importorskip("simpy")
BENCH = Path(__file__).parents[2] / "bench"


def test_simulated_queue_claims_the_same_jobs_as_the_database(roles: Roles) -> None:
    spec = importlib.util.spec_from_file_location("queue_simulation", BENCH / "queue_simulation.py")
    assert spec is not None and spec.loader is not None
    simulation = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = simulation  # its dataclass looks itself up
    spec.loader.exec_module(simulation)
    draw, queue = random.Random(7), simulation.FairQueue()
    running: list[tuple[int, int]] = []
    jobs: dict[int, int] = {}
    with roles.as_owner() as owner:
        owner.execute("set local search_path = public, queue")
        owner.execute("delete from procrastinate_jobs")
        (worker,) = owner.execute("insert into procrastinate_workers default values returning id").fetchone() or (0,)
        for step in range(150):
            action = draw.choice("aaace")
            if action == "a":
                organisation = draw.choice([0, 0, 0, 1, 2])
                number, job = queue.add(organisation)
                owner.execute("select private.enqueue('runs', 't', '{}', %s)", [f"{UUID(int=organisation)}/{step}"])
                row = owner.execute("select id, priority from procrastinate_jobs order by id desc limit 1").fetchone()
                assert row is not None and row[1] == -number
                jobs[job] = row[0]
            elif action == "c" and queue.heap:
                number, job, _ = queue.claim()
                claimed = owner.execute("select id from private.claim_job('runs', %s, 99)", [worker]).fetchone()
                assert claimed == (jobs[job],)
                running.append((number, jobs[job]))
            elif action == "e" and running:
                number, job = running.pop(draw.randrange(len(running)))
                queue.end(number)
                owner.execute("delete from procrastinate_jobs where id = %s", [job])

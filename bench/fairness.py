"""Measures how much the load of one organisation slows another one down.

First runs: waiting time of another organisation's first document and first run behind that many waiting runs and
documents. Writes: duration of another organisation's GET while 14 concurrent requests write 5,000 values each into one
extraction.

    pip install '.[bench]' && python bench/fairness.py [--backlog 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from processes import Service, service, upload

PAGE = b"Invoice number: 1\nTotal: 10.00 EUR\n"


def p50(times: list[float]) -> float:
    return statistics.median(times) * 1000


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)] * 1000


class ServiceUnderLoad:
    def __init__(self, at: Service, owner: psycopg.Connection[Any]) -> None:
        self.client, self.owner = at.client, owner

    def org_of(self, user: UUID) -> UUID:
        row = self.owner.execute("select id from organisations where personal_of = %s", [user]).fetchone()
        assert row is not None
        return row[0]

    def insert_waiting_runs(self, user: UUID, document: str, count: int) -> None:
        """Insert this many waiting runs, each with its own extraction."""
        org = self.org_of(user)
        self.owner.execute(
            "insert into queue_limits (org_id, max_waiting_runs, max_waiting_documents) values (%s, 2000000, 2000000)",
            [org],
        )
        self.owner.execute(
            """with new_extractions as (
                 insert into extractions (org_id, document_id, created_by)
                 select %(org)s, %(document)s, %(user)s from generate_series(1, %(many)s) returning id)
               insert into runs (org_id, created_by, agent, task, document_id, extraction_id)
               select %(org)s, %(user)s, 'extraction', 'extract', %(document)s, id from new_extractions""",
            {"org": org, "document": document, "user": user, "many": count},
        )
        self.owner.execute(
            """insert into documents (id, org_id, created_by, filename, storage_path)
               select id, %(org)s, %(user)s, 'a.txt', concat_ws('/', %(org)s::uuid, id, 'a.txt')
               from (select private.new_id() as id from generate_series(1, %(many)s)) as new""",
            {"org": org, "user": user, "many": count},
        )

    async def measure_first_run(self, quiet: UUID) -> tuple[float, float, float]:
        """Return the seconds until a new organisation's first document starts to be read, until it is ready, and until
        its first run starts."""
        async with self.client(quiet) as http:
            await http.get("/api/documents")
            start = time.perf_counter()
            reading = asyncio.create_task(upload(http, "a.txt", PAGE))
            while not (started := self._seconds_until_reading(self.org_of(quiet))) and not reading.done():
                await asyncio.sleep(0.01)
            document = await reading
            read = time.perf_counter() - start
            answer = await http.post("/api/agent/extract", json={"document_id": document, "background": False})
            run = answer.json()["run_id"]
            while True:
                row = self.owner.execute(
                    "select extract(epoch from started_at - created_at)::float8 from runs where id = %s", [run]
                ).fetchone()
                if row is not None and row[0] is not None:
                    return started, read, row[0]
                await asyncio.sleep(0.02)

    def _seconds_until_reading(self, org: UUID) -> float:
        """Return the seconds until the organisation's first document started to be read; 0 if it has not started."""
        row = self.owner.execute(
            """select extract(epoch from e.at - d.created_at)::float8 from queue.procrastinate_jobs as j
               join queue.procrastinate_events as e on e.job_id = j.id and e.type = 'started'
               join documents as d on d.org_id = %s and j.lock like '%%' || d.id where j.lock like %s""",
            [org, f"{org}/%"],
        ).fetchone()
        return 0.0 if row is None else row[0]


async def measure_first_runs(service: ServiceUnderLoad, backlog: int) -> None:
    quiet = [await service.measure_first_run(uuid4()) for _ in range(3)]
    loud = uuid4()
    async with service.client(loud) as http:
        document = await upload(http, "a.txt", PAGE)
    service.insert_waiting_runs(loud, document, backlog)
    await asyncio.sleep(3)
    busy = [await service.measure_first_run(uuid4()) for _ in range(5)]
    left = service.owner.execute("select count(*) from queue.procrastinate_jobs").fetchone()
    print(f"waiting jobs: {left}")
    for what, at in (("first document started", 0), ("first document ready", 1), ("first run started", 2)):
        alone, behind = [one[at] for one in quiet], [one[at] for one in busy]
        print(f"{what}: alone {max(alone):.2f} s, behind {backlog:,} of another {max(behind):.2f} s (slowest)")


async def measure_writes(service: ServiceUnderLoad) -> None:
    loud, quiet = uuid4(), uuid4()
    async with service.client(loud) as http, service.client(quiet) as other:
        document = await upload(http, "a.txt", "\n".join(f"Item {n}  {n * 7}.50" for n in range(2500)).encode())
        org = service.org_of(loud)
        row = service.owner.execute(
            "insert into extractions (org_id, document_id, created_by) values (%s, %s, %s) returning id",
            [org, document, loud],
        ).fetchone()
        theirs = await upload(other, "a.txt", PAGE)
        assert row is not None
        alone = [await seconds_of_get(other, theirs) for _ in range(20)]

        async def write_items(number: int) -> int:
            value = [{"name": f"Item {i}", "price": f"{i * number}.25"} for i in range(2500)]
            body = {"path": "items", "value": value}
            return (await http.patch(f"/api/extractions/{row[0]}/fields", json=body)).status_code

        start = time.perf_counter()
        writing = asyncio.gather(*(write_items(number) for number in range(14)))
        during: list[float] = []
        while not writing.done():
            during.append(await seconds_of_get(other, theirs))
            await asyncio.sleep(0.05)
        answers = await writing
    print(f"14 writes of 5,000 values: {time.perf_counter() - start:.1f} s, answers {sorted(answers)}")
    print(
        f"GET of another: alone {p50(alone):.0f} ms p50, {p95(alone):.0f} ms p95; meanwhile {p50(during):.0f} ms p50, "
        f"{p95(during):.0f} ms p95 ({p95(during) / p95(alone):.1f} times), {max(during) * 1000:.0f} ms the slowest of "
        f"{len(during)}"
    )


async def seconds_of_get(http: httpx.AsyncClient, document: str) -> float:
    start = time.perf_counter()
    answer = await http.get(f"/api/documents/{document}")
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


async def main(backlog: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-", ignore_cleanup_errors=True) as home,
        service(Path(home), "") as at,
        psycopg.connect(at.database.owner_url, autocommit=True) as owner,
    ):
        load = ServiceUnderLoad(at, owner)
        await measure_writes(load)
        await measure_first_runs(load, backlog)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backlog", type=int, default=10_000)
    asyncio.run(main(parser.parse_args().backlog))

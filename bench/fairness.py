"""Measures how much the load of one organisation slows another one down.

Claims: duration of enqueuing, claiming and finishing a job behind 100 and behind `--backlog` jobs of one organisation.
First runs: waiting time of another organisation's first document and first run behind that many waiting runs and
documents. Writes: duration of another organisation's GET while 14 concurrent requests write 5,000 values each into one
extraction.

    pip install '.[bench]' && python bench/fairness.py [--backlog 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.identity.tokens import LocalTokens
from processes import child, read_line

PAGE = "Invoice number: 1\nTotal: 10.00 EUR\n"


def p50(times: list[float]) -> float:
    return statistics.median(times) * 1000


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)] * 1000


def add_documents(owner: psycopg.Connection[Any], org: UUID, count: int) -> float:
    """Insert waiting documents in one statement, as a front end may. Return the seconds."""
    start = time.perf_counter()
    owner.execute(
        """insert into documents (id, org_id, filename, storage_path)
           select id, %(org)s, 'a.txt', concat_ws('/', %(org)s::uuid, id, 'a.txt')
           from (select private.new_id() as id from generate_series(1, %(many)s)) as new""",
        {"org": org, "many": count},
    )
    return time.perf_counter() - start


def measure_claims(owner_url: str, backlog: int) -> None:
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute("set search_path = public, queue; set synchronous_commit = off")
        loud, quiet = uuid4(), uuid4()
        for org in (loud, quiet):
            owner.execute("insert into organisations (id, name) values (%s, 'o')", [org])
            owner.execute("insert into queue_limits (org_id, max_waiting_documents) values (%s, 2000000)", [org])
        worker = owner.execute("insert into procrastinate_workers default values returning id").fetchone()
        assert worker is not None
        before: dict[str, float] = {}
        for waiting in (100, backlog):
            seconds = add_documents(owner, loud, waiting)
            print(f"one INSERT of {waiting:,} documents: {seconds:.2f} s")
            times: dict[str, list[float]] = {"enqueue": [], "claim": [], "end": []}
            for number in range(300):
                start = time.perf_counter()
                owner.execute(
                    "select private.enqueue('documents', 'read_document', '{}', %s)",
                    [f"{(loud, quiet)[number % 2]}/document/{uuid4()}"],
                )
                enqueued = time.perf_counter()
                row = owner.execute("select id from private.claim_job('documents', %s, 3)", [worker[0]]).fetchone()
                claimed = time.perf_counter()
                assert row is not None
                owner.execute("select procrastinate_finish_job_v1(%s, 'succeeded', true)", [row[0]])
                times["enqueue"].append(enqueued - start)
                times["claim"].append(claimed - enqueued)
                times["end"].append(time.perf_counter() - claimed)
            for what, all_ in times.items():
                ratio = f"  {p50(all_) / before[what]:.2f} times" if what in before else ""
                before.setdefault(what, p50(all_))
                print(f"behind {waiting:>7,} jobs: {what:8} {p50(all_):6.2f} ms p50{ratio}")
        owner.execute("delete from procrastinate_jobs; delete from documents")


class ServiceUnderLoad:
    def __init__(
        self, home: Path, address: str, owner: psycopg.Connection[Any], service_process: subprocess.Popen[str]
    ) -> None:
        self.tokens, self.address, self.owner, self.service = LocalTokens(home), address, owner, service_process

    async def longest_block(self) -> float:
        """Return the longest time in milliseconds that the service's event loop was blocked since the last call."""
        assert self.service.stdin is not None
        print(file=self.service.stdin, flush=True)
        return float(await asyncio.to_thread(read_line, self.service))

    def client(self, user: UUID) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.tokens.sign(user)}", "Accept": "application/json"}
        return httpx.AsyncClient(base_url=self.address, headers=headers, timeout=300)

    async def document(self, http: httpx.AsyncClient, text: str = PAGE) -> UUID:
        answer = await http.post("/api/documents", files={"file": ("a.txt", text.encode())})
        answer.raise_for_status()
        document = answer.json()["id"]
        while (await http.get(f"/api/documents/{document}")).json()["status"] == "reading":
            await asyncio.sleep(0.02)
        return UUID(document)

    def org_of(self, user: UUID) -> UUID:
        row = self.owner.execute("select id from organisations where personal_of = %s", [user]).fetchone()
        assert row is not None
        return row[0]

    def insert_waiting_runs(self, user: UUID, document: UUID, count: int) -> None:
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
            reading = asyncio.create_task(self.document(http))
            while not (started := self._seconds_until_reading(self.org_of(quiet))) and not reading.done():
                await asyncio.sleep(0.01)
            document = await reading
            read = time.perf_counter() - start
            answer = await http.post("/api/agent/extract", json={"document_id": str(document), "background": False})
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
        document = await service.document(http)
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
        document = await service.document(http, "\n".join(f"Item {number}  {number * 7}.50" for number in range(2500)))
        org = service.org_of(loud)
        row = service.owner.execute(
            "insert into extractions (org_id, document_id, created_by) values (%s, %s, %s) returning id",
            [org, document, loud],
        ).fetchone()
        theirs = await service.document(other)
        assert row is not None
        alone = [await seconds_of_get(other, theirs) for _ in range(20)]

        async def write_items(number: int) -> int:
            value = [{"name": f"Item {i}", "price": f"{i * number}.25"} for i in range(2500)]
            body = {"path": "items", "value": value}
            return (await http.patch(f"/api/extractions/{row[0]}/fields", json=body)).status_code

        await service.longest_block()  # resets the maximum
        start = time.perf_counter()
        writing = asyncio.gather(*(write_items(number) for number in range(14)))
        during: list[float] = []
        while not writing.done():
            during.append(await seconds_of_get(other, theirs))
            await asyncio.sleep(0.05)
        answers = await writing
        block = await service.longest_block()
    print(f"14 writes of 5,000 values: {time.perf_counter() - start:.1f} s, answers {sorted(answers)}")
    print(
        f"GET of another: alone {p50(alone):.0f} ms p50, {p95(alone):.0f} ms p95; meanwhile {p50(during):.0f} ms p50, "
        f"{p95(during):.0f} ms p95 ({p95(during) / p95(alone):.1f} times), {max(during) * 1000:.0f} ms the slowest of "
        f"{len(during)}"
    )
    print(f"longest block of the event loop: {block:.1f} ms of its thread's own time")


async def seconds_of_get(http: httpx.AsyncClient, document: UUID) -> float:
    start = time.perf_counter()
    answer = await http.get(f"/api/documents/{document}")
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


async def serve(home: str, url: str) -> None:
    import uvicorn

    from fieldmark.api.app import create_app
    from fieldmark.settings import Settings
    from fieldmark.telemetry.logs import set_up_logs

    set_up_logs("error")
    settings = Settings(home=Path(home), database_url=url, supabase_url=None, log_level="error", _env_file=None)
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=0, log_config=None))
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    blocks = EventLoopBlocks()
    watching = asyncio.create_task(blocks.watch())
    while await asyncio.to_thread(sys.stdin.readline):
        print(blocks.longest * 1000, flush=True)
        blocks.longest = 0
    watching.cancel()
    server.should_exit = True
    await serving


class EventLoopBlocks:
    """The longest time the event loop was blocked, in CPU time of its thread, so that other processes do not count."""

    longest = 0.0

    async def watch(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.longest = max(self.longest, now - before)
            before = now


async def main(backlog: int, parts: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-", ignore_cleanup_errors=True) as home,
        embedded_postgres(Path(home), 18) as server,
    ):
        await migrate(server.owner_url, app_password=server.app_password, agents=agent_rows())
        if "c" in parts:
            await asyncio.to_thread(measure_claims, server.owner_url, backlog)
        with (
            psycopg.connect(server.owner_url, autocommit=True) as owner,
            child(str(Path(__file__)), "serve", home, server.app_url) as service_process,
        ):
            service = ServiceUnderLoad(
                Path(home), await asyncio.to_thread(read_line, service_process), owner, service_process
            )
            if "w" in parts:
                await measure_writes(service)
            if "f" in parts:
                await measure_first_runs(service, backlog)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(*sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--backlog", type=int, default=10_000)
        parser.add_argument("--parts", default="cwf", help="claims, writes, firsts")
        given = parser.parse_args()
        asyncio.run(main(given.backlog, given.parts))

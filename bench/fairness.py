"""What one organisation's flood costs another, in ratios of one run.

Claims: how long putting a job into the queue, claiming and ending one takes behind 100 and behind `--backlog` jobs of
one organisation. Firsts: with so many runs and documents of one waiting in a service at work, how long another's first
document and first run wait. Writes: while 14 requests at once write 5,000 values into one extraction, how long another
organisation's GET takes.

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
from processes import child, said

PAGE = "Invoice number: 1\nTotal: 10.00 EUR\n"


def p50(times: list[float]) -> float:
    return statistics.median(times) * 1000


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)] * 1000


def add_documents(owner: psycopg.Connection[Any], org: UUID, many: int) -> float:
    """Documents that wait, in one statement as a front end may insert them; how many seconds that takes."""
    began = time.perf_counter()
    owner.execute(
        """insert into documents (id, org_id, filename, storage_path)
           select id, %(org)s, 'a.txt', concat_ws('/', %(org)s::uuid, id, 'a.txt')
           from (select private.new_id() as id from generate_series(1, %(many)s)) as new""",
        {"org": org, "many": many},
    )
    return time.perf_counter() - began


def claims(owner_url: str, backlog: int) -> None:
    """How long each step of a job takes, behind few jobs and behind many."""
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
            for n in range(300):
                began = time.perf_counter()
                owner.execute(
                    "select private.enqueue('documents', 'read_document', '{}', %s)",
                    [f"{(loud, quiet)[n % 2]}/document/{uuid4()}"],
                )
                enqueued = time.perf_counter()
                row = owner.execute("select id from private.claim_job('documents', %s, 3)", [worker[0]]).fetchone()
                claimed = time.perf_counter()
                assert row is not None
                owner.execute("select procrastinate_finish_job_v1(%s, 'succeeded', true)", [row[0]])
                times["enqueue"].append(enqueued - began)
                times["claim"].append(claimed - enqueued)
                times["end"].append(time.perf_counter() - claimed)
            for what, all_ in times.items():
                ratio = f"  {p50(all_) / before[what]:.2f} times" if what in before else ""
                before.setdefault(what, p50(all_))
                print(f"behind {waiting:>7,} jobs: {what:8} {p50(all_):6.2f} ms p50{ratio}")
        owner.execute("delete from procrastinate_jobs; delete from documents")


class Bench:
    """A service that is at work, and what its users do."""

    def __init__(
        self, home: Path, address: str, owner: psycopg.Connection[Any], service: subprocess.Popen[str]
    ) -> None:
        self.tokens, self.address, self.owner, self.service = LocalTokens(home), address, owner, service

    async def longest_block(self) -> float:
        """How many milliseconds of computing the service's event loop has done in one step, since it was last asked."""
        assert self.service.stdin is not None
        print(file=self.service.stdin, flush=True)
        return float(await asyncio.to_thread(said, self.service))

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

    def flood(self, user: UUID, document: UUID, many: int) -> None:
        """So many runs that wait, each of an extraction of its own."""
        org = self.org_of(user)
        self.owner.execute(
            "insert into queue_limits (org_id, max_waiting_runs, max_waiting_documents) values (%s, 2000000, 2000000)",
            [org],
        )
        self.owner.execute(
            """with begun as (
                 insert into extractions (org_id, document_id, created_by)
                 select %(org)s, %(document)s, %(user)s from generate_series(1, %(many)s) returning id)
               insert into runs (org_id, created_by, agent, task, document_id, extraction_id)
               select %(org)s, %(user)s, 'extraction', 'extract', %(document)s, id from begun""",
            {"org": org, "document": document, "user": user, "many": many},
        )
        self.owner.execute(
            """insert into documents (id, org_id, created_by, filename, storage_path)
               select id, %(org)s, %(user)s, 'a.txt', concat_ws('/', %(org)s::uuid, id, 'a.txt')
               from (select private.new_id() as id from generate_series(1, %(many)s)) as new""",
            {"org": org, "user": user, "many": many},
        )

    async def first(self, quiet: UUID) -> tuple[float, float, float]:
        """How long a newcomer's first document takes to be begun and to be read, and its first run to be taken up."""
        async with self.client(quiet) as http:
            await http.get("/api/documents")
            began = time.perf_counter()
            reading = asyncio.create_task(self.document(http))
            while not (started := self._reading_of(self.org_of(quiet))) and not reading.done():
                await asyncio.sleep(0.01)
            document = await reading
            read = time.perf_counter() - began
            answer = await http.post("/api/agent/extract", json={"document_id": str(document), "background": False})
            run = answer.json()["run_id"]
            while True:
                row = self.owner.execute(
                    "select extract(epoch from started_at - created_at)::float8 from runs where id = %s", [run]
                ).fetchone()
                if row is not None and row[0] is not None:
                    return started, read, row[0]
                await asyncio.sleep(0.02)

    def _reading_of(self, org: UUID) -> float:
        """After how many seconds the organisation's first document was begun with; 0 where none was yet."""
        row = self.owner.execute(
            """select extract(epoch from e.at - d.created_at)::float8 from queue.procrastinate_jobs as j
               join queue.procrastinate_events as e on e.job_id = j.id and e.type = 'started'
               join documents as d on d.org_id = %s and j.lock like '%%' || d.id where j.lock like %s""",
            [org, f"{org}/%"],
        ).fetchone()
        return 0.0 if row is None else row[0]


async def firsts(bench: Bench, backlog: int) -> None:
    quiet = [await bench.first(uuid4()) for _ in range(3)]
    loud = uuid4()
    async with bench.client(loud) as http:
        document = await bench.document(http)
    bench.flood(loud, document, backlog)
    await asyncio.sleep(3)
    busy = [await bench.first(uuid4()) for _ in range(5)]
    left = bench.owner.execute("select count(*) from queue.procrastinate_jobs").fetchone()
    print(f"jobs that wait: {left}")
    for what, at in (("first document begun", 0), ("first document read", 1), ("first run taken up", 2)):
        alone, behind = [one[at] for one in quiet], [one[at] for one in busy]
        print(f"{what}: alone {max(alone):.2f} s, behind {backlog:,} of another {max(behind):.2f} s (the slowest)")


async def writes(bench: Bench) -> None:
    loud, quiet = uuid4(), uuid4()
    async with bench.client(loud) as http, bench.client(quiet) as other:
        document = await bench.document(http, "\n".join(f"Item {n}  {n * 7}.50" for n in range(2500)))
        org = bench.org_of(loud)
        row = bench.owner.execute(
            "insert into extractions (org_id, document_id, created_by) values (%s, %s, %s) returning id",
            [org, document, loud],
        ).fetchone()
        theirs = await bench.document(other)
        assert row is not None
        alone = [await timed(other, theirs) for _ in range(20)]

        async def write(n: int) -> int:
            value = [{"name": f"Item {i}", "price": f"{i * n}.25"} for i in range(2500)]
            body = {"path": "items", "value": value}
            return (await http.patch(f"/api/extractions/{row[0]}/fields", json=body)).status_code

        await bench.longest_block()  # what was before
        began = time.perf_counter()
        writing = asyncio.gather(*(write(n) for n in range(14)))
        during: list[float] = []
        while not writing.done():
            during.append(await timed(other, theirs))
            await asyncio.sleep(0.05)
        answers = await writing
        block = await bench.longest_block()
    print(f"14 writes of 5,000 values: {time.perf_counter() - began:.1f} s, answers {sorted(answers)}")
    print(
        f"another's GET: alone {p50(alone):.0f} ms p50, {p95(alone):.0f} ms p95; meanwhile {p50(during):.0f} ms p50, "
        f"{p95(during):.0f} ms p95 ({p95(during) / p95(alone):.1f} times), {max(during) * 1000:.0f} ms the slowest of "
        f"{len(during)}"
    )
    print(f"longest block of the event loop: {block:.1f} ms of its thread's own time")


async def timed(http: httpx.AsyncClient, document: UUID) -> float:
    began = time.perf_counter()
    answer = await http.get(f"/api/documents/{document}")
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - began


async def serve(home: str, url: str) -> None:
    """The service in a process of its own; prints its address."""
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
    blocks = Blocks()
    watching = asyncio.create_task(blocks.watch())
    while await asyncio.to_thread(sys.stdin.readline):
        print(blocks.longest * 1000, flush=True)
        blocks.longest = 0
    watching.cancel()
    server.should_exit = True
    await serving


class Blocks:
    """How long the event loop was busy in one step, in its own time: a busy machine does not lengthen that."""

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
            await asyncio.to_thread(claims, server.owner_url, backlog)
        with (
            psycopg.connect(server.owner_url, autocommit=True) as owner,
            child(str(Path(__file__)), "serve", home, server.app_url) as service,
        ):
            bench = Bench(Path(home), await asyncio.to_thread(said, service), owner, service)
            if "w" in parts:
                await writes(bench)
            if "f" in parts:
                await firsts(bench, backlog)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(*sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--backlog", type=int, default=10_000)
        parser.add_argument("--parts", default="cwf", help="claims, writes, firsts")
        given = parser.parse_args()
        asyncio.run(main(given.backlog, given.parts))

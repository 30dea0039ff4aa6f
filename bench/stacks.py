"""Measures how fast a stack's table is filled, while workers are killed.

    pip install '.[bench]' && python bench/stacks.py [--documents 1000] [--kills 20]

One-page documents become rows by the real CLI and a model without delay (the offline model's rules, in this process).
Reported are rows per second, the memory of the workers, and rows lost or doubled while workers are killed at random.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

from fieldmark.agents.registry import answer_offline
from fieldmark.offline_model.server import OfflineModel
from page_site import make_pdf
from processes import Workers, restore_signals, service, time_limit

COLUMNS = [{"name": "invoice_number"}, {"name": "vendor"}, {"name": "date", "type": "date"},
           {"name": "total", "type": "number"}]  # fmt: skip
UPLOADS_AT_ONCE = 8


def page(number: int) -> bytes:
    lines = [
        f"Invoice number: R-{number}",
        f"Vendor: Firm {number} GmbH",
        "Date: 2026-03-04",
        f"Total: {number}.50 EUR",
    ]
    return make_pdf([lines])


async def upload_all(http: httpx.AsyncClient, stack_id: str, count: int) -> None:
    gate = asyncio.Semaphore(UPLOADS_AT_ONCE)

    async def upload(number: int) -> None:
        async with gate:
            files = {"file": (f"{number}.pdf", page(number))}
            answer = await http.post("/api/documents", params={"stack_id": stack_id}, files=files)
            answer.raise_for_status()

    await asyncio.gather(*map(upload, range(count)))


async def progress_of(http: httpx.AsyncClient, stack_id: str) -> dict[str, Any]:
    return (await http.get(f"/api/stacks/{stack_id}")).raise_for_status().json()


def count_reading(owner: psycopg.Connection[Any]) -> int:
    return owner.execute("select count(*) as n from public.documents where status = 'reading'").fetchall()[0]["n"]


async def measure(documents: int, kills: int) -> None:
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldmark-bench-")))
        home.chmod(0o755)
        stack.enter_context(time_limit(3000, home))
        async with OfflineModel(answer_offline, keeps_requests=False) as model:
            at = stack.enter_context(service(home, model.base_url, "--no-worker"))
            owner = stack.enter_context(psycopg.connect(at.database.owner_url, row_factory=dict_row, autocommit=True))
            environment = {
                "FIELDMARK_HOME": str(home),
                "DATABASE_URL": at.database.app_url,
                "ANTHROPIC_API_KEY": "bench",
                "ANTHROPIC_BASE_URL": model.base_url,
                "FIELDMARK_LOG_LEVEL": "error",
            }
            workers = Workers(stack, environment)
            async with at.client() as http:
                body = {"name": "Bench", "columns": COLUMNS}
                stack_id = (await http.post("/api/stacks", json=body)).raise_for_status().json()["id"]
                await upload_all(http, stack_id, documents)
                while count_reading(owner):
                    await asyncio.sleep(0.5)
                start, killed, memory = time.monotonic(), 0, [workers.memory()]
                body = {"stack_id": stack_id, "approval": "auto", "wait": False}
                run_id = (await http.post("/api/agent/stack", json=body)).raise_for_status().json()["run_id"]
                pauses = sorted(random.uniform(0.05, 0.9) for _ in range(kills))
                while (run := (await http.get(f"/api/runs/{run_id}")).json())["finished_at"] is None:
                    await asyncio.sleep(0.5)
                    done = (await progress_of(http, stack_id))["progress"]["done"] / documents
                    if done > 0.5 and len(memory) == 1:
                        memory.append(workers.memory())
                    while killed < kills and pauses[killed] <= done:
                        workers.kill()
                        killed += 1
                took = time.monotonic() - start
                memory.append(workers.memory())
                found = await progress_of(http, stack_id)
                states = ["waiting", "running", "stale", "incomplete", "failed", "duplicate"]
                others = (await http.get(f"/api/tables/{stack_id}/rows", params={"row_status": states})).json()["items"]
            rows = owner.execute(
                """select e.extracted_fields, d.filename, count(*) over (partition by e.document_id) as extractions
                   from public.extractions as e join public.documents as d on d.id = e.document_id
                   where e.status <> 'failed'"""
            ).fetchall()
    right = sum(
        row["extracted_fields"].get("total") == int(row["filename"].split(".")[0]) + 0.5 and row["extractions"] == 1
        for row in rows
    )
    print(f"{documents} one-page documents, {killed} workers killed; the run: {run['status']}")
    print(f"    rows a second: {documents / took:.2f} (goal 2.5)")
    print(f"    rows done: {found['progress']['done']}; failed: {found['progress']['failed']}")
    for row in others[:10]:
        print(f"        {row['filename']}: {row['status']} {row['error_code'] or ''} {row['error'] or ''}")
    print(f"    rows right, each with one extraction: {right}; lost: {documents - right}; extractions: {len(rows)}")
    print(f"    memory of two workers in MB: start, middle, end: {', '.join(f'{one:.0f}' for one in memory)}")


def main() -> None:
    restore_signals()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    asyncio.run(measure(given.documents, given.kills))


if __name__ == "__main__":
    main()

"""`fieldmark worker` beside `fieldmark serve --no-worker`: who does what, and who takes up what a dead one left."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest
from command import Home, family, finish, gone, read_until, serving, signalled

from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.script import Script
from fieldmark.offline_model.server import OfflineModel

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("cli-worker")]


@contextmanager
def worker(home: Home, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = home.start("worker", **environment)
    try:
        read_until(process.stderr, "The worker works")
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            finish(process)


async def becomes(http: httpx.AsyncClient, path: str, status: str) -> dict[str, object]:
    for _ in range(600):
        found = (await http.get(path)).json()
        if found["status"] == status:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"it stayed {found['status']} and did not become {status}: {found}")


async def test_what_a_killed_worker_left_is_taken_up_by_the_next(home: Home, clone):
    asked, let_go = asyncio.Event(), asyncio.Event()

    async def held(_: object) -> list[object]:
        asked.set()
        await let_go.wait()
        return [call("complete_extraction", {})]

    save = call("extract_fields", {"fields": {"number": "1"}, "confidences": {"number": 0.9}})
    async with OfflineModel(Script([[save], held, [text("Done.")]])) as model:
        settings = {
            "DATABASE_URL": clone.app_url,
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": model.base_url,
        }
        with serving(home, "--no-worker", **settings) as server:
            async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
                assert (await http.get("/readyz")).status_code == 200
                upload = await http.post("/api/documents", files={"file": ("a.txt", b"Invoice number: 1")})
                at = f"/api/documents/{upload.json()['id']}"
                body, accept = {"document_id": upload.json()["id"]}, {"accept": "text/event-stream"}
                watching = asyncio.create_task(http.post("/api/agent/extract", json=body, headers=accept))
                await asyncio.sleep(1)
                assert (await http.get(at)).json()["status"] == "reading"  # nobody is there to read it

                with worker(home, **settings) as first:
                    await becomes(http, at, "ready")
                    await asyncio.wait_for(asked.wait(), 30)
                    relatives = family(first)
                    assert any("claude" in " ".join(one.cmdline()) for one in relatives)
                    first.kill()
                    finish(first)
                # Its CLI is not left to write on its own.
                assert gone(relatives)

                killed = time.monotonic()
                with worker(home, **settings) as second:
                    let_go.set()
                    # What the heartbeats would say in 20 seconds, they say now.
                    with psycopg.connect(clone.owner_url) as conn:
                        conn.execute(
                            "update queue.procrastinate_workers set last_heartbeat = now() - interval '21 seconds' "
                            "where last_heartbeat < now() - make_interval(secs => %s)",
                            (time.monotonic() - killed,),
                        )
                    answer = await asyncio.wait_for(watching, 30)
                    assert time.monotonic() - killed < 20
                    run_id = answer.text.split('"run_id": "')[1].split('"')[0]
                    run = await becomes(http, f"/api/runs/{run_id}", "completed")
                    assert (run["attempt"], run["answer"]) == (2, "Done.")
                    # Who watched from the beginning saw both, in one row of numbers.
                    numbers = [int(line[4:]) for line in answer.text.splitlines() if line.startswith("id: ")]
                    assert numbers == list(range(1, len(numbers) + 1))
                    extraction = (await http.get(f"/api/extractions/{run['extraction_id']}")).json()
                    assert (extraction["extracted_fields"], extraction["status"]) == ({"number": "1"}, "completed")

                    done, seconds = signalled(second, signal.SIGTERM)
                    assert done.code == 0 and seconds < 8 and "Traceback" not in done.err

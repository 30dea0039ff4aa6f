"""A short run of tests/chaos.py, and that what it counts would be found."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import chaos
from fieldmark.domain.events import CompleteEvent, RunStartedEvent
from fieldmark.stores import runs

pytestmark = pytest.mark.anyio
SHORT = ("--kills", "3", "--seconds", "8", "--every", "0.5", "--workers", "2", "--customers", "3", "--seed", "1")
# How long things take is measured by hand, and is none of a test's business.
SHORT += ("--patience", "4")


# As it may be started in the background: deaf to what should end it, which what it starts would inherit.
DEAF = ("bash", "-c", 'trap "" INT TERM QUIT; exec "$@"', "bash")


@pytest.mark.long
async def test_nothing_is_lost_duplicated_stuck_or_orphaned():
    # It ends with this process, however that ends.
    with_us = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
    command = [*with_us, *DEAF, sys.executable, chaos.__file__, *SHORT]
    done = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0 duplicated 0 stuck 0 orphaned 0 failed 0" in done.stdout
    killed = re.search(r"kills +(\d+)", done.stdout)
    written = re.search(r"written +(\d+) calls done", done.stdout)
    assert killed and int(killed[1]) > 0 and written and int(written[1]) > 0, done.stdout


# That it would be found ----------------------------------------------------------------------------------------------


def on_queue(desk, query: str) -> None:
    """The queue's own triggers find their types by the search path."""
    with psycopg.connect(desk.owner_url, options="-c search_path=queue", autocommit=True) as owner:
        owner.execute(query)


@dataclass
class Kept:
    """A run that went well, as its customer knows it, and what `reckon` finds in it."""

    desk: object
    followed: object

    def found(self) -> set[str]:
        figures = chaos.Figures()
        chaos.reckon(self.desk.owner_url, [self.followed], figures)
        return {what for what, details in figures.faults.items() if details}


@pytest.fixture
async def kept(desk) -> Kept:
    key = str(uuid4())
    run_id = await desk.run(idempotency_key=key)
    context = await desk.context(run_id)
    async with desk.database.as_user(desk.scope) as conn:
        await runs.append_event(conn, run_id, RunStartedEvent(run_id=run_id, extraction_id=desk.extraction_id))
    await desk.call(context, "get_document_text")
    for n in range(2):
        await desk.call(context, "update_field", path=f"items[{n}]", value=f"r-{n}-x", confidence=1.0)
    await desk.call(context, "complete_extraction")
    async with desk.database.as_user(desk.scope) as conn:
        await runs.finish(conn, run_id, "completed", answer="Done.", error=None, error_code=None)
        ended = await runs.get(conn, run_id)
        await runs.append_event(conn, run_id, CompleteEvent(cost_usd=ended.cost_usd, usage=ended.usage))
    on_queue(desk, "delete from procrastinate_jobs")
    seen = {number: json.dumps(event) for number, event in enumerate(desk.events(run_id), 1)}
    return Kept(desk, chaos.Followed(key, "r", 2, False, str(run_id), seen, len(seen), ended=True))


async def test_in_a_run_that_went_well_nothing_is_found(kept):
    assert kept.found() == set()


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("update public.extractions set extracted_fields = '{\"items\": []}'", "lost"),
        ("delete from public.run_events where number = 3", "lost"),
        ("delete from public.extraction_journal", "lost"),
        ("update public.runs set status = 'running', finished_at = null", "stuck"),
        ("update public.extraction_journal set path = '{items,0}'", "duplicated"),
        ("update public.tool_calls set id = 'another' where tool = 'update_field'", "duplicated"),
    ],
)
async def test_what_goes_wrong_is_found(kept, tampering, found):
    if "set id" in tampering:
        tampering += " and arguments ->> 'path' = 'items[0]'"
    kept.desk.sql(f"{tampering} returning 1")
    assert found in kept.found()


async def test_a_job_that_is_left_is_found(kept):
    await kept.desk.run()
    assert kept.found() == {"stuck"}


def test_events_that_a_reader_misses_or_sees_changed_are_found():
    figures = chaos.Figures()
    customers = chaos.Customers("http://127.0.0.1:1", "token", 1, figures)
    one = chaos.Followed("key", "r", 1, False)
    customers._take(one, 1, '{"text": "a"}')
    customers._take(one, 2, '{"text": "b"}')
    one.due = 1  # shown from the start again
    customers._take(one, 1, '{"text": "a"}')
    assert not figures.faults
    customers._take(one, 1, '{"text": "a"}')
    assert figures.faults.pop("duplicated")
    customers._take(one, 3, "{}")
    assert figures.faults.pop("lost")
    one.due = 2
    customers._take(one, 2, '{"text": "another"}')
    assert figures.faults.pop("duplicated")


async def test_a_job_that_a_dead_worker_holds_is_found(desk):
    await desk.run()
    assert chaos.held_jobs(desk.owner_url)[0] == []
    on_queue(
        desk,
        """with dead as (
             insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 minute') returning id)
           update procrastinate_jobs set status = 'doing', worker_id = (select id from dead)
           where task_name = 'execute_run'""",
    )
    assert len(chaos.held_jobs(desk.owner_url)[0]) == 1


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import time; time.sleep(60)", "/proc/self/fd/9"]
    with subprocess.Popen(command, env={"HOME": str(tmp_path)}) as process:
        yield process
        process.kill()


def test_a_cli_without_its_worker_is_found(tmp_path, orphan):
    processes = chaos.Processes(tmp_path, "http://127.0.0.1:1", 1)
    assert [process.pid for process in processes.orphans()] == [orphan.pid]

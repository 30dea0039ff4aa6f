"""Workers fetch a job when one is added, ends or is due again. The polling interval here is five minutes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg
import pytest
from procrastinate import App, RetryStrategy
from procrastinate.worker import Worker

from fieldmark.runs.lifecycle.queue import DOCUMENTS, open_queue

pytestmark = pytest.mark.anyio
POLLING_SECONDS = 300


async def test_finished_job_starts_the_next_at_once(case, clone):
    read: list[UUID] = []
    released, all_read = asyncio.Event(), asyncio.Event()
    async with open_queue(case.database, clone.app_url, lambda queue: 2) as queue:

        @queue.task(name="read_document", queue=DOCUMENTS)
        async def read_document(document_id: str) -> None:
            await released.wait()
            read.append(UUID(document_id))
            if len(read) == 7:
                all_read.set()

        async with run_worker(queue):
            add_documents(clone.owner_url, case.scope.org_id, 7)
            await asyncio.sleep(2)  # by now all seven notifications have been received, and two jobs run
            released.set()
            async with asyncio.timeout(60):
                await all_read.wait()
    assert len(set(read)) == 7


async def test_failed_job_is_retried_after_its_pause(case, clone):
    tries = 0
    done = asyncio.Event()
    async with open_queue(case.database, clone.app_url, lambda queue: 2) as queue:

        @queue.task(name="read_document", queue=DOCUMENTS, retry=RetryStrategy(max_attempts=3, wait=1))
        async def read_document(document_id: str) -> None:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise OSError(document_id)
            done.set()

        async with run_worker(queue):
            add_documents(clone.owner_url, case.scope.org_id, 1)
            async with asyncio.timeout(60):
                await done.wait()
    assert tries == 3


async def test_new_slot_starts_a_job_while_the_others_run(case, clone):
    slots, running, enough = 1, 0, asyncio.Event()
    async with open_queue(case.database, clone.app_url, lambda queue: slots) as queue:

        @queue.task(name="read_document", queue=DOCUMENTS)
        async def read_document(document_id: str) -> None:
            nonlocal slots, running
            running += 1
            slots = min(running + 1, 3)  # as if this job waits for the model now
            if running == 3:
                enough.set()
            await enough.wait()

        async with run_worker(queue):
            add_documents(clone.owner_url, case.scope.org_id, 3)
            async with asyncio.timeout(60):
                await enough.wait()


@asynccontextmanager
async def run_worker(queue: App) -> AsyncGenerator[None]:
    worker = Worker(
        queue,
        queues=[DOCUMENTS],
        concurrency=3,
        fetch_job_polling_interval=POLLING_SECONDS,
        install_signal_handlers=False,
        delete_jobs="successful",
    )
    running = asyncio.create_task(worker.run())
    yield
    worker.stop()
    await running


def add_documents(url: str, org_id: UUID, number: int) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(
            """insert into documents (id, org_id, filename, storage_path)
               select id, %(org)s, 'a.txt', concat_ws('/', %(org)s, id, 'a.txt')
               from (select gen_random_uuid() as id from generate_series(1, %(number)s)) as new""",
            {"org": org_id, "number": number},
        )

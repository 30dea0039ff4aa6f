"""Jobs of workers counted as dead: another worker takes the job once, and the first worker can no longer change it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from procrastinate import App, RetryDecision, utils
from procrastinate.jobs import Job, Status
from procrastinate.worker import Worker

from extraction_case import until
from fieldmark.errors import ModelServiceDown, Unavailable
from fieldmark.runs.lifecycle import queue as lifecycle_queue
from fieldmark.runs.lifecycle.queue import RUNS, open_queue
from fieldmark.worker.jobs import MAX_TRIES, RunRetry, Sweep
from running_server import Clone

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def queue_with_run(case: Any, clone: Clone) -> AsyncIterator[App]:
    await case.queue_run()
    async with open_queue(case.database, clone.app_url, lambda queue: 4) as queue:
        yield queue


async def claim_job(queue: App) -> Job | None:
    """Claim the next run job, as a newly started worker."""
    return await queue.job_manager.fetch_job([RUNS], await queue.job_manager.register_worker())


async def expire_workers(case: Any, queue: App) -> list[Job]:
    """Make all workers miss their heartbeats and return their jobs, as the sweep finds them."""
    case.sql("update queue.procrastinate_workers set last_heartbeat = last_heartbeat - %s", timedelta(hours=1))
    await queue.job_manager.prune_stalled_workers(60)
    return list(await queue.job_manager.get_stalled_jobs(seconds_since_heartbeat=60))


def job_statuses(case: Any) -> list[str]:
    rows = case.sql("select status from queue.procrastinate_jobs where task_name = 'execute_run'")
    return [row["status"] for row in rows]


async def test_worker_can_retry_and_finish_its_own_job(case, clone):
    async with queue_with_run(case, clone) as queue:
        await queue.job_manager.retry_job(await claim_job(queue))
        assert job_statuses(case) == ["todo"]
        job = await claim_job(queue)
        assert job.attempts == 1
        await queue.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=True)
        assert job_statuses(case) == []


@pytest.mark.parametrize("late_action", ["ends it", "puts it back"])
async def test_worker_counted_as_dead_cannot_finish_its_job(case, clone, late_action):
    async with queue_with_run(case, clone) as queue:
        first = await claim_job(queue)
        (expired_jobs,) = await expire_workers(case, queue)
        await queue.job_manager.retry_job(expired_jobs)
        second = await claim_job(queue)
        if late_action == "ends it":
            await queue.job_manager.finish_job(first, Status.SUCCEEDED, delete_job=True)
        else:
            await queue.job_manager.retry_job(first)
        assert job_statuses(case) == ["doing"]
        await queue.job_manager.finish_job(second, Status.SUCCEEDED, delete_job=True)
        assert job_statuses(case) == []


@pytest.mark.parametrize("minutes_off", [-10, 0, 10])
async def test_retry_is_due_by_the_clock_of_the_database(case, clone, monkeypatch, minutes_off):
    clock = utils.utcnow
    monkeypatch.setattr(utils, "utcnow", lambda: clock() + timedelta(minutes=minutes_off))
    async with queue_with_run(case, clone) as queue:
        job = await claim_job(queue)
        await queue.job_manager.retry_job(job, retry_at=RetryDecision(retry_in={"seconds": 60}).retry_at)
        due = "extract(epoch from scheduled_at - now())::float as seconds"
        (row,) = case.sql(f"select {due} from queue.procrastinate_jobs where task_name = 'execute_run'")
        assert 30 < row["seconds"] <= 60


async def test_run_waits_longer_for_the_model_than_for_the_database():
    waits = [
        RunRetry().get_retry_decision(exception=error, job=None).retry_at - utils.utcnow()
        for error in (ModelServiceDown(), Unavailable())
    ]
    assert waits[0] > timedelta(seconds=30) > waits[1]


async def test_two_sweeps_requeue_a_job_once(case, clone):
    async with queue_with_run(case, clone) as queue:
        await claim_job(queue)
        one, other = [await expire_workers(case, queue) for _ in range(2)]
        await queue.job_manager.retry_job(one[0])
        assert await claim_job(queue) is not None
        await queue.job_manager.retry_job(other[0])
        assert job_statuses(case) == ["doing"]


async def test_worker_sends_heartbeats_again_after_an_outage(case, clone):
    heartbeat = "select last_heartbeat as at from queue.procrastinate_workers"
    async with queue_with_run(case, clone) as queue:
        worker = Worker(queue, queues=["none"], update_heartbeat_interval=0.1, install_signal_handlers=False)
        working = asyncio.create_task(worker.run())
        await until(lambda: case.sql(heartbeat))
        case.sql("alter table queue.procrastinate_workers rename to away")
        before = case.sql("select last_heartbeat as at from queue.away")
        await asyncio.sleep(0.5)
        case.sql("alter table queue.away rename to procrastinate_workers")
        await until(lambda: case.sql(heartbeat)[0]["at"] > before[0]["at"])
        worker.stop()
        await working


async def test_paused_process_does_not_count_its_own_workers_as_dead(case, clone):
    async with queue_with_run(case, clone) as queue:
        await claim_job(queue)
        await expire_workers(case, queue)
        sweep = Sweep(queue, iter([0, 20, 25]).__next__)
        await sweep()  # after twenty seconds
        assert job_statuses(case) == ["doing"]
        await sweep()  # five seconds later
        assert job_statuses(case) == ["todo"]


async def test_job_end_is_recorded_despite_a_lost_connection(case, clone):
    async with queue_with_run(case, clone) as queue:
        job = await claim_job(queue)
        with psycopg.connect(clone.owner_url) as other:
            other.execute("select from queue.procrastinate_jobs where id = %s for update", [job.id])
            ending_task = asyncio.create_task(queue.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=True))
            waiting_job = "wait_event_type = 'Lock' and datname = current_database()"
            cut_connection = f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {waiting_job}"
            await until(lambda: case.sql(cut_connection))
            assert job_statuses(case) == ["doing"] and not ending_task.done()
        await ending_task
        assert job_statuses(case) == []


@pytest.mark.parametrize("end", ["finished", "retried"])
async def test_job_end_is_recorded_after_a_long_outage(case, clone, monkeypatch, end):
    monkeypatch.setattr(lifecycle_queue, "PERSISTENT_SECONDS", 0.2)
    async with queue_with_run(case, clone) as queue:
        worker = await queue.job_manager.register_worker()
        job = await queue.job_manager.fetch_job([RUNS], worker)
        case.sql("alter table queue.procrastinate_jobs rename to away")
        if end == "finished":
            await queue.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=True)
        else:
            await queue.job_manager.retry_job(job)
        await queue.job_manager.update_heartbeat(worker)
        case.sql("alter table queue.away rename to procrastinate_jobs")
        assert job_statuses(case) == ["doing"]
        await queue.job_manager.update_heartbeat(worker)
        assert job_statuses(case) == ([] if end == "finished" else ["todo"])


@pytest.mark.parametrize(
    ("attempts", "reason"),
    [(MAX_TRIES - 1, "original"), (MAX_TRIES, "reading it failed")],
)
async def test_document_fails_after_too_many_reading_attempts(serve, clone, attempts, reason):
    async with serve() as server:
        document_id, org_id = uuid4(), server.scope.org_id
        with psycopg.connect(clone.owner_url, options="-c search_path=queue") as owner:
            owner.execute(
                """insert into public.documents (id, org_id, created_by, filename, storage_path, byte_size)
                   values (%(id)s, %(org)s, %(user)s, 'a.txt',
                     concat(%(org)s::uuid, '/', %(id)s::uuid, '/a.txt'), 1)""",
                {"id": document_id, "org": org_id, "user": server.scope.user_id},
            )
            owner.execute("update procrastinate_jobs set attempts = %s", [attempts])
        await server.wait_until_read(document_id)
        document = (await server.http.get(f"/api/documents/{document_id}")).json()
        assert document["status"] == "failed" and reason in document["error"]

"""The job queue: procrastinate in the same Postgres, in the schema `queue`. Only triggers insert jobs."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any, Final, LiteralString

import structlog
from procrastinate import App, PsycopgConnector, utils
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager, NotificationCallback, get_channel_for_queues

from fieldmark.db.pool import (
    CONNECTION_OPTIONS,
    IDLE_SECONDS,
    RECONNECT_SECONDS,
    Database,
    check_connection,
    configure_session,
    libpq_url,
    unchecked_pool,
)
from fieldmark.errors import Misconfigured, Unavailable

log = structlog.get_logger()

RUNS = "runs"
BACKGROUND = "background"
DOCUMENTS = "documents"
SEARCH = "search"
HEARTBEAT_SECONDS = 5
STALLED_SECONDS = 15
"""A worker without a heartbeat for this long counts as dead, and its jobs are queued again."""
PERSISTENT_SECONDS = 8
"""How long the end of a job waits for the database. A longer wait would keep a worker from stopping."""
SLOTS_SECONDS = 0.1


@asynccontextmanager
async def open_queue(database: Database, direct_url: str, slots: Callable[[str], int]) -> AsyncGenerator[App]:
    """Open the queue over direct connections: a worker needs LISTEN, which transaction poolers don't support.
    `slots(queue)` is the number of jobs that the queue's worker may execute now (see `private.claim_job`). Raise
    Misconfigured if the URL leads to a pooler, Unavailable if the database does not respond."""
    url, pooled = libpq_url(direct_url)
    if pooled:
        raise Misconfigured(
            "DATABASE_URL is a transaction pooler, and workers need a direct connection. Set DATABASE_DIRECT_URL to "
            "the same database without the pooler (port 5432), or run without a worker (`fieldmark serve --no-worker`)."
        )
    connector = PsycopgConnector(
        conninfo=url,
        min_size=1,
        max_size=2,  # workers query for jobs at the same time, also when idle
        max_idle=IDLE_SECONDS,
        timeout=5,  # a worker must be able to stop while the database is down
        reconnect_timeout=RECONNECT_SECONDS,
        kwargs={**CONNECTION_OPTIONS, "application_name": "fieldmark-queue"},
        configure=configure_session({"search_path": "queue"}),
        pool_factory=unchecked_pool,
    )
    app = App(connector=connector)
    app.job_manager = _JobManager(connector, database, slots)
    await check_connection(url, "The database itself (DATABASE_DIRECT_URL)", needs_session=True)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(app.open_async())
        except ConnectorException as error:
            raise Unavailable(f"The job queue cannot be opened: {error.__cause__ or error}") from error
        yield app


class _JobManager(JobManager):
    """A JobManager in which only the current holder of a job can finish or retry it. A worker that seemed dead may
    return after another worker has claimed its job. `attempts` is increased by each retry and identifies the holder.

    Finishing a job waits for a database that restarts. If that takes longer, the end is recorded after a later
    heartbeat: otherwise the job would stay with its worker forever.

    procrastinate wakes a worker for each new job, but loses a wake-up during a fetch. Here the end of a job, a due
    retry and a new slot also wake the worker, and a worker that is woken during a fetch fetches again.
    """

    def __init__(self, connector: BaseConnector, database: Database, slots: Callable[[str], int]) -> None:
        super().__init__(connector)
        self._database = database
        self._slots = slots
        self._callbacks: dict[str, NotificationCallback] = {}
        self._woken: set[str] = set()
        self._running: defaultdict[str, set[int | None]] = defaultdict(set)
        self._watched: set[str] = set()
        self._unrecorded: list[tuple[LiteralString, dict[str, Any]]] = []

    async def update_heartbeat(self, worker_id: int) -> None:
        """Update the heartbeat of a worker. A failure is not raised: procrastinate would send no further one, and not
        stop the worker (without periodic tasks it does not watch its heartbeats)."""
        try:
            await super().update_heartbeat(worker_id)
            while self._unrecorded:  # the workers of a process may do this at once: only the first one has an effect
                query, arguments = end = self._unrecorded[0]
                await self.connector.execute_query_async(query, **arguments)
                if end in self._unrecorded:
                    self._unrecorded.remove(end)
        except ConnectorException as error:
            log.warning("a heartbeat of the worker failed; the next one follows", error=str(error.__cause__ or error))

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen for new jobs on the shared connection of this process. procrastinate would open one per worker, and
        stop the worker if it is lost."""
        (queue,) = list(queues or ())
        (channel,) = get_channel_for_queues([queue])
        self._callbacks[queue] = on_notification
        async with self._database.listen(channel) as heard:
            async for payload in heard:
                if payload is None:  # notifications may have been lost, so there may be a job
                    await self._wake(queue)
                else:
                    self._woken.add(queue)
                    await on_notification(channel=channel, notification=json.loads(payload))

    async def _wake(self, queue: str) -> None:
        self._woken.add(queue)
        if callback := self._callbacks.get(queue):
            await callback(channel=queue, notification={"type": "job_inserted", "job_id": 0})

    def _wake_after(self, queue: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, lambda: loop.create_task(self._wake(queue)))

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Claim and return the next job of a queue, round-robin per organisation."""
        (queue,) = list(queues or ())
        while True:
            self._woken.discard(queue)
            rows = await self.connector.execute_query_all_async(
                "select * from private.claim_job(%(queue)s, %(worker_id)s, %(slots)s)",
                queue=queue,
                worker_id=worker_id,
                slots=self._slots(queue),
            )
            if rows:
                job = Job.from_row(rows[0])
                self._running[queue].add(job.id)
                return job
            if queue not in self._woken:
                self._watch_slots(queue)
                return None

    def _watch_slots(self, queue: str) -> None:
        """Wake the worker of a queue, all of whose slots are taken, once it has another."""
        if queue not in self._watched and len(self._running[queue]) >= self._slots(queue):
            self._watched.add(queue)
            asyncio.get_running_loop().call_later(SLOTS_SECONDS, self._check_slots, queue)

    def _check_slots(self, queue: str) -> None:
        self._watched.discard(queue)
        if not self._running[queue]:
            return  # the end of the last job has woken the worker
        if len(self._running[queue]) < self._slots(queue):
            asyncio.get_running_loop().create_task(self._wake(queue))
        else:
            self._watch_slots(queue)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        self._running[job.queue].discard(job.id)
        await self._execute_as_holder(
            "select procrastinate_finish_job_v1(id, %(status)s, %(delete_job)s) from held",
            job,
            status=status.value,
            delete_job=delete_job,
        )
        await self._wake(job.queue)  # its slot is free

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        self._running[job.queue].discard(job.id)
        # `retry_at` is by this machine's clock, which may be minutes off; jobs are due by the database's.
        seconds = max(0.0, (retry_at - utils.utcnow()).total_seconds()) if retry_at else 0.0
        await self._execute_as_holder(
            "select procrastinate_retry_job_v2(id, now() + make_interval(secs => %(seconds)s), %(priority)s::integer, "
            "%(queue)s::varchar, %(lock)s::varchar) from held",
            job,
            seconds=seconds,
            priority=priority,
            queue=queue,
            lock=lock,
        )
        self._wake_after(queue or job.queue, seconds)

    async def _execute_as_holder(self, query: LiteralString, job: Job, **arguments: Any) -> None:
        end = _HELD_JOB + query, {"id": job.id, "attempts": job.attempts, **arguments}
        try:
            async with asyncio.timeout(PERSISTENT_SECONDS):
                while True:
                    try:
                        await self.connector.execute_query_async(end[0], **end[1])
                        return
                    except ConnectorException:
                        await asyncio.sleep(0.5)
        except TimeoutError:
            log.warning("the end of a job could not be recorded yet", job=job.task_name, attempts=job.attempts)
            self._unrecorded.append(end)


_HELD_JOB: Final = """
    with held as materialized (
        select id from procrastinate_jobs
        where id = %(id)s and attempts = %(attempts)s and status = 'doing' for update)
"""

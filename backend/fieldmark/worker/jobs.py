"""The worker and its jobs: execute a run, read a document, index a document; and retry the jobs of dead workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from uuid import UUID

import structlog
from procrastinate import App, BaseRetryStrategy, JobContext, RetryDecision, RetryStrategy
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.worker import Worker

from fieldmark.agents.registry import AGENTS, answer_offline, find_task
from fieldmark.domain.statuses import Effort
from fieldmark.errors import FieldmarkError, ModelServiceDown
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine import scratch_dir
from fieldmark.runs.engine.options import SECOND_RETRIES, CliKind, ModelService
from fieldmark.runs.engine.pool import CliPool, PoolSettings
from fieldmark.runs.lifecycle.queue import (
    BACKGROUND,
    DOCUMENTS,
    HEARTBEAT_SECONDS,
    RUNS,
    SEARCH,
    STALLED_SECONDS,
    open_queue,
)
from fieldmark.runs.run import MODEL_WAIT_SECONDS, Runner
from fieldmark.runtime import Runtime
from fieldmark.services import extractions, search
from fieldmark.services.search_vectors import VectorIndexer
from fieldmark.services.sources.intake import Intake
from fieldmark.services.webhooks import Sender
from fieldmark.settings import Settings, processor_count
from fieldmark.stores import documents
from fieldmark.telemetry.metrics import Metrics
from fieldmark.worker import maintenance
from pagewords import readers

log = structlog.get_logger()

SWEEP_SECONDS = 5
MAINTENANCE_SECONDS = 30
DELETION_SECONDS = 10
"""Short, since `fieldmark delete organisation` waits for its report."""
POLL_SECONDS = 15
"""Polling finds the jobs of a process that died. New jobs, free slots and due retries wake a worker immediately."""
VECTORS_SECONDS = 1
CHECK_SECONDS = 2
WEBHOOK_SECONDS = 1
SOURCE_SECONDS = 2
RESTART_SECONDS = 1
RETRY_SECONDS = 2
GRACE_SECONDS = 1
MODELS_AFTER_SECONDS = 5
READERS_SECONDS = 30
MAX_TRIES = 10
"""Maximum number of attempts to read or index a document, whatever the reason of the failures."""


@asynccontextmanager
async def working(runtime: Runtime, pool: CliPool | None = None) -> AsyncGenerator[asyncio.Task[None]]:
    """Execute jobs within the context, with the CLIs of `pool` or of one of its own. Yield the task of the worker."""
    async with AsyncExitStack() as stack:
        if pool is None:
            pool = await stack.enter_async_context(open_cli_pool(runtime.settings, runtime.metrics))
        most = _queue_slots(runtime.settings)

        def slots(name: str) -> int:
            return min(most[name], pool.background_slots) if name == BACKGROUND else most[name]

        queue = await stack.enter_async_context(open_queue(runtime.database, runtime.direct_url, slots))
        runner = _register(queue, runtime, pool)
        task = asyncio.create_task(_work(queue, runtime), name="worker")
        try:
            yield task
        finally:
            runner.stop_waiting()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def open_cli_pool(
    settings: Settings, metrics: Metrics | None = None, *, is_command: bool = False, task: str | None = None
) -> AsyncGenerator[CliPool]:
    """Open a pool of CLIs. That of a command has spares only for the `task` that it starts, and does not replace
    them."""
    async with AsyncExitStack() as stack:
        stack.enter_context(scratch_dir.scratch_dir())
        processes = settings.max_live_agents + settings.warm_spares if settings.warm_spares else 0
        spares = 0 if is_command and task is None else settings.warm_spares
        spec = next(iter(AGENTS.values())) if task is None else find_task(task)[0]
        service = await stack.enter_async_context(_model_service(settings))
        pool = CliPool(
            service,
            second=second_service(settings, service),
            seconds=settings.run_seconds,
            settings=PoolSettings(processes, spares, not is_command, busy=processor_count() + 1),
            initial_kind=CliKind.of(spec, settings.model, settings.max_turns),
            max_active=settings.max_live_agents,
            metrics=metrics,
        )
        yield await stack.enter_async_context(pool)


@asynccontextmanager
async def _model_service(settings: Settings) -> AsyncGenerator[ModelService]:
    """Yield Claude's API if an API key or token is set, else the offline model on loopback."""
    if settings.offline:
        async with OfflineModel(answer_offline, keeps_requests=False) as offline:
            yield ModelService(offline.base_url, "offline", None, offline=True)
    else:
        key, token = settings.anthropic_api_key, settings.anthropic_auth_token
        yield ModelService(
            settings.anthropic_base_url,
            key.get_secret_value() if key else None,
            token.get_secret_value() if token else None,
            effort=Effort(settings.effort) if settings.effort else None,
            fallback_model=settings.fallback_model,
            max_output_tokens=settings.max_output_tokens,
        )


def second_service(settings: Settings, first: ModelService) -> ModelService | None:
    """Return the service of the second model, or None if there is none."""
    if settings.second_model is None or not settings.has_second_service:
        return None
    if not settings.has_own_second_service:
        return replace(first, fallback_model=None, retries=SECOND_RETRIES)
    key, token = settings.second_api_key, settings.second_auth_token
    return ModelService(
        settings.second_base_url,
        key.get_secret_value() if key else None,
        token.get_secret_value() if token else None,
        effort=first.effort,
        retries=SECOND_RETRIES,
        max_output_tokens=settings.max_output_tokens,
    )


def _register(queue: App, runtime: Runtime, pool: CliPool) -> Runner:
    settings = runtime.settings
    runner = Runner(
        runtime.database,
        pool,
        model=settings.model,
        max_turns=settings.max_turns,
        seconds=settings.run_seconds,
        second_model=settings.second_model if settings.has_second_service else None,
        model_url=settings.anthropic_base_url,
        second_model_url=settings.second_url,
        prices=runtime.prices,
        approval_wait_seconds=settings.approval_wait_seconds,
        tool_seconds=settings.tool_seconds,
        uses_fallbacks=settings.ask_fallback,
        first_part_bytes=settings.first_part_kb * 1000,
        embedder=runtime.embedder,
        metrics=runtime.metrics,
    )

    @queue.task(name="execute_run", queue=RUNS, retry=RunRetry())
    async def execute_run(run_id: str) -> None:
        await runner.execute(UUID(run_id))

    retry = RetryStrategy(max_attempts=MAX_TRIES, linear_wait=RETRY_SECONDS)

    @queue.task(name="read_document", queue=DOCUMENTS, retry=retry, pass_context=True)
    async def read_document(context: JobContext, document_id: str) -> None:
        # Checked before reading, because a file may crash its worker each time.
        if context.job.attempts >= MAX_TRIES:
            async with runtime.database.as_service() as conn:
                await documents.abandon(conn, UUID(document_id), "The document could not be read: reading it failed.")
            return
        await runtime.documents.read(UUID(document_id))

    @queue.task(name="index_document", queue=SEARCH, retry=retry, pass_context=True)
    async def index_document(context: JobContext, document_id: str) -> None:
        if context.job.attempts >= MAX_TRIES:
            log.error("a document could not be indexed", document_id=document_id)
            await search.abandon_indexing(runtime.database, UUID(document_id))
            return
        await search.index(runtime.database, UUID(document_id))

    del execute_run, index_document, read_document  # registered by name
    return runner


def _queue_slots(settings: Settings) -> dict[str, int]:
    """Return how many jobs of each queue are executed in parallel at most."""
    agents = settings.max_live_agents
    return {RUNS: agents, BACKGROUND: max(1, agents // 2), DOCUMENTS: 2, SEARCH: 1}


def with_spare_slot(slots: int) -> int:
    """Return the concurrency of a worker: one more than its slots, for an organisation that has no job running. A
    single slot has no spare."""
    return slots + 1 if slots > 1 else 1


async def _work(queue: App, runtime: Runtime) -> None:
    settings = runtime.settings
    sender = Sender(runtime.database, settings.private_networks)
    intake = Intake(runtime.database, runtime.documents, settings.private_networks, runtime.reading_limits)
    async with aclosing(sender), aclosing(intake), asyncio.TaskGroup() as group:
        # A worker for each queue: a batch must not delay interactive runs, nor long runs the reading of documents.
        for name, slots in _queue_slots(settings).items():
            concurrency = with_spare_slot(slots)
            group.create_task(_repeat(RESTART_SECONDS, {name: lambda n=name, c=concurrency: _work_on(queue, n, c)}))
        group.create_task(_repeat(READERS_SECONDS, {"readers": _load_readers}), name="readers")
        group.create_task(_repeat(SWEEP_SECONDS, {"sweep": Sweep(queue)}))
        group.create_task(_repeat(CHECK_SECONDS, {"checks": lambda: _check_changed(runtime)}))
        group.create_task(_repeat(WEBHOOK_SECONDS, {"webhooks": sender.send_due}))
        group.create_task(_repeat(SOURCE_SECONDS, {"sources": intake.look_at_due}))
        if runtime.embedder is not None:
            maker = VectorIndexer(runtime.database, runtime.embedder)
            group.create_task(_repeat(VECTORS_SECONDS, {"vectors": maker.index_all}))
        group.create_task(_repeat(MAINTENANCE_SECONDS, {"maintenance": lambda: _run_maintenance(runtime)}))
        # One after the other, so that an idle process needs one connection for both.
        deleted = {
            "organisations": lambda: maintenance.delete_organisations(runtime.database),
            "originals": runtime.documents.delete_originals,
        }
        group.create_task(_repeat(DELETION_SECONDS, deleted))


async def _check_changed(runtime: Runtime) -> None:
    """Check extractions that a front end wrote to the database or that a run left, and those of tables in which nearly
    all rows have a value now."""
    while await extractions.check_changed(runtime.database):
        pass


async def _load_readers() -> None:
    """Start the reader processes, or restart those that died. Loading the OCR models takes a second of CPU time, so it
    starts later: commands that start the service briefly do without."""
    readers.PLAIN.start()
    await asyncio.sleep(MODELS_AFTER_SECONDS)
    readers.WITH_OCR.start()


async def _work_on(queue: App, name: str, concurrency: int) -> None:
    """Execute a queue's jobs until the database connection is lost. Then the worker ends, sometimes without error."""
    worker = Worker(
        queue,
        name=name,
        queues=[name],
        concurrency=concurrency,
        fetch_job_polling_interval=POLL_SECONDS,
        install_signal_handlers=False,
        delete_jobs="successful",
        shutdown_graceful_timeout=GRACE_SECONDS,
        update_heartbeat_interval=HEARTBEAT_SECONDS,
        stalled_worker_timeout=STALLED_SECONDS,
    )
    running = asyncio.create_task(worker.run(), name=f"worker on {name}")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        # Stopped instead of cancelled: Python 3.11 may lose a cancellation while a pooled connection becomes free.
        worker.stop()
        await running
        raise


class RunRetry(BaseRetryStrategy):
    """Retries without a limit: a run counts its own attempts. If its job stopped earlier, the run would wait
    forever."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
        is_down = isinstance(exception, ModelServiceDown)
        return RetryDecision(retry_in={"seconds": MODEL_WAIT_SECONDS if is_down else RETRY_SECONDS})


class Sweep:
    """Retries the jobs of dead workers.

    A process that was itself suspended skips one sweep: until its workers have sent a heartbeat, they would seem
    dead."""

    def __init__(self, queue: App, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._clock = clock
        self._looked_at = clock()

    async def __call__(self) -> None:
        before, self._looked_at = self._looked_at, self._clock()
        if self._looked_at - before > STALLED_SECONDS - HEARTBEAT_SECONDS:
            return
        for job in await self._queue.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
            log.info("retrying the job of a dead worker", job=job.task_name, attempts=job.attempts)
            await self._queue.job_manager.retry_job(job)


async def _run_maintenance(runtime: Runtime) -> None:
    await asyncio.to_thread(scratch_dir.remove_abandoned)
    await maintenance.clear_up(runtime.database, runtime.settings)


async def _repeat(pause_seconds: float, actions: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
    task = asyncio.current_task()
    while task is not None and not task.cancelling():  # see _work_on: a cancellation may have been lost in an action
        for name, action in actions.items():
            try:
                await action()
            except (FieldmarkError, ConnectorException, OSError) as error:
                log.warning("a part of the worker failed; it tries again", part=name, error=str(error))
            except Exception:
                log.exception("a part of the worker failed; it tries again", part=name)
            if task.cancelling():
                return
        await asyncio.sleep(pause_seconds)

"""The service in a command's own process. What it needs starts at the same time: Postgres, the reader of files and the
agent's CLI are processes of their own, and work while Python imports the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING
from uuid import UUID

from fieldmark.db.embedded import embedded_postgres_in_thread
from fieldmark.isolation import set_user_range
from fieldmark.settings import Settings
from pagewords import readers
from processisolation.lockdown import deny_memory_access

if TYPE_CHECKING:
    from fieldmark.api.in_process import InProcessService
    from fieldmark.runs.engine.pool import CliPool


@asynccontextmanager
async def open_own_service(
    settings: Settings, user: UUID, task: str | None
) -> AsyncGenerator[tuple[InProcessService, Callable[[], AbstractAsyncContextManager[object]]]]:
    """Open the service for one user. Yield it, and a context in which its worker runs. `task`: the agent task that the
    command will start, if any. Raises what `open_runtime` raises."""
    deny_memory_access()
    set_user_range(settings.process_user_ids)
    async with AsyncExitStack() as stack:
        database = None
        if settings.embedded_database:
            started = stack.enter_context(embedded_postgres_in_thread(settings.home, settings.postgres_major))
            database = asyncio.wrap_future(started)
        pool: CliPool | None = None
        if task is not None:
            readers.PLAIN.start()
            # In threads: else the event loop could not talk to the processes.
            await asyncio.to_thread(import_module, "fieldmark.worker.jobs")
            from fieldmark.worker.jobs import open_cli_pool

            pool = await stack.enter_async_context(open_cli_pool(settings, is_command=True, task=task))
        await asyncio.to_thread(import_module, "fieldmark.api.in_process")
        from fieldmark.api.in_process import open_in_process

        own = await stack.enter_async_context(open_in_process(settings, user, database))

        @asynccontextmanager
        async def work() -> AsyncGenerator[None]:
            # Here: it takes long to import, and most commands do without.
            from fieldmark.worker.jobs import open_cli_pool, working

            async with AsyncExitStack() as work_stack:
                clis = pool or await work_stack.enter_async_context(open_cli_pool(settings, is_command=True))
                await work_stack.enter_async_context(working(own.runtime, clis))
                yield

        yield own, work

"""/healthz and /readyz: does the process live, can it work."""

from __future__ import annotations

import asyncio

import structlog
from fastapi import Request
from pydantic import BaseModel

from fieldmark.api.auth import TheRuntime
from fieldmark.api.routing import Routes
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import OFFLINE

log = structlog.get_logger()

router = Routes(tags=["health"])

READY_SECONDS = 2
"""Whoever asks asks again soon, and waits less long than a request does."""


class Health(BaseModel):
    """`model` is offline where the offline model by rules answers, for want of a key."""

    status: str
    model: str | None = None


@router.get("/healthz", summary="Does the process live")
async def get_health() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.get("/readyz", summary="Can it work")
async def get_readiness(request: Request, runtime: TheRuntime) -> Health:
    """The database answers, the worker (if this process has one) works, and no disk that it writes to is full."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await runtime.database.check_connection()
    except (TimeoutError, Unavailable) as error:
        log.warning("the database cannot be reached", reason=str(error))
        raise Unavailable("The database cannot be reached; the service's log says why.") from None
    full = await asyncio.to_thread(runtime.full_disk)
    if full is not None:
        log.warning("a disk is full", code="disk_full", folder=str(full))
        raise Unavailable("A disk of the service is full, or nearly so; the service's log says which.")
    worker: asyncio.Task[None] | None = request.app.state.worker
    if worker is not None and worker.done():
        raise Unavailable("The worker has stopped; the service's log says why.")
    settings = runtime.settings
    named = OFFLINE if settings.offline else settings.model
    return Health(status="ready", model=named)

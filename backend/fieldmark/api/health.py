"""/healthz and /readyz: liveness and readiness checks."""

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
"""Time limit of the database check. Shorter than that of other requests: probes repeat soon."""


class Health(BaseModel):
    """The service's status. `model` is `offline` if built-in rules replace the model because no API key is set."""

    status: str
    model: str | None = None


@router.get("/healthz", summary="Liveness")
async def get_health() -> Health:
    """Return `ok`: the process responds."""
    return Health(status="ok")


@router.get("/readyz", summary="Readiness")
async def get_readiness(request: Request, runtime: TheRuntime) -> Health:
    """Return `ready` if the database responds, the worker (if this process has one) runs, and no disk is full."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await runtime.database.check_connection()
    except (TimeoutError, Unavailable) as error:
        log.warning("the database cannot be reached", reason=str(error))
        raise Unavailable("The database cannot be reached. The service's log has the reason.") from None
    full = await asyncio.to_thread(runtime.full_disk)
    if full is not None:
        log.warning("a disk is full", code="disk_full", folder=str(full))
        raise Unavailable("A disk of the service is full or nearly full. The service's log names its folder.")
    worker: asyncio.Task[None] | None = request.app.state.worker
    if worker is not None and worker.done():
        raise Unavailable("The worker has stopped. The service's log has the reason.")
    settings = runtime.settings
    return Health(status="ready", model=OFFLINE if settings.offline else settings.model)

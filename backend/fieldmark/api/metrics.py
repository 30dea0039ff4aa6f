"""/metrics: what is counted, for Prometheus. Not for the public: see `_check`."""

from __future__ import annotations

import asyncio
import math
import secrets
from ipaddress import ip_address

from fastapi import Depends, Request, Response
from fastapi.security import HTTPBearer

from fieldmark.api.auth import TheRuntime
from fieldmark.api.routing import Routes
from fieldmark.errors import FieldmarkError, Unauthenticated
from fieldmark.runtime import Runtime
from fieldmark.stores import jobs, runs

router = Routes(tags=["health"])

DATABASE_SECONDS = 2
"""How long the queue is asked for; without an answer the rest is told."""

_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_bearer = HTTPBearer(auto_error=False, scheme_name="MetricsToken", description="What FIELDMARK_METRICS_TOKEN is.")


@router.get(
    "/metrics",
    dependencies=[Depends(_bearer)],  # for the description: `_check` checks it
    summary="What is counted",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def get_metrics(request: Request, runtime: TheRuntime) -> Response:
    """For Prometheus, with FIELDMARK_METRICS_TOKEN as the bearer token. Without that setting only a worker answers, at
    the port of `fieldmark worker --port`, and only this machine."""
    _check(request, runtime)
    await _look(runtime)
    return Response(runtime.metrics.text(), media_type=_MEDIA_TYPE)


def _check(request: Request, runtime: Runtime) -> None:
    token = runtime.settings.metrics_token
    if token is not None:
        given = request.headers.get("authorization", "")
        if not secrets.compare_digest(given.encode(), f"Bearer {token.get_secret_value()}".encode()):
            raise Unauthenticated("Send the metrics' token: Authorization: Bearer <FIELDMARK_METRICS_TOKEN>.")
        return
    # At the port of the API a proxy on the same machine makes the whole world come from here.
    own_port: bool = request.app.state.own_port
    if not own_port or request.client is None or not _is_loopback(request.client.host):
        raise Unauthenticated(
            "Set FIELDMARK_METRICS_TOKEN and send it. Without it only a worker's own port answers, to this machine."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a socket that has a name and no address
        return False


async def _look(runtime: Runtime) -> None:
    """Take over what is not counted but looked up."""
    metrics, load = runtime.metrics, runtime.database.pool_stats()
    metrics.pool_connections.labels("busy").set(load.busy)
    metrics.pool_connections.labels("idle").set(load.idle)
    metrics.pool_waiting.set(load.waiting)
    try:
        async with asyncio.timeout(DATABASE_SECONDS), runtime.database.as_service() as conn:
            rows, waiting = await jobs.depth(conn), await runs.count_waiting(conn)
    except (TimeoutError, FieldmarkError):
        rows, waiting = [], math.nan
    metrics.waiting_runs.set(waiting)
    metrics.queue_jobs.clear()
    for row in rows:
        metrics.queue_jobs.labels(row.queue, row.status).set(row.jobs)

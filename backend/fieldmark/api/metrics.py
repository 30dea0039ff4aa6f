"""/metrics for Prometheus. Never public: see `_check_access`."""

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
"""Time limit of the queue's query. After it the other metrics are returned without the queue's."""

_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_bearer = HTTPBearer(auto_error=False, scheme_name="MetricsToken", description="The value of FIELDMARK_METRICS_TOKEN.")


@router.get(
    "/metrics",
    dependencies=[Depends(_bearer)],  # only for the OpenAPI
    summary="Metrics",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def get_metrics(request: Request, runtime: TheRuntime) -> Response:
    """Return metrics for Prometheus. Needs FIELDMARK_METRICS_TOKEN as the bearer token. If that setting is not set,
    only the port of `fieldmark worker --port` returns metrics, and only to the same machine."""
    _check_access(request, runtime)
    await _update_gauges(runtime)
    return Response(runtime.metrics.text(), media_type=_MEDIA_TYPE)


def _check_access(request: Request, runtime: Runtime) -> None:
    token = runtime.settings.metrics_token
    if token is not None:
        header = request.headers.get("authorization", "")
        if not secrets.compare_digest(header.encode(), f"Bearer {token.get_secret_value()}".encode()):
            raise Unauthenticated(
                "The metrics token is missing or wrong. Send it: Authorization: Bearer <FIELDMARK_METRICS_TOKEN>."
            )
        return
    # Behind a proxy on the same machine every client of the API's port has a loopback address.
    is_monitoring_port: bool = request.app.state.is_monitoring_port
    if not is_monitoring_port or request.client is None or not _is_loopback(request.client.host):
        raise Unauthenticated(
            "Metrics are closed here because FIELDMARK_METRICS_TOKEN is not set. Set it and send it, or read a "
            "worker's monitoring port on its own machine."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a Unix socket
        return False


async def _update_gauges(runtime: Runtime) -> None:
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

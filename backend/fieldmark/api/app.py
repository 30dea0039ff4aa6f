"""The HTTP application: routers, errors, limits, and what is open while it lives."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.telemetry import TelemetryConfig

from fieldmark.api import (
    agent,
    api_keys,
    documents,
    exports,
    extractions,
    fields,
    health,
    library,
    metrics,
    organisations,
    page,
    runs,
    schema_changes,
    search,
    threads,
    usage,
)
from fieldmark.api.description import complete_description
from fieldmark.api.edge import FORM_BYTES, Edge
from fieldmark.api.known_query import KnownQuery
from fieldmark.api.problems import ERRORS, add_handlers
from fieldmark.api.request_log import RequestLog
from fieldmark.errors import Misconfigured
from fieldmark.identity.tokens import tokens_for
from fieldmark.runtime import Runtime, open_runtime
from fieldmark.services.api_keys import known_keys
from fieldmark.settings import Settings, read_settings

MAX_CONNECTIONS = 700
"""More get 503. Fewer than the 1024 descriptors that a process usually may have, with those for its own work."""

_ABOUT = """Documents in, typed fields in Postgres out, through an agent whose every write is one checked transaction.

1. `POST /api/documents` takes the file. 2. `POST /api/agent/extract` starts the agent; ask for `text/event-stream` to
watch it, or send `"wait": false` and follow `GET /api/runs/{id}/events`. 3. `GET /api/extractions/{id}` shows the
fields. 4. `POST /api/agent/correct` changes them in words.

Errors are `application/problem+json` (RFC 9457) with a stable `code`. Another tenant's id answers exactly like one that
does not exist."""

_TAGS = {
    "documents": "Uploaded files, their pages, and where each word stands.",
    "search": "What of the documents answers a question.",
    "agent": "Starts an agent on a document or an extraction.",
    "runs": "What an agent did, event by event, as often as you like.",
    "threads": "Conversations with an agent about a document.",
    "extractions": "The fields that were read.",
    "schemas": "JSON Schemas by name, with their versions.",
    "prompts": "What extractions are asked for, by name, with their versions.",
    "tags": "Words by which documents and prompts are sorted.",
    "fields": "Figures over the fields of many documents.",
    "usage": "What the agents used of the model, and what it cost.",
    "organisations": "Who belongs together, as what, and who is invited.",
    "keys": "Keys for machines.",
    "page": "For front ends.",
    "health": "For whoever keeps the service running.",
}


# FastAPI's own spans and records would hold paths, queries and the texts of exceptions.
_OWN_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(settings: Settings | None = None, *, with_worker: bool = True, with_page: bool = True) -> FastAPI:
    """The application. `with_worker`: jobs are done in this process too. `with_page`: it serves the web UI."""
    settings = settings or read_settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(open_runtime(settings))
            app.state.runtime = runtime
            app.state.tokens = tokens_for(settings)
            app.state.api_keys = await stack.enter_async_context(known_keys(runtime.database))
            app.state.worker = None
            if with_worker:
                # Here: it takes as long to import as the rest, and most commands ask nothing of it.
                from fieldmark.worker.jobs import working

                app.state.worker = await stack.enter_async_context(working(runtime))
            yield

    app = FastAPI(
        title="Fieldmark",
        version="0.1.0",
        description=_ABOUT,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "The service that this was read from."}],
        openapi_tags=[{"name": name, "description": about} for name, about in _TAGS.items()],
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere, and are blank without a network
        redoc_url=None,
        telemetry=_OWN_TELEMETRY,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.own_port = False
    add_handlers(app)
    complete_description(app)
    forms = {("POST", "/api/documents"): settings.max_file_mb * 1024 * 1024 + FORM_BYTES}
    app.add_middleware(Edge, forms=forms)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=[
                *("authorization", "content-type", "x-org-id", "idempotency-key", "if-match", "last-event-id"),
                "range",
            ],
            expose_headers=["content-disposition", "location", "retry-after", "x-box"],
        )
    app.add_middleware(RequestLog)
    # Made here and not when it is imported: an agent may have been registered since.
    things = (documents, search, extractions, exports, library, schema_changes)
    modules = (runs, threads, *things, fields, usage, organisations, api_keys)
    for router in (agent.make_router(), *(module.router for module in modules)):
        router.add_to(app, dependencies=[KnownQuery], responses=ERRORS)
    for router in (page.router, health.router, metrics.router):
        router.add_to(app, responses=ERRORS)
    if with_page:
        page.add_page(app, settings)
    return app


def create_watching_app(runtime: Runtime, worker: asyncio.Task[None] | None) -> FastAPI:
    """Return the app at a worker's own port: /healthz, /readyz and /metrics."""
    app = FastAPI(title="Fieldmark, watched", openapi_url=None, telemetry=_OWN_TELEMETRY)
    app.state.runtime = runtime
    app.state.worker = worker
    app.state.own_port = True
    add_handlers(app)
    app.add_middleware(RequestLog)
    for router in (health.router, metrics.router):
        router.add_to(app)
    return app


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 for any free one. Raises Misconfigured where nobody can listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise Misconfigured(f"The service cannot listen: {error.strerror}.") from error
    # Else each event of a stream waits 40 ms for the reader's acknowledgement of the one before: asyncio sees to that
    # for sockets of its own making only.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def serve_app(app: FastAPI, listener: socket.socket) -> None:
    """Answer at `listener` until cancelled; requests under way then get two seconds. The app's lifespan is the
    caller's to open, so what keeps it from starting reaches the caller as it is."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listener]), name="server")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """The process's signals are the command's: it closes more than this server."""
        yield

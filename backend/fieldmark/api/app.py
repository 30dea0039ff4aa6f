"""The HTTP application: its routes, middleware and lifespan."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

from fieldmark import __version__
from fieldmark.api import (
    agent,
    api_keys,
    changes,
    documents,
    exports,
    extractions,
    fields,
    health,
    inbox,
    library,
    metrics,
    organisations,
    overview,
    runs,
    schema_changes,
    search,
    sources,
    stacks,
    tables,
    threads,
    usage,
    web_ui,
    webhooks,
)
from fieldmark.api.batch_form import LARGEST_FILES
from fieldmark.api.connections import http_protocol
from fieldmark.api.cors import add_cors
from fieldmark.api.docs_pages import add_docs_pages
from fieldmark.api.known_parameters import KnownParameters
from fieldmark.api.mcp import add_mcp
from fieldmark.api.openapi import extend_openapi
from fieldmark.api.problems import ERRORS, add_error_handlers
from fieldmark.api.reference import add_reference
from fieldmark.api.request_guard import FORM_BYTES, RequestGuard
from fieldmark.api.request_log import RequestLog
from fieldmark.errors import Misconfigured
from fieldmark.identity.tokens import tokens_for
from fieldmark.runtime import Runtime, open_runtime
from fieldmark.services.api_keys import open_api_keys
from fieldmark.settings import Settings, read_settings

_DESCRIPTION = """Reads documents into typed fields in Postgres, with an agent whose every write is one checked
transaction.

1. `POST /api/documents` uploads a file.
2. `POST /api/agent/extract` starts the agent; send `Accept: text/event-stream` to watch it, or `"wait": false` and
   follow `GET /api/runs/{id}/events`.
3. `GET /api/extractions/{id}` returns the fields.
4. `POST /api/agent/correct` changes them by a message in plain language.

Errors are `application/problem+json` (RFC 9457) with a stable `code`. The id of another organisation's row gets the
same response as an id that does not exist."""

_TAGS = {
    "documents": "Uploaded files, their pages, and the location of each word.",
    "search": "Full-text and semantic search in the documents.",
    "agent": "Runs of agents: start one, approve its calls.",
    "runs": "Past and current runs, with their events.",
    "threads": "Conversations with an agent.",
    "extractions": "The fields read from documents.",
    "schemas": "Named JSON Schemas with their versions.",
    "prompts": "Named instructions for extractions, with their versions.",
    "stacks": "Sets of documents with one table, which an agent fills.",
    "tables": "The documents of a schema or a stack as rows.",
    "tags": "Labels of documents and prompts.",
    "fields": "Counts, sums and values of fields over many documents.",
    "overview": "What the documents cost, and how good their values were.",
    "inbox": "What waits for a person: fields, approvals, suggestions, failed files.",
    "usage": "Tokens used and their cost.",
    "organisations": "Organisations, their members and invitations.",
    "keys": "API keys.",
    "changes": "What happened, as a feed.",
    "webhooks": "Where changes are sent.",
    "sources": "Buckets and mailboxes whose files become documents.",
    "page": "Configuration for front ends.",
    "health": "Health checks and metrics.",
}


# FastAPI's own spans and logs would contain paths, queries and the texts of exceptions.
_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(settings: Settings | None = None, *, with_worker: bool = True, with_ui: bool = True) -> FastAPI:
    """Return the application. `with_worker`: also run jobs in this process. `with_ui`: also serve the web UI."""
    settings = settings or read_settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(open_runtime(settings))
            app.state.runtime = runtime
            app.state.tokens = tokens_for(settings)
            app.state.api_keys = await stack.enter_async_context(open_api_keys(runtime.database))
            stack.push_async_callback(mcp_door.aclose)
            app.state.worker = None
            if with_worker:
                # Imported here: it takes as long as all other imports, and most commands do not need it.
                from fieldmark.worker.jobs import working

                app.state.worker = await stack.enter_async_context(working(runtime))
            yield

    app = FastAPI(
        title="Fieldmark",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "The service that returned this document."}],
        openapi_tags=[{"name": name, "description": about} for name, about in _TAGS.items()],
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from a CDN, and are blank without internet access
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=lambda route: route.name,
    )
    mcp_door = add_mcp(app)
    add_reference(app)
    add_docs_pages(app)
    app.state.is_monitoring_port = False
    app.state.stopping = asyncio.Event()
    app.state.streams = set()
    app.state.trusted_proxies = settings.trusted_proxies
    add_error_handlers(app)
    extend_openapi(app)
    max_file = settings.max_file_mb * 1024 * 1024
    form_limits = {
        ("POST", "/api/documents"): max_file + FORM_BYTES,
        ("POST", "/api/documents/batch"): LARGEST_FILES * max_file + FORM_BYTES,
    }
    app.add_middleware(RequestGuard, form_limits=form_limits)
    add_cors(app, settings.cors_origins)
    app.add_middleware(RequestLog)
    # The agents' routes are made here and not on import: agents may be registered later than that.
    data = (documents, search, extractions, exports, library, schema_changes, tables, stacks, fields, inbox)
    modules = (runs, threads, *data, overview, usage, organisations, api_keys, changes, webhooks, sources)
    for router in (*agent.make_routers(), *(module.router for module in modules)):
        router.add_to(app, dependencies=[KnownParameters], responses=ERRORS)
    for router in (web_ui.router, health.router, metrics.router):
        router.add_to(app, responses=ERRORS)
    if with_ui:
        web_ui.add_web_ui(app, settings)
    return app


def create_monitoring_app(runtime: Runtime, worker: asyncio.Task[None] | None) -> FastAPI:
    """Return the app for a worker's monitoring port: /healthz, /readyz and /metrics."""
    app = FastAPI(title="Fieldmark worker", openapi_url=None, telemetry=_NO_TELEMETRY)
    app.state.runtime = runtime
    app.state.worker = worker
    app.state.is_monitoring_port = True
    app.state.stopping = asyncio.Event()
    app.state.streams = set()
    add_error_handlers(app)
    app.add_middleware(RequestLog)
    for router in (health.router, metrics.router):
        router.add_to(app)
    return app


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free port. Raise Misconfigured if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise Misconfigured(
            f"The service cannot listen on {host}, port {port}: {error.strerror}. Choose another address or port."
        ) from error
    # Without it each event of a stream waits 40 ms for the acknowledgement of the previous one. asyncio sets it only on
    # sockets that it creates itself.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


STOP_SECONDS: Final = 20
"""How long the requests of a service that stops may take: an upload or a file of a large table does not end in less."""


async def serve_app(app: FastAPI, listener: socket.socket) -> None:
    """Serve at `listener` until cancelled. Running requests then get STOP_SECONDS to finish; those that wait for a run,
    and streams of events, end at once. The caller opens the app's lifespan, and so gets its exceptions."""
    config = uvicorn.Config(
        app,
        http=http_protocol(getattr(app.state, "trusted_proxies", ())),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = _HttpServer(config)
    serving = asyncio.create_task(server.serve([listener]), name="server")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        app.state.stopping.set()
        server.should_exit = True
        for stream in app.state.streams:
            stream.cancel()
        await serving
        raise


class _HttpServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command, which has more to close than this server."""
        yield

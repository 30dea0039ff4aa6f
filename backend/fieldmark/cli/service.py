"""Commands to operate a service: serve, worker, migrate, token."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer
from rich.markup import escape

from fieldmark.cli.process import CANNOT_WORK, LOCAL_USER, exit_on_error, exit_with, read_settings, run
from fieldmark.cli.terminal import err
from fieldmark.isolation import isolation_warning
from fieldmark.settings import Settings


def serve(
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. Default: FIELDMARK_HOST, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The port to listen on; 0: any. Default: FIELDMARK_PORT, or 8731."),
    ] = None,
    with_worker: Annotated[
        bool,
        typer.Option("--worker/--no-worker", help="Also run jobs in this process (default), or leave them to workers."),
    ] = True,
) -> None:
    """Serve the HTTP API and the web UI, with a worker and, without DATABASE_URL, an embedded Postgres."""
    settings = read_settings()
    run(_serve(settings, host or settings.host, settings.port if port is None else port, with_worker), endless=True)


def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Maximum number of parallel agent runs. Overrides FIELDMARK_MAX_LIVE_AGENTS."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Serve /healthz, /readyz and /metrics on this port of FIELDMARK_HOST."),
    ] = None,
) -> None:
    """Run jobs: agent runs and document reading. Start any number of workers on any number of machines."""
    settings = read_settings()
    if concurrency is not None:
        settings = settings.model_copy(update={"max_live_agents": concurrency})
    run(_work(settings, port), endless=True)


def migrate() -> None:
    """Migrate the database, as its owner (DATABASE_OWNER_URL, else DATABASE_URL)."""
    from fieldmark.runtime import migrate_as_owner

    applied = run(migrate_as_owner(read_settings()))
    for name in applied:
        typer.echo(name)
    err.print(f"{len(applied)} migrations applied." if applied else "The database is up to date.")


def token(
    user: Annotated[UUID, typer.Option(help="The user id.")] = LOCAL_USER,
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 365, help="Hours until it expires.")] = 12,
    email: Annotated[str | None, typer.Option(help="An email address to include, for invitations.")] = None,
) -> None:
    """Print an access token, signed with the local key, to standard output."""
    from fieldmark.identity.tokens import LocalTokens

    settings = read_settings()
    if settings.supabase_url:
        exit_with("SUPABASE_URL is set: get tokens from Supabase Auth.", CANNOT_WORK)
    with exit_on_error():
        typer.echo(LocalTokens(settings.home).sign(user, timedelta(hours=hours), email))


async def _serve(settings: Settings, host: str, port: int, with_worker: bool) -> None:
    from fieldmark.api.app import create_app, listen, serve_app

    async with AsyncExitStack() as stack:
        # Before anything is started: a port that is taken is the likeliest thing to be wrong.
        listener = stack.enter_context(listen(host, port))
        app = create_app(settings, with_worker=with_worker)
        await stack.enter_async_context(app.router.lifespan_context(app))
        _announce(settings, *listener.getsockname()[:2])
        await serve_app(app, listener)


def _announce(settings: Settings, host: str, port: int) -> None:
    url = _url(host, port)
    err.print(f"Fieldmark is running at [bold]{url}[/bold] (API: {url}/openapi.json)")
    if settings.offline:
        err.print("[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules.[/yellow]")
    if settings.supabase_url:
        err.print(f"Tokens: Supabase Auth at {settings.supabase_url}")
    elif sys.stdout.isatty():
        from fieldmark.identity.tokens import LocalTokens

        own = LocalTokens(settings.home).sign(LOCAL_USER)
        # After the #, so that it is not sent to the server and is not logged.
        err.print("Sign-in link for the web UI, valid for 12 hours:")
        typer.echo(f"{_url(host, port)}/#token={own}")
        err.print("Access token of the local user, valid for 12 hours:")
        typer.echo(own)
    else:  # most likely a log, which others read
        err.print("`fieldmark token` prints a token of the local user.")
    _say_what_is_shared()


def _say_what_is_shared() -> None:
    """Warn on the console and in the log if processes are not isolated."""
    lacking = isolation_warning()
    if lacking is not None:
        err.print(f"[yellow]{lacking}[/yellow]")
        import structlog  # imported here: `--help` logs nothing

        structlog.get_logger().warning("processes are not kept apart", code="shared_user", reason=lacking)


async def _work(settings: Settings, port: int | None) -> None:
    from fieldmark.api.app import create_monitoring_app, listen, serve_app
    from fieldmark.runtime import open_runtime
    from fieldmark.worker.jobs import working

    async with AsyncExitStack() as stack:
        listener = None if port is None else stack.enter_context(listen(settings.host, port))
        runtime = await stack.enter_async_context(open_runtime(settings))
        task = await stack.enter_async_context(working(runtime))
        err.print("Worker started. Press Ctrl-C to stop.")
        _say_what_is_shared()
        if listener is None:
            await task
        else:
            err.print(f"/healthz, /readyz and /metrics at {_url(*listener.getsockname()[:2])}")
            await serve_app(create_monitoring_app(runtime, task), listener)


def _url(host: str, port: int) -> str:
    return escape(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

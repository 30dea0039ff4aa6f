"""The commands of whoever keeps a service: serve, worker, migrate, token."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer
from rich.markup import escape

from fieldmark.cli.process import CANNOT_WORK, LOCAL_USER, read_settings, run, sentences, stop
from fieldmark.cli.terminal import err
from fieldmark.isolation import shortcoming
from fieldmark.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port to listen on; 0 for any free one.")
    ] = None,
    with_worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Do the jobs in this process too, or leave them to others.")
    ] = True,
) -> None:
    """Serve the HTTP API, with a worker and (if no other is named) the embedded Postgres."""
    settings = read_settings()
    run(_serve(settings, host or settings.host, settings.port if port is None else port, with_worker), endless=True)


def worker(
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=64, help="Agents at work at once, instead of FIELDMARK_MAX_LIVE_AGENTS.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Answer /healthz, /readyz and /metrics at this port (FIELDMARK_HOST)."),
    ] = None,
) -> None:
    """Do jobs: execute runs, read documents. As many processes as you like, on as many machines."""
    settings = read_settings()
    if concurrency is not None:
        settings = settings.model_copy(update={"max_live_agents": concurrency})
    run(_work(settings, port), endless=True)


def migrate() -> None:
    """Bring the database up to date, as its owner (DATABASE_OWNER_URL, else DATABASE_URL)."""
    from fieldmark.runtime import migrate_as_owner

    applied = run(migrate_as_owner(read_settings()))
    for name in applied:
        typer.echo(name)
    err.print(f"{len(applied)} migrations applied." if applied else "Nothing to apply: the database is up to date.")


def token(
    user: Annotated[UUID, typer.Option(help="The user's id.")] = LOCAL_USER,
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 365, help="How long it is valid.")] = 12,
    email: Annotated[str | None, typer.Option(help="The address that it names, for invitations to one.")] = None,
) -> None:
    """Print a token of the local key, alone on standard output."""
    from fieldmark.identity.tokens import LocalTokens

    settings = read_settings()
    if settings.supabase_url:
        stop("With SUPABASE_URL set, tokens come from Supabase Auth.", CANNOT_WORK)
    with sentences():
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
    err.print(f"Fieldmark serves at [bold]{url}[/bold] (API: {url}/openapi.json)")
    if settings.offline:
        err.print("[yellow]No ANTHROPIC_API_KEY: the offline model answers, by fixed rules.[/yellow]")
    if settings.supabase_url:
        err.print(f"Tokens: Supabase Auth at {settings.supabase_url}")
    elif sys.stdout.isatty():
        from fieldmark.identity.tokens import LocalTokens

        own = LocalTokens(settings.home).sign(LOCAL_USER)
        # Behind the #, so that it is sent to nobody and stands in no log.
        err.print("The page, signed in for 12 hours:")
        typer.echo(f"{_url(host, port)}/#token={own}")
        err.print("Token of the local user, for programs, valid for 12 hours:")
        typer.echo(own)
    else:  # most likely a log, which others read
        err.print("`fieldmark token` prints a token of the local user.")
    _say_what_is_shared()


def _say_what_is_shared() -> None:
    """That processes are not kept apart, if they are not: to who has started the service, and into its log."""
    lacking = shortcoming()
    if lacking is not None:
        err.print(f"[yellow]{lacking}[/yellow]")
        import structlog  # imported here: `--help` logs nothing

        structlog.get_logger().warning("processes are not kept apart", code="shared_user", reason=lacking)


async def _work(settings: Settings, port: int | None) -> None:
    from fieldmark.api.app import create_watching_app, listen, serve_app
    from fieldmark.runtime import open_runtime
    from fieldmark.worker.jobs import working

    async with AsyncExitStack() as stack:
        listener = None if port is None else stack.enter_context(listen(settings.host, port))
        runtime = await stack.enter_async_context(open_runtime(settings))
        task = await stack.enter_async_context(working(runtime))
        err.print("The worker works. Ctrl-C ends it.")
        _say_what_is_shared()
        if listener is None:
            await task
        else:
            err.print(f"/healthz, /readyz and /metrics at {_url(*listener.getsockname()[:2])}")
            await serve_app(create_watching_app(runtime, task), listener)


def _url(host: str, port: int) -> str:
    return escape(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

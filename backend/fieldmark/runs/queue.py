"""The job queue: procrastinate on the same Postgres, in the schema `queue`. Triggers put jobs there, nobody else."""

from __future__ import annotations

from procrastinate import App, PsycopgConnector

from fieldmark.db.pool import CONNECTING, plain_url

RUNS = "runs"
BACKGROUND = "background"
DOCUMENTS = "documents"
HEARTBEAT_SECONDS = 5
STALLED_SECONDS = 20
"""A worker that was silent for so long is taken for dead, and its jobs for open."""


def open_queue(direct_url: str) -> App:
    """The queue over a direct connection: it listens, which no transaction pooler lets it."""
    url, _ = plain_url(direct_url)
    connector = PsycopgConnector(
        conninfo=url,
        min_size=1,
        max_size=4,
        kwargs={**CONNECTING, "application_name": "fieldmark-queue", "options": "-c search_path=queue"},
    )
    return App(connector=connector)

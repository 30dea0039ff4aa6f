"""Postgres notification channels."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from fieldmark.db.pool import Connection

EVENTS_CHANNEL: Final = "fieldmark_run_events"
"""Notifies a run's readers of new events."""
WORK_CHANNEL: Final = "fieldmark_work"
"""Notifies a run's worker to read the run again: it was cancelled, decided or deleted, or has a watcher."""


def notify_of_events(conn: Connection, run_id: UUID) -> None:
    """Notify a run's readers of new events after this transaction commits."""
    conn.notify_after_commit(EVENTS_CHANNEL, str(run_id))

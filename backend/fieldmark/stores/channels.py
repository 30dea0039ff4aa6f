"""The channels on which Postgres tells of what has changed."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from fieldmark.db.pool import Connection

EVENTS_CHANNEL: Final = "fieldmark_run_events"
"""Where a run's readers are told that it has new events."""
WORK_CHANNEL: Final = "fieldmark_work"
"""Where whoever works on a run is told to look at it again: it was cancelled, decided or deleted, or somebody
watches."""


def tell_of_events(conn: Connection, run_id: UUID) -> None:
    """Have a run's readers told of new events, once this transaction is committed."""
    conn.notify_after_commit(EVENTS_CHANNEL, str(run_id))

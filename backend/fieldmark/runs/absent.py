"""Why a run is not there: it went with its document, or for this caller there never was one."""

from __future__ import annotations

from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.errors import Gone, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import runs


async def absent(conn: Connection, scope: Scope, run_id: UUID) -> NotFound:
    """The error to raise for a run that `runs.get` does not find: Gone for one of this user's own that something was
    charged for, as it is for every run that waits for a person; else NotFound, as for any other id."""
    if await runs.was_charged(conn, scope, run_id):
        return Gone("This run is gone: its document, its extraction or its thread was deleted.")
    return NotFound("There is no such run.")

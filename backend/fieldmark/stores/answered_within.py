"""How long a question over many documents may take in the database, and how it is planned."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, LiteralString

from psycopg import errors
from psycopg.sql import SQL, Identifier, Placeholder

from fieldmark.db.pool import Connection
from fieldmark.errors import TooLongToAnswer

MAX_SECONDS: Final = 15.0

# Of an organisation that has just come with its documents, Postgres knows nothing: it takes thousands of rows for one,
# and would look through all of one list for each of another. What is looked up by an index is said to be (`lateral`).
# To compile a plan that is long and has few rows would take longer than to run it. And the plan for any parameters,
# which Postgres takes from the eleventh time on, needed 40 ms for fifty documents among 300,000 instead of 3.
_SETTINGS: Final[Mapping[LiteralString, str]] = {
    "statement_timeout": "",
    "jit": "off",
    "enable_nestloop": "off",
    "plan_cache_mode": "force_custom_plan",
}
_SET: Final = SQL("select {}").format(
    SQL(", ").join(SQL("set_config({}, {}, true)").format(name, Placeholder(name)) for name in _SETTINGS)
)
_GET: Final = SQL("select {}").format(
    SQL(", ").join(SQL("current_setting({}) as {}").format(name, Identifier(name)) for name in _SETTINGS)
)


@asynccontextmanager
async def answered_within(conn: Connection, seconds: float) -> AsyncGenerator[None]:
    """Around a statement that looks at many documents. Raises TooLongToAnswer, and then the transaction has failed."""
    cursor = await conn.execute(_GET)
    was = await cursor.fetchone()
    assert was is not None
    await conn.execute(_SET, {**_SETTINGS, "statement_timeout": f"{round(seconds * 1000)}ms"})
    try:
        yield
    except errors.QueryCanceled:
        raise TooLongToAnswer(
            f"This takes longer than {seconds:g} seconds: narrow it, by type, tag, name or dates."
        ) from None
    await conn.execute(_SET, dict(was))

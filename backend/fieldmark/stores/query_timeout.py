"""Time limit and planner settings for queries over many documents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, LiteralString

from psycopg import errors
from psycopg.sql import SQL, Identifier, Placeholder

from fieldmark.db.pool import Connection
from fieldmark.errors import TooLongToAnswer

MAX_SECONDS: Final = 15.0

# New organisations have no statistics yet: the planner expects one row instead of thousands and picks nested loops.
# Queries that need an index lookup per row use `lateral`. JIT compilation takes longer than it saves on few rows. A
# generic plan, used from the eleventh execution on, took 40 ms instead of 3 (50 of 300,000 documents).
_SETTINGS: Final[Mapping[LiteralString, str]] = {
    "statement_timeout": "",
    "jit": "off",
    "enable_nestloop": "off",
    "plan_cache_mode": "force_custom_plan",
}
_SET: Final = SQL("select {}").format(
    SQL(", ").join(SQL("set_config({}, {}, true)").format(name, Placeholder(name)) for name in _SETTINGS)
)
_REPLACE: Final = SQL("with before as materialized (select {}) select before.*, {} from before").format(
    SQL(", ").join(SQL("current_setting({}) as {}").format(name, Identifier(name)) for name in _SETTINGS),
    SQL(", ").join(SQL("set_config({}, {}, true)").format(name, Placeholder(name)) for name in _SETTINGS),
)


@asynccontextmanager
async def query_timeout(conn: Connection, seconds: float, *, few_rows: bool = False) -> AsyncGenerator[None]:
    """Limit the run time of a statement over many documents. `few_rows`: it starts from a list of keys, for which
    nested loops are right. Raise TooLongToAnswer; the transaction has failed then."""
    nested_loops = {"enable_nestloop": "on"} if few_rows else {}
    settings = {**_SETTINGS, **nested_loops, "statement_timeout": f"{round(seconds * 1000)}ms"}
    previous = await (await conn.execute(_REPLACE, settings)).fetchone()
    assert previous is not None
    try:
        yield
    except errors.QueryCanceled:
        raise TooLongToAnswer(
            f"The query took longer than {seconds:g} seconds. Filter by type, tag, filename or date, and try again."
        ) from None
    await conn.execute(_SET, previous)

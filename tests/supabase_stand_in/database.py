"""Who sends a request, and its transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True)
class Caller:
    role: str
    claims: dict[str, Any]


Connect = Callable[[Caller], AbstractAsyncContextManager[psycopg.AsyncConnection]]


class Refused(Exception):
    """An error response: its HTTP status and its JSON."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body


async def set_role(connection: psycopg.AsyncConnection, caller: Caller) -> None:
    await connection.execute(
        "select set_config('role', %s, true), set_config('request.jwt.claims', %s, true)",
        [caller.role, json.dumps(caller.claims)],
    )


async def fetch_value(connection: psycopg.AsyncConnection, query: Any, values: Any = ()) -> Any:
    """Return the first column of the only row, or None if there is no row."""
    row = await (await connection.execute(query, values)).fetchone()
    return None if row is None else row[0]

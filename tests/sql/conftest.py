"""One migrated database a worker for the tests of SQL: they share it, and roll back.

What needs commits, or several connections that see each other, uses `clone`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from doors import Doors, House, furnish, opened_doors
from pairs import Pair
from psycopg import sql

from fieldmark.db.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def migrated(postgres: EmbeddedServer, _administration: psycopg.Connection, _template: str) -> Iterator[str]:
    """The name of a database that this worker's tests of SQL share."""
    name = f"test_sql_{uuid4().hex}"
    _administration.execute(sql.SQL("create database {} template {}").format(*map(sql.Identifier, (name, _template))))
    # What `fieldmark migrate` does: a copy does not have the rights of the database that it was made of.
    _administration.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name)))
    yield name
    _administration.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def doors(postgres: EmbeddedServer, migrated: str) -> Iterator[Doors]:
    at = f"/{migrated}"
    with opened_doors(
        urlsplit(postgres.owner_url)._replace(path=at).geturl(), urlsplit(postgres.app_url)._replace(path=at).geturl()
    ) as doors:
        yield doors


@pytest.fixture(scope="session")
def house(doors: Doors) -> House:
    return furnish(doors.owner)


@pytest.fixture
def pair(clone: Any) -> Iterator[Pair]:
    with (
        psycopg.connect(clone.app_url, autocommit=True) as first,
        psycopg.connect(clone.app_url, autocommit=True) as second,
        psycopg.connect(clone.owner_url, autocommit=True) as watch,
    ):
        pair = Pair(first, second, watch)
        # What furnishing put into the queue is not looked at.
        watch.execute("set search_path = public, queue")
        watch.execute("delete from procrastinate_jobs")
        yield pair

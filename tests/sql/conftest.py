"""Fixtures for the SQL tests. Tests share one migrated database per worker and roll back. Tests that need commits or
several connections use `clone`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from connection_pair import Pair
from edited_extraction import EditedExtraction
from psycopg import sql
from role_connections import Roles, Sample, connect_as_roles, insert_sample_rows

from fieldmark.db.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def migrated(postgres: EmbeddedServer, _superuser: psycopg.Connection, _template: str) -> Iterator[str]:
    """Return the name of the database the SQL tests of this worker share."""
    name = f"test_sql_{uuid4().hex}"
    _superuser.execute(sql.SQL("create database {} template {}").format(*map(sql.Identifier, (name, _template))))
    # What `fieldmark migrate` does: a copy does not have the rights of the database that it was made of.
    _superuser.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name)))
    yield name
    _superuser.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def roles(postgres: EmbeddedServer, migrated: str) -> Iterator[Roles]:
    at = f"/{migrated}"
    with connect_as_roles(
        urlsplit(postgres.owner_url)._replace(path=at).geturl(), urlsplit(postgres.app_url)._replace(path=at).geturl()
    ) as roles:
        yield roles


@pytest.fixture(scope="session")
def sample(roles: Roles) -> Sample:
    return insert_sample_rows(roles.owner)


@pytest.fixture
def edited(request: pytest.FixtureRequest, roles: Roles, sample: Sample) -> Iterator[EditedExtraction]:
    """An extraction with the module's FIELDS, which an agent wrote, edited by a member."""
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample)
        edited.agent().save(request.module.FIELDS)
        yield edited.member()


@pytest.fixture
def pair(clone: Any) -> Iterator[Pair]:
    with (
        psycopg.connect(clone.app_url, autocommit=True) as first,
        psycopg.connect(clone.app_url, autocommit=True) as second,
        psycopg.connect(clone.owner_url, autocommit=True) as observer,
    ):
        pair = Pair(first, second, observer)
        # What furnishing put into the queue is not looked at.
        observer.execute("set search_path = public, queue")
        observer.execute("delete from procrastinate_jobs")
        yield pair

"""Users who signed in anonymously (claim `is_anonymous`) reach nothing through PostgREST, unless the service's setting
lets them act."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import scalar_row
from role_connections import set_role

from fieldmark.db.migrate import migrate
from running_server import Clone

pytestmark = pytest.mark.anyio


@contextmanager
def front_end(clone: Clone, user: UUID, **claims: object) -> Iterator[psycopg.Cursor[object]]:
    with psycopg.connect(clone.owner_url) as rest:
        rest.execute("set session authorization authenticator")
        set_role(rest, "authenticated", {"role": "authenticated", "sub": str(user), **claims})
        with rest.cursor(row_factory=scalar_row) as cursor:
            yield cursor


def add_user(clone: Clone) -> UUID:
    user = uuid4()
    with psycopg.connect(clone.owner_url) as owner:
        owner.execute("insert into auth.users (id) values (%s)", [user])
    return user


@pytest.mark.parametrize(
    "call", ["ensure_personal_organisation()", "create_organisation('x')", "accept_invitation('fmi_x')"]
)
async def test_anonymous_user_joins_no_organisation_unless_allowed(clone: Clone, call: str) -> None:
    user = add_user(clone)
    with (
        pytest.raises(psycopg.DatabaseError) as refused,
        front_end(clone, user, is_anonymous=True) as connection,
    ):
        connection.execute(f"select {call}")
    assert refused.value.sqlstate == "PT401" and refused.value.diag.message_detail == "anonymous_refused"
    await migrate(clone.owner_url, allow_anonymous=True)
    for anonymous in (True, False):
        try:
            with front_end(clone, user, is_anonymous=anonymous) as connection:
                connection.execute(f"select {call}")
        except psycopg.DatabaseError as error:
            assert error.sqlstate == "PT404" and "invitation" in call  # nothing but the invitation is wrong


async def test_anonymous_user_loses_access_when_no_longer_allowed(clone: Clone) -> None:
    user = add_user(clone)
    await migrate(clone.owner_url, allow_anonymous=True)
    insert = "insert into extractions (id, org_id, document_id) select gen_random_uuid(), org_id, id from documents"
    upload = "insert into storage.objects (bucket_id, name) values ('documents', %s)"
    with front_end(clone, user, is_anonymous=True) as connection:
        org = connection.execute("select ensure_personal_organisation()").fetchone()
        path = f"{org}/{uuid4()}/a.txt"
        connection.execute(upload, [path])
        connection.execute(
            "insert into documents (id, org_id, filename, storage_path) values (%s, %s, 'a.txt', %s)",
            [path.split("/")[1], org, path],
        )
        assert connection.execute(insert).rowcount == 1
    await migrate(clone.owner_url)  # leaves the setting
    with front_end(clone, user, is_anonymous=True) as connection:
        assert connection.execute("select count(*) from extractions").fetchone() == 1
    await migrate(clone.owner_url, allow_anonymous=False)
    with front_end(clone, user, is_anonymous=True) as connection:
        for table in ("organisations", "memberships", "documents", "extractions", "storage.objects"):
            assert connection.execute(f"select count(*) from {table}".encode()).fetchone() == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege), front_end(clone, user, is_anonymous=True) as connection:
        connection.execute(upload, [f"{org}/{uuid4()}/b.txt"])
    with front_end(clone, user, is_anonymous=False) as connection:  # the user has confirmed an address since
        assert connection.execute("select count(*) from extractions").fetchone() == 1

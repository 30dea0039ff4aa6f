"""Refusals of functions that nothing behind them would give in their place: each beside what is not refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from doors import Doors, House, become

from fieldmark.domain.permissions import Permission


def claims(user: UUID, house: House) -> dict[str, str]:
    return {"role": "authenticated", "sub": str(user), "org_id": str(house.org)}


def refusal(connection: psycopg.Connection, statement: str, **given: Any) -> tuple[str | None, str | None]:
    """The code and the detail with which it is refused."""
    with pytest.raises(psycopg.Error) as refused, connection.transaction():
        connection.execute(statement, given)
    return refused.value.sqlstate, refused.value.diag.message_detail


def test_only_users_create_and_join_organisations(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", claims(house.owner, house))
        assert connection.execute("select create_organisation('One more')").fetchone() is not None
        become(connection, "authenticated", claims(house.key, house))
        for statement in (
            "select create_organisation('One more')",
            "select accept_invitation('fmi_x')",
            "select enter()",
        ):
            assert refusal(connection, statement) == ("PT403", "person_needed"), statement


# A call, the values that it refuses, and one that it takes.
VALUES = {
    "select create_organisation(%(value)s)": (["", "n" * 201, None], "n" * 200),
    "select invite(%(org)s, 'viewer', %(value)s)": (["", "ab", "a@b@c", "a b@c", "a@", "a" * 320 + "@b"], "a@b"),
    "select invite(%(org)s, 'viewer', null, %(value)s)": ([0, 91, None], 90),
    "select invite(%(org)s, %(value)s)": (["admin", "", None], "viewer"),
    "select create_api_key(%(org)s, %(value)s, '{documents:read}')": (["", "n" * 201, None], "n" * 200),
    "select create_api_key(%(org)s, 'k', %(value)s)": ([["documents:read", "no:such"], [None], []], [*Permission]),
    "select update_extraction_fields(%(extraction)s, %(value)s)": (
        ["{}", "[]", "null", None, str([1] * 1001), "[1]", '[{"path": ["total"]}]', '[{"value": 1}]'],
        '[{"path": ["total"], "value": 13}]',
    ),
}


@pytest.mark.parametrize("statement", VALUES)
def test_invalid_organisation_values_are_rejected(doors: Doors, house: House, statement: str) -> None:
    refused, taken = VALUES[statement]
    with doors.as_front_end(house.owner) as connection:
        for value in refused:
            assert refusal(connection, statement, **vars(house), value=value)[0] == "PT422", value
        assert connection.execute(statement.encode(), {**vars(house), "value": taken}).fetchone() is not None


def test_pending_invitations_are_limited(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        connection.execute(
            """insert into invitations (org_id, created_by, role, hash, expires_at)
               select %s, %s, 'viewer', sha256(n::text::bytea), now() + interval '1 day'
               from generate_series(1, 1000 - (
                 select count(*)::integer from invitations
                 where org_id = %s and accepted_at is null and revoked_at is null and expires_at > now())) as n""",
            [house.org, house.owner, house.org],
        )
        become(connection, "authenticated", claims(house.owner, house))
        statement = "select invite(%(org)s, 'viewer')"
        assert refusal(connection, statement, org=house.org) == ("PT409", "too_many")
        connection.execute("reset role")
        connection.execute("update invitations set revoked_at = now() where hash = sha256('1')")
        become(connection, "authenticated", claims(house.owner, house))
        assert connection.execute(statement, {"org": house.org}).fetchone() is not None


def test_api_keys_are_limited_per_organisation(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        connection.execute(
            """insert into api_keys (org_id, created_by, name, prefix, hash, scopes)
               select %s, %s, 'k', 'fm_00000003', sha256(n::text::bytea), '{documents:read}'
               from generate_series(1, 200 - (
                 select count(*)::integer from api_keys where org_id = %s and revoked_at is null)) as n""",
            [house.org, house.owner, house.org],
        )
        become(connection, "authenticated", claims(house.owner, house))
        statement = "select create_api_key(%(org)s, 'k', '{documents:read}')"
        assert refusal(connection, statement, org=house.org) == ("PT409", "too_many")
        connection.execute("select revoke_api_key(%s)", [house.key])
        assert connection.execute(statement, {"org": house.org}).fetchone() is not None


# How one of a kind is created and changed.
KINDS = {
    "schema": ("create_schema(%(org)s, 'Often', '{}')", "update_schema(%(id)s, 'Changed')"),
    "prompt": (
        "create_prompt(%(org)s, 'Often', 'Read.')",
        "update_prompt(%(id)s, 'Changed', 'Read.', null, null, '{}')",
    ),
    "tag": ("create_tag(%(org)s, 'Often')", None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_items_and_versions_are_limited_to_10000(doors: Doors, house: House, kind: str) -> None:
    creates, changes = (statement and f"select {statement}" for statement in KINDS[kind])
    with doors.as_owner() as connection:
        row = connection.execute(
            f"""with made as (
                  insert into {kind}s (org_id, created_by, name)
                  select %s, %s, 'No. ' || n from generate_series(1, 10000 - (
                    select count(*)::integer from {kind}s where org_id = %s and deleted_at is null)) as n
                  returning id)
                select id from made limit 1""".encode(),
            [house.org, house.owner, house.org],
        ).fetchone()
        become(connection, "authenticated", claims(house.owner, house))
        assert creates and refusal(connection, creates, org=house.org) == ("PT409", "too_many")
        connection.execute(f"select delete_{kind}(%s)".encode(), row)
        made = connection.execute(creates.encode(), {"org": house.org}).fetchone()
        if changes is None:
            return
        for number, is_refused in ((10_000, True), (9_999, False)):
            connection.execute("reset role")
            connection.execute(f"update {kind}_versions set number = {number} where id = %s".encode(), made)
            found = connection.execute(f"select {kind}_id from {kind}_versions where id = %s".encode(), made).fetchone()
            assert found is not None
            become(connection, "authenticated", claims(house.owner, house))
            if is_refused:
                assert refusal(connection, changes, id=found[0]) == ("PT409", "too_many")
            else:
                connection.execute(changes.encode(), {"id": found[0]})

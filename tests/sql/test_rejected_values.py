"""Values and limits that only SQL functions check: each rejected value next to an accepted one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from role_connections import Roles, Sample, set_role

from fieldmark.domain.permissions import Permission


def claims(user: UUID, sample: Sample) -> dict[str, str]:
    return {"role": "authenticated", "sub": str(user), "org_id": str(sample.org)}


def rejection(connection: psycopg.Connection, statement: str, **given: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as rejected, connection.transaction():
        connection.execute(statement, given)
    return rejected.value.sqlstate, rejected.value.diag.message_detail


def test_only_users_create_and_join_organisations(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        set_role(connection, "authenticated", claims(sample.owner, sample))
        assert connection.execute("select create_organisation('One more')").fetchone() is not None
        set_role(connection, "authenticated", claims(sample.key, sample))
        for statement in (
            "select create_organisation('One more')",
            "select accept_invitation('fmi_x')",
            "select ensure_personal_organisation()",
        ):
            assert rejection(connection, statement) == ("PT403", "person_needed"), statement


# A call, the values it rejects, and one it accepts.
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
def test_invalid_organisation_values_are_rejected(roles: Roles, sample: Sample, statement: str) -> None:
    rejected, accepted = VALUES[statement]
    with roles.as_front_end(sample.owner) as connection:
        for value in rejected:
            assert rejection(connection, statement, **vars(sample), value=value)[0] == "PT422", value
        assert connection.execute(statement.encode(), {**vars(sample), "value": accepted}).fetchone() is not None


def test_pending_invitations_are_limited(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        connection.execute(
            """insert into invitations (org_id, created_by, role, hash, expires_at)
               select %s, %s, 'viewer', sha256(n::text::bytea), now() + interval '1 day'
               from generate_series(1, 1000 - (
                 select count(*)::integer from invitations
                 where org_id = %s and accepted_at is null and revoked_at is null and expires_at > now())) as n""",
            [sample.org, sample.owner, sample.org],
        )
        set_role(connection, "authenticated", claims(sample.owner, sample))
        statement = "select invite(%(org)s, 'viewer')"
        assert rejection(connection, statement, org=sample.org) == ("PT409", "too_many")
        connection.execute("reset role")
        connection.execute("update invitations set revoked_at = now() where hash = sha256('1')")
        set_role(connection, "authenticated", claims(sample.owner, sample))
        assert connection.execute(statement, {"org": sample.org}).fetchone() is not None


def test_api_keys_are_limited_per_organisation(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        connection.execute(
            """insert into api_keys (org_id, created_by, name, prefix, hash, scopes)
               select %s, %s, 'k', 'fm_00000003', sha256(n::text::bytea), '{documents:read}'
               from generate_series(1, 200 - (
                 select count(*)::integer from api_keys where org_id = %s and revoked_at is null)) as n""",
            [sample.org, sample.owner, sample.org],
        )
        set_role(connection, "authenticated", claims(sample.owner, sample))
        statement = "select create_api_key(%(org)s, 'k', '{documents:read}')"
        assert rejection(connection, statement, org=sample.org) == ("PT409", "too_many")
        connection.execute("select revoke_api_key(%s)", [sample.key])
        assert connection.execute(statement, {"org": sample.org}).fetchone() is not None
        assert rejection(connection, statement, org=sample.org) == ("PT409", "too_many")
        connection.execute("reset role")
        connection.execute("update api_keys set expires_at = now() where hash = sha256('1')")  # an expired key is free
        set_role(connection, "authenticated", claims(sample.owner, sample))
        assert connection.execute(statement, {"org": sample.org}).fetchone() is not None


# How each kind of item is created and changed.
KINDS = {
    "schema": ("create_schema(%(org)s, 'Often', '{}')", "update_schema(%(id)s, 'Changed')"),
    "prompt": (
        "create_prompt(%(org)s, 'Often', 'Read.')",
        "update_prompt(%(id)s, 'Changed', 'Read.', null, null, '{}')",
    ),
    "tag": ("create_tag(%(org)s, 'Often')", None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_items_and_versions_are_limited_to_10000(roles: Roles, sample: Sample, kind: str) -> None:
    create_statement, update_statement = (statement and f"select {statement}" for statement in KINDS[kind])
    with roles.as_owner() as connection:
        row = connection.execute(
            f"""with made as (
                  insert into {kind}s (org_id, created_by, name)
                  select %s, %s, 'No. ' || n from generate_series(1, 10000 - (
                    select count(*)::integer from {kind}s where org_id = %s and deleted_at is null)) as n
                  returning id)
                select id from made limit 1""".encode(),
            [sample.org, sample.owner, sample.org],
        ).fetchone()
        set_role(connection, "authenticated", claims(sample.owner, sample))
        assert create_statement and rejection(connection, create_statement, org=sample.org) == ("PT409", "too_many")
        connection.execute(f"select delete_{kind}(%s)".encode(), row)
        created = connection.execute(create_statement.encode(), {"org": sample.org}).fetchone()
        if update_statement is None:
            return
        for number, is_rejected in ((10_000, True), (9_999, False)):
            connection.execute("reset role")
            connection.execute(f"update {kind}_versions set number = {number} where id = %s".encode(), created)
            found = connection.execute(
                f"select {kind}_id from {kind}_versions where id = %s".encode(), created
            ).fetchone()
            assert found is not None
            set_role(connection, "authenticated", claims(sample.owner, sample))
            if is_rejected:
                assert rejection(connection, update_statement, id=found[0]) == ("PT409", "too_many")
            else:
                connection.execute(update_statement.encode(), {"id": found[0]})

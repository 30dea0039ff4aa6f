"""Refusals of functions that nothing behind them would give in their place: each beside what is not refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from doors import Doors, House, become
from ledger import Ledger

MANY_KEYS = 200


def claims(user: UUID, house: House) -> dict[str, str]:
    return {"role": "authenticated", "sub": str(user), "org_id": str(house.org)}


def refusal(connection: psycopg.Connection, statement: str, **given: Any) -> tuple[str | None, str | None]:
    """The code and the detail with which it is refused."""
    with pytest.raises(psycopg.Error) as refused, connection.transaction():
        connection.execute(statement, given)
    return refused.value.sqlstate, refused.value.diag.message_detail


def new_key(connection: psycopg.Connection, house: House, *scopes: str | None) -> UUID:
    row = connection.execute(
        "select create_api_key(%s, 'k', %s) ->> 'id'", [house.org, list(scopes or ["documents:read"])]
    ).fetchone()
    assert row is not None
    return UUID(row[0])


def test_only_a_person_makes_organisations_and_joins_them(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", claims(house.owner, house))
        assert connection.execute("select create_organisation('One more')").fetchone() is not None
        key = new_key(connection, house)
        become(connection, "authenticated", claims(key, house))
        for statement in (
            "select create_organisation('One more')",
            "select accept_invitation('fmi_x')",
            "select enter()",
        ):
            assert refusal(connection, statement) == ("PT403", "person_needed"), statement


def test_a_key_has_scopes_that_there_are(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", claims(house.owner, house))
        assert new_key(connection, house, "documents:read", "usage:read")
        for scopes in (["documents:read", "documents:all"], [None], []):
            statement = "select create_api_key(%(org)s, 'k', %(scopes)s::text[])"
            assert refusal(connection, statement, org=house.org, scopes=scopes)[0] == "PT422"


# A call, the values that it refuses, and one that it takes.
VALUES = {
    "select create_organisation(%(value)s)": (["", "n" * 201, None], "n" * 200),
    "select invite(%(org)s, 'viewer', %(value)s)": (["", "ab", "a@b@c", "a b@c", "a@", "a" * 320 + "@b"], "a@b"),
    "select invite(%(org)s, 'viewer', null, %(value)s)": ([0, 91, None], 90),
    "select invite(%(org)s, %(value)s)": (["admin", "", None], "viewer"),
    "select create_api_key(%(org)s, %(value)s, '{documents:read}')": (["", "n" * 201, None], "n" * 200),
    "select update_extraction_fields(%(extraction)s, %(value)s)": (
        ["{}", "[]", "null", None, str([1] * 1001), "[1]", '[{"path": ["total"]}]', '[{"value": 1}]'],
        '[{"path": ["total"], "value": 13}]',
    ),
}


@pytest.mark.parametrize("statement", VALUES)
def test_values_that_are_none_are_refused(doors: Doors, house: House, statement: str) -> None:
    refused, taken = VALUES[statement]
    with doors.as_front_end(house.owner) as connection:
        for value in refused:
            assert refusal(connection, statement, **vars(house), value=value)[0] == "PT422", value
        assert connection.execute(statement.encode(), {**vars(house), "value": taken}).fetchone() is not None


def test_so_many_invitations_wait_and_no_more(doors: Doors, house: House) -> None:
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


def test_a_user_gives_up_so_many_organisations_at_a_time_and_no_more(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"role": "authenticated", "sub": str(house.owner)})
        for number in range(21):
            row = connection.execute("select create_organisation(%s)", [f"No. {number}"]).fetchone()
            assert row is not None
            if number < 20:
                connection.execute("select delete_organisation(%s)", [row[0]])
            else:
                assert refusal(connection, "select delete_organisation(%(org)s)", org=row[0]) == ("PT409", "too_many")
        connection.execute("reset role")
        connection.execute("delete from private.departing_organisations")
        become(connection, "authenticated", {"role": "authenticated", "sub": str(house.owner)})
        connection.execute("select delete_organisation(%s)", [row[0]])


def test_an_organisation_has_so_many_keys_and_no_more(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", claims(house.owner, house))
        key = new_key(connection, house)
        found = connection.execute("select count(*) from api_keys where revoked_at is null").fetchone()
        assert found is not None
        for _ in range(MANY_KEYS - found[0]):
            new_key(connection, house)
        statement = "select create_api_key(%(org)s, 'k', '{documents:read}')"
        assert refusal(connection, statement, org=house.org) == ("PT409", "too_many")
        connection.execute("select revoke_api_key(%s)", [key])
        assert new_key(connection, house)


def test_a_run_is_deleted_by_itself_once_it_has_ended_and_is_no_part_of_another(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", claims(house.owner, house))
        ledger = Ledger(connection, house)
        whole, open_one = ledger.run(), ledger.run()
        part = ledger.child(whole)
        connection.execute("update runs set status = 'completed' where id = any(%s)", [[part, whole]])
        for run in (part, open_one):
            assert refusal(connection, "select delete_run(%(run)s)", run=run)[0] == "PT409"
            assert ledger.row(run, "id") is not None
        connection.execute("select delete_run(%s)", [whole])
        assert ledger.row(part, "id") is None


def test_who_is_not_signed_in_makes_no_key(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", {"role": "authenticated"})
        statement = "select create_api_key(%(org)s, 'k', '{documents:read}')"
        assert refusal(connection, statement, org=house.org) == ("PT401", None)
        become(connection, "authenticated", claims(house.owner, house))
        assert new_key(connection, house)


@pytest.mark.parametrize(
    ("table", "one_more", "frees"),
    [
        ("schemas", "select create_schema(%(org)s, 'One more', '{}')", "select delete_schema(%(id)s)"),
        ("prompts", "select create_prompt(%(org)s, 'One more', 'Read.')", "select delete_prompt(%(id)s)"),
        ("tags", "select create_tag(%(org)s, 'One more')", "select delete_tag(%(id)s)"),
    ],
)
def test_an_organisation_has_so_many_of_a_kind_and_no_more(
    doors: Doors, house: House, table: str, one_more: str, frees: str
) -> None:
    with doors.as_owner() as connection:
        row = connection.execute(
            f"""with made as (
                  insert into {table} (org_id, created_by, name)
                  select %s, %s, 'No. ' || n from generate_series(1, 10000 - (
                    select count(*)::integer from {table} where org_id = %s and deleted_at is null)) as n
                  returning id)
                select id from made limit 1""".encode(),
            [house.org, house.owner, house.org],
        ).fetchone()
        assert row is not None
        become(connection, "authenticated", claims(house.owner, house))
        assert refusal(connection, one_more, org=house.org) == ("PT409", "too_many")
        connection.execute(frees.encode(), {"id": row[0]})
        assert connection.execute(one_more.encode(), {"org": house.org}).fetchone() is not None


@pytest.mark.parametrize(
    ("kind", "makes", "changes"),
    [
        ("schema", "create_schema(%(org)s, 'Often', '{}')", "update_schema(%(id)s, 'Changed')"),
        (
            "prompt",
            "create_prompt(%(org)s, 'Often', 'Read.')",
            "update_prompt(%(id)s, 'Changed', 'Read.', null, null, '{}')",
        ),
    ],
)
def test_a_schema_and_a_prompt_have_so_many_versions_and_no_more(
    doors: Doors, house: House, kind: str, makes: str, changes: str
) -> None:
    with doors.as_owner() as connection:
        become(connection, "authenticated", claims(house.owner, house))
        row = connection.execute(f"select {makes}".encode(), {"org": house.org}).fetchone()
        assert row is not None
        found = f"select {kind}_id from {kind}_versions where id = %s"
        one = connection.execute(found.encode(), row).fetchone()
        assert one is not None
        for number, refused in ((10_000, True), (9_999, False)):
            connection.execute("reset role")
            connection.execute(f"update {kind}_versions set number = %s where id = %s".encode(), [number, row[0]])
            become(connection, "authenticated", claims(house.owner, house))
            if refused:
                assert refusal(connection, f"select {changes}", id=one[0]) == ("PT409", "too_many")
            else:
                connection.execute(f"select {changes}".encode(), {"id": one[0]})

"""The role of the person who runs the service sees organisations, limits, queue and spending, and no document."""

from __future__ import annotations

import json

import psycopg
import pytest
from role_connections import Roles, Sample

PRODUCT_SCHEMAS = ("public", "private", "queue", "auth", "storage", "supabase_migrations")


def test_administration_shows_organisations_and_is_recorded(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        owner.execute("set local role fieldmark_admin")
        row = owner.execute("select private.administration()").fetchone()
        assert row is not None
        found = row[0]
        (one,) = [one for one in found["organisations"] if one["id"] == str(sample.org)]
        assert (one["members"], one["documents"], one["max_usd"], one["spent_usd"]) == (4, 2, 100, 1)
        assert found["organisation_count"] >= 3 and found["calls"][0]["call"] == "administration"
        # Nothing of documents, values, conversations or people.
        text = json.dumps(found)
        assert not [
            word for word in ("a.pdf", "Total 12", "Acme", "Mine", "Paid in cash", "@", "Secret") if word in text
        ]
        owner.execute("reset role")
        logged = owner.execute("select login from private.administration_journal").fetchall()
        assert logged == [(owner.info.user,)]


def test_administration_role_reads_no_table_and_calls_nothing_else(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as owner:
        tables = owner.execute(
            """select c.oid::regclass::text from pg_class as c
               where c.relkind in ('r', 'p', 'v', 'm', 'S') and c.relnamespace::regnamespace::text = any(%s)""",
            [list(PRODUCT_SCHEMAS)],
        ).fetchall()
        assert len(tables) > 50
        owner.execute("set local role fieldmark_admin")
        for (table,) in tables:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), owner.transaction():
                owner.execute(f"select * from {table}".encode())
        callable_functions = owner.execute(
            """select proname from pg_proc where pronamespace::regnamespace::text = any(%s)
                 and prorettype <> 'trigger'::regtype and has_function_privilege(current_user, oid, 'execute')
                 and has_schema_privilege(current_user, pronamespace, 'usage') and prosecdef""",
            [list(PRODUCT_SCHEMAS)],
        ).fetchall()
        assert callable_functions == [("administration",)]
        member_of = "select rolname from pg_roles where pg_has_role('fieldmark_admin', oid, 'member')"
        assert owner.execute(member_of).fetchall() == [("fieldmark_admin",)]

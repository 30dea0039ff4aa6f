"""A temporary domain named like a type must not run code as the owner of a policy's function.  Two guards each suffice:
functions search temporary objects last, and no role may create any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from role_connections import insert_sample_rows, set_role

TYPES = ("text", "jsonb", "uuid", "numeric", "integer", "boolean")

# The check of the domain records who runs it, in a table of the attacker that is writable by all.
_CHECK = """
create function pg_temp.spy(anyelement) returns boolean language plpgsql as $$
begin
  insert into pg_temp.ran (as_whom) values (current_user);
  return true;
end $$;
create table pg_temp.ran (as_whom text);
grant insert on pg_temp.ran to public;
"""


@pytest.fixture
def attacker(clone: Any) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Return the owner's connection, and one of the service that acts as a member."""
    with (
        psycopg.connect(clone.owner_url, autocommit=True) as owner,
        psycopg.connect(clone.app_url, autocommit=True) as app,
    ):
        sample = insert_sample_rows(owner)
        name = owner.info.dbname
        owner.execute(f"revoke temporary on database {name} from public")
        with app.transaction(force_rollback=True):
            set_role(app, "authenticated", {"sub": str(sample.member), "org_id": str(sample.org)})
            yield owner, app


def allow_temporary_objects(owner: psycopg.Connection) -> None:
    owner.execute(f"grant temporary on database {owner.info.dbname} to public")


def set_trap(app: psycopg.Connection) -> None:
    app.execute(_CHECK)
    for name in TYPES:
        base = {"integer": "int4", "boolean": "bool"}.get(name, name)
        app.execute(f"create domain pg_temp.{name} as pg_catalog.{base} check (pg_temp.spy(value))")


def roles_that_ran_it(app: psycopg.Connection) -> set[str]:
    return {user for (user,) in app.execute("select as_whom::pg_catalog.text from pg_temp.ran").fetchall()}


STATEMENTS = [
    "select count(*) from public.documents",
    "select private.resolve_organisation()",
    "select public.save_extraction_fields(id, '{\"a\": 1}') from public.extractions",
    "select public.decide_extraction_proposals(extraction_id, array[id]) from public.extraction_proposals limit 1",
    "insert into public.runs (org_id, agent, task) select id, 'talker', 'think' from public.organisations",
    "update public.threads set title = 'x'",
    "select public.delete_document(id) from public.documents where created_by = auth.uid()",
]


def test_search_path_prevents_temporary_object_attack(attacker: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    owner, app = attacker
    allow_temporary_objects(owner)
    set_trap(app)
    for statement in STATEMENTS:
        with app.transaction():
            app.execute(statement)
        # Expressions of the statement itself run as the attacker, which is harmless.
        assert roles_that_ran_it(app) <= {"authenticated"}, statement


def test_attack_succeeds_without_the_search_path(attacker: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    """Positive control: the same function with an empty search_path, where Postgres searches pg_temp first."""
    owner, app = attacker
    allow_temporary_objects(owner)
    (definition,) = owner.execute("select pg_get_functiondef('private.my_memberships()'::regprocedure)").fetchone() or (
        "",
    )
    loose = definition.replace("private.my_memberships", "private.my_memberships_loose").replace(
        "SET search_path TO 'pg_catalog', 'pg_temp'", "SET search_path TO ''"
    )
    assert loose.count("''") == 1
    owner.execute(loose)
    owner.execute("grant execute on function private.my_memberships_loose() to authenticated")
    set_trap(app)
    app.execute("select count(*) from private.my_memberships_loose()")
    assert roles_that_ran_it(app) & {owner.info.user}

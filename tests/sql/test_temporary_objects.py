"""A temporary domain named like a type, in front of a policy's function: it must not run code as the function's owner.

Two guards, each of which holds alone: our functions look into temporary objects last, and nobody may create any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from doors import become, furnish

TYPES = ("text", "jsonb", "uuid", "numeric", "integer", "boolean")

# Whoever runs the check of the domain leaves their name in a table of the attacker's, which anybody may write to.
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
    """The owner's connection, and one that is logged in as the service and acts as a member."""
    with (
        psycopg.connect(clone.owner_url, autocommit=True) as owner,
        psycopg.connect(clone.app_url, autocommit=True) as app,
    ):
        house = furnish(owner)
        name = owner.info.dbname
        owner.execute(f"revoke temporary on database {name} from public")
        with app.transaction(force_rollback=True):
            become(app, "authenticated", {"sub": str(house.member), "org_id": str(house.org)})
            yield owner, app


def allow(owner: psycopg.Connection) -> None:
    """Take the second guard away."""
    owner.execute(f"grant temporary on database {owner.info.dbname} to public")


def set_trap(app: psycopg.Connection) -> None:
    app.execute(_CHECK)
    for name in TYPES:
        base = {"integer": "int4", "boolean": "bool"}.get(name, name)
        app.execute(f"create domain pg_temp.{name} as pg_catalog.{base} check (pg_temp.spy(value))")


def ran_as(app: psycopg.Connection) -> set[str]:
    return {user for (user,) in app.execute("select as_whom::pg_catalog.text from pg_temp.ran").fetchall()}


EVERYWHERE = [
    "select count(*) from public.documents",
    "select private.enter()",
    "select public.save_extraction_fields(id, '{\"a\": 1}') from public.extractions",
    "select public.decide_extraction_proposals(extraction_id, array[id]) from public.extraction_proposals limit 1",
    "insert into public.runs (org_id, agent, task) select id, 'talker', 'think' from public.organisations",
    "update public.threads set title = 'x'",
    "select public.delete_document(id) from public.documents where created_by = auth.uid()",
]


def test_search_path_prevents_temporary_object_attack(attacker: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    owner, app = attacker
    allow(owner)
    set_trap(app)
    for statement in EVERYWHERE:
        with app.transaction():
            app.execute(statement)
        # (What the statement itself says, it says as whom it is sent by: to attack oneself is no attack.)
        assert ran_as(app) <= {"authenticated"}, statement


def test_attack_succeeds_without_the_search_path(attacker: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    """The positive control: the same function with an empty search_path, where Postgres looks into pg_temp first."""
    owner, app = attacker
    allow(owner)
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
    assert ran_as(app) & {owner.info.user}

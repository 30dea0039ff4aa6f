"""A viewer writes nowhere: every table and every function that one who is signed in reaches, told by the catalog."""

from __future__ import annotations

import re
from uuid import UUID

import psycopg
import pytest
from doors import Doors, House, become
from matrix import CALLS, CASES

# What of the service's own bookkeeping goes on after a user was made a viewer while their run was at work or their
# document was being read.
BOOKKEEPING = {"usage", "documents", "document_pages"}

# Every function that may change something and is not in matrix.CALLS, with a call that a member or an owner can make.
VOLATILE = {
    "private.clear_pages": "(%(document)s)",
    "private.read_unlocked": "(%(document)s, null)",
    "private.record_reading": "(%(document)s, 1, 2)",
    "private.locked_extraction": "(%(extraction)s)",
    "private.write_fields": "((select e from public.extractions as e where id = %(extraction)s), '{\"total\": 14}')",
    "private.record_call": "(%(run)s, 1, 'call_2', %(org)s, 't', '{}', repeat('0', 64), 'approved', null)",
    "private.claim_call": "(%(run)s, 1, 'call_1', 'update_field', repeat('0', 64))",
    "private.finish_call": "(%(run)s, 'call_1', 'x', false, null, null)",
    "private.save_thread_state": "(%(shared_thread)s, '{}')",
    "private.fence": "(%(run)s, 1)",
    "private.await_approval": "(%(run)s, 1, 'call_1', false, null)",
    "private.show_updated_call": "(%(run)s, 'call_1', null, null, null, null)",
    "private.start_decision": "(%(run)s, 'call_1', repeat('0', 64), true, null, null, null)",
    "private.approve_later_calls": "(%(run)s, '{update_field}')",
    "private.resume_run": "(%(run)s)",
    "private.detach_run": "(%(run)s, 1)",
    "private.detach_dead_worker": "(%(run)s)",
    "private.await_runs": "(%(run)s, 'call_1')",
    "private.find_room": "(%(run)s, true)",
    # Bookkeeping, below.
    "private.notify_deltas": "(%(run)s, 1, '{}')",
    "private.charge": "(%(run)s, %(org)s, 'extraction', 'm9', 'm', 1, 1, 0, 0, 0, 0.1)",
    # They change nothing of an organisation that the caller is in.
    "private.lock_credit": "(%(org)s)",
    "private.new_id": "()",
    "private.enter": "()",
    "public.enter": "()",
    "public.create_organisation": "('Mine')",
    "public.accept_invitation": "('fmi_')",
}


def written(owner: psycopg.Connection, org: UUID) -> dict[str, str]:
    """A fingerprint of each table's rows of an organisation, past all policies."""
    tables = owner.execute(
        "select format('%I.%I', n.nspname, c.relname), a.attname from pg_class c "
        "join pg_namespace n on n.oid = c.relnamespace "
        "join pg_attribute a on a.attrelid = c.oid and not a.attisdropped and ("
        "  a.attname = 'org_id' or c.oid = 'public.organisations'::regclass and a.attname = 'id') "
        "where n.nspname in ('public', 'private') and c.relkind = 'r'"
    ).fetchall()
    found = {}
    for table, column in tables:
        query = f"select md5(string_agg(t::text, chr(10) order by t::text)) from {table} as t where {column} = %s"
        found[table] = str(owner.execute(query.encode(), [org]).fetchone())
    objects = "select md5(string_agg(name, ',' order by name)) from storage.objects"
    return found | {"storage.objects": str(owner.execute(objects).fetchone())}


def test_all_writing_functions_are_tested_for_viewers(doors: Doors) -> None:
    callable_ = {
        name
        for (name,) in doors.owner.execute(
            "select format('%s.%s', pronamespace::regnamespace, proname) from pg_proc "
            "where pronamespace in ('public'::regnamespace, 'private'::regnamespace) and provolatile = 'v' "
            "and prorettype <> 'trigger'::regtype and has_function_privilege('authenticated', oid, 'execute')"
        )
    }
    called = {case.table for case in CALLS}
    assert {name for name in callable_ if name.partition(".")[2] not in called} == VOLATILE.keys()


@pytest.mark.parametrize("function", VOLATILE)
def test_viewers_cannot_write_through_functions(doors: Doors, house: House, function: str) -> None:
    statement = f"select {function}{VOLATILE[function]}".encode()
    with doors.as_owner() as owner:  # counts as a connection of the service, and can look afterwards
        owner.execute("update runs set status = 'running', fencing_token = 1 where id = %s", [house.run])
        before = written(owner, house.org)
        become(owner, "authenticated", {"sub": str(house.viewer), "org_id": str(house.org)})
        try:
            with owner.transaction():
                owner.execute(statement, vars(house))
        except psycopg.DatabaseError as error:
            # A refusal, and no mistake in the call.
            assert re.match("PT4|42501", error.sqlstate or ""), error
        owner.execute("reset role")
        after = written(owner, house.org)
    changed = {table for table in before if before[table] != after[table]}
    assert changed <= {f"public.{table}" for table in BOOKKEEPING | {"usage_by_day"}}, function
    if changed:
        assert function in ("private.charge", "private.clear_pages", "private.record_reading")


def test_viewers_cannot_write_through_statements() -> None:
    """tests/sql/matrix.py has every table and verb, and runs each as a viewer too."""
    writing = {
        (case.table, case.verb)
        for case in CASES + CALLS
        if case.verb != "select" and case.can & {"viewer", "service: viewer"}
    }
    assert writing == {
        ("usage", "insert"),
        ("documents", "update"),
        ("document_pages", "insert"),
        # They leave.
        ("remove_member", "call"),
        # They read.
        ("address_of", "call"),
        ("references_to_schema", "call"),
        ("references_to_tag", "call"),
        ("has_active_run", "call"),
        ("delta_channel", "call"),
    }

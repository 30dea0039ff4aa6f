"""Viewers cannot write: all tables and functions that signed-in users reach, listed from the catalog."""

from __future__ import annotations

import re
from uuid import UUID

import psycopg
import pytest
from matrix import CALLS, CASES
from role_connections import Roles, Sample, set_role

# Rows that the service still writes for a user who became a viewer while their run or reading was in progress.
BOOKKEEPING = {"usage", "documents", "document_pages"}

# Volatile functions that are not in matrix.CALLS, each with a call that a member or an owner can make.
VOLATILE_CALLS = {
    "private.clear_pages": "(%(document)s)",
    "private.queue_unlocked_copy": "(%(document)s, null)",
    "private.record_reading": "(%(document)s, 1, 2)",
    "private.locked_extraction": "(%(extraction)s)",
    "private.record_second_reading": '(%(extraction)s, \'{"total": "second_reading"}\')',
    "private.record_problems": '(%(extraction)s, 1, \'{"total": "missing"}\', false)',
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
    "private.check_capacity": "(%(run)s, true)",
    # Bookkeeping, below.
    "private.notify_deltas": "(%(run)s, 1, '{}')",
    "private.charge": "(%(run)s, %(org)s, 'extraction', 'm9', 'm', 1, 1, 0, 0, 0, 0.1)",
    # Functions that change nothing in the caller's organisation.
    "private.lock_credit": "(%(org)s)",
    "private.report_full_quota": "(%(org)s)",
    "private.new_id": "()",
    "private.resolve_organisation": "()",
    "public.ensure_personal_organisation": "()",
    "public.create_organisation": "('Mine')",
    "public.accept_invitation": "('fmi_')",
    "public.read_invitation": "('fmi_')",
}


def fingerprints(owner: psycopg.Connection, org: UUID) -> dict[str, str]:
    """Return a fingerprint of each table's rows of an organisation, bypassing policies."""
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


def test_all_writing_functions_are_tested_for_viewers(roles: Roles) -> None:
    callable_functions = {
        name
        for (name,) in roles.owner.execute(
            "select format('%s.%s', pronamespace::regnamespace, proname) from pg_proc "
            "where pronamespace in ('public'::regnamespace, 'private'::regnamespace) and provolatile = 'v' "
            "and prorettype <> 'trigger'::regtype and has_function_privilege('authenticated', oid, 'execute')"
        )
    }
    called = {case.table for case in CALLS}
    assert {name for name in callable_functions if name.partition(".")[2] not in called} == VOLATILE_CALLS.keys()


@pytest.mark.parametrize("function", VOLATILE_CALLS)
def test_viewers_cannot_write_through_functions(roles: Roles, sample: Sample, function: str) -> None:
    statement = f"select {function}{VOLATILE_CALLS[function]}".encode()
    with roles.as_owner() as owner:  # counts as a connection of the service
        owner.execute("update runs set status = 'running', fencing_token = 1 where id = %s", [sample.run])
        before = fingerprints(owner, sample.org)
        set_role(owner, "authenticated", {"sub": str(sample.viewer), "org_id": str(sample.org)})
        try:
            with owner.transaction():
                owner.execute(statement, vars(sample))
        except psycopg.DatabaseError as error:
            # Rejected for permission, not for a mistake in the call.
            assert re.match("PT4|42501", error.sqlstate or ""), error
        owner.execute("reset role")
        after = fingerprints(owner, sample.org)
    changed = {table for table in before if before[table] != after[table]}
    assert changed <= {f"public.{table}" for table in BOOKKEEPING | {"usage_by_day"}}, function
    if changed:
        assert function in ("private.charge", "private.clear_pages", "private.record_reading")


def test_viewers_cannot_write_through_statements() -> None:
    writing = {
        (case.table, case.verb)
        for case in CASES + CALLS
        if case.verb != "select" and case.can & {"viewer", "service: viewer"}
    }
    assert writing == {
        ("usage", "insert"),
        ("documents", "update"),
        ("document_pages", "insert"),
        # A viewer may leave.
        ("remove_member", "call"),
        # Calls that only read.
        ("address_of", "call"),
        ("count_references_to_schema", "call"),
        ("count_references_to_tag", "call"),
        ("has_active_run", "call"),
        ("delta_channel", "call"),
        ("review_figures", "call"),
    }

"""Row policies and privileges: every table, verb and kind of caller, and that the matrix is complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from matrix import ACTORS, CALLS, CASES, Case, outcome
from psycopg import DatabaseError
from psycopg.errors import InsufficientPrivilege
from role_connections import Roles, Sample, set_role

import fieldmark

VERBS = {"select", "insert", "update", "delete"}
VIEWS = {"ocr_results", "current_extractions", "stack_table_rows"}


@pytest.mark.parametrize("case", CASES + CALLS, ids=str)
def test_only_the_listed_roles_can_run_each_statement(roles: Roles, sample: Sample, case: Case) -> None:
    assert {actor for actor in ACTORS if outcome(roles, sample, actor, case)} == case.can


@pytest.mark.parametrize("case", [case for case in CASES + CALLS if not case.can and case.table not in VIEWS], ids=str)
def test_statements_denied_to_all_roles_work_for_the_owner(roles: Roles, sample: Sample, case: Case) -> None:
    with roles.as_owner() as connection:
        cursor = connection.execute(case.statement, {**vars(sample), "me": None})
        assert cursor.rowcount > 0


@pytest.mark.parametrize(
    ("call", "table"),
    [
        ("delete_document(%(document)s)", "documents"),
        ("delete_extraction(%(extraction)s)", "extractions"),
        ("delete_thread(%(thread)s)", "threads"),
        ("remove_member(%(org)s, %(member)s)", "memberships"),
        ("private.clear_pages(%(document)s)", "document_pages"),
    ],
    ids=lambda part: part.partition("(")[0],
)
def test_delete_statements_delete_only_their_target(roles: Roles, sample: Sample, call: str, table: str) -> None:
    with roles.as_owner() as connection:
        count = f"select count(*) from {table} where org_id = any(%s)"
        orgs = [[sample.org, sample.second_org, sample.other_org]]
        (before,) = connection.execute(count, orgs).fetchone() or (0,)
        set_role(connection, "authenticated", {"sub": str(sample.owner), "org_id": str(sample.org)})
        connection.execute(f"select {call}", vars(sample))
        connection.execute("reset role")
        assert before > 1 and connection.execute(count, orgs).fetchone() == (before - 1,)


# Callers: the user, the organisation they act in, whether they bypass the service; and whether the call has an effect.
CALLERS = {
    "service: owner": ("owner", "org", False, True),
    "service: member": ("member", "org", False, True),
    "service: owner elsewhere": ("owner", "second_org", False, False),
    "service: stranger": ("stranger", "other_org", False, False),
    "service: stranger claiming it": ("stranger", "org", False, False),
    "front end: owner": ("owner", "org", True, False),
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("select private.clear_pages(%(document)s)", "from document_pages where document_id = %(document)s"),
    ],
    ids=["clear_pages"],
)
def test_service_deletes_only_its_own_users_rows(
    roles: Roles, sample: Sample, statement: str, left: str, caller: str
) -> None:
    user, org, bypasses_service, can = CALLERS[caller]
    with roles.as_owner() as connection:
        if bypasses_service:
            connection.execute("set local session authorization authenticator")
        claims = {"sub": str(getattr(sample, user)), "org_id": str(getattr(sample, org))}
        set_role(connection, "authenticated", claims)
        connection.execute(statement, vars(sample))
        connection.execute("reset session authorization")
        connection.execute("reset role")
        assert connection.execute(f"select exists (select {left})", vars(sample)).fetchone() == (not can,)


@pytest.mark.parametrize("caller", CALLERS)
def test_only_members_can_lock_an_organisations_credit(roles: Roles, sample: Sample, caller: str) -> None:
    user, org, bypasses_service, can = CALLERS[caller]
    users, orgs = getattr(sample, user), getattr(sample, org)
    enter = roles.as_front_end(users) if bypasses_service else roles.as_service(users, orgs)
    with enter as connection:
        connection.execute("select private.lock_credit(%s)", [sample.org])
        with roles.as_owner() as owner:
            query = "select from organisations where id = %s for no key update skip locked"
            assert owner.execute(query, [sample.org]).rowcount == (0 if can else 1)


@pytest.mark.parametrize("caller", CALLERS)
def test_active_run_count_is_visible_to_members_only(roles: Roles, sample: Sample, caller: str) -> None:
    user, org, bypasses_service, can = CALLERS[caller]
    with roles.as_owner() as connection:
        connection.execute("update runs set status = 'completed'")
        connection.execute("update runs set status = 'running' where id = %s", [sample.run])
        claims = {"sub": str(getattr(sample, user)), "org_id": str(getattr(sample, org))}
        set_role(connection, "authenticated", claims)
        answer = connection.execute("select private.count_active_runs(%s, gen_random_uuid())", [sample.org]).fetchone()
        # Members who bypass the service can count the runs themselves.
        assert answer == ((1,) if can or bypasses_service else (0,))


def test_owner_of_a_personal_organisation_cannot_be_changed(roles: Roles, sample: Sample) -> None:
    with roles.as_front_end(sample.owner) as connection, pytest.raises(DatabaseError) as error:
        connection.execute("select remove_member(%s, %s)", [sample.org, sample.owner])
    assert error.value.sqlstate == "PT404"


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("update organisations set name = 'X'", 1),
        ("update memberships set role = 'owner'", 0),
        ("update documents set byte_size = 1", 1),
        ("update extractions set status = 'completed'", 1),
        ("update runs set fencing_token = 1", 2),
        ("update threads set title = 'X'", 1),
        ("update auto_creations set kind = 'invoice'", 1),
        ("update tool_calls set finished_at = now()", 1),
    ],
)
def test_update_without_where_changes_only_own_rows(roles: Roles, sample: Sample, statement: str, count: int) -> None:
    with roles.as_service(sample.stranger, sample.other_org) as connection:
        assert connection.execute(statement).rowcount == count


@pytest.mark.parametrize(
    "insert",
    [
        "insert into documents (id, org_id, filename, storage_path, created_by) "
        "values (%(newcomer)s, %(org)s, 'b', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b'), %(by)s)",
        "insert into extractions (org_id, document_id, created_by) values (%(org)s, %(document)s, %(by)s)",
        "insert into runs (org_id, agent, task, document_id, extraction_id, created_by) "
        "values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, %(by)s)",
        "insert into threads (org_id, agent, created_by) values (%(org)s, 'talker', %(by)s)",
    ],
)
def test_policy_applies_without_the_column_privilege(roles: Roles, sample: Sample, insert: str) -> None:
    """Policy and column privilege each prevent a forged creator. This test grants the privilege to see the policy
    act."""
    with roles.as_owner() as connection:
        connection.execute(f"grant insert (created_by) on {insert.split()[2]} to authenticated")
        set_role(connection, "authenticated", {"sub": str(sample.member)})
        with connection.transaction(force_rollback=True):
            assert connection.execute(insert, {**vars(sample), "by": sample.member}).rowcount == 1
        with pytest.raises(InsufficientPrivilege):
            connection.execute(insert, {**vars(sample), "by": sample.owner})


def test_row_security_is_enabled_and_forced_on_every_table(roles: Roles) -> None:
    rows = roles.owner.execute(
        "select relname, relrowsecurity and relforcerowsecurity from pg_class "
        "where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'm', 'f')"
    ).fetchall()
    assert len(rows) >= 9
    assert [name for name, safe in rows if not safe] == []
    # The same for tables of `private` with tenant data.
    kept = roles.owner.execute(
        "select relname, relrowsecurity, relforcerowsecurity from pg_class "
        "where relnamespace = 'private'::regnamespace and relkind in ('r', 'p') "
        "and (relrowsecurity or relforcerowsecurity)"
    ).fetchall()
    tables = {"indexing_queue", "search_orgs", "search_chunks", "search_terms", "search_vectors", "embedding_queue"}
    tables |= {
        "files_to_delete",
        "search_embedder",
        "delta_channel",
        "source_objects",
        "organisation_deletions",
        "administration_journal",
    }
    assert sorted(kept) == [(name, True, True) for name in sorted(tables)]


def test_every_view_is_security_invoker(roles: Roles) -> None:
    views = dict(
        roles.owner.execute(
            "select relname, coalesce('security_invoker=true' = any (reloptions), false) from pg_class "
            "where relnamespace = 'public'::regnamespace and relkind = 'v'"
        ).fetchall()
    )
    assert views == dict.fromkeys(VIEWS, True)


def test_matrix_covers_every_table_and_verb(roles: Roles) -> None:
    tables = {
        name
        for (name,) in roles.owner.execute(
            "select relname from pg_class "
            "where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f')"
        )
    }
    tested = {(case.table, case.verb) for case in CASES if "." not in case.table}
    assert tested == {(table, verb) for table in tables for verb in VERBS}


def test_each_verb_has_one_policy_and_the_matrix_needs_it(roles: Roles) -> None:
    policies = Counter(
        roles.owner.execute(
            "select case schemaname when 'public' then tablename else schemaname || '.' || tablename end, lower(cmd) "
            "from pg_policies where schemaname in ('public', 'storage')"
        ).fetchall()
    )
    needed = {(case.table, case.verb) for case in CASES if case.can and case.table not in VIEWS}
    assert set(policies) == needed
    assert set(policies.values()) == {1}


def test_policies_apply_to_authenticated_users_only(roles: Roles) -> None:
    assert roles.owner.execute(
        "select distinct roles::text, permissive from pg_policies where schemaname in ('public', 'storage')"
    ).fetchall() == [("{authenticated}", "PERMISSIVE")]


# The columns on which signed-in users have privileges; `True` is the whole table.
PRIVILEGES = {
    "organisations": {
        "select": True,
        "update": "name approvers second_person auto_approved_tools examples auto_create max_error second_reading",
    },
    "memberships": {"select": True, "update": "role"},
    # All columns but the hash.
    "api_keys": {
        "select": "id org_id created_by created_at name prefix scopes expires_at last_used_at revoked_at revoked_by"
    },
    "invitations": {
        "select": "id org_id created_by created_at email role expires_at accepted_at accepted_by revoked_at revoked_by"
    },
    "settings_journal": {"select": True},
    "changes": {"select": True},
    # All columns but the secrets.
    "webhooks": {
        "select": "id org_id created_by created_at url types run_id previous_secret_until is_enabled disabled_reason "
        "failing_since",
        "insert": "id org_id url types run_id secret",
        "update": "url types secret is_enabled",
    },
    # All columns but the secret, and those that only the service uses.
    "sources": {
        "select": "id org_id created_by created_at kind address folder username extract stack_id is_paused due_at "
        "error_code failing_since checked_at last_object last_object_at taken skipped",
        "insert": "id org_id kind address folder username secret extract stack_id",
        "update": "secret extract stack_id is_paused",
    },
    "source_failures": {"select": True},
    "webhook_deliveries": {"select": True, "update": "status attempts due_at"},
    "documents": {
        "select": True,
        "insert": "id org_id user_id filename storage_path media_type byte_size content_sha256 parent_document_id "
        "number_in_parent unlocked_path auto_create external_id metadata extract_when_read extract_revid",
        "update": "media_type byte_size content_sha256 status error error_code warnings page_count pages_read "
        "pages_to_read external_id metadata extract_when_read extract_revid",
    },
    "document_pages": {
        "select": True,
        "insert": "document_id org_id number width height text words engine",
    },
    "ocr_results": {"select": True},
    "extractions": {
        "select": True,
        "insert": "id org_id user_id document_id schema schema_revid prompt_revid is_trial",
        "update": "document_type status extracted_fields confidences confidence_scores evidence locks",
    },
    "current_extractions": {"select": True},
    "private.current_by_schema": {"select": True},
    "private.document_activities": {"select": True},
    "private.schema_extractions": {"select": True},
    "private.stack_copies": {"select": True},
    "stacks": {"select": True, "insert": "id org_id user_id name", "update": "name"},
    "saved_views": {
        "select": True,
        "insert": "id org_id user_id schema_id stack_id name settings",
        "update": "name settings",
    },
    "comments": {"select": True, "insert": "id org_id user_id document_id path body"},
    "stack_documents": {"select": True, "insert": "org_id user_id stack_id document_id"},
    "stack_tables": {
        "select": True,
        "insert": "stack_id org_id schema_id row_path",
        "update": "schema_id row_path",
    },
    "stack_table_rows": {"select": True},
    "extraction_journal": {"select": True},
    "fields": {"select": True},
    "audits": {"select": True},
    "extraction_proposals": {"select": True},
    "schemas": {"select": True},
    "schema_versions": {"select": True},
    "prompts": {"select": True},
    "prompt_versions": {"select": True},
    "tags": {"select": True},
    "document_tags": {"select": True},
    "auto_creations": {
        "select": True,
        "update": "kind labels matched schema_revid prompt_revid extraction_id",
    },
    "runs": {
        "select": True,
        "insert": "id org_id agent task input thread_id document_id extraction_id stack_id parent_run_id "
        "parent_call_id approval auto_approved_tools model max_cost_usd idempotency_key request_hash background "
        "max_turns by_agent",
        "update": "status fencing_token consecutive_failures session_id waiting_call "
        "attached pages_read waiting_for_capacity_since started_at finished_at answer result error error_code examples",
    },
    "threads": {
        "select": True,
        "insert": "org_id agent document_id title",
        "update": "title shared",
    },
    "run_events": {"select": True, "insert": "run_id number org_id body"},
    "tool_calls": {
        "select": True,
        "insert": "run_id id org_id tool arguments arguments_hash status approved_by reason changes target_hash "
        "target_version",
        "update": "status result code data finished_at approved_by reason decided_by decided_at arguments "
        "arguments_hash proposed changes target_hash target_version",
    },
    "usage": {
        "select": True,
        "insert": "run_id message_id org_id agent model input_tokens output_tokens cache_write_5m_tokens "
        "cache_write_1h_tokens cache_read_tokens cost_usd",
    },
    "usage_by_day": {"select": True},
    "credit_limits": {"select": True},
    "storage_usage": {"select": True},
    "upload_rules": {"select": True},
    "queue_limits": {"select": True},
    "agent_sessions": {"select": True, "insert": "org_id session_id subpath uuid entry"},
    # No tenant data, not exposed by PostgREST.
    "private.agents": {"select": True},
    "private.agent_tasks": {"select": True},
}

# Tables of `private` are named with their schema.
_NAME = "case c.relnamespace when 'public'::regnamespace then c.relname else 'private.' || c.relname end"
_OWN_TABLES = "c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)"


def test_authenticated_has_exactly_these_privileges_and_other_roles_have_none(roles: Roles) -> None:
    rows = roles.owner.execute(
        f"select r.role, {_NAME}, p.privilege, "
        "case when has_table_privilege(r.role, c.oid, p.privilege) then '' else ("
        "  select string_agg(a.attname, ' ' order by a.attnum) from pg_attribute a where a.attrelid = c.oid "
        "  and a.attnum > 0 and has_column_privilege(r.role, c.oid, a.attnum, p.privilege)) end "
        "from pg_class c cross join unnest(array['anon', 'authenticated', 'fieldmark_app']) as r (role) "
        "cross join unnest(array['select', 'insert', 'update']) as p (privilege) "
        f"where {_OWN_TABLES} and c.relkind in ('r', 'v', 'p', 'm', 'f') "
        "union all "
        f"select r.role, {_NAME}, 'delete', '' from pg_class c "
        "cross join unnest(array['anon', 'authenticated', 'fieldmark_app']) as r (role) "
        f"where {_OWN_TABLES} and c.relkind in ('r', 'v', 'p', 'm', 'f') "
        "and has_table_privilege(r.role, c.oid, 'delete')"
    ).fetchall()
    actual = {
        (role, table, verb): columns == "" or set(columns.split())
        for role, table, verb, columns in rows
        if columns is not None
    }
    assert actual == {
        ("authenticated", table, verb): columns is True or set(columns.split())
        for table, privileges in PRIVILEGES.items()
        for verb, columns in privileges.items()
    }


def test_no_member_can_lock_a_table(roles: Roles, sample: Sample) -> None:
    tables = [row[0] for row in roles.owner.execute(_TABLES)]
    assert len(tables) > 15
    for enter in (lambda: roles.as_service(sample.owner, sample.org), lambda: roles.as_front_end(None, "anon")):
        for table in tables:
            with enter() as connection, pytest.raises(InsufficientPrivilege):
                connection.execute(f"lock table {table} in row exclusive mode nowait")


_TABLES = """
    select c.oid::regclass::text from pg_class as c
    where c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text in ('public', 'private', 'storage', 'queue')"""


def test_no_role_has_a_privilege_outside_the_matrix(roles: Roles) -> None:
    privileges = roles.owner.execute(
        "select r.role, c.relname, p.privilege from pg_class c "
        "cross join unnest(array['anon', 'authenticated', 'fieldmark_app']) as r (role) "
        "cross join unnest(array['truncate', 'references', 'trigger']) as p (privilege) "
        f"where {_OWN_TABLES} and c.relkind in ('r', 'p', 'v') "
        "and has_table_privilege(r.role, c.oid, p.privilege)"
    ).fetchall()
    assert privileges == []
    sequences = roles.owner.execute(
        "select r.role, c.relname from pg_class c "
        "cross join unnest(array['anon', 'authenticated', 'fieldmark_app']) as r (role) "
        f"where {_OWN_TABLES} "
        "and case c.relkind when 'S' then has_sequence_privilege(r.role, c.oid, 'usage, select, update') end"
    ).fetchall()
    assert sequences == []


# The functions each role may call: of `public`, which PostgREST exposes, and of `private`.
CALLABLE = {
    "anon": ("", ""),
    "authenticated": (
        """
        save_extraction_fields update_extraction_field update_extraction_fields update_field remove_extraction_field
        identify_document complete_extraction restore_extraction unlock_extraction_field
        decide_extraction_proposals delete_organisation deleted_organisation delete_account delete_document
        delete_extraction delete_run
        delete_thread delete_stack remove_stack_document delete_saved_view assign_document delete_comment remove_member
        ensure_personal_organisation create_organisation invite revoke_invitation accept_invitation read_invitation
        create_api_key revoke_api_key create_schema update_schema delete_schema create_prompt update_prompt
        delete_prompt create_tag update_tag delete_tag tag_document rename_document decide_auto_creation
        delete_webhook test_webhook set_upload_rules delete_source set_max_error
        """,
        """
        my_org_ids my_writable_org_ids my_owned_org_ids only_organisation role_of user_of current_user_id check_owner
        address_of approval_refusal_reason approval_refusal_reason_for decided_by_others is_service require
        check_found new_id resolve_organisation append_event delta_channel clear_pages count_enclosed
        queue_unlocked_copy
        record_reading notify_deltas fence save_thread_state is_name record_call claim_call finish_call
        await_approval show_updated_call start_decision approve_later_calls
        resume_run detach_run detach_dead_worker has_open_children has_active_run await_runs tree_of_run
        cancel_run cost_of_run spent_this_month lock_credit report_full_quota count_active_runs is_blocked runs_ahead
        waits_behind is_budget_spent is_credit_spent check_capacity charge child_name nodes changes is_leaf
        search count_unindexed_documents search_nearest count_unembedded_documents has_vectors search_stems
        change_data compare_schemas differ review_counts record_problems record_second_reading
        check_json checked_path set_at_path path_name
        merge fields_at locked_extraction check_is_caller nested_scores write_fields is_agent this_run this_call
        is_proposed this_root_run
        follow_schema schema_revid_of schema_to_extract count_references_to_schema count_references_to_prompt
        count_references_to_tag approving_user
        review_figures message_author paths_allowed_by_message binding_locks blocked_paths moved_items entries_under
        """,
    ),
    "fieldmark_app": (
        "",
        """
        my_org_ids my_writable_org_ids my_owned_org_ids is_service resolve_organisation
        use_api_key record_api_key_use fail_run
        notify fail_document scope_of_run scope_of_document register_pending_files files_to_delete
        unregister_deleted_files count_waiting_runs delete_old_run_records clear_organisations claim_job search_source
        search_words write_search_chunks abandon_indexing use_embedder lease_document_for_embedding
        chunks_without_vectors write_search_vectors has_vectors search_stems record_problems
        extractions_to_check schemas_to_count update_required_fields review_figures store_review_policy
        publish_changes lease_deliveries record_delivery
        lease_sources new_objects record_objects finish_source record_source_failure due_source_failure
        delete_old_changes
        """,
    ),
}


@pytest.mark.parametrize("role", CALLABLE)
@pytest.mark.parametrize("schema", ["public", "private"])
def test_role_can_call_exactly_these_functions(roles: Roles, role: str, schema: str) -> None:
    rows = roles.owner.execute(
        "select proname from pg_proc "
        "where pronamespace = %s::regnamespace and has_function_privilege(%s, oid, 'execute')",
        [schema, role],
    ).fetchall()
    assert {name for (name,) in rows} == set(CALLABLE[role][schema == "private"].split())


def test_every_function_sets_its_search_path(roles: Roles) -> None:
    """Functions search pg_catalog first and temporary objects last."""
    paths = roles.owner.execute(
        "select proname, (select c from unnest(proconfig) as c where c like 'search_path=%') from pg_proc "
        "where pronamespace in (select oid from pg_namespace where nspname in ('public', 'private', 'auth', 'storage'))"
    ).fetchall()
    assert len(paths) > 70
    assert {path for _, path in paths} == {"search_path=pg_catalog, pg_temp"}


def test_definer_functions_for_members_check_their_caller(roles: Roles) -> None:
    rows = roles.owner.execute(
        "select proname from pg_proc where prosecdef and pronamespace = any ('{public,private}'::regnamespace[]) "
        "and has_function_privilege('authenticated', oid, 'execute') and prosrc !~ 'my_memberships|my_org_ids"
        "|my_writable_org_ids|my_owned_org_ids|auth.uid|current_user_id|check_owner|check_org_writable|may_delete'"
    ).fetchall()
    # Policies call these for every caller, or they read only rows of the caller's transaction.
    exempt = {"role_of", "user_of", "is_blocked", "decided_by_others", "this_root_run", "delta_channel"}
    assert {name for (name,) in rows} == exempt


def test_code_never_waits_for_advisory_locks(roles: Roles) -> None:
    with roles.as_owner() as owner:
        found = owner.execute(
            """select proname from pg_proc where prosrc like '%advisory%'
               and pronamespace in ('public'::regnamespace, 'private'::regnamespace)"""
        ).fetchall()
    assert found == []
    answer = [str(file) for file in Path(fieldmark.__file__).parent.rglob("*.py") if "pg_advisory" in file.read_text()]
    assert answer == []

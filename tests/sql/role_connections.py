"""Connections with the database roles under test (PostgREST, service, owner), and sample rows in two organisations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg


@dataclass(frozen=True)
class Roles:
    """Connections that stay open for the session. Each method starts one transaction, which is rolled back at its
    end."""

    owner: psycopg.Connection
    rest: psycopg.Connection
    app: psycopg.Connection

    @contextmanager
    def as_owner(self) -> Iterator[psycopg.Connection]:
        """Act as the database owner, who bypasses row policies."""
        with self.owner.transaction(force_rollback=True):
            yield self.owner

    @contextmanager
    def as_front_end(self, user: UUID | None, role: str = "authenticated") -> Iterator[psycopg.Connection]:
        """Act as PostgREST does: log in as `authenticator`, then set the role and the claims of the token."""
        claims = {"role": role} if user is None else {"role": role, "sub": str(user)}
        with self.rest.transaction(force_rollback=True):
            set_role(self.rest, role, claims)
            yield self.rest

    @contextmanager
    def as_service(self, user: UUID | None, org: UUID | None = None) -> Iterator[psycopg.Connection]:
        """Act as the service does for a request: log in as `fieldmark_app`, then set role, claims and organisation."""
        claims = {"role": "authenticated", "sub": user and str(user), "org_id": org and str(org)}
        with self.app.transaction(force_rollback=True):
            set_role(self.app, "authenticated", {key: value for key, value in claims.items() if value})
            yield self.app

    @contextmanager
    def as_login(self) -> Iterator[psycopg.Connection]:
        """Act as the login role of the service, without a user."""
        with self.app.transaction(force_rollback=True):
            yield self.app


def set_role(connection: psycopg.Connection, role: str, claims: dict[str, str]) -> None:
    connection.execute(
        "select set_config('role', %s, true), set_config('request.jwt.claims', %s, true)", [role, json.dumps(claims)]
    )


@contextmanager
def connect_as_roles(owner_url: str, app_url: str) -> Iterator[Roles]:
    with (
        psycopg.connect(owner_url, autocommit=True) as owner,
        psycopg.connect(owner_url, autocommit=True) as rest,
        psycopg.connect(app_url, autocommit=True) as app,
    ):
        # Has the effect of a login as authenticator, which has no password on this server.
        rest.execute("set session authorization authenticator")
        yield Roles(owner, rest, app)


@dataclass(frozen=True)
class Sample:
    """Ids of the sample rows: `org` has an owner, two members, a viewer and rows in every table; `other_org` belongs to
    `stranger`."""

    org: UUID
    owner: UUID
    member: UUID
    colleague: UUID
    viewer: UUID
    stranger: UUID
    newcomer: UUID
    key: UUID
    member_key: UUID
    invitation: UUID
    change: UUID
    webhook: UUID
    delivery: UUID
    source: UUID
    other_org: UUID
    second_org: UUID
    document: UUID
    member_document: UUID
    other_document: UUID
    extraction: UUID
    member_extraction: UUID
    other_extraction: UUID
    run: UUID
    other_run: UUID
    proposal: UUID
    other_proposal: UUID
    thread: UUID
    shared_thread: UUID
    other_thread: UUID
    thread_run: UUID
    ended_run: UUID
    other_thread_run: UUID
    schema: UUID
    schema_revid: UUID
    member_schema: UUID
    other_schema: UUID
    other_schema_revid: UUID
    prompt: UUID
    prompt_revid: UUID
    member_prompt: UUID
    other_prompt: UUID
    other_prompt_revid: UUID
    tag: UUID
    member_tag: UUID
    free_tag: UUID
    other_tag: UUID
    stack: UUID
    member_stack: UUID
    other_stack: UUID
    saved_view: UUID
    comment: UUID
    member_comment: UUID
    making_run: UUID


_USERS = """
insert into auth.users (id) values
  (%(owner)s), (%(member)s), (%(colleague)s), (%(viewer)s), (%(stranger)s), (%(newcomer)s);
update auth.users set email = 'owner@example.org' where id = %(owner)s;
insert into organisations (id, name, personal_of, created_by) values
  (%(org)s, 'One', %(owner)s, %(owner)s), (%(other_org)s, 'Other', %(stranger)s, %(stranger)s),
  (%(second_org)s, 'Second', null, %(owner)s);
update organisations set name = '1' where id = %(org)s;
insert into memberships (org_id, user_id, role, created_by) values
  (%(org)s, %(owner)s, 'owner', %(owner)s), (%(org)s, %(member)s, 'member', %(owner)s),
  (%(org)s, %(colleague)s, 'member', %(owner)s), (%(org)s, %(viewer)s, 'viewer', %(owner)s),
  (%(second_org)s, %(owner)s, 'owner', %(owner)s),
  (%(second_org)s, %(colleague)s, 'owner', %(owner)s), (%(other_org)s, %(stranger)s, 'owner', %(stranger)s);
insert into api_keys (id, org_id, created_by, name, prefix, hash, scopes) values
  (%(key)s, %(org)s, %(owner)s, 'Mine', 'fm_00000001', sha256('key'), '{documents:read,keys:write}'),
  (%(member_key)s, %(org)s, %(member)s, 'Theirs', 'fm_00000002', sha256('member_key'), '{runs:write}');
insert into invitations (id, org_id, created_by, role, hash, expires_at) values
  (%(invitation)s, %(org)s, %(owner)s, 'member', sha256('invitation'), now() + interval '1 day');
insert into changes (id, org_id, number, type) values (%(change)s, %(org)s, 1, 'document.ready');
insert into webhooks (id, org_id, created_by, url, secret) values
  (%(webhook)s, %(org)s, %(owner)s, 'https://example.com/', 'whsec_' || repeat('A', 44));
insert into webhook_deliveries (id, org_id, webhook_id, change_id) values
  (%(delivery)s, %(org)s, %(webhook)s, %(change)s);
insert into sources (id, org_id, created_by, kind, address, username, secret) values
  (%(source)s, %(org)s, %(owner)s, 'bucket', 'https://example.com/bucket', 'user', 'secret');
insert into private.source_objects (source_id, org_id, name, version) values (%(source)s, %(org)s, 'a.pdf', '');
insert into source_failures (source_id, org_id, name, version, error_code, due_at) values
  (%(source)s, %(org)s, 'b.pdf', '', 'timeout', now());
insert into credit_limits (org_id, max_usd) values (%(org)s, 100), (%(other_org)s, 100);
insert into queue_limits (org_id) values (%(org)s), (%(other_org)s);
insert into storage.buckets (id, name) values ('another', 'another');
insert into storage.objects (bucket_id, name) values ('another', concat_ws('/', %(org)s, 'a.pdf'));
"""

# An agent for tests: its tasks need a thread, a document, or nothing.
_AGENTS = """
insert into private.agents (name, approval) values ('talker', 'ask') on conflict do nothing;
insert into private.agent_tasks (agent, task, needs, may_have, is_message) values
  ('talker', 'talk', '{thread_id}', '{document_id}', true), ('talker', 'read', '{document_id}', '{}', false),
  ('talker', 'think', '{}', '{}', false) on conflict do nothing;
"""

# A private thread of the owner, a shared one, and one of the other organisation.
_THREADS = """
insert into threads (id, org_id, created_by, agent, title, shared) values
  (%(thread)s, %(org)s, %(owner)s, 'talker', 'Mine', false),
  (%(shared_thread)s, %(org)s, %(owner)s, 'talker', 'Ours', true),
  (%(other_thread)s, %(other_org)s, %(stranger)s, 'talker', 'Other', true);
insert into runs (id, org_id, created_by, agent, task, thread_id) values
  (%(thread_run)s, %(org)s, %(owner)s, 'talker', 'talk', %(thread)s),
  (%(other_thread_run)s, %(other_org)s, %(stranger)s, 'talker', 'talk', %(other_thread)s);
insert into runs (id, org_id, created_by, agent, task, document_id, extraction_id, status, finished_at) values
  (%(ended_run)s, %(org)s, %(owner)s, 'extraction', 'extract', %(document)s, %(extraction)s, 'cancelled', now());
insert into run_events (run_id, number, org_id, body, created_by) values
  (%(thread_run)s, 1, %(org)s, '{}', %(owner)s);
insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, created_by) values
  (%(thread_run)s, 'call_1', %(org)s, 'look', '{}', repeat('0', 64), 'approved', 'policy', %(owner)s);
"""

_WORK = """
insert into documents (id, org_id, created_by, filename, storage_path) values
  (%(document)s, %(org)s, %(user)s, 'a.pdf', concat_ws('/', %(org)s, %(document)s, 'a.pdf'));
insert into document_pages (document_id, org_id, number, width, height, text, words, engine, created_by) values
  (%(document)s, %(org)s, 1, 595, 842, 'Total 12', '[]', 'pdf', %(user)s);
insert into extractions (id, org_id, document_id, created_by) values (%(extraction)s, %(org)s, %(document)s, %(user)s);
select set_config('request.jwt.claims', json_build_object('sub', %(user)s)::text, true);
update extractions set extracted_fields = '{"vendor": {"name": "Acme"}, "total": 12}' where id = %(extraction)s;
update extractions set locks = locks - 'total' where id = %(extraction)s;
select set_config('request.jwt.claims', '', true);
insert into extraction_proposals
  (id, org_id, extraction_id, path, name, old, new, confidence_scores, evidence, run_id, created_by) values
  (%(proposal)s, %(org)s, %(extraction)s, '{total}', 'total', '12', '13', '{}', '{}', %(run)s, %(user)s);
insert into runs (id, org_id, created_by, agent, task, document_id, extraction_id) values
  (%(run)s, %(org)s, %(user)s, 'extraction', 'extract', %(document)s, %(extraction)s);
insert into run_events (run_id, number, org_id, body, created_by) values (%(run)s, 1, %(org)s, '{}', %(user)s);
insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, created_by) values
  (%(run)s, 'call_1', %(org)s, 'update_field', '{}', repeat('0', 64), 'approved', 'policy', %(user)s);
insert into agent_sessions (org_id, session_id, entry, created_by) values
  (%(org)s, 's', '{}', %(user)s);
insert into usage (
  run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  cache_read_tokens, cost_usd, created_by) values
  (%(run)s, 'msg_1', %(org)s, 'extraction', 'm', 1, 1, 0, 0, 0, 0.5, %(user)s);
insert into storage.objects (bucket_id, name) values
  ('documents', concat_ws('/', %(org)s, %(document)s, 'a.pdf'));
"""

# Schemas, prompts and tags of both organisations, and suggestions whose run was deleted.
_ARTIFACTS = """
insert into schemas (id, org_id, created_by, name) values
  (%(schema)s, %(org)s, %(owner)s, 'Invoice'), (%(member_schema)s, %(org)s, %(member)s, 'Receipt'),
  (%(other_schema)s, %(other_org)s, %(stranger)s, 'Invoice');
insert into schema_versions (id, org_id, schema_id, number, created_by, name, schema) values
  (%(schema_revid)s, %(org)s, %(schema)s, 1, %(owner)s, 'Invoice', '{"type": "object"}'),
  (gen_random_uuid(), %(org)s, %(member_schema)s, 1, %(member)s, 'Receipt', '{"type": "object"}'),
  (%(other_schema_revid)s, %(other_org)s, %(other_schema)s, 1, %(stranger)s, 'Invoice', '{"title": "secret"}');
insert into tags (id, org_id, created_by, name) values
  (%(tag)s, %(org)s, %(owner)s, 'paid'), (%(member_tag)s, %(org)s, %(member)s, 'open'),
  (%(free_tag)s, %(org)s, %(member)s, 'late'), (%(other_tag)s, %(other_org)s, %(stranger)s, 'paid');
insert into prompts (id, org_id, created_by, name) values
  (%(prompt)s, %(org)s, %(owner)s, 'Invoices'), (%(member_prompt)s, %(org)s, %(member)s, 'Receipts'),
  (%(other_prompt)s, %(other_org)s, %(stranger)s, 'Invoices');
insert into prompt_versions (id, org_id, prompt_id, number, created_by, name, content, schema_id, tag_ids) values
  (%(prompt_revid)s, %(org)s, %(prompt)s, 1, %(owner)s, 'Invoices', 'Read it.', %(schema)s, array[%(tag)s]::uuid[]),
  (gen_random_uuid(), %(org)s, %(member_prompt)s, 1, %(member)s, 'Receipts', 'Read it.', null, '{}'),
  (%(other_prompt_revid)s, %(other_org)s, %(other_prompt)s, 1, %(stranger)s, 'Invoices', 'Secret.', null, '{}');
insert into document_tags (org_id, document_id, tag_id, created_by, document_created_at) values
  (%(org)s, %(document)s, %(tag)s, %(owner)s, now()),
  (%(other_org)s, %(other_document)s, %(other_tag)s, %(stranger)s, now());
insert into stacks (id, org_id, created_by, name) values
  (%(stack)s, %(org)s, %(owner)s, 'Receipts'), (%(member_stack)s, %(org)s, %(member)s, 'Bills'),
  (%(other_stack)s, %(other_org)s, %(stranger)s, 'Secret');
insert into saved_views (id, org_id, stack_id, created_by, name, settings) values
  (%(saved_view)s, %(org)s, %(stack)s, %(owner)s, 'Unpaid', '{}'),
  (gen_random_uuid(), %(other_org)s, %(other_stack)s, %(stranger)s, 'Secret', '{}');
insert into comments (id, org_id, document_id, created_by, path, body) values
  (%(comment)s, %(org)s, %(document)s, %(owner)s, 'total', 'Paid in cash?'),
  (%(member_comment)s, %(org)s, %(document)s, %(member)s, null, 'Yes.'),
  (gen_random_uuid(), %(other_org)s, %(other_document)s, %(stranger)s, null, 'Secret.');
insert into stack_documents (org_id, stack_id, document_id, created_by) values
  (%(org)s, %(stack)s, %(document)s, %(owner)s), (%(other_org)s, %(other_stack)s, %(other_document)s, %(stranger)s);
insert into stack_tables (org_id, stack_id, schema_id, row_path, created_by) values
  (%(org)s, %(stack)s, %(schema)s, 'items', %(owner)s),
  (%(other_org)s, %(other_stack)s, %(other_schema)s, null, %(stranger)s);
insert into upload_rules (org_id, number, document_type, schema_id, created_by) values
  (%(org)s, 1, 'invoice', %(schema)s, %(owner)s), (%(other_org)s, 1, 'secret', %(other_schema)s, %(stranger)s);
insert into audits (org_id, extraction_id, path, schema_revid, model, confidence, draw, is_accepted) values
  (%(org)s, %(extraction)s, 'total', %(schema_revid)s, 'm', 1, 0, true),
  (%(other_org)s, %(other_extraction)s, 'total', %(other_schema_revid)s, 'm', 1, 0, true);
insert into auto_creations (document_id, org_id, created_by, run_id, status) values
  (%(document)s, %(org)s, %(owner)s, %(making_run)s, 'proposed'),
  (%(other_document)s, %(other_org)s, %(stranger)s, gen_random_uuid(), 'proposed');
"""


def insert_sample_rows(owner: psycopg.Connection) -> Sample:
    sample = Sample(*(uuid4() for _ in Sample.__dataclass_fields__))
    rows = [
        (sample.org, sample.owner, sample.document, sample.extraction, sample.run, sample.proposal),
        (sample.org, sample.member, sample.member_document, sample.member_extraction, uuid4(), uuid4()),
        (
            sample.other_org,
            sample.stranger,
            sample.other_document,
            sample.other_extraction,
            sample.other_run,
            sample.other_proposal,
        ),
    ]
    names = ("org", "user", "document", "extraction", "run", "proposal")
    with psycopg.ClientCursor(owner) as cursor:
        cursor.execute(_USERS, vars(sample))
        for row in rows:
            cursor.execute(_WORK, dict(zip(names, row, strict=True)))
        cursor.execute(_AGENTS)
        cursor.execute(_THREADS, vars(sample))
        cursor.execute(_ARTIFACTS, vars(sample))
        cursor.execute("update extractions set status = 'completed' where id = %s", [sample.member_extraction])
    return sample

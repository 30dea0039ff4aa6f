"""The permission matrix: for every table and verb, valid statements and the actors who may run them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg import errors
from role_connections import Roles, Sample


@dataclass(frozen=True)
class Actor:
    """A caller: how it connects, and the user of its token."""

    enter: Callable[[Roles, Sample], AbstractContextManager[psycopg.Connection]]
    user: Callable[[Sample], UUID | None]


def _at_front_end(user_name: str) -> Actor:
    return Actor(
        lambda roles, sample: roles.as_front_end(getattr(sample, user_name)), lambda sample: getattr(sample, user_name)
    )


def _at_service(user_name: str, org: str) -> Actor:
    return Actor(
        lambda roles, sample: roles.as_service(getattr(sample, user_name), getattr(sample, org)),
        lambda sample: getattr(sample, user_name),
    )


def _without_user(enter: Callable[[Roles], AbstractContextManager[psycopg.Connection]]) -> Actor:
    return Actor(lambda roles, _: enter(roles), lambda _: None)


ACTORS = {
    "anon": _without_user(lambda roles: roles.as_front_end(None, "anon")),
    "no user": _without_user(lambda roles: roles.as_front_end(None)),
    "owner": _at_front_end("owner"),
    "member": _at_front_end("member"),
    # A member of the first organisation who owns another one: roles must not mix.
    "colleague": _at_front_end("colleague"),
    "viewer": _at_front_end("viewer"),
    "stranger": _at_front_end("stranger"),
    "service login": _without_user(lambda roles: roles.as_login()),
    "service: no user": _without_user(lambda roles: roles.as_service(None)),
    "service: owner": _at_service("owner", "org"),
    "service: member": _at_service("member", "org"),
    "service: viewer": _at_service("viewer", "org"),
    # The owner, acting in another of their organisations.
    "service: owner elsewhere": _at_service("owner", "second_org"),
    "service: stranger": _at_service("stranger", "other_org"),
    "service: stranger claiming it": _at_service("stranger", "org"),
}

_OWNERS = frozenset({"owner", "service: owner"})
_MEMBER = frozenset({"member", "service: member"})
_VIEWER = frozenset({"viewer", "service: viewer"})
_MEMBERS = _OWNERS | _MEMBER | {"colleague"}
_SERVER = frozenset({"service: owner", "service: member"})

# The allowed actors in the tables below: one of these names, or several joined by "+".
_WHO = {
    "NO_ACTOR": frozenset[str](),
    "OWNERS": _OWNERS,
    "MEMBER": _MEMBER,
    "VIEWER": _VIEWER,
    "MEMBERS": _MEMBERS,
    "READERS": _MEMBERS | _VIEWER,
    # Through the service only: members, also viewers, owners, any user; and its login role without a user.
    "SERVER": _SERVER,
    "READING": _SERVER | {"service: viewer"},
    "SERVED_OWNER": frozenset({"service: owner"}),
    "SERVICE": frozenset(name for name in ACTORS if name.startswith("service: ")),
    "LOGIN": frozenset({"service login"}),
    "NO_USER": frozenset({"service login", "service: no user"}),
}


@dataclass(frozen=True)
class Case:
    """A statement on a row of the first organisation, and the actors who may run it."""

    table: str
    verb: str
    description: str
    statement: str
    can: frozenset[str]

    def __str__(self) -> str:
        return f"{self.verb} {self.table}: {self.description}"


def _cases(table: str) -> list[Case]:
    """Parse a table with one case per row: allowed actors | description | statement. An indented line continues the row
    above it."""
    rows = re.sub(r"\n +", " ", table.strip()).split("\n")
    return [_case(*row.split(" | ")) for row in rows if row]


def _case(allowed: str, description: str, statement: str) -> Case:
    can = frozenset[str]().union(*(_WHO[name] for name in allowed.split("+")))
    if found := re.match(
        r"(insert) into ([\w.]+)|(update) ([\w.]+)|(delete|select)(?: \w+)? from ([\w.]+)(?!\S*\()", statement
    ):
        verb, table = (part for part in found.groups() if part)
        return Case(table, verb, description, statement, can)
    function = re.search(r"(\w+)\(", statement)
    assert function is not None, statement
    return Case(function[1], "call", description, statement, can)


def outcome(roles: Roles, sample: Sample, actor: str, case: Case) -> bool:
    """Return whether an actor may run a statement. Raise if it fails for any reason but a missing permission."""
    caller = ACTORS[actor]
    with caller.enter(roles, sample) as connection:
        try:
            cursor = connection.execute(case.statement, {**vars(sample), "me": caller.user(sample)})
        except (errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState):  # the latter: "into a view"
            return False
        except psycopg.DatabaseError as error:
            if error.sqlstate in ("PT401", "PT403", "PT404"):
                return False
            raise
        return cursor.rowcount > 0


CASES = _cases(
    """
READERS | existing | select from organisations where id = %(org)s
NO_ACTOR | a new row | insert into organisations (name) values ('New')
OWNERS | name | update organisations set name = 'X' where id = %(org)s
OWNERS | approvers | update organisations set approvers = 'owners', second_person = true where id = %(org)s
OWNERS | tools approved in advance | update organisations set auto_approved_tools = '{update_field}' where id = %(org)s
NO_ACTOR | its owner | update organisations set personal_of = %(newcomer)s where id = %(org)s
NO_ACTOR | existing | delete from organisations where id = %(org)s

READERS | existing | select from memberships where org_id = %(org)s
NO_ACTOR | another user | insert into memberships (org_id, user_id, role) values (%(org)s, %(newcomer)s, 'member')
NO_ACTOR | themselves | insert into memberships (org_id, user_id, role) select %(org)s, coalesce(%(me)s, %(newcomer)s),
    'owner' where coalesce(%(me)s, %(newcomer)s) not in (%(owner)s, %(member)s, %(colleague)s)
OWNERS | another's role | update memberships set role = 'owner' where org_id = %(org)s and user_id = %(colleague)s
NO_ACTOR | their own role, being a member | update memberships set role = 'owner' where org_id = %(org)s and user_id =
    coalesce(%(me)s, %(member)s) and role = 'member'
NO_ACTOR | role of the owner of a personal organisation | update memberships set role = 'owner' where org_id = %(org)s
    and user_id = %(owner)s
NO_ACTOR | its organisation | update memberships set org_id = %(second_org)s where org_id = %(org)s and
    user_id = %(member)s
NO_ACTOR | a member's | delete from memberships where org_id = %(org)s and user_id = %(member)s

OWNERS | of the caller | select id from api_keys where id = %(key)s
OWNERS+MEMBER | a member's | select id from api_keys where id = %(member_key)s
NO_ACTOR | what it is known by | select hash from api_keys where id = %(key)s
NO_ACTOR | a forged row | insert into api_keys (org_id, created_by, name, prefix, hash, scopes) values (%(org)s,
    %(owner)s, 'k', 'fm_00000000', sha256('k'), '{runs:read}')
NO_ACTOR | more scopes | update api_keys set scopes = '{keys:write}'

OWNERS | existing | select id from invitations where id = %(invitation)s
NO_ACTOR | its token | select hash from invitations where id = %(invitation)s
NO_ACTOR | a forged row | insert into invitations (org_id, role, hash, expires_at) values (%(org)s, 'owner',
    sha256('k'), now() + interval '1 day')
NO_ACTOR | for longer | update invitations set expires_at = 'infinity'

OWNERS | existing | select from settings_journal where org_id = %(org)s
NO_ACTOR | a forged row | insert into settings_journal (org_id, setting, old, new) values (%(org)s, 'name', '1', '2')
NO_ACTOR | existing | update settings_journal set created_by = null

READERS | existing | select from changes where id = %(change)s
NO_ACTOR | a forged row | insert into changes (org_id, type) values (%(org)s, 'run.completed')
NO_ACTOR | existing | update changes set run_id = null
OWNERS | existing | select id from webhooks where id = %(webhook)s
NO_ACTOR | what it signs with | select secret from webhooks where id = %(webhook)s
OWNERS | own | insert into webhooks (org_id, url, secret) values (%(org)s, 'https://a.b/', 'whsec_' || repeat('A', 44))
NO_ACTOR | of another's run | insert into webhooks (org_id, url, secret, run_id) select %(org)s, 'https://a.b/',
    'whsec_' || repeat('A', 44), %(run)s where %(me)s is distinct from %(owner)s
OWNERS | of the caller's run | insert into webhooks (org_id, url, secret, run_id) select %(org)s, 'https://a.b/',
    'whsec_' || repeat('A', 44), %(run)s where %(me)s = %(owner)s
OWNERS | existing | update webhooks set is_enabled = false where id = %(webhook)s
NO_ACTOR | whether it failed | update webhooks set failing_since = null where id = %(webhook)s
OWNERS | existing | select from webhook_deliveries where id = %(delivery)s
NO_ACTOR | a forged row | insert into webhook_deliveries (org_id, webhook_id, change_id) select %(org)s, %(webhook)s, id
    from changes where org_id = %(org)s and id <> %(change)s limit 1
OWNERS | again | update webhook_deliveries set due_at = now() where id = %(delivery)s
NO_ACTOR | as delivered | update webhook_deliveries set status = 'delivered' where id = %(delivery)s

OWNERS | existing | select id from sources where id = %(source)s
NO_ACTOR | its secret | select secret from sources where id = %(source)s
OWNERS | own | insert into sources (org_id, kind, address, username, secret) values (%(org)s, 'mailbox',
    'imaps://example.com', 'u', 's')
OWNERS | own | update sources set is_paused = true where id = %(source)s
NO_ACTOR | where its secret is sent | update sources set address = 'https://a.b/c' where id = %(source)s
NO_ACTOR | what was taken | update sources set taken = 0 where id = %(source)s

OWNERS | existing | select from source_failures where source_id = %(source)s
NO_ACTOR | a forged row | insert into source_failures (source_id, org_id, name, version, error_code) values (%(source)s,
    %(org)s, 'c.pdf', '', 'timeout')
NO_ACTOR | as never tried | update source_failures set attempts = 0 where source_id = %(source)s

READERS | existing | select from documents where id = %(document)s
MEMBERS | own folder | insert into documents (id, org_id, filename, storage_path, media_type, byte_size) values
    (%(newcomer)s, %(org)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'), 'application/pdf', 9)
NO_ACTOR | as another user | insert into documents (id, org_id, filename, storage_path, created_by) values
    (%(newcomer)s, %(org)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'), %(owner)s)
MEMBERS | naming the caller | insert into documents (id, org_id, user_id, filename, storage_path) values
    (%(newcomer)s, %(org)s, %(me)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'))
NO_ACTOR | naming another user | insert into documents (id, org_id, user_id, filename, storage_path) values
    (%(newcomer)s, %(org)s, %(stranger)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'))
NO_ACTOR | as if it were read | insert into documents (id, org_id, filename, storage_path, media_type, status,
    page_count) values (%(newcomer)s, %(org)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'),
    'application/pdf', 'ready', 1)
SERVER | as if it had been inside another | insert into documents (id, org_id, filename, storage_path,
    parent_document_id, number_in_parent) values (%(newcomer)s, %(org)s, 'b.pdf', concat_ws('/', %(org)s::uuid,
    %(newcomer)s::uuid, 'b.pdf'), %(document)s, 1)
SERVER | as if it had been unlocked | insert into documents (id, org_id, filename, storage_path, unlocked_path) values
    (%(newcomer)s, %(org)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'), concat_ws('/',
    %(org)s::uuid, %(newcomer)s::uuid, 'unlocked-00000000000000000000000000000000'))
SERVER | as if it were the same as another | insert into documents (id, org_id, filename, storage_path,
    content_sha256) values (%(newcomer)s, %(org)s, 'b.pdf', concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid,
    'b.pdf'), repeat('0', 64))
READING | what a reading found | update documents set status = 'failed', error = 'No.', media_type = 'text/plain',
    byte_size = 1, page_count = 1 where id = %(document)s
NO_ACTOR | its creator | update documents set created_by = %(me)s where id = %(document)s

READERS | existing | select from document_pages where document_id = %(document)s
READING | of theirs | insert into document_pages (document_id, org_id, number, width, height, text, words, engine)
    values (%(document)s, %(org)s, 2, 1, 1, '', '[]', 'pdf')
NO_ACTOR | the text | update document_pages set text = 'Total 13' where document_id = %(document)s

READERS | existing | select from ocr_results where document_id = %(document)s
NO_ACTOR | existing | insert into ocr_results (document_id, org_id, raw_text) values (%(document)s, %(org)s, 'x')
NO_ACTOR | existing | update ocr_results set raw_text = 'x'
NO_ACTOR | existing | delete from ocr_results

READERS | existing | select from current_extractions where id = %(member_extraction)s
NO_ACTOR | existing | insert into current_extractions (org_id, document_id) values (%(org)s, %(document)s)
NO_ACTOR | existing | update current_extractions set document_type = 'X'
NO_ACTOR | existing | delete from current_extractions

READERS | existing | select from extractions where id = %(extraction)s
MEMBERS | of their document | insert into extractions (id, org_id, document_id, schema) values (%(newcomer)s, %(org)s,
    %(document)s, '{"type": "object"}')
NO_ACTOR | as another user | insert into extractions (org_id, document_id, created_by) values (%(org)s, %(document)s,
    %(owner)s)
MEMBERS | naming the caller | insert into extractions (org_id, user_id, document_id) values (%(org)s, %(me)s,
    %(document)s)
NO_ACTOR | naming another user | insert into extractions (org_id, user_id, document_id) values (%(org)s, %(stranger)s,
    %(document)s)
NO_ACTOR | with fields and a version | insert into extractions (org_id, document_id, extracted_fields, version) values
    (%(org)s, %(document)s, '{"a": 1}', 7)
MEMBERS | what it says | update extractions set document_type = 'invoice', status = 'completed', extracted_fields =
    '{"a": 1}', confidence_scores = '{"a": 1}', evidence = '{"a": {}}', locks = '{}' where id = %(extraction)s
NO_ACTOR | its creator | update extractions set created_by = %(me)s, created_at = now(), updated_at = now() where id =
    %(extraction)s

READERS | existing | select from extraction_journal where extraction_id = %(extraction)s
NO_ACTOR | a forged row | insert into extraction_journal (org_id, extraction_id, version, path, steps, new, actor)
    values (%(org)s, %(extraction)s, 9, '{a}', 'k', '1', 'agent')
NO_ACTOR | existing | update extraction_journal set new = '13', actor = 'user'

READERS | existing | select from audits where extraction_id = %(extraction)s
NO_ACTOR | a forged row | insert into audits (org_id, extraction_id, path, schema_revid, model, confidence, draw,
    is_accepted) values (%(org)s, %(extraction)s, 'a', %(schema_revid)s, '', 1, 0, true)
NO_ACTOR | existing | update audits set outcome = 'right'

READERS | existing | select from fields where extraction_id = %(extraction)s
NO_ACTOR | a forged row | insert into fields (org_id, document_id, extraction_id, path, pattern, indexes, kind,
    text, is_verified, status)
    values (%(org)s, %(document)s, %(extraction)s, 'a', 'a', '{}', 'text', 'x', true, 'found')
NO_ACTOR | existing | update fields set is_verified = true

READERS | existing | select from extraction_proposals where extraction_id = %(extraction)s
NO_ACTOR | a forged row | insert into extraction_proposals (org_id, extraction_id, path, name, old, new,
    confidence_scores, evidence) values (%(org)s, %(extraction)s, '{total}', 'total', '12', '99', '{}', '{}')
NO_ACTOR | directly | update extraction_proposals set status = 'accepted', new = '99' where id = %(proposal)s

READERS | existing | select from schemas where id = %(schema)s
NO_ACTOR | directly | insert into schemas (org_id, name) values (%(org)s, 'X')
NO_ACTOR | directly | update schemas set name = 'X', created_by = %(me)s, deleted_at = now(), run_id = null
    where id = %(schema)s

READERS | existing | select from prompts where id = %(prompt)s
NO_ACTOR | directly | insert into prompts (org_id, name) values (%(org)s, 'X')
NO_ACTOR | directly | update prompts set name = 'X', created_by = %(me)s, deleted_at = now(), run_id = null
    where id = %(prompt)s

READERS | existing | select from tags where id = %(tag)s
NO_ACTOR | directly | insert into tags (org_id, name) values (%(org)s, 'X')
NO_ACTOR | directly | update tags set name = 'X', created_by = %(me)s, deleted_at = now(), run_id = null where
    id = %(tag)s

READERS | existing | select from schema_versions where id = %(schema_revid)s
NO_ACTOR | directly | insert into schema_versions (org_id, schema_id, number, name, schema) values (%(org)s,
    %(schema)s, 9, 'X', '{}')
NO_ACTOR | its content | update schema_versions set schema = '{}' where id = %(schema_revid)s

READERS | existing | select from prompt_versions where id = %(prompt_revid)s
NO_ACTOR | directly | insert into prompt_versions (org_id, prompt_id, number, name, content) values (%(org)s,
    %(prompt)s, 9, 'X', 'Read it.')
NO_ACTOR | its content | update prompt_versions set content = 'Read it.' where id = %(prompt_revid)s

READERS | existing | select from document_tags where document_id = %(document)s
NO_ACTOR | directly | insert into document_tags (org_id, document_id, tag_id, document_created_at) values
    (%(org)s, %(document)s, %(free_tag)s, now())
NO_ACTOR | another tag | update document_tags set tag_id = %(free_tag)s where document_id = %(document)s

READERS | existing | select from auto_creations where document_id = %(document)s
NO_ACTOR | a forged row | insert into auto_creations (document_id, org_id, run_id, status) values (%(member_document)s,
    %(org)s, %(newcomer)s, 'proposed')
SERVER | results of its run | update auto_creations set kind = 'invoice', labels = '{Total}', matched = '{}',
    schema_revid = %(schema_revid)s, prompt_revid = %(prompt_revid)s, extraction_id = %(extraction)s where document_id
    = %(document)s
NO_ACTOR | directly | update auto_creations set status = 'accepted', decided_by = %(me)s, decided_at = now()
    where document_id = %(document)s
NO_ACTOR | its creator | update auto_creations set run_id = %(newcomer)s, created_by = %(me)s where document_id =
    %(document)s

READERS | existing | select from stacks where id = %(stack)s
MEMBERS | in the organisation | insert into stacks (id, org_id, name) values (%(newcomer)s, %(org)s, 'New')
MEMBERS | naming the caller | insert into stacks (org_id, user_id, name) values (%(org)s, %(me)s, 'New')
NO_ACTOR | naming another user | insert into stacks (org_id, user_id, name) values (%(org)s, %(stranger)s, 'New')
NO_ACTOR | as another user | insert into stacks (org_id, name, created_by) values (%(org)s, 'New', %(owner)s)
MEMBERS | its name | update stacks set name = 'X' where id = %(stack)s
NO_ACTOR | its creator | update stacks set created_by = %(me)s where id = %(stack)s

READERS | existing | select from saved_views where id = %(saved_view)s
MEMBERS | of a stack | insert into saved_views (org_id, stack_id, name, settings) values (%(org)s, %(stack)s, 'New',
    '{}')
MEMBERS | of a schema | insert into saved_views (org_id, user_id, schema_id, name, settings) values (%(org)s, %(me)s,
    %(schema)s, 'New', '{}')
NO_ACTOR | as another user | insert into saved_views (org_id, stack_id, name, settings, created_by) values (%(org)s,
    %(stack)s, 'New', '{}', %(owner)s)
MEMBERS | its name | update saved_views set name = 'X' where id = %(saved_view)s
MEMBERS | its settings | update saved_views set settings = '{"list": "items"}' where id = %(saved_view)s
NO_ACTOR | its creator | update saved_views set created_by = %(me)s where id = %(saved_view)s
READERS | existing | select from comments where id = %(comment)s
MEMBERS | on a document | insert into comments (org_id, document_id, body) values (%(org)s, %(document)s, 'New')
MEMBERS | on a value | insert into comments (org_id, user_id, document_id, path, body) values (%(org)s, %(me)s,
    %(document)s, 'total', 'New')
NO_ACTOR | as another user | insert into comments (org_id, document_id, body, created_by) values (%(org)s,
    %(document)s, 'New', %(newcomer)s)
NO_ACTOR | their own | update comments set body = 'X' where id = %(comment)s
NO_ACTOR | a document's assignee | update documents set assignee_id = %(me)s where id = %(document)s

READERS | existing | select from stack_documents where stack_id = %(stack)s
MEMBERS | of the organisation | insert into stack_documents (org_id, stack_id, document_id) values (%(org)s, %(stack)s,
    %(member_document)s)
NO_ACTOR | as another user | insert into stack_documents (org_id, stack_id, document_id, created_by) values (%(org)s,
    %(stack)s, %(member_document)s, %(owner)s)
MEMBERS | naming the caller | insert into stack_documents (org_id, user_id, stack_id, document_id) values (%(org)s,
    %(me)s, %(stack)s, %(member_document)s)
NO_ACTOR | naming another user | insert into stack_documents (org_id, user_id, stack_id, document_id) values (%(org)s,
    %(stranger)s, %(stack)s, %(member_document)s)
NO_ACTOR | another document | update stack_documents set document_id = %(member_document)s where stack_id = %(stack)s

READERS | existing | select from stack_tables where stack_id = %(stack)s
SERVER | of the organisation | insert into stack_tables (org_id, stack_id, schema_id, row_path) values (%(org)s,
    %(member_stack)s, %(member_schema)s, 'items')
NO_ACTOR | as another user | insert into stack_tables (org_id, stack_id, schema_id, created_by) values (%(org)s,
    %(member_stack)s, %(member_schema)s, %(owner)s)
SERVER | its schema | update stack_tables set schema_id = %(member_schema)s, row_path = null where stack_id = %(stack)s
NO_ACTOR | its stack | update stack_tables set stack_id = %(member_stack)s where stack_id = %(stack)s

READERS | existing | select from stack_table_rows where stack_id = %(stack)s
NO_ACTOR | existing | insert into stack_table_rows (org_id, stack_id) values (%(org)s, %(stack)s)
NO_ACTOR | existing | update stack_table_rows set document_id = %(member_document)s
NO_ACTOR | existing | delete from stack_table_rows

OWNERS | of the caller | select from threads where id = %(thread)s
READERS | a shared one | select from threads where id = %(shared_thread)s
MEMBERS | with an agent | insert into threads (org_id, agent, document_id, title) values (%(org)s, 'talker',
    %(document)s, 'New')
NO_ACTOR | as another user | insert into threads (org_id, agent, created_by) values (%(org)s, 'talker', %(owner)s)
NO_ACTOR | with working state | insert into threads (org_id, agent, working_state) values (%(org)s, 'talker', '{}')
OWNERS | its title, and who reads it | update threads set title = 'X', shared = not shared where id = %(thread)s
OWNERS | a shared one's | update threads set title = 'X' where id = %(shared_thread)s
NO_ACTOR | working state | update threads set working_state = '{"a": 1}' where id = %(thread)s
NO_ACTOR | its creator | update threads set created_by = %(member)s where id = %(thread)s

READERS | existing | select from runs where id = %(run)s
MEMBERS | of an extraction | insert into runs (id, org_id, agent, task, document_id, extraction_id, input,
    approval, auto_approved_tools, model, max_cost_usd, idempotency_key, max_turns) values (%(newcomer)s, %(org)s,
    'extraction', 'extract', %(document)s, %(extraction)s, '{"fields": {}}', 'auto', '{}', 'm', 1, 'key', 5)
NO_ACTOR | as another user | insert into runs (org_id, agent, task, document_id, extraction_id, created_by) values
    (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, %(owner)s)
SERVER | as a child run | insert into runs (org_id, agent, task, document_id, extraction_id, parent_run_id,
    parent_call_id) values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, %(run)s, 'call_1')
NO_ACTOR | with a foreign lock key or root | insert into runs (org_id, agent, task, document_id, extraction_id,
    lock_key, root_run_id) values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, 'x', %(other_run)s)
NO_ACTOR | as completed | insert into runs (org_id, agent, task, document_id, extraction_id, status, fencing_token,
    answer) values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, 'completed', 1, 'Done')
SERVER | status and results | update runs set status = 'failed', fencing_token = 2, consecutive_failures = 1, attached =
    false, started_at = now(), finished_at = now(), answer = 'x', result = '{}', error = 'No.', error_code = 'no',
    waiting_for_capacity_since = now(), pages_read = '{[1,2]}' where id = %(run)s
NO_ACTOR | input and limits | update runs set input = '{}', model = 'y', max_cost_usd = 9, auto_approved_tools = '{a}'
    where id = %(run)s
NO_ACTOR | its creator | update runs set created_by = %(me)s where id = %(run)s
OWNERS | in a thread that is not shared | select from runs where id = %(thread_run)s

READERS | existing | select from run_events where run_id = %(run)s
SERVER | of a run | insert into run_events (run_id, number, org_id, body) values (%(run)s, 2, %(org)s, '{}')
OWNERS | in a thread that is not shared | select from run_events where run_id = %(thread_run)s
NO_ACTOR | existing | update run_events set body = '{"a": 1}'

READERS | existing | select from tool_calls where run_id = %(run)s
SERVER | of a run | insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status,
    approved_by, reason) values (%(run)s, 'call_2', %(org)s, 'update_field', '{}', repeat('1', 64), 'approved',
    'policy', null)
NO_ACTOR | as done | insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status,
    approved_by, result, created_by) values (%(run)s, 'call_2', %(org)s, 't', '{}', repeat('1', 64), 'done', 'policy',
    'Done.', %(owner)s)
SERVER | its result | update tool_calls set status = 'done', result = 'Done.', code = 'ok', data = '1', finished_at =
    now() where run_id = %(run)s
NO_ACTOR | what was approved | update tool_calls set tool = 'x', arguments = '{"a": 1}', arguments_hash = repeat('1',
    64), approved_by = 'policy' where run_id = %(run)s
OWNERS | in a thread that is not shared | select from tool_calls where run_id = %(thread_run)s

READING | existing | select from agent_sessions where org_id = %(org)s
SERVER | existing | insert into agent_sessions (org_id, session_id, entry) values (%(org)s, 's', '{}')
NO_ACTOR | existing | update agent_sessions set entry = '{}'

READERS | existing | select from usage where org_id = %(org)s
READING | of a run | insert into usage (run_id, message_id, org_id, agent, model, input_tokens, output_tokens,
    cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_usd) values (%(run)s, 'm2', %(org)s,
    'extraction', 'm', 1, 1, 0, 0, 0, 1)
NO_ACTOR | existing | update usage set cost_usd = 0

READERS | existing | select from usage_by_day where org_id = %(org)s
NO_ACTOR | existing | insert into usage_by_day overriding system value values (-1, %(org)s, '2026-01-01', 'extraction',
    null, null, 'm', 1, 0, 0, 0, 0, 0, 0, 0, -1)
NO_ACTOR | existing | update usage_by_day set cost_usd = 0

READERS | existing | select from credit_limits where org_id = %(org)s
NO_ACTOR | of an organisation without | insert into credit_limits (org_id, max_usd) values (%(second_org)s, 1000)
NO_ACTOR | existing | update credit_limits set max_usd = 1000
READERS | existing | select from storage_usage where org_id = %(org)s
NO_ACTOR | of an organisation without | insert into storage_usage (org_id, documents, bytes) values
    (%(second_org)s, 0, 0)
NO_ACTOR | existing | update storage_usage set documents = 0
READERS | existing | select from upload_rules where org_id = %(org)s
NO_ACTOR | in the organisation | insert into upload_rules (org_id, number, sender, schema_id) values (%(org)s, 2, 'a',
    %(schema)s)
NO_ACTOR | existing | update upload_rules set sender = 'b'

READERS | existing | select from queue_limits where org_id = %(org)s
NO_ACTOR | of an organisation without | insert into queue_limits (org_id, max_waiting_runs) values (%(second_org)s,
    100000)
NO_ACTOR | existing | update queue_limits set max_waiting_runs = 100000

READERS | existing | select from storage.objects where name like %(org)s::uuid || '/%%'
MEMBERS | own folder | insert into storage.objects (bucket_id, name) values ('documents', concat_ws('/', %(org)s::uuid,
    %(newcomer)s::uuid, 'b.pdf'))
NO_ACTOR | outside the folder | insert into storage.objects (bucket_id, name) values ('documents', concat_ws('/', 'x',
    %(org)s::uuid, 'b.pdf')), ('documents', %(org)s::uuid || '.pdf')
NO_ACTOR | in another bucket | select from storage.objects where bucket_id = 'another' and name like %(org)s::uuid ||
    '/%%'
NO_ACTOR | into another bucket | insert into storage.objects (bucket_id, name) values ('another', concat_ws('/',
    %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf'))
NO_ACTOR | existing | update storage.objects set name = 'x' || name
NO_ACTOR | existing | delete from storage.objects
"""
)

# Tables whose rows no role may delete with a statement.
_KEPT = """
api_keys invitations documents document_pages extractions extraction_journal fields audits extraction_proposals
schemas prompts tags schema_versions prompt_versions document_tags auto_creations threads runs
run_events tool_calls agent_sessions usage usage_by_day credit_limits queue_limits settings_journal stacks
storage_usage upload_rules stack_documents stack_tables saved_views comments changes webhooks webhook_deliveries sources
source_failures
"""
CASES += [
    Case(table, "delete", "theirs", f"delete from {table} where ctid = (select ctid from {table} limit 1)", frozenset())
    for table in _KEPT.split()
]

# Function calls on rows of the first organisation, and the actors who may make them.
CALLS = _cases(
    """
OWNERS+VIEWER | themselves | select remove_member(%(org)s, %(viewer)s)
OWNERS | a member | select invite(%(org)s, 'member')
MEMBERS | existing | select set_max_error(%(schema)s, 0.02)
READERS+NO_USER | existing | select private.review_figures(%(schema)s)
LOGIN | existing | select private.store_review_policy(%(schema)s, '{}')
OWNERS | existing | select delete_webhook(%(webhook)s)
OWNERS | in the organisation | select set_upload_rules(%(org)s, '[]')
OWNERS | existing | select test_webhook(%(webhook)s)
OWNERS | existing | select delete_source(%(source)s)
LOGIN | of any organisation | select private.publish_changes()
LOGIN | of any organisation | select from private.lease_deliveries(9, '{}', '1 minute')
LOGIN | of any organisation | select private.record_delivery(%(delivery)s, 200, null, null)
LOGIN | of any organisation | select private.lease_sources(1, '{}', '1 minute')
LOGIN | of any organisation | select private.new_objects(%(source)s, '{a}', '{b}')
LOGIN | of any organisation | select private.record_objects(%(source)s, '[]', null)
LOGIN | of any organisation | select private.finish_source(%(source)s, now(), null, '0', true)
LOGIN | of any organisation | select private.record_source_failure(%(source)s, 'b.pdf', '', null, null)
LOGIN | of any organisation | select from private.due_source_failure(%(source)s)
OWNERS | existing | select revoke_invitation(%(invitation)s)
MEMBERS | in the organisation | select create_api_key(%(org)s, 'k', '{runs:read}')
OWNERS | an owner's | select revoke_api_key(%(key)s)
OWNERS+MEMBER | a member's | select revoke_api_key(%(member_key)s)
LOGIN | of any user | select from private.use_api_key(sha256('key'))
LOGIN | of any user | select private.record_api_key_use(%(key)s)
READERS | a member's | select from private.address_of(%(org)s, %(owner)s) as a where a is not null
MEMBERS | in the organisation | select create_schema(%(org)s, 'New', '{}')
MEMBERS | an owner's | select update_schema(%(schema)s, 'New')
OWNERS | an owner's | select delete_schema(%(schema)s)
OWNERS+MEMBER | a member's | select delete_schema(%(member_schema)s)
MEMBERS | in the organisation | select create_prompt(%(org)s, 'New', 'Read it.')
MEMBERS | an owner's | select update_prompt(%(prompt)s, 'New', 'Read it.', %(schema)s, null, array[%(tag)s]::uuid[])
OWNERS | an owner's | select delete_prompt(%(prompt)s)
OWNERS+MEMBER | a member's | select delete_prompt(%(member_prompt)s)
MEMBERS | in the organisation | select create_tag(%(org)s, 'New')
MEMBERS | an owner's | select update_tag(%(tag)s, 'New', '#000000')
OWNERS | an owner's | select delete_tag(%(tag)s)
OWNERS+MEMBER | a member's | select delete_tag(%(member_tag)s)
MEMBERS | an owner's | select tag_document(%(document)s, array[%(free_tag)s]::uuid[], array[%(tag)s]::uuid[])
MEMBERS | an owner's | select rename_document(%(document)s, 'b.pdf')
MEMBERS | in the organisation | select decide_auto_creation(%(document)s, true)
SERVER | existing | select private.follow_schema(%(extraction)s, %(schema_revid)s)
READERS | existing | select where private.has_active_run(%(extraction)s)
READERS | existing | select from private.count_references_to_schema(%(schema)s) where prompts = 1
READERS | existing | select from private.count_references_to_tag(%(tag)s) where documents = 1 and prompts = 1
OWNERS | of an owner | select delete_document(%(document)s)
OWNERS+MEMBER | of a member | select delete_document(%(member_document)s)
OWNERS | of an owner | select delete_extraction(%(extraction)s)
OWNERS+MEMBER | of a member | select delete_extraction(%(member_extraction)s)
OWNERS | of an owner | select delete_run(%(ended_run)s)
OWNERS | of the caller | select delete_thread(%(thread)s)
OWNERS | a shared one | select delete_thread(%(shared_thread)s)
OWNERS | of an owner | select delete_stack(%(stack)s)
OWNERS+MEMBER | of a member | select delete_stack(%(member_stack)s)
MEMBERS | an owner's | select remove_stack_document(%(stack)s, %(document)s)

MEMBERS | an owner's | select delete_saved_view(%(saved_view)s)
OWNERS | an owner's | select delete_comment(%(comment)s)
OWNERS+MEMBER | a member's | select delete_comment(%(member_comment)s)
MEMBERS | to a member | select assign_document(%(document)s, %(member)s)
MEMBERS | to no one | select assign_document(%(document)s, null)
OWNERS+MEMBER | a member | select remove_member(%(org)s, %(member)s)
MEMBERS | existing | select update_extraction_field(%(extraction)s, '{total}', '13')
MEMBERS | naming the caller | select update_extraction_field(%(extraction)s, '{total}', '13', p_user_id => %(me)s)
NO_ACTOR | naming another user | select update_extraction_field(%(extraction)s, '{total}', '13', p_user_id =>
    %(newcomer)s)
MEMBERS | existing | select update_field(%(extraction)s, '{total}', '13')
MEMBERS | existing | select update_extraction_fields(%(extraction)s, '[{"path": ["total"], "value": 13}]')
MEMBERS | existing | select save_extraction_fields(%(extraction)s, '{"total": 13}')
MEMBERS | existing | select remove_extraction_field(%(extraction)s, '{total}')
MEMBERS | naming the caller | select remove_extraction_field(%(extraction)s, '{total}', %(me)s)
NO_ACTOR | naming another user | select remove_extraction_field(%(extraction)s, '{total}', %(newcomer)s)
MEMBERS | existing | select identify_document(%(extraction)s, 'invoice')
MEMBERS | existing | select complete_extraction(%(extraction)s)
MEMBERS | existing | select restore_extraction(%(extraction)s, 0)
MEMBERS | existing | select unlock_extraction_field(%(extraction)s, '{vendor,name}')
MEMBERS | existing | select decide_extraction_proposals(%(extraction)s, array[%(proposal)s::uuid])
OWNERS | existing | select delete_organisation(%(org)s)
MEMBER | their own | select delete_account() where auth.uid() = %(member)s
SERVER | existing | select private.append_event(%(run)s, '{}')
SERVER | existing | select from private.cancel_run(%(run)s, 'No.') as n where n
SERVED_OWNER | in a thread that is not shared | select from private.cancel_run(%(thread_run)s, 'No.') as n where n
SERVICE | its name | select from private.delta_channel() as n where n is not null
LOGIN | of any user | select private.fail_run(%(run)s, 'No.', 'no')
LOGIN | of any user | select private.fail_document(%(document)s, 'No.')
LOGIN | of any user | select private.count_waiting_runs()
LOGIN | of any user | select from private.scope_of_run(%(run)s)
LOGIN | of any user | select from private.scope_of_document(%(document)s)
NO_ACTOR | a job | select private.enqueue('runs', 'execute_run', '{}', 'x')
LOGIN | a job | select from private.claim_job('runs', null, 1)
LOGIN | jobs | select from queue.procrastinate_jobs
"""
)

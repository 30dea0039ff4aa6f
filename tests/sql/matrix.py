"""Who can do what: every table and verb, and who is to succeed with a statement that is sound in itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from doors import Doors, House
from psycopg import errors


@dataclass(frozen=True)
class Actor:
    """Somebody at a door; `user` is who the token names."""

    enter: Callable[[Doors, House], AbstractContextManager[psycopg.Connection]]
    user: Callable[[House], UUID | None]


def _at_front_end(who: str) -> Actor:
    return Actor(lambda doors, house: doors.as_front_end(getattr(house, who)), lambda house: getattr(house, who))


def _at_service(who: str, org: str) -> Actor:
    return Actor(
        lambda doors, house: doors.as_service(getattr(house, who), getattr(house, org)),
        lambda house: getattr(house, who),
    )


def _nobody(enter: Callable[[Doors], AbstractContextManager[psycopg.Connection]]) -> Actor:
    return Actor(lambda doors, _: enter(doors), lambda _: None)


ACTORS = {
    "anon": _nobody(lambda doors: doors.as_front_end(None, "anon")),
    "no user": _nobody(lambda doors: doors.as_front_end(None)),
    "owner": _at_front_end("owner"),
    "member": _at_front_end("member"),
    # A member here, an owner of another organisation: rights must not mix.
    "colleague": _at_front_end("colleague"),
    "viewer": _at_front_end("viewer"),
    "stranger": _at_front_end("stranger"),
    "service login": _nobody(lambda doors: doors.as_login()),
    "service: no user": _nobody(lambda doors: doors.as_service(None)),
    "service: owner": _at_service("owner", "org"),
    "service: member": _at_service("member", "org"),
    "service: viewer": _at_service("viewer", "org"),
    # The same owner, in a request that acts in another organisation.
    "service: owner elsewhere": _at_service("owner", "second_org"),
    "service: stranger": _at_service("stranger", "other_org"),
    "service: stranger claiming it": _at_service("stranger", "org"),
}

OWNERS = frozenset({"owner", "service: owner"})
MEMBERS = OWNERS | {"member", "colleague", "service: member"}
SERVED = frozenset({"service: owner", "service: member"})
MEMBER = frozenset({"member", "service: member"})
READERS = MEMBERS | {"viewer", "service: viewer"}
READING = SERVED | {"service: viewer"}
SERVICE = frozenset(name for name in ACTORS if name.startswith("service: "))
NOBODY = frozenset[str]()


@dataclass(frozen=True)
class Case:
    """A statement on a row of the first organisation, or into it, and the actors who can."""

    table: str
    verb: str
    what: str
    statement: str
    can: frozenset[str]

    def __str__(self) -> str:
        return f"{self.verb} {self.table}: {self.what}"


def outcome(doors: Doors, house: House, actor: str, case: Case) -> bool:
    """Whether an actor can. Anything but a refusal, an empty result or success is an error of the case itself."""
    who = ACTORS[actor]
    with who.enter(doors, house) as connection:
        try:
            cursor = connection.execute(case.statement, {**vars(house), "me": who.user(house)})
        except (errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState):  # the latter: "into a view"
            return False
        except psycopg.DatabaseError as error:
            if error.sqlstate in ("PT401", "PT403", "PT404"):
                return False
            raise
        return cursor.rowcount > 0


_USAGE = (
    "message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, "
    "cache_read_tokens, cost_usd"
)
_FREE_STORAGE_PATH = "concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'b.pdf')"

CASES = [
    # organisations
    Case("organisations", "select", "theirs", "select from organisations where id = %(org)s", READERS),
    Case("organisations", "insert", "a new one", "insert into organisations (name) values ('New')", NOBODY),
    Case("organisations", "update", "name", "update organisations set name = 'X' where id = %(org)s", OWNERS),
    Case(
        "organisations",
        "update",
        "who decides",
        "update organisations set approvers = 'owners', second_person = true where id = %(org)s",
        OWNERS,
    ),
    Case(
        "organisations",
        "update",
        "whose it is",
        "update organisations set personal_of = %(newcomer)s where id = %(org)s",
        NOBODY,
    ),
    Case(
        "organisations",
        "update",
        "who made it",
        "update organisations set created_by = %(newcomer)s, created_at = now() where id = %(org)s",
        NOBODY,
    ),
    Case("organisations", "delete", "theirs", "delete from organisations where id = %(org)s", NOBODY),
    # memberships
    Case("memberships", "select", "theirs", "select from memberships where org_id = %(org)s", READERS),
    Case(
        "memberships",
        "insert",
        "somebody",
        "insert into memberships (org_id, user_id, role) values (%(org)s, %(newcomer)s, 'member')",
        NOBODY,
    ),
    Case(
        "memberships",
        "insert",
        "in another's name",
        "insert into memberships (org_id, user_id, role, created_by) "
        "values (%(org)s, %(newcomer)s, 'member', %(member)s)",
        NOBODY,
    ),
    Case(
        "memberships",
        "insert",
        "themselves",
        "insert into memberships (org_id, user_id, role) "
        "select %(org)s, coalesce(%(me)s, %(newcomer)s), 'owner' "
        "where coalesce(%(me)s, %(newcomer)s) not in (%(owner)s, %(member)s, %(colleague)s)",
        NOBODY,
    ),
    Case(
        "memberships",
        "update",
        "another's role",
        "update memberships set role = 'owner' where org_id = %(org)s and user_id = %(colleague)s",
        OWNERS,
    ),
    Case(
        "memberships",
        "update",
        "their own role, being a member",
        "update memberships set role = 'owner' "
        "where org_id = %(org)s and user_id = coalesce(%(me)s, %(member)s) and role = 'member'",
        NOBODY,
    ),
    Case(
        "memberships",
        "update",
        "the role of whose personal organisation it is",
        "update memberships set role = 'owner' where org_id = %(org)s and user_id = %(owner)s",
        NOBODY,
    ),
    Case(
        "memberships",
        "update",
        "which user it is of",
        "update memberships set user_id = %(newcomer)s where org_id = %(org)s and user_id = %(colleague)s",
        NOBODY,
    ),
    Case(
        "memberships",
        "update",
        "which organisation it is of",
        "update memberships set org_id = %(second_org)s where org_id = %(org)s and user_id = %(member)s",
        NOBODY,
    ),
    Case(
        "memberships",
        "delete",
        "a member's",
        "delete from memberships where org_id = %(org)s and user_id = %(member)s",
        NOBODY,
    ),
    # api_keys
    Case("api_keys", "select", "their own", "select id from api_keys where id = %(key)s", OWNERS),
    Case("api_keys", "select", "a member's", "select id from api_keys where id = %(member_key)s", OWNERS | MEMBER),
    Case("api_keys", "select", "what it is known by", "select hash from api_keys where id = %(key)s", NOBODY),
    Case(
        "api_keys",
        "insert",
        "a forged one",
        "insert into api_keys (org_id, created_by, name, prefix, hash, scopes) "
        "values (%(org)s, %(owner)s, 'k', 'fm_00000000', sha256('k'), '{runs:read}')",
        NOBODY,
    ),
    Case("api_keys", "update", "more scopes", "update api_keys set scopes = '{keys:write}'", NOBODY),
    Case("api_keys", "delete", "theirs", "delete from api_keys", NOBODY),
    # invitations
    Case("invitations", "select", "theirs", "select id from invitations where id = %(invitation)s", OWNERS),
    Case("invitations", "select", "its token", "select hash from invitations where id = %(invitation)s", NOBODY),
    Case(
        "invitations",
        "insert",
        "a forged one",
        "insert into invitations (org_id, role, hash, expires_at) "
        "values (%(org)s, 'owner', sha256('k'), now() + interval '1 day')",
        NOBODY,
    ),
    Case("invitations", "update", "for longer", "update invitations set expires_at = 'infinity'", NOBODY),
    Case("invitations", "delete", "theirs", "delete from invitations", NOBODY),
    # documents
    Case("documents", "select", "theirs", "select from documents where id = %(document)s", READERS),
    Case(
        "documents",
        "insert",
        "into it",
        "insert into documents (id, org_id, filename, storage_path, media_type, byte_size) "
        f"values (%(newcomer)s, %(org)s, 'b.pdf', {_FREE_STORAGE_PATH}, 'application/pdf', 9)",
        MEMBERS,
    ),
    Case(
        "documents",
        "insert",
        "in another's name",
        "insert into documents (id, org_id, filename, storage_path, created_by) "
        f"values (%(newcomer)s, %(org)s, 'b.pdf', {_FREE_STORAGE_PATH}, %(owner)s)",
        NOBODY,
    ),
    Case(
        "documents",
        "insert",
        "as if it were read",
        "insert into documents (id, org_id, filename, storage_path, media_type, status, page_count) "
        f"values (%(newcomer)s, %(org)s, 'b.pdf', {_FREE_STORAGE_PATH}, 'application/pdf', 'ready', 1)",
        NOBODY,
    ),
    Case(
        "documents",
        "insert",
        "as if it had been inside another",
        "insert into documents (id, org_id, filename, storage_path, parent_document_id, number_in_parent) "
        f"values (%(newcomer)s, %(org)s, 'b.pdf', {_FREE_STORAGE_PATH}, %(document)s, 1)",
        SERVED,
    ),
    Case(
        "documents",
        "insert",
        "as if it had been unlocked",
        "insert into documents (id, org_id, filename, storage_path, unlocked_path) "
        f"values (%(newcomer)s, %(org)s, 'b.pdf', {_FREE_STORAGE_PATH}, "
        "concat_ws('/', %(org)s::uuid, %(newcomer)s::uuid, 'unlocked-00000000000000000000000000000000'))",
        SERVED,
    ),
    Case(
        "documents",
        "insert",
        "as if it were the same as another",
        "insert into documents (id, org_id, filename, storage_path, content_sha256) "
        f"values (%(newcomer)s, %(org)s, 'b.pdf', {_FREE_STORAGE_PATH}, repeat('0', 64))",
        SERVED,
    ),
    Case(
        "documents",
        "update",
        "what a reading found",
        "update documents set status = 'failed', error = 'No.', media_type = 'text/plain', byte_size = 1, "
        "page_count = 1 where id = %(document)s",
        READING,
    ),
    Case(
        "documents",
        "update",
        "where it lies",
        "update documents set filename = 'b', storage_path = concat_ws('/', org_id, id, 'b') where id = %(document)s",
        NOBODY,
    ),
    Case("documents", "update", "whose", "update documents set created_by = %(me)s where id = %(document)s", NOBODY),
    Case("documents", "delete", "theirs", "delete from documents where id = %(document)s", NOBODY),
    # document_pages
    Case("document_pages", "select", "theirs", "select from document_pages where document_id = %(document)s", READERS),
    Case(
        "document_pages",
        "insert",
        "of theirs",
        "insert into document_pages (document_id, org_id, number, width, height, text, words, engine) "
        "values (%(document)s, %(org)s, 2, 1, 1, '', '[]', 'pdf')",
        READING,
    ),
    Case(
        "document_pages",
        "insert",
        "in another's name",
        "insert into document_pages (document_id, org_id, number, width, height, text, words, engine, created_by) "
        "values (%(document)s, %(org)s, 2, 1, 1, '', '[]', 'pdf', %(owner)s)",
        NOBODY,
    ),
    Case(
        "document_pages",
        "update",
        "the text",
        "update document_pages set text = 'Total 13' where document_id = %(document)s",
        NOBODY,
    ),
    Case("document_pages", "delete", "theirs", "delete from document_pages where document_id = %(document)s", NOBODY),
    # ocr_results
    Case("ocr_results", "select", "theirs", "select from ocr_results where document_id = %(document)s", READERS),
    Case(
        "ocr_results",
        "insert",
        "theirs",
        "insert into ocr_results (document_id, org_id, raw_text) values (%(document)s, %(org)s, 'x')",
        NOBODY,
    ),
    Case("ocr_results", "update", "theirs", "update ocr_results set raw_text = 'x'", NOBODY),
    Case("ocr_results", "delete", "theirs", "delete from ocr_results", NOBODY),
    # current_extractions
    Case(
        "current_extractions",
        "select",
        "theirs",
        "select from current_extractions where id = %(member_extraction)s",
        READERS,
    ),
    Case(
        "current_extractions",
        "insert",
        "theirs",
        "insert into current_extractions (org_id, document_id) values (%(org)s, %(document)s)",
        NOBODY,
    ),
    Case("current_extractions", "update", "theirs", "update current_extractions set document_type = 'X'", NOBODY),
    Case("current_extractions", "delete", "theirs", "delete from current_extractions", NOBODY),
    # extractions
    Case("extractions", "select", "theirs", "select from extractions where id = %(extraction)s", READERS),
    Case(
        "extractions",
        "insert",
        "of their document",
        "insert into extractions (id, org_id, document_id, schema) "
        'values (%(newcomer)s, %(org)s, %(document)s, \'{"type": "object"}\')',
        MEMBERS,
    ),
    Case(
        "extractions",
        "insert",
        "in another's name",
        "insert into extractions (org_id, document_id, created_by) values (%(org)s, %(document)s, %(owner)s)",
        NOBODY,
    ),
    Case(
        "extractions",
        "insert",
        "with fields and a version",
        "insert into extractions (org_id, document_id, extracted_fields, version) "
        "values (%(org)s, %(document)s, '{\"a\": 1}', 7)",
        NOBODY,
    ),
    Case(
        "extractions",
        "update",
        "what it says",
        "update extractions set document_type = 'invoice', status = 'completed', extracted_fields = '{\"a\": 1}', "
        "confidence_scores = '{\"a\": 1}', evidence = '{\"a\": {}}', locks = '{}' where id = %(extraction)s",
        MEMBERS,
    ),
    Case(
        "extractions",
        "update",
        "the version",
        "update extractions set version = version where id = %(extraction)s",
        NOBODY,
    ),
    Case(
        "extractions",
        "update",
        "whose",
        "update extractions set created_by = %(me)s, created_at = now(), updated_at = now() where id = %(extraction)s",
        NOBODY,
    ),
    Case(
        "extractions",
        "update",
        "of which document",
        "update extractions set document_id = document_id, org_id = org_id where id = %(extraction)s",
        NOBODY,
    ),
    Case(
        "extractions", "update", "the schema", "update extractions set schema = '{}' where id = %(extraction)s", NOBODY
    ),
    Case("extractions", "delete", "theirs", "delete from extractions where id = %(extraction)s", NOBODY),
    # extraction_journal
    Case(
        "extraction_journal",
        "select",
        "theirs",
        "select from extraction_journal where extraction_id = %(extraction)s",
        READERS,
    ),
    Case(
        "extraction_journal",
        "insert",
        "a forged entry",
        "insert into extraction_journal (org_id, extraction_id, version, path, steps, new, actor) "
        "values (%(org)s, %(extraction)s, 9, '{a}', 'k', '1', 'agent')",
        NOBODY,
    ),
    Case("extraction_journal", "update", "theirs", "update extraction_journal set new = '13', actor = 'user'", NOBODY),
    Case("extraction_journal", "delete", "theirs", "delete from extraction_journal", NOBODY),
    # extraction_proposals
    Case(
        "extraction_proposals",
        "select",
        "theirs",
        "select from extraction_proposals where extraction_id = %(extraction)s",
        READERS,
    ),
    Case(
        "extraction_proposals",
        "insert",
        "a forged one",
        "insert into extraction_proposals (org_id, extraction_id, path, name, old, new, confidence_scores, evidence) "
        "values (%(org)s, %(extraction)s, '{total}', 'total', '12', '99', '{}', '{}')",
        NOBODY,
    ),
    Case(
        "extraction_proposals",
        "update",
        "decided in passing",
        "update extraction_proposals set status = 'accepted', new = '99' where id = %(proposal)s",
        NOBODY,
    ),
    Case("extraction_proposals", "delete", "theirs", "delete from extraction_proposals", NOBODY),
    # withdrawn_examples
    Case(
        "withdrawn_examples",
        "select",
        "theirs",
        "select from withdrawn_examples where extraction_id = %(extraction)s",
        READERS,
    ),
    Case(
        "withdrawn_examples",
        "insert",
        "one of theirs",
        "insert into withdrawn_examples (org_id, extraction_id, name) values (%(org)s, %(extraction)s, 'vendor.name')",
        MEMBERS,
    ),
    Case("withdrawn_examples", "update", "back", "update withdrawn_examples set name = 'other'", NOBODY),
    Case("withdrawn_examples", "delete", "back", "delete from withdrawn_examples", NOBODY),
    # Whether examples are shown is the organisation's to say; only an evaluation says otherwise.
    Case(
        "runs",
        "insert",
        "with examples",
        "insert into runs (org_id, agent, task, document_id, extraction_id, with_examples) "
        "values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, true)",
        SERVED,
    ),
    # schemas, prompts, tags: written by their functions alone
    *(
        case
        for kind in ("schema", "prompt", "tag")
        for case in (
            Case(f"{kind}s", "select", "theirs", f"select from {kind}s where id = %({kind})s", READERS),
            Case(
                f"{kind}s",
                "insert",
                "past its function",
                f"insert into {kind}s (org_id, name) values (%(org)s, 'X')",
                NOBODY,
            ),
            Case(
                f"{kind}s",
                "update",
                "past its function",
                f"update {kind}s set name = 'X', created_by = %(me)s, deleted_at = now(), run_id = null "
                f"where id = %({kind})s",
                NOBODY,
            ),
            Case(f"{kind}s", "delete", "theirs", f"delete from {kind}s where id = %({kind})s", NOBODY),
        )
    ),
    *(
        case
        for kind, columns, values in (
            ("schema", "schema", "'{}'"),
            ("prompt", "content", "'Read it.'"),
        )
        for case in (
            Case(
                f"{kind}_versions",
                "select",
                "theirs",
                f"select from {kind}_versions where id = %({kind}_revid)s",
                READERS,
            ),
            Case(
                f"{kind}_versions",
                "insert",
                "past its function",
                f"insert into {kind}_versions (org_id, {kind}_id, number, name, {columns}) "
                f"values (%(org)s, %({kind})s, 9, 'X', {values})",
                NOBODY,
            ),
            Case(
                f"{kind}_versions",
                "update",
                "what it said",
                f"update {kind}_versions set {columns} = {values} where id = %({kind}_revid)s",
                NOBODY,
            ),
            Case(
                f"{kind}_versions",
                "delete",
                "what it said",
                f"delete from {kind}_versions where id = %({kind}_revid)s",
                NOBODY,
            ),
            Case(
                f"latest_{kind}s",
                "select",
                "theirs",
                f"select from latest_{kind}s where {kind}_id = %({kind})s",
                READERS,
            ),
            Case(f"latest_{kind}s", "insert", "theirs", f"insert into latest_{kind}s (name) values ('X')", NOBODY),
            Case(f"latest_{kind}s", "update", "theirs", f"update latest_{kind}s set name = 'X'", NOBODY),
            Case(f"latest_{kind}s", "delete", "theirs", f"delete from latest_{kind}s", NOBODY),
        )
    ),
    # document_tags
    Case("document_tags", "select", "theirs", "select from document_tags where document_id = %(document)s", READERS),
    Case(
        "document_tags",
        "insert",
        "past its function",
        "insert into document_tags (org_id, document_id, tag_id, document_created_at) "
        "values (%(org)s, %(document)s, %(free_tag)s, now())",
        NOBODY,
    ),
    Case(
        "document_tags",
        "update",
        "another tag",
        "update document_tags set tag_id = %(free_tag)s where document_id = %(document)s",
        NOBODY,
    ),
    Case(
        "document_tags",
        "delete",
        "past its function",
        "delete from document_tags where document_id = %(document)s",
        NOBODY,
    ),
    # auto_creations
    Case("auto_creations", "select", "theirs", "select from auto_creations where document_id = %(document)s", READERS),
    Case(
        "auto_creations",
        "insert",
        "a forged one",
        "insert into auto_creations (document_id, org_id, run_id, status) "
        "values (%(member_document)s, %(org)s, %(newcomer)s, 'proposed')",
        NOBODY,
    ),
    Case(
        "auto_creations",
        "update",
        "what its run found",
        "update auto_creations set kind = 'invoice', labels = '{Total}', matched = '{}', "
        "schema_revid = %(schema_revid)s, prompt_revid = %(prompt_revid)s, extraction_id = %(extraction)s "
        "where document_id = %(document)s",
        SERVED,
    ),
    Case(
        "auto_creations",
        "update",
        "decided in passing",
        "update auto_creations set status = 'accepted', decided_by = %(me)s, decided_at = now() "
        "where document_id = %(document)s",
        NOBODY,
    ),
    Case(
        "auto_creations",
        "update",
        "whose",
        "update auto_creations set run_id = %(newcomer)s, created_by = %(me)s where document_id = %(document)s",
        NOBODY,
    ),
    Case("auto_creations", "delete", "theirs", "delete from auto_creations where document_id = %(document)s", NOBODY),
    # threads
    Case("threads", "select", "their own", "select from threads where id = %(thread)s", OWNERS),
    Case("threads", "select", "a shared one", "select from threads where id = %(shared_thread)s", READERS),
    Case(
        "threads",
        "insert",
        "with an agent",
        "insert into threads (org_id, agent, document_id, title) values (%(org)s, 'talker', %(document)s, 'New')",
        MEMBERS,
    ),
    Case(
        "threads",
        "insert",
        "in another's name",
        "insert into threads (org_id, agent, created_by) values (%(org)s, 'talker', %(owner)s)",
        NOBODY,
    ),
    Case(
        "threads",
        "insert",
        "with a conversation of another's",
        "insert into threads (org_id, agent, session_id, working_state) "
        "select org_id, agent, session_id, '{}' from threads where id = %(thread)s",
        NOBODY,
    ),
    Case(
        "threads",
        "update",
        "its title, and who reads it",
        "update threads set title = 'X', shared = not shared where id = %(thread)s",
        OWNERS,
    ),
    Case(
        "threads",
        "update",
        "a shared one's",
        "update threads set title = 'X' where id = %(shared_thread)s",
        OWNERS,
    ),
    Case(
        "threads",
        "update",
        "what its runs keep",
        "update threads set session_id = gen_random_uuid(), working_state = '{\"a\": 1}' where id = %(thread)s",
        NOBODY,
    ),
    Case("threads", "update", "whose", "update threads set created_by = %(member)s where id = %(thread)s", NOBODY),
    Case("threads", "update", "with whom", "update threads set agent = 'extraction' where id = %(thread)s", NOBODY),
    Case("threads", "delete", "their own", "delete from threads where id = %(thread)s", NOBODY),
    # runs
    Case("runs", "select", "theirs", "select from runs where id = %(run)s", READERS),
    Case(
        "runs",
        "insert",
        "of their extraction",
        "insert into runs (id, org_id, agent, task, document_id, extraction_id, input, approval, "
        "auto_approved_tools, model, max_cost_usd, idempotency_key, max_turns) values (%(newcomer)s, %(org)s, "
        "'extraction', 'extract', %(document)s, %(extraction)s, '{\"a\": 1}', 'auto', '{}', 'm', 1, 'key', 5)",
        MEMBERS,
    ),
    Case(
        "runs",
        "insert",
        "in another's name",
        "insert into runs (org_id, agent, task, document_id, extraction_id, created_by) "
        "values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, %(owner)s)",
        NOBODY,
    ),
    Case(
        "runs",
        "insert",
        "as a part of theirs",
        "insert into runs (org_id, agent, task, document_id, extraction_id, parent_run_id, parent_call_id) "
        "values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, %(run)s, 'call_1')",
        SERVED,
    ),
    Case(
        "runs",
        "insert",
        "with a lock key or a root of another's",
        "insert into runs (org_id, agent, task, document_id, extraction_id, lock_key, root_run_id) "
        "values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, 'x', %(other_run)s)",
        NOBODY,
    ),
    Case(
        "runs",
        "insert",
        "as if it had run",
        "insert into runs (org_id, agent, task, document_id, extraction_id, status, fencing_token, answer) "
        "values (%(org)s, 'extraction', 'extract', %(document)s, %(extraction)s, 'completed', 1, 'Done')",
        NOBODY,
    ),
    Case(
        "runs",
        "update",
        "its course",
        "update runs set status = 'failed', fencing_token = 2, consecutive_failures = 1, "
        "attached = false, started_at = now(), finished_at = now(), answer = 'x', result = '{}', "
        "error = 'No.', error_code = 'no', held_at = now(), "
        "pages_read = '{[1,2]}' where id = %(run)s",
        SERVED,
    ),
    Case(
        "runs",
        "update",
        "what was asked",
        "update runs set input = '{}', model = 'y', max_cost_usd = 9, auto_approved_tools = '{a}' where id = %(run)s",
        NOBODY,
    ),
    Case("runs", "update", "whose", "update runs set created_by = %(me)s where id = %(run)s", NOBODY),
    Case(
        "runs",
        "update",
        "what it is about",
        "update runs set thread_id = null, parent_run_id = null, root_run_id = id, lock_key = 'x' where id = %(run)s",
        NOBODY,
    ),
    Case("runs", "select", "in a thread that is not shared", "select from runs where id = %(thread_run)s", OWNERS),
    Case("runs", "delete", "theirs", "delete from runs where id = %(run)s", NOBODY),
    # run_events
    Case("run_events", "select", "theirs", "select from run_events where run_id = %(run)s", READERS),
    Case(
        "run_events",
        "insert",
        "of their run",
        "insert into run_events (run_id, number, org_id, body) values (%(run)s, 2, %(org)s, '{}')",
        SERVED,
    ),
    Case(
        "run_events",
        "insert",
        "in another's name",
        "insert into run_events (run_id, number, org_id, body, created_by) "
        "values (%(run)s, 2, %(org)s, '{}', %(owner)s)",
        NOBODY,
    ),
    Case(
        "run_events",
        "select",
        "in a thread that is not shared",
        "select from run_events where run_id = %(thread_run)s",
        OWNERS,
    ),
    Case("run_events", "update", "theirs", "update run_events set body = '{\"a\": 1}'", NOBODY),
    Case("run_events", "delete", "theirs", "delete from run_events", NOBODY),
    # tool_calls
    Case("tool_calls", "select", "theirs", "select from tool_calls where run_id = %(run)s", READERS),
    Case(
        "tool_calls",
        "insert",
        "of their run",
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by, reason) "
        "values (%(run)s, 'call_2', %(org)s, 'update_field', '{}', repeat('1', 64), 'admitted', 'policy', null)",
        SERVED,
    ),
    Case(
        "tool_calls",
        "insert",
        "as if it were done",
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by, result, "
        "created_by) values (%(run)s, 'call_2', %(org)s, 't', '{}', repeat('1', 64), 'done', 'policy', 'Done.', "
        "%(owner)s)",
        NOBODY,
    ),
    Case(
        "tool_calls",
        "update",
        "its result",
        "update tool_calls set status = 'done', result = 'Done.', code = 'ok', data = '1', finished_at = now() "
        "where run_id = %(run)s",
        SERVED,
    ),
    Case(
        "tool_calls",
        "update",
        "what was admitted",
        "update tool_calls set tool = 'x', arguments = '{\"a\": 1}', arguments_hash = repeat('1', 64), "
        "admitted_by = 'policy' where run_id = %(run)s",
        NOBODY,
    ),
    Case(
        "tool_calls",
        "select",
        "in a thread that is not shared",
        "select from tool_calls where run_id = %(thread_run)s",
        OWNERS,
    ),
    Case("tool_calls", "delete", "theirs", "delete from tool_calls where run_id = %(run)s", NOBODY),
    # agent_sessions
    Case("agent_sessions", "select", "theirs", "select from agent_sessions where org_id = %(org)s", READING),
    Case(
        "agent_sessions",
        "insert",
        "theirs",
        "insert into agent_sessions (org_id, project, session_id, entry) values (%(org)s, 'runs', 's', '{}')",
        SERVED,
    ),
    Case("agent_sessions", "update", "theirs", "update agent_sessions set entry = '{}'", NOBODY),
    Case("agent_sessions", "delete", "theirs", "delete from agent_sessions where org_id = %(org)s", NOBODY),
    # usage
    Case("usage", "select", "theirs", "select from usage where org_id = %(org)s", READERS),
    Case(
        "usage",
        "insert",
        "of their run",
        f"insert into usage (run_id, {_USAGE}) values (%(run)s, 'm2', %(org)s, 'extraction', 'm', 1, 1, 0, 0, 0, 1)",
        READING,
    ),
    Case(
        "usage",
        "insert",
        "in another's name",
        f"insert into usage (run_id, {_USAGE}, created_by) "
        "values (%(run)s, 'm2', %(org)s, 'extraction', 'm', 1, 1, 0, 0, 0, 1, %(owner)s)",
        NOBODY,
    ),
    Case("usage", "update", "theirs", "update usage set cost_usd = 0", NOBODY),
    Case("usage", "delete", "theirs", "delete from usage", NOBODY),
    # usage_by_day
    Case("usage_by_day", "select", "theirs", "select from usage_by_day where org_id = %(org)s", READERS),
    Case(
        "usage_by_day",
        "insert",
        "theirs",
        "insert into usage_by_day values (%(org)s, '2026-01-01', 'extraction', 'm', 1, 0, 0, 0, 0, 0, 0, -1)",
        NOBODY,
    ),
    Case("usage_by_day", "update", "theirs", "update usage_by_day set cost_usd = 0", NOBODY),
    Case("usage_by_day", "delete", "theirs", "delete from usage_by_day", NOBODY),
    # credit_limits
    Case("credit_limits", "select", "theirs", "select from credit_limits where org_id = %(org)s", READERS),
    Case(
        "credit_limits",
        "insert",
        "of an organisation without",
        "insert into credit_limits (org_id, max_usd) values (%(second_org)s, 1000)",
        NOBODY,
    ),
    Case("credit_limits", "update", "theirs", "update credit_limits set max_usd = 1000", NOBODY),
    Case("credit_limits", "delete", "theirs", "delete from credit_limits", NOBODY),
    # queue_limits
    Case("queue_limits", "select", "theirs", "select from queue_limits where org_id = %(org)s", READERS),
    Case(
        "queue_limits",
        "insert",
        "of an organisation without",
        "insert into queue_limits (org_id, max_waiting_runs) values (%(second_org)s, 100000)",
        NOBODY,
    ),
    Case("queue_limits", "update", "theirs", "update queue_limits set max_waiting_runs = 100000", NOBODY),
    Case("queue_limits", "delete", "theirs", "delete from queue_limits", NOBODY),
    # storage.objects: the originals
    Case(
        "storage.objects",
        "select",
        "theirs",
        "select from storage.objects where name like %(org)s::uuid || '/%%'",
        READERS,
    ),
    Case(
        "storage.objects",
        "insert",
        "into it",
        f"insert into storage.objects (bucket_id, name) values ('documents', {_FREE_STORAGE_PATH})",
        MEMBERS,
    ),
    Case(
        "storage.objects",
        "insert",
        "beside it",
        "insert into storage.objects (bucket_id, name) "
        "values ('documents', concat_ws('/', 'x', %(org)s::uuid, 'b.pdf')), ('documents', %(org)s::uuid || '.pdf')",
        NOBODY,
    ),
    Case(
        "storage.objects",
        "select",
        "in another bucket",
        "select from storage.objects where bucket_id = 'another' and name like %(org)s::uuid || '/%%'",
        NOBODY,
    ),
    Case(
        "storage.objects",
        "insert",
        "into another bucket",
        f"insert into storage.objects (bucket_id, name) values ('another', {_FREE_STORAGE_PATH})",
        NOBODY,
    ),
    Case("storage.objects", "update", "theirs", "update storage.objects set name = 'x' || name", NOBODY),
    Case("storage.objects", "delete", "theirs", "delete from storage.objects", NOBODY),
]

# What nobody but the service may call, and what a member may, on an extraction, document or run of the organisation.
CALLS = [
    # People
    Case(
        "remove_member",
        "call",
        "themselves",
        "select remove_member(%(org)s, %(viewer)s)",
        OWNERS | {"viewer", "service: viewer"},
    ),
    Case("invite", "call", "somebody", "select invite(%(org)s, 'member')", OWNERS),
    Case("revoke_invitation", "call", "theirs", "select revoke_invitation(%(invitation)s)", OWNERS),
    Case("create_api_key", "call", "in it", "select create_api_key(%(org)s, 'k', '{runs:read}')", MEMBERS),
    Case("revoke_api_key", "call", "an owner's", "select revoke_api_key(%(key)s)", OWNERS),
    Case("revoke_api_key", "call", "a member's", "select revoke_api_key(%(member_key)s)", OWNERS | MEMBER),
    Case(
        "use_api_key",
        "call",
        "of anybody",
        "select from private.use_api_key(sha256('key'))",
        frozenset({"service login"}),
    ),
    Case("note_api_key", "call", "of anybody", "select private.note_api_key(%(key)s)", frozenset({"service login"})),
    Case(
        "address_of",
        "call",
        "a member's",
        "select from private.address_of(%(org)s, %(owner)s) as a where a is not null",
        READERS,
    ),
    # Schemas, prompts, tags
    Case("create_schema", "call", "in it", "select create_schema(%(org)s, 'New', '{}')", MEMBERS),
    Case("update_schema", "call", "an owner's", "select update_schema(%(schema)s, 'New')", MEMBERS),
    Case("delete_schema", "call", "an owner's", "select delete_schema(%(schema)s)", OWNERS),
    Case("delete_schema", "call", "a member's", "select delete_schema(%(member_schema)s)", OWNERS | MEMBER),
    Case("create_prompt", "call", "in it", "select create_prompt(%(org)s, 'New', 'Read it.')", MEMBERS),
    Case(
        "update_prompt",
        "call",
        "an owner's",
        "select update_prompt(%(prompt)s, 'New', 'Read it.', %(schema)s, null, array[%(tag)s]::uuid[])",
        MEMBERS,
    ),
    Case("delete_prompt", "call", "an owner's", "select delete_prompt(%(prompt)s)", OWNERS),
    Case("delete_prompt", "call", "a member's", "select delete_prompt(%(member_prompt)s)", OWNERS | MEMBER),
    Case("create_tag", "call", "in it", "select create_tag(%(org)s, 'New')", MEMBERS),
    Case("update_tag", "call", "an owner's", "select update_tag(%(tag)s, 'New', '#000000')", MEMBERS),
    Case("delete_tag", "call", "an owner's", "select delete_tag(%(tag)s)", OWNERS),
    Case("delete_tag", "call", "a member's", "select delete_tag(%(member_tag)s)", OWNERS | MEMBER),
    Case(
        "tag_document",
        "call",
        "an owner's",
        "select tag_document(%(document)s, array[%(free_tag)s]::uuid[], array[%(tag)s]::uuid[])",
        MEMBERS,
    ),
    Case("rename_document", "call", "an owner's", "select rename_document(%(document)s, 'b.pdf')", MEMBERS),
    Case("decide_auto_creation", "call", "in it", "select decide_auto_creation(%(document)s, true)", MEMBERS),
    Case(
        "follow_schema",
        "call",
        "on theirs",
        "select private.follow_schema(%(extraction)s, %(schema_revid)s)",
        SERVED,
    ),
    Case("is_worked_on", "call", "theirs", "select where private.is_worked_on(%(extraction)s)", READERS),
    Case(
        "references_to_schema",
        "call",
        "theirs",
        "select from private.references_to_schema(%(schema)s) where prompts = 1",
        READERS,
    ),
    Case(
        "references_to_tag",
        "call",
        "theirs",
        "select from private.references_to_tag(%(tag)s) where documents = 1 and prompts = 1",
        READERS,
    ),
    # Deleting
    Case("delete_document", "call", "of an owner", "select delete_document(%(document)s)", OWNERS),
    Case(
        "delete_document",
        "call",
        "of a member",
        "select delete_document(%(member_document)s)",
        OWNERS | {"member", "service: member"},
    ),
    Case("delete_extraction", "call", "of an owner", "select delete_extraction(%(extraction)s)", OWNERS),
    Case(
        "delete_extraction",
        "call",
        "of a member",
        "select delete_extraction(%(member_extraction)s)",
        OWNERS | {"member", "service: member"},
    ),
    Case("delete_run", "call", "of an owner", "select delete_run(%(ended_run)s)", OWNERS),
    Case("delete_thread", "call", "their own", "select delete_thread(%(thread)s)", OWNERS),
    Case("delete_thread", "call", "a shared one", "select delete_thread(%(shared_thread)s)", OWNERS),
    Case(
        "remove_member",
        "call",
        "a member",
        "select remove_member(%(org)s, %(member)s)",
        OWNERS | {"member", "service: member"},
    ),
    Case(
        "update_extraction_field",
        "call",
        "on theirs",
        "select update_extraction_field(%(extraction)s, '{total}', '13')",
        MEMBERS,
    ),
    Case(
        "update_extraction_fields",
        "call",
        "on theirs",
        """select update_extraction_fields(%(extraction)s, '[{"path": ["total"], "value": 13}]')""",
        MEMBERS,
    ),
    Case(
        "save_extraction_fields",
        "call",
        "on theirs",
        "select save_extraction_fields(%(extraction)s, '{\"total\": 13}')",
        MEMBERS,
    ),
    Case(
        "remove_extraction_field",
        "call",
        "on theirs",
        "select remove_extraction_field(%(extraction)s, '{total}')",
        MEMBERS,
    ),
    Case("identify_document", "call", "on theirs", "select identify_document(%(extraction)s, 'invoice')", MEMBERS),
    Case("complete_extraction", "call", "on theirs", "select complete_extraction(%(extraction)s)", MEMBERS),
    Case("restore_extraction", "call", "on theirs", "select restore_extraction(%(extraction)s, 0)", MEMBERS),
    Case(
        "unlock_extraction_field",
        "call",
        "on theirs",
        "select unlock_extraction_field(%(extraction)s, '{vendor,name}')",
        MEMBERS,
    ),
    Case(
        "decide_extraction_proposal",
        "call",
        "on theirs",
        "select decide_extraction_proposal(%(extraction)s, %(proposal)s, true)",
        MEMBERS,
    ),
    Case(
        "delete_organisation",
        "call",
        "theirs",
        "select delete_organisation(%(org)s)",
        OWNERS,
    ),
    Case("append_event", "call", "to theirs", "select private.append_event(%(run)s, '{}')", SERVED),
    Case("cancel_run", "call", "theirs", "select from private.cancel_run(%(run)s, 'No.') as n where n", SERVED),
    Case(
        "cancel_run",
        "call",
        "in a thread that is not shared",
        "select from private.cancel_run(%(thread_run)s, 'No.') as n where n",
        frozenset({"service: owner"}),
    ),
    Case("delta_channel", "call", "its name", "select from private.delta_channel() as n where n is not null", SERVICE),
    Case(
        "fail_run", "call", "of anybody", "select private.fail_run(%(run)s, 'No.', 'no')", frozenset({"service login"})
    ),
    Case(
        "fail_document",
        "call",
        "of anybody",
        "select private.fail_document(%(document)s, 'No.')",
        frozenset({"service login"}),
    ),
    Case("waiting_runs", "call", "of anybody", "select private.waiting_runs()", frozenset({"service login"})),
    Case(
        "scope_of_run", "call", "of anybody", "select from private.scope_of_run(%(run)s)", frozenset({"service login"})
    ),
    Case(
        "scope_of_document",
        "call",
        "of anybody",
        "select from private.scope_of_document(%(document)s)",
        frozenset({"service login"}),
    ),
    Case(
        "enqueue",
        "call",
        "a job",
        "select private.enqueue('runs', 'execute_run', '{}', 'x')",
        NOBODY,
    ),
    Case("claim_job", "call", "a job", "select from private.claim_job('runs', null, 1)", frozenset({"service login"})),
    Case("queue.procrastinate_jobs", "select", "jobs", "select from queue.procrastinate_jobs", {"service login"}),
]

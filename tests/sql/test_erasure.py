"""Erasure: nothing is left of a deleted organisation or account. The catalogue lists the tables, so that a new one
cannot be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from connection_pair import Pair
from role_connections import Sample, insert_sample_rows, set_role

NUMBER = -987654321
"""The number of the organisation in the search index."""

# Where the id of a person who deleted their account stays, so that an organisation knows which changes one author made.
AUTHORSHIP = {
    *("created_by", "user_id", "decided_by", "document_type_by", "reviewed_by", "checked_by", "dictated_by"),
    *("accepted_by", "revoked_by", "asked_by", "locks"),
}


def rows_with(owner: psycopg.Connection, *needles: object) -> dict[str, int]:
    """Return the number of rows of any table that contain one of these texts."""
    tables = owner.execute(
        """select format('%s.%s', n.nspname, c.relname)
           from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
           where c.relkind in ('r', 'p', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')"""
    ).fetchall()
    assert len(tables) > 50
    query = "select count(*) from {} as t where t::text ~* %s"
    pattern = "|".join(map(str, needles))
    counts = {one: owner.execute(query.format(one).encode(), [pattern]).fetchone() for (one,) in tables}
    return {table: count[0] for table, count in counts.items() if count is not None and count[0]}


def act_as(owner: psycopg.Connection, user: UUID, statement: str, *parameters: object) -> Any:
    with owner.transaction():
        set_role(owner, "authenticated", {"sub": str(user)})
        row = owner.execute(statement.encode(), parameters).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def owner(clone: Any) -> Iterator[psycopg.Connection]:
    with psycopg.connect(clone.owner_url, autocommit=True, options="-csearch_path=public,queue") as connection:
        yield connection


@pytest.fixture
def sample(owner: psycopg.Connection) -> Sample:
    return insert_sample_rows(owner)


def insert_search_rows(owner: psycopg.Connection, sample: Sample) -> None:
    owner.execute(
        "insert into private.search_orgs (org_id, number) overriding system value values (%s, %s)",
        [sample.org, NUMBER],
    )
    owner.execute("insert into private.search_terms (org_number, key, chunks) values (%s, 1, 2)", [NUMBER])
    owner.execute("insert into private.embedding_queue (org_id, document_id) values (%s, %s)", [sample.org, sample.run])
    owner.execute("insert into private.indexing_queue (org_id, document_id) values (%s, %s)", [sample.org, sample.run])
    for document in (sample.document, sample.run):  # the second was deleted before
        owner.execute(
            """insert into private.search_chunks
                 (document_id, number, org_number, page, first_word, last_word, language, length, keys, counts)
               values (%s, 9, %s, 1, 0, 0, 'simple', 1, '{1}', '')""",
            [document, NUMBER],
        )
        owner.execute(
            "insert into private.search_vectors (org_number, document_id, number, embedder, embedding) "
            "values (%s, %s, 9, 'a/1', '{1}')",
            [NUMBER, document],
        )


def test_no_row_of_any_table_is_left_of_a_deleted_organisation(owner: psycopg.Connection, sample: Sample) -> None:
    insert_search_rows(owner, sample)
    tables = owner.execute(
        """select format('%s.%s', c.relnamespace::regnamespace, c.relname)
           from pg_class as c join pg_attribute as a on a.attrelid = c.oid
           where c.relkind in ('r', 'p') and a.attname in ('org_id', 'org_number') and not a.attisdropped
             and c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)"""
    ).fetchall()
    ids = [value for name, value in vars(sample).items() if not name.startswith("other_")]
    before = rows_with(owner, sample.org, NUMBER, *ids)
    # The test sees each table: the sample has rows in all of them.
    assert {one for (one,) in tables} - before.keys() <= {
        "private.organisation_deletions",
        "private.files_to_delete",
        "public.settings_journal",
    }
    other = rows_with(owner, sample.other_org)

    act_as(owner, sample.owner, "select delete_organisation(%s)::text", sample.org)
    while (row := owner.execute("select private.clear_organisations(3)").fetchone()) is not None and row[0]:
        pass

    assert rows_with(owner, sample.org, NUMBER) == {
        "private.organisation_deletions": 1,
        # Deleted with its file.
        "private.files_to_delete": 2,
        "storage.objects": 3,
    }
    report = act_as(owner, sample.owner, "select deleted_organisation(%s)", sample.org)
    assert report["rows_left"] == {} and report["finished_at"] and report["files_left"] == 2
    assert report["rows_found"]["public.documents"] == 2 and report["rows_found"]["private.search_chunks"] == 2
    assert report["rows_found"].keys() >= {one for (one,) in tables} & before.keys() - {"public.memberships"}
    owner.execute("select private.unregister_deleted_files(array(select storage_path from private.files_to_delete))")
    report = act_as(owner, sample.owner, "select deleted_organisation(%s)", sample.org)
    assert (report["files_deleted"], report["files_left"]) == (2, 0)
    assert rows_with(owner, sample.other_org) == other
    # Only the person who deleted it reads the report.
    assert act_as(owner, sample.member, "select deleted_organisation(%s)", sample.org) is None


def test_a_deleted_account_leaves_only_pseudonymous_authorship(owner: psycopg.Connection, sample: Sample) -> None:
    address = "member@example.org"
    owner.execute("update auth.users set email = %s where id = %s", [address, sample.member])
    psycopg.ClientCursor(owner).execute(
        """insert into threads (org_id, created_by, agent, title, shared) values
             (%(org)s, %(member)s, 'talker', 'Unshared words', false), (%(org)s, %(member)s, 'talker', 'Shared', true);
           insert into runs (org_id, created_by, agent, task, thread_id, input)
             select org_id, created_by, agent, 'talk', id, '{"message": "Unshared words"}' from threads
             where title = 'Unshared words';
           insert into sources (org_id, created_by, kind, address, username, secret) values
             (%(org)s, %(member)s, 'mailbox', 'imaps://example.org', %(address)s, 'mailbox secret');
           insert into organisations (id, name, personal_of, created_by) values
             (%(second)s, 'Their own', %(member)s, %(member)s);
           insert into memberships (org_id, user_id, role) values (%(second)s, %(member)s, 'owner');
           insert into invitations (org_id, created_by, email, role, hash, expires_at, accepted_at, accepted_by) values
             (%(org)s, %(owner)s, %(address)s, 'member', sha256('a'), now() + interval '1 day', now(), %(member)s),
             (%(org)s, %(owner)s, 'Member@example.org', 'member', sha256('b'), now() + interval '1 day', null, null)
        """,
        {**vars(sample), "address": address, "second": (second := uuid4())},
    )
    words = (address, "Unshared words", "mailbox secret")
    assert len(rows_with(owner, *words)) >= 4
    colleagues = rows_with(owner, sample.colleague)

    deleted = act_as(owner, sample.member, "select delete_account()")

    assert deleted == {
        "organisations": [str(second)],
        "memberships": 1,
        "threads": 1,
        "sources": 1,
        "invitations": 2,
    }
    while (row := owner.execute("select private.clear_organisations()").fetchone()) is not None and row[0]:
        pass
    assert rows_with(owner, *words, second) == {"private.organisation_deletions": 1}
    assert owner.execute("select from auth.users where id = %s", [sample.member]).rowcount == 0
    # The id is in columns that say who did something, and nowhere else.
    columns = owner.execute(
        """select c.oid::regclass::text, a.attname, c.relkind from pg_class as c
           join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
           where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)"""
    ).fetchall()
    held = {
        column
        for table, column, _ in columns
        if owner.execute(f"select from {table} where {column}::text like %s".encode(), [f"%{sample.member}%"]).rowcount
    }
    assert held <= AUTHORSHIP and "created_by" in held
    assert rows_with(owner, sample.colleague) == colleagues
    # An invitation that no one accepted is revoked: without the address anyone could accept it.
    assert owner.execute("select from invitations where hash = sha256('b') and revoked_at is not null").rowcount == 1


def test_the_only_owner_of_an_organisation_with_members_cannot_delete_their_account(
    owner: psycopg.Connection, sample: Sample
) -> None:
    before = rows_with(owner, sample.owner)
    with pytest.raises(psycopg.DatabaseError) as refused:
        act_as(owner, sample.owner, "select delete_account()")
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "last_owner")
    assert rows_with(owner, sample.owner) == before
    owner.execute(
        "update memberships set role = 'owner' where org_id = %s and user_id = %s", [sample.org, sample.member]
    )
    assert act_as(owner, sample.owner, "select delete_account()")["memberships"] == 2
    assert owner.execute("select from memberships where user_id = %s", [sample.owner]).rowcount == 0


def test_a_member_who_joins_meanwhile_keeps_the_organisation_of_a_deleted_account(pair: Pair) -> None:
    founder, guest = {"sub": str(uuid4())}, {"sub": str(uuid4())}

    def found(connection: psycopg.Connection, query: str, *parameters: object) -> Any:
        row = connection.execute(query.encode(), parameters).fetchone()
        return row and row[0]

    with pair.transaction(pair.first):
        set_role(pair.first, "authenticated", founder)
        org = found(pair.first, "select create_organisation('Theirs')")
        token = found(pair.first, "select invite(%s, 'member', null, 1) ->> 'token'", org)

    def accept(connection: psycopg.Connection) -> None:
        set_role(connection, "authenticated", guest)
        connection.execute("select accept_invitation(%s)", [token])

    def delete(connection: psycopg.Connection) -> None:
        set_role(connection, "authenticated", founder)
        connection.execute("select delete_account()")

    with pytest.raises(psycopg.DatabaseError) as refused:
        pair.run_overlapping(accept, delete)
    assert refused.value.diag.message_detail == "last_owner"
    assert pair.observer.execute("select from memberships where org_id = %s", [org]).rowcount == 2


def test_an_account_with_many_organisations_is_deleted_at_once(owner: psycopg.Connection) -> None:
    founder = uuid4()
    for number in range(25):
        act_as(owner, founder, "select create_organisation(%s)", str(number))
    assert len(act_as(owner, founder, "select delete_account()")["organisations"]) == 26
    assert owner.execute("select from memberships where user_id = %s", [founder]).rowcount == 0


def test_rows_of_an_organisation_are_counted_without_reading_those_of_others(
    owner: psycopg.Connection, sample: Sample
) -> None:
    scans = "select relname, seq_scan from pg_stat_xact_user_tables"
    with owner.transaction():
        owner.execute("set local enable_seqscan = off")  # then only a table that no index serves is read whole
        before = dict(owner.execute(scans.encode()).fetchall())
        owner.execute("select private.count_rows_of_organisation(%s, %s)", [sample.org, NUMBER])
        after = dict(owner.execute(scans.encode()).fetchall())
    assert not [table for table, count in after.items() if count > before.get(table, 0)]

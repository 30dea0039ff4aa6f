"""What a front end of the original design sends and reads through PostgREST, besides the rights in matrix.py."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample, set_role

# A thread, document or stack for each task that a front end can start by inserting a run.
_RUN = (
    "insert into runs (org_id, agent, task, {column}, input) values (%(org)s, %(agent)s, %(task)s, %(id)s, %(input)s)"
)
_SUBJECTS = {
    "stack": ("stack", "stack_id", "select %(stack)s::uuid"),
    "stack_correct": ("stack", "stack_id", "select %(stack)s::uuid"),
    "ask": ("library", "thread_id", "insert into threads (org_id, agent) values (%(org)s, 'library') returning id"),
    "chat": (
        "document",
        "thread_id",
        "insert into threads (org_id, agent, document_id) values (%(org)s, 'document', %(document)s) returning id",
    ),
}


def _start(connection: psycopg.Connection, sample: Sample, task: str, input: dict[str, Any]) -> str:
    agent, column, subject = _SUBJECTS[task]
    (subject_id,) = connection.execute(subject.encode(), vars(sample)).fetchone() or (None,)
    values = {"org": sample.org, "agent": agent, "task": task, "id": subject_id, "input": Jsonb(input)}
    query = (
        _RUN
        if task != "chat"
        else _RUN.replace("{column}", "document_id, {column}").replace("%(id)s", "%(document)s, %(id)s")
    )
    row = connection.execute(
        f"{query.format(column=column)} returning status".encode(), values | {"document": sample.document}
    ).fetchone()
    return row[0] if row else ""


@pytest.mark.parametrize(
    ("task", "input"),
    [
        ("stack", {}),
        ("stack", {"instructions": "Only totals."}),
        ("stack_correct", {"message": "The total is 13."}),
        ("ask", {"message": "How many invoices?", "mode": "search"}),
        ("chat", {"message": "Extract it."}),
    ],
)
def test_member_starts_each_task_by_inserting_a_run(
    roles: Roles, sample: Sample, task: str, input: dict[str, Any]
) -> None:
    with roles.as_front_end(sample.member) as connection:
        assert _start(connection, sample, task, input) == "queued"


@pytest.mark.parametrize(
    ("task", "input"),
    [("stack", {"columns": []}), ("stack_correct", {}), ("ask", {"message": ""}), ("chat", {"text": "Extract it."})],
)
def test_run_with_a_missing_or_unknown_key_in_its_input_is_refused(
    roles: Roles, sample: Sample, task: str, input: dict[str, Any]
) -> None:
    with roles.as_front_end(sample.member) as connection, pytest.raises(psycopg.DatabaseError) as refused:
        _start(connection, sample, task, input)
    assert refused.value.sqlstate == "PT422"


def test_row_without_an_organisation_is_of_the_callers_only_one(roles: Roles, sample: Sample) -> None:
    query = "insert into stacks (name) values ('New') returning org_id, user_id"
    with roles.as_front_end(sample.member) as connection:
        assert connection.execute(query).fetchone() == (sample.org, sample.member)
    for user in (sample.newcomer, sample.colleague):  # in none, in two
        with roles.as_front_end(user) as connection, pytest.raises(psycopg.DatabaseError) as refused:
            connection.execute(query)
        assert refused.value.sqlstate == "PT422"


@pytest.mark.parametrize(
    "table",
    [
        "documents",
        "extractions",
        "ocr_results",
        "stacks",
        "saved_views",
        "comments",
        "stack_documents",
        "stack_tables",
        "stack_table_rows",
    ],
)
def test_rows_can_be_read_by_the_user_who_created_them(roles: Roles, sample: Sample, table: str) -> None:
    with roles.as_owner() as connection:
        for own in ("documents", "extractions", "stacks", "saved_views", "comments", "stack_documents", "stack_tables"):
            connection.execute(
                f"update {own} set user_id = created_by".encode()
            )  # the sample was written without claims
        set_role(connection, "authenticated", {"sub": str(sample.owner)})
        users = {user for (user,) in connection.execute(f"select user_id from {table}".encode())}
        mine = connection.execute(f"select from {table} where user_id = %s".encode(), [sample.owner])
        assert sample.owner in users and mine.rowcount > 0

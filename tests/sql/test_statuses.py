"""The enums of domain/statuses.py are what the database's checks allow, no more and no less."""

from __future__ import annotations

import re
from enum import StrEnum

import pytest

from desk import sql
from fieldmark.domain.statuses import (
    Actor,
    AdmittedBy,
    Approval,
    Approvers,
    AutoCreationStatus,
    CallStatus,
    DocumentStatus,
    ExtractionStatus,
    MembershipRole,
    ProposalStatus,
    ReadingError,
    RunStatus,
)

ENUMS: dict[tuple[str, str], type[StrEnum]] = {
    ("documents", "status"): DocumentStatus,
    ("documents", "error_code"): ReadingError,
    ("extractions", "status"): ExtractionStatus,
    ("extraction_proposals", "status"): ProposalStatus,
    ("extraction_journal", "actor"): Actor,
    ("runs", "status"): RunStatus,
    ("runs", "approval"): Approval,
    ("tool_calls", "status"): CallStatus,
    ("tool_calls", "admitted_by"): AdmittedBy,
    ("memberships", "role"): MembershipRole,
    ("invitations", "role"): MembershipRole,
    ("organisations", "approvers"): Approvers,
    ("auto_creations", "status"): AutoCreationStatus,
}


def allowed(owner_sql, table: str, column: str) -> set[str]:
    """The values that a check on this column alone allows."""
    rows = owner_sql(
        """select pg_get_constraintdef(c.oid) as said from pg_constraint as c
           where c.conrelid = %s::regclass and c.contype = 'c' and c.conkey = array[(
             select attnum from pg_attribute where attrelid = c.conrelid and attname = %s)]""",
        f"public.{table}",
        column,
    )
    found = [re.findall(r"'((?:[^']|'')*)'::text", row["said"]) for row in rows]
    (values,) = [values for values in found if values]
    return set(values)


@pytest.mark.parametrize(("table", "column"), ENUMS)
def test_the_enum_is_what_the_check_allows(clone, table, column):
    there = allowed(lambda query, *values: sql(clone.owner_url, query, *values), table, column)
    assert there == {one.value for one in ENUMS[table, column]}


def test_every_column_that_is_checked_against_a_list_has_its_enum(clone):
    rows = sql(
        clone.owner_url,
        """select r.relname as table, a.attname as column from pg_constraint as c
           join pg_class as r on r.oid = c.conrelid
           join pg_attribute as a on a.attrelid = r.oid and c.conkey = array[a.attnum]
           where c.contype = 'c' and r.relnamespace = 'public'::regnamespace
             and pg_get_constraintdef(c.oid) ~ '= ANY \\(+ARRAY'""",
    )
    # What an agent and its tasks are is a table's to say.
    assert {(row["table"], row["column"]) for row in rows} - {("runs", "agent"), ("runs", "task")} == ENUMS.keys()

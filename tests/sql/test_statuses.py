"""The enums of domain/statuses.py equal the values that check constraints allow."""

from __future__ import annotations

import re
from enum import StrEnum

from role_connections import Roles

from fieldmark.domain.field_query import ValueKind
from fieldmark.domain.statuses import (
    Actor,
    Approval,
    ApprovedBy,
    Approvers,
    AutoCreationStatus,
    CallStatus,
    ChangeType,
    DeliveryStatus,
    DocumentStage,
    DocumentStatus,
    ExtractionStatus,
    FieldStatus,
    MembershipRole,
    ProposalStatus,
    ReadingError,
    RunStatus,
    SecondReadingMode,
    SourceKind,
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
    ("tool_calls", "approved_by"): ApprovedBy,
    ("memberships", "role"): MembershipRole,
    ("invitations", "role"): MembershipRole,
    ("organisations", "approvers"): Approvers,
    ("organisations", "second_reading"): SecondReadingMode,
    ("auto_creations", "status"): AutoCreationStatus,
    ("changes", "type"): ChangeType,
    ("webhook_deliveries", "status"): DeliveryStatus,
    ("sources", "kind"): SourceKind,
}


def test_enums_match_the_database_checks(roles: Roles) -> None:
    rows = roles.owner.execute(
        """select r.relname, a.attname, pg_get_constraintdef(c.oid) from pg_constraint as c
           join pg_class as r on r.oid = c.conrelid
           join pg_attribute as a on a.attrelid = r.oid and c.conkey = array[a.attnum]
           where c.contype = 'c' and r.relnamespace = 'public'::regnamespace
             and pg_get_constraintdef(c.oid) ~ '= ANY \\(+ARRAY'"""
    ).fetchall()
    listed = {(table, column): set(re.findall(r"'([^']*)'::text", check)) for table, column, check in rows}
    assert listed.pop(("webhooks", "disabled_reason")) == {"failing", "gone"}
    assert listed.pop(("fields", "outcome")) == {"absent", "confirmed", "corrected", "found", "reviewed"}
    assert listed.pop(("audits", "outcome")) == {"right", "wrong"}
    assert listed.pop(("fields", "kind")) == {*ValueKind, "blank"}
    assert listed.pop(("fields", "status")) == {*FieldStatus} - {FieldStatus.STALE}  # depends on the table
    assert listed.pop(("documents", "extraction_stage")) == {
        DocumentStage.READY, DocumentStage.NEEDS_REVIEW, DocumentStage.EXTRACTED, DocumentStage.REVIEWED
    }  # fmt: skip
    assert listed == {column: {one.value for one in enum} for column, enum in ENUMS.items()}

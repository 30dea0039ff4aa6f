"""What there is to be allowed: the scopes of keys, and what a member must be for each."""

from __future__ import annotations

from enum import StrEnum

from fieldmark.domain.statuses import MembershipRole

_RANKS = (MembershipRole.VIEWER, MembershipRole.MEMBER, MembershipRole.OWNER)


class Permission(StrEnum):
    """What a key may be made for, as `create_api_key` in the database has it (tests/sql/test_refusals.py).

    `members` are the organisation itself too: its name, settings and members; with `members:write` also its invitations
    and who changed its settings. `schemas` are prompts and tags too.
    """

    DOCUMENTS_READ = "documents:read"
    DOCUMENTS_WRITE = "documents:write"
    EXTRACTIONS_READ = "extractions:read"
    EXTRACTIONS_WRITE = "extractions:write"
    SCHEMAS_READ = "schemas:read"
    SCHEMAS_WRITE = "schemas:write"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    RUNS_APPROVE = "runs:approve"
    USAGE_READ = "usage:read"
    MEMBERS_READ = "members:read"
    MEMBERS_WRITE = "members:write"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing is changed with it."""
        return self.value.endswith(":read")

    @property
    def minimum_role(self) -> MembershipRole:
        """What a member must be at least."""
        if self is Permission.MEMBERS_WRITE:
            return MembershipRole.OWNER
        return MembershipRole.VIEWER if self.is_read_only else MembershipRole.MEMBER


def is_at_least(role: MembershipRole, least: MembershipRole) -> bool:
    """Whether a role is as much as another, or more."""
    return _RANKS.index(role) >= _RANKS.index(least)

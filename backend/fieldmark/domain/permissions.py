"""The scopes of API keys and the role each scope requires."""

from __future__ import annotations

from enum import StrEnum

from fieldmark.domain.statuses import MembershipRole

_RANKS = (MembershipRole.VIEWER, MembershipRole.MEMBER, MembershipRole.OWNER)


class Permission(StrEnum):
    """Scopes of an API key, as checked by `create_api_key` in SQL (tests/sql/test_rejected_values.py).

    `documents:add` is the part of `documents:write` that uploads files. `members` includes the organisation's name,
    settings and members; `members:write` also its invitations and the history of its settings. `schemas` includes
    prompts and tags. `changes` includes the documents, fields and runs that changed.
    """

    DOCUMENTS_READ = "documents:read"
    DOCUMENTS_WRITE = "documents:write"
    DOCUMENTS_ADD = "documents:add"
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
    CHANGES_READ = "changes:read"
    WEBHOOKS_WRITE = "webhooks:write"

    @property
    def is_read_only(self) -> bool:
        return self.value.endswith(":read")

    @property
    def minimum_role(self) -> MembershipRole:
        """The role a member needs for this scope."""
        if self in (Permission.MEMBERS_WRITE, Permission.WEBHOOKS_WRITE):
            return MembershipRole.OWNER
        return MembershipRole.VIEWER if self.is_read_only else MembershipRole.MEMBER


def is_at_least(role: MembershipRole, minimum: MembershipRole) -> bool:
    """Return whether a role equals or exceeds another."""
    return _RANKS.index(role) >= _RANKS.index(minimum)

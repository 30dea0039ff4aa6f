"""The API-key scope that each route needs, derived from its path so that no route can be left out."""

from __future__ import annotations

from fieldmark.domain.permissions import Permission

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# (read scope, write scope) by the first part of the path after /api. Other routes accept no key.
_SCOPES_BY_AREA = {
    "documents": (Permission.DOCUMENTS_READ, Permission.DOCUMENTS_WRITE),
    "search": (Permission.DOCUMENTS_READ, None),
    "extractions": (Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE),
    **dict.fromkeys(
        ("schemas", "schema_versions", "schema_templates", "prompts", "prompt_versions", "tags"),
        (Permission.SCHEMAS_READ, Permission.SCHEMAS_WRITE),
    ),
    "stacks": (Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE),
    "tables": (Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE),
    "fields": (Permission.EXTRACTIONS_READ, None),
    "inbox": (Permission.EXTRACTIONS_READ, None),
    "agent": (Permission.RUNS_READ, Permission.RUNS_WRITE),
    "runs": (Permission.RUNS_READ, Permission.RUNS_WRITE),
    "threads": (Permission.RUNS_READ, Permission.RUNS_WRITE),
    **dict.fromkeys(("usage", "overview"), (Permission.USAGE_READ, None)),
    "organisations": (Permission.MEMBERS_READ, Permission.MEMBERS_WRITE),
    "keys": (Permission.KEYS_READ, Permission.KEYS_WRITE),
    "changes": (Permission.CHANGES_READ, None),
    # (Only owners read them, and a key with only read scopes never has the rights of an owner.)
    "webhooks": (Permission.WEBHOOKS_WRITE, Permission.WEBHOOKS_WRITE),
}
_SCOPE_OVERRIDES = {
    # Only owners read these, and a key with only read scopes never has the rights of an owner.
    ("GET", "/api/organisations/{organisation_id}/invitations"): Permission.MEMBERS_WRITE,
    ("GET", "/api/organisations/{organisation_id}/settings_journal"): Permission.MEMBERS_WRITE,
    ("POST", "/api/documents"): Permission.DOCUMENTS_ADD,
    ("POST", "/api/documents/batch"): Permission.DOCUMENTS_ADD,
    ("POST", "/api/agent/approve"): Permission.RUNS_APPROVE,
    ("POST", "/api/documents/{document_id}/auto_create/accept"): Permission.RUNS_APPROVE,
    ("POST", "/api/documents/{document_id}/auto_create/reject"): Permission.RUNS_APPROVE,
    # These change nothing and return data.
    ("POST", "/api/documents/{document_id}/ground"): Permission.DOCUMENTS_READ,
    ("POST", "/api/documents/groups"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/schemas/{schema_id}/changes"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/tables/{table_id}/rows"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/tables/{table_id}/export"): Permission.EXTRACTIONS_READ,
    ("GET", "/api/schemas/{schema_id}/quality"): Permission.EXTRACTIONS_READ,
    ("GET", "/api/schemas/{schema_id}/corrections"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/fields/query"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/schemas/{schema_id}/apply"): Permission.EXTRACTIONS_WRITE,
}
SECOND_SCOPES = {
    ("POST", "/api/schemas/{schema_id}/merge"): Permission.EXTRACTIONS_WRITE,
    ("POST", "/api/schemas/{schema_id}/apply"): Permission.RUNS_WRITE,
    ("GET", "/api/inbox"): Permission.RUNS_READ,
    ("POST", "/api/documents/groups"): Permission.DOCUMENTS_READ,
    # These return fields or names of tables.
    ("GET", "/api/runs/{run_id}/result"): Permission.EXTRACTIONS_READ,
    ("GET", "/api/overview"): Permission.EXTRACTIONS_READ,
    ("GET", "/api/overview/work"): Permission.EXTRACTIONS_READ,
    # This starts runs.
    ("PUT", "/api/organisations/{organisation_id}/upload_rules"): Permission.RUNS_WRITE,
    # These create a schema, or a version of one.
    ("POST", "/api/stacks"): Permission.SCHEMAS_WRITE,
    ("PUT", "/api/stacks/{stack_id}/columns"): Permission.SCHEMAS_WRITE,
}
"""A second scope that a key needs for a route."""

PEOPLE_ONLY = frozenset(
    {
        ("POST", "/api/organisations"),
        ("GET", "/api/me/export"),
        ("DELETE", "/api/me"),
        ("DELETE", "/api/organisations/{organisation_id}"),
        ("GET", "/api/organisations/{organisation_id}/deletion"),
        ("GET", "/api/organisations/{organisation_id}/export"),
        ("POST", "/api/organisations/{organisation_id}/leave"),
        ("POST", "/api/invitations/read"),
        ("POST", "/api/invitations/accept"),
        ("POST", "/api/keys"),
        ("POST", "/api/stacks/samples"),
        # (A key would repeat the approval in advance of the person who started the run.)
        ("POST", "/api/runs/{run_id}/retry"),
        # (What a source adds belongs to a person, also when a key of theirs has ended.)
        ("GET", "/api/sources"),
        ("POST", "/api/sources"),
        ("PATCH", "/api/sources/{source_id}"),
        ("POST", "/api/sources/{source_id}/check"),
        ("DELETE", "/api/sources/{source_id}"),
    }
)
"""Routes that refuse every key."""

NO_SCOPE_NEEDED = frozenset({("GET", "/api/me")})
"""Routes that accept every key."""


def required_scope(method: str, path: str) -> Permission | None:
    """Return the scope that a key needs for a route, given by its path template. None if no key is accepted."""
    if (method, path) in PEOPLE_ONLY:
        return None
    if (method, path) in _SCOPE_OVERRIDES:
        return _SCOPE_OVERRIDES[method, path]
    read, write = _SCOPES_BY_AREA.get(path.removeprefix("/api/").partition("/")[0], (None, None))
    return read if method in SAFE_METHODS else write

"""What a route asks of its caller: told by its address, so that no route can forget it."""

from __future__ import annotations

from fieldmark.domain.permissions import Permission

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

# The areas below /api that keys can be made for. A route of another area is for people alone.
_AREAS = {
    "documents": (Permission.DOCUMENTS_READ, Permission.DOCUMENTS_WRITE),
    "search": (Permission.DOCUMENTS_READ, None),
    "extractions": (Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE),
    **dict.fromkeys(
        ("schemas", "schema_versions", "prompts", "prompt_versions", "tags"),
        (Permission.SCHEMAS_READ, Permission.SCHEMAS_WRITE),
    ),
    "fields": (Permission.EXTRACTIONS_READ, None),
    "agent": (Permission.RUNS_READ, Permission.RUNS_WRITE),
    "runs": (Permission.RUNS_READ, Permission.RUNS_WRITE),
    "threads": (Permission.RUNS_READ, Permission.RUNS_WRITE),
    "usage": (Permission.USAGE_READ, None),
    "organisations": (Permission.MEMBERS_READ, Permission.MEMBERS_WRITE),
    "keys": (Permission.KEYS_READ, Permission.KEYS_WRITE),
}
_OTHERWISE = {
    # Only owners read these, and a key that only reads is never one.
    ("GET", "/api/organisations/{organisation_id}/invitations"): Permission.MEMBERS_WRITE,
    ("GET", "/api/organisations/{organisation_id}/settings_journal"): Permission.MEMBERS_WRITE,
    ("POST", "/api/agent/approve"): Permission.RUNS_APPROVE,
    ("POST", "/api/documents/{document_id}/auto_create/accept"): Permission.RUNS_APPROVE,
    ("POST", "/api/documents/{document_id}/auto_create/reject"): Permission.RUNS_APPROVE,
    # It changes nothing, and tells of extractions.
    ("POST", "/api/schemas/{schema_id}/changes"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/fields/query"): Permission.EXTRACTIONS_READ,
    ("POST", "/api/schemas/{schema_id}/apply"): Permission.EXTRACTIONS_WRITE,
}
ALSO_NEEDED = {("POST", "/api/schemas/{schema_id}/apply"): Permission.RUNS_WRITE}
"""The second scope that a key needs for a route."""

FOR_PEOPLE = frozenset(
    {
        ("POST", "/api/organisations"),
        ("DELETE", "/api/organisations/{organisation_id}"),
        ("POST", "/api/organisations/{organisation_id}/leave"),
        ("POST", "/api/invitations/accept"),
        ("POST", "/api/keys"),
    }
)
"""What no key does, whatever its scopes: it is a person's own."""

FOR_ANYBODY = frozenset({("GET", "/api/me")})
"""What every key may ask."""


def permission_of(method: str, path: str) -> Permission | None:
    """What a key must be made for to ask this of a route, by its template; None where no key can be."""
    if (method, path) in FOR_PEOPLE:
        return None
    if (method, path) in _OTHERWISE:
        return _OTHERWISE[method, path]
    reading, writing = _AREAS.get(path.removeprefix("/api/").partition("/")[0], (None, None))
    return reading if method in SAFE else writing

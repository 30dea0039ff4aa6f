"""Errors that callers can act on. Each class has an HTTP status and a stable code."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar


class FieldmarkError(Exception):
    """Base of all expected failures. `str(error)` is a message that may be shown to the caller."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, message: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = details or {}
        """Further members of the API's error response."""


class BadRequest(FieldmarkError):
    status, code, title = 400, "bad_request", "Bad request"


class Unauthenticated(FieldmarkError):
    status, code, title = 401, "unauthenticated", "Not signed in"


class AnonymousRefused(Unauthenticated):
    code, title = "anonymous_refused", "Anonymous sign-ins are not allowed"


class KeyExpired(Unauthenticated):
    code, title = "key_expired", "API key expired"


class KeyRevoked(Unauthenticated):
    code, title = "key_revoked", "API key revoked"


class Forbidden(FieldmarkError):
    status, code, title = 403, "forbidden", "Not allowed"


class ReadOnly(Forbidden):
    code, title = "read_only", "Viewers cannot change data"


class OwnerNeeded(Forbidden):
    code, title = "owner_needed", "Owner role required"


class ScopeMissing(Forbidden):
    code, title = "scope_missing", "API key lacks a scope"


class PersonNeeded(Forbidden):
    code, title = "person_needed", "Sign-in required"


class NotApprover(Forbidden):
    code, title = "not_approver", "Only owners may decide"


class SecondPersonNeeded(Forbidden):
    code, title = "second_person_needed", "A second person must decide"


class WrongInvitee(Forbidden):
    code, title = "invitation_for_another", "Invitation is for another address"


class OutOfCredit(FieldmarkError):
    status, code, title = 402, "out_of_credit", "Out of credit"


class NotFound(FieldmarkError):
    status, code, title = 404, "not_found", "Not found"


class EventsExpired(NotFound):
    status, code, title = 410, "events_forgotten", "Events no longer stored"


class InvitationExpired(NotFound):
    status, code, title = 410, "invitation_expired", "Invitation expired"


class InvitationRevoked(NotFound):
    status, code, title = 410, "invitation_revoked", "Invitation revoked"


class Conflict(FieldmarkError):
    status, code, title = 409, "conflict", "Conflict"


class DocumentFailed(Conflict):
    code, title = "document_failed", "The document could not be read"


class ExternalIdTaken(Conflict):
    """Another document of the organisation has the external id. Its id is in `details`."""

    code, title = "external_id_taken", "External id already used"


class Stale(Conflict):
    pass


class LastOwner(Conflict):
    code, title = "last_owner", "An organisation needs an owner"


class QueueClosed(Conflict):
    code, title = "queue_closed", "The queue limit is 0"


class InvitationUsed(Conflict):
    code, title = "invitation_used", "Invitation already used"


class AlreadyMember(Conflict):
    code, title = "already_member", "Already a member"


class Deleted(Conflict):
    code, title = "deleted", "Deleted"


class TooMany(Conflict):
    code, title = "too_many", "Limit reached"


class QuotaExceeded(Conflict):
    code, title = "quota_exceeded", "Storage quota reached"


class NameTaken(Conflict):
    code, title = "name_taken", "Name already in use"


class VersionChanged(Stale):
    code, title = "version_changed", "Changed by another request"


class ProposedAlready(Conflict):
    code, title = "proposed_already", "A proposal already exists"


class SchemaProposed(Conflict):
    code, title = "schema_proposed", "The schema is only a proposal"


class TargetChanged(Conflict):
    code, title = "target_changed", "Changed since the preview"


class Fenced(Conflict):
    code, title = "fenced", "The run belongs to another worker"


class RequestTimeout(FieldmarkError):
    status, code, title = 408, "too_slow", "Request timeout"


class TooLarge(FieldmarkError):
    status, code, title = 413, "too_large", "Too large"


class RangeNotSatisfiable(FieldmarkError):
    status, code, title = 416, "range_not_satisfiable", "Range not satisfiable"


class Invalid(FieldmarkError):
    status, code, title = 422, "invalid", "Invalid request"


class NoFields(Invalid):
    code, title = "no_fields", "The extraction has no fields"


class InvalidPath(Invalid):
    code, title = "invalid_path", "Invalid field path"


class UnknownField(Invalid):
    code, title = "unknown_field", "No such field"


class InvalidSchema(Invalid):
    """`details` may contain `errors` (path, code, message)."""

    code, title = "invalid_schema", "The schema cannot be used"


class OAuthNeeded(Invalid):
    code, title = "oauth_needed", "The mailbox accepts no password"


class InvalidExpression(Invalid):
    code, title = "invalid_expression", "The expression cannot be calculated"


class TooLongToAnswer(Invalid):
    code, title = "too_long_to_answer", "Query too slow"


class InvisibleCharacter(Invalid):
    code, title = "invisible_character", "Invisible character"


class IdempotencyKeyReused(Invalid):
    code, title = "idempotency_key_reused", "Idempotency key reused"


class InvalidFields(Invalid):
    """Some fields are invalid. `paths` lists their path names."""

    def __init__(self, message: str, paths: Sequence[str] = (), details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, details)
        self.paths = tuple(paths)


class QuoteNotPrinted(InvalidFields):
    code, title = "quote_not_printed", "Quote not found"


class OutsideFields(InvalidFields):
    code, title = "outside_fields", "Field not allowed in this run"


class SchemaViolation(InvalidFields):
    """`details` contains `errors` (path, code, message, params)."""

    code, title = "schema_violation", "Schema violation"


class QueueFull(FieldmarkError):
    status, code, title = 429, "queue_full", "Queue full"


class NotInstalled(FieldmarkError):
    status, code, title = 501, "not_installed", "A package of the service is missing"


class Unavailable(FieldmarkError):
    status, code, title = 503, "unavailable", "Service unavailable"


class ModelServiceDown(Unavailable):
    """The model's service refuses requests at the moment. The queue executes the run again after a pause."""


class TooManyAtOnce(Unavailable):
    status, code, title = 429, "too_many_requests", "Too many concurrent requests"


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an exception, or one that caused it, says that a disk of the service or of Postgres is full."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if getattr(error, "sqlstate", None) == "53100" or (
            isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        ):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


class Misconfigured(FieldmarkError):
    code, title = "misconfigured", "Misconfigured"


def _subclasses_of(kind: type[FieldmarkError]) -> Iterator[type[FieldmarkError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _subclasses_of(subclass)


ERRORS_BY_CODE: Mapping[str, type[FieldmarkError]] = {
    kind.code: kind for kind in _subclasses_of(FieldmarkError) if "code" in vars(kind)
}
"""Error classes by code. SQL functions put the code in the DETAIL of their error."""

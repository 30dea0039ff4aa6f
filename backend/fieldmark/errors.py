"""What can go wrong, as sentences a person can act on. Each class carries its HTTP status and a stable code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar


class FieldmarkError(Exception):
    """Base of all expected failures. `str(error)` is one sentence that may be shown to the caller."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, sentence: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.details: Mapping[str, Any] = details or {}
        """What programs are told besides: further members of the API's answer."""


class BadRequest(FieldmarkError):
    status, code, title = 400, "bad_request", "Bad request"


class Unauthenticated(FieldmarkError):
    status, code, title = 401, "unauthenticated", "Not signed in"


class KeyExpired(Unauthenticated):
    code, title = "key_expired", "The key has expired"


class KeyRevoked(Unauthenticated):
    code, title = "key_revoked", "The key was revoked"


class Forbidden(FieldmarkError):
    status, code, title = 403, "forbidden", "Not allowed"


class ReadOnly(Forbidden):
    code, title = "read_only", "A viewer only reads"


class OwnerNeeded(Forbidden):
    code, title = "owner_needed", "Only an owner may"


class ScopeMissing(Forbidden):
    code, title = "scope_missing", "The key lacks a scope"


class PersonNeeded(Forbidden):
    code, title = "person_needed", "A person must do this"


class NotApprover(Forbidden):
    code, title = "not_approver", "Only an owner decides"


class SecondPersonNeeded(Forbidden):
    code, title = "second_person_needed", "Somebody else must decide"


class WrongInvitee(Forbidden):
    code, title = "invitation_for_another", "The invitation is for somebody else"


class OutOfCredit(FieldmarkError):
    status, code, title = 402, "out_of_credit", "Out of credit"


class NotFound(FieldmarkError):
    status, code, title = 404, "not_found", "Not found"


class EventsExpired(NotFound):
    status, code, title = 410, "events_forgotten", "Kept no longer"


class InvitationExpired(NotFound):
    status, code, title = 410, "invitation_expired", "The invitation has expired"


class InvitationRevoked(NotFound):
    status, code, title = 410, "invitation_revoked", "The invitation was taken back"


class Conflict(FieldmarkError):
    status, code, title = 409, "conflict", "Not possible now"


class DocumentFailed(Conflict):
    code, title = "document_failed", "The document could not be read"


class Stale(Conflict):
    pass


class LastOwner(Conflict):
    code, title = "last_owner", "Nobody would own it"


class QueueClosed(Conflict):
    code, title = "queue_closed", "Nothing of it may wait"


class InvitationUsed(Conflict):
    code, title = "invitation_used", "The invitation was used"


class AlreadyMember(Conflict):
    code, title = "already_member", "A member already"


class TooMany(Conflict):
    code, title = "too_many", "Too many already"


class NameTaken(Conflict):
    code, title = "name_taken", "The name is taken"


class VersionChanged(Stale):
    code, title = "version_changed", "It has a newer version"


class ProposedAlready(Conflict):
    code, title = "proposed_already", "Something is proposed already"


class SchemaProposed(Conflict):
    code, title = "schema_proposed", "Its schema is a proposal"


class TargetChanged(Conflict):
    code, title = "target_changed", "It changed since it was shown"


class Fenced(Conflict):
    code, title = "fenced", "The run is in other hands"


class RequestTimeout(FieldmarkError):
    status, code, title = 408, "too_slow", "Too slow"


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


class InvalidSchema(Invalid):
    """`details` may have `errors`, by path and code, and a `suggestion`: the schema that was probably meant."""

    code, title = "invalid_schema", "The schema cannot be used"


class InvalidExpression(Invalid):
    code, title = "invalid_expression", "The expression cannot be reckoned"


class TooLongToAnswer(Invalid):
    code, title = "too_long_to_answer", "It takes too long to answer"


class InvisibleCharacter(Invalid):
    code, title = "invisible_character", "Invisible character"


class IdempotencyKeyReused(Invalid):
    code, title = "idempotency_key_reused", "Idempotency key used before"


class InvalidFields(Invalid):
    """Invalid in fields that it names: `paths` are their names."""

    def __init__(self, sentence: str, paths: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.paths = tuple(paths)


class QuoteNotPrinted(InvalidFields):
    code, title = "quote_not_printed", "The quote is not printed"


class OutsideFields(InvalidFields):
    code, title = "outside_fields", "Not one of the run's fields"


class SchemaViolation(InvalidFields):
    code, title = "schema_violation", "The schema is not followed"


class Unreadable(FieldmarkError):
    status, code, title = 422, "unreadable", "The file cannot be read"


class Damaged(Unreadable):
    code = "damaged"


class NoText(Unreadable):
    code = "no_text"


class OverLimit(Unreadable):
    code = "over_limit"


class PasswordProtected(Unreadable):
    code = "password"


class Unsupported(Unreadable):
    code = "unsupported"


class QueueFull(FieldmarkError):
    status, code, title = 429, "queue_full", "Too much waits already"


class Unavailable(FieldmarkError):
    status, code, title = 503, "unavailable", "Not available now"


class TooManyAtOnce(Unavailable):
    status, code, title = 429, "too_many_requests", "Too many requests at once"


class Misconfigured(FieldmarkError):
    code, title = "misconfigured", "Misconfigured"


def _subclasses_of(kind: type[FieldmarkError]) -> Iterator[type[FieldmarkError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _subclasses_of(one)


ERRORS_BY_CODE: Mapping[str, type[FieldmarkError]] = {
    kind.code: kind for kind in _subclasses_of(FieldmarkError) if "code" in vars(kind)
}
"""What the database refuses under a code of its own: it gives the code as the detail of its error."""

"""Statuses shared with SQL. tests/sql/test_statuses.py compares both."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class RunStatus(StrEnum):
    """The status of a run. QUEUED and RUNNING proceed by themselves, AWAITING_APPROVAL with a user's decision,
    AWAITING_RUNS when child runs end. COMPLETED, FAILED and CANCELLED are final."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_RUNS = "awaiting_runs"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


class Approval(StrEnum):
    """Who approves an agent's writes: the policy, or a person, one by one."""

    AUTO = "auto"
    ASK = "ask"


class CallStatus(StrEnum):
    """The status of a tool call.

    PENDING   waits for a person's decision
    APPROVED  may run, approved by the policy or a person
    WAITING   waits for child runs that it has started
    REFUSED   never ran: its arguments were invalid, or a person rejected it
    DONE, FAILED   ran, and its result is recorded
    """

    PENDING = "pending"
    APPROVED = "approved"
    WAITING = "waiting"
    REFUSED = "refused"
    DONE = "done"
    FAILED = "failed"


class DocumentStatus(StrEnum):
    """Whether a document is being read, is ready, or could not be read."""

    READING = "reading"
    READY = "ready"
    FAILED = "failed"


class CountedKind(StrEnum):
    """Which values a number of a table's quality counts: four of the checks in the period, two of the documents whose
    reading started in it, and those of the claim."""

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    FOUND = "found"
    CHECKED = "checked"
    FILLED = "filled"
    MISSING = "missing"
    ACCEPTED = "accepted"
    AUDITED = "audited"
    WRONG = "wrong"
    WAITING = "waiting"


class DocumentOrder(StrEnum):
    """What a list of documents is sorted by. REVIEW is what a person's next look is worth, of the newest
    1,000 documents."""

    ADDED = "added"
    NAME = "name"
    PAGES = "pages"
    REVIEW = "review"


class DocumentStage(StrEnum):
    """The status of a document that users see. Computed, never stored.

    PROCESSING         is being read
    FAILED             could not be read
    READY              has been read, and has no extraction
    EXTRACTING         a run is extracting its fields
    AWAITING_APPROVAL  a run on it waits for a person's decision
    PROPOSED           an agent suggests a schema and an extraction, to be accepted or rejected
    NEEDS_REVIEW       one of its extractions is incomplete, or has a field that needs review or is unclear. Of the
                       extractions under one schema only the newest counts
    EXTRACTED          agents have completed its extractions, and nothing needs review
    REVIEWED           as EXTRACTED, and a person has reviewed them
    """

    PROCESSING = "processing"
    FAILED = "failed"
    READY = "ready"
    EXTRACTING = "extracting"
    AWAITING_APPROVAL = "awaiting_approval"
    PROPOSED = "proposed"
    NEEDS_REVIEW = "needs_review"
    EXTRACTED = "extracted"
    REVIEWED = "reviewed"


class FieldStatus(StrEnum):
    """The status of a field, the most urgent first. The SQL function `private.field_status` decides it, and its reason.
    Both are stored with the field. Only STALE depends on the table in which a field is shown, and is computed there.

    NEEDS_REVIEW  is missing, breaks the schema or a rule, was not found, or an agent proposes another value
    UNCLEAR       was found, and it is doubtful that it is this value
    STALE         was read with an older version of the schema, in which this field differs
    NOT_WRITTEN   has no value: nothing was read
    BLANK         has no value, and the document or a person says so
    ACCEPTED      a person confirmed it, or reviewed the extraction, knowing why it needed review
    CONFIRMED     was set or confirmed by a person
    FOUND         is on a page, or in a person's message
    """

    NEEDS_REVIEW = "needs_review"
    UNCLEAR = "unclear"
    STALE = "stale"
    NOT_WRITTEN = "not_written"
    BLANK = "blank"
    ACCEPTED = "accepted"
    CONFIRMED = "confirmed"
    FOUND = "found"

    @property
    def needs_person(self) -> bool:
        """Whether a person has to look at the field: the same statuses as `review_count` counts."""
        return self in (FieldStatus.NEEDS_REVIEW, FieldStatus.UNCLEAR)


class FieldProblem(StrEnum):
    """What the schema, or a second reading, says is wrong with a field, the most urgent first: a reason of its
    status."""

    MISSING = "missing"
    BREAKS_SCHEMA = "breaks_schema"
    BREAKS_RULE = "breaks_rule"
    SECOND_READING = "second_reading"


class SecondReadingMode(StrEnum):
    """What a second model reads again: nothing, the doubted fields, or all fields."""

    OFF = "off"
    UNSURE = "unsure"
    ALL = "all"


class RowStatus(StrEnum):
    """The status of a row of a table: DONE, INCOMPLETE or STALE in that of a schema, in that of a stack the `state` in
    the view `stack_table_rows`."""

    WAITING = "waiting"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    DONE = "done"
    INCOMPLETE = "incomplete"
    STALE = "stale"
    FAILED = "failed"
    DUPLICATE = "duplicate"
    CONTAINER = "container"


class ErrorCode(StrEnum):
    """Codes of stored errors. A newer version of the service may have stored a code that this one does not know: it is
    served as it is."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = value, value
        return member


class ReadingError(ErrorCode):
    """Why a document could not be read. The same codes as in `pagewords.errors`.

    PASSWORD     is protected with a password
    DAMAGED      is truncated or corrupt
    WRONG_TYPE   is of another type than its name says
    NO_TEXT      is empty, or has no visible word
    OVER_LIMIT   exceeds a limit on pages, size or time
    UNSUPPORTED  is of an unsupported file type
    UNREADABLE   reading failed because of an internal error
    NOT_INSTALLED          needs OCR, whose packages are not installed
    NOT_FOUND, TOO_LARGE   the original could not be downloaded
    QUOTA_EXCEEDED         the organisation may not store a file of this size
    """

    PASSWORD = "password"  # noqa: S105 - a code
    DAMAGED = "damaged"
    WRONG_TYPE = "wrong_type"
    NO_TEXT = "no_text"
    OVER_LIMIT = "over_limit"
    UNSUPPORTED = "unsupported"
    UNREADABLE = "unreadable"
    NOT_INSTALLED = "not_installed"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    QUOTA_EXCEEDED = "quota_exceeded"


class RunError(ErrorCode):
    """Why a run failed or was cancelled. docs/errors.md lists the meaning and fix of each code."""

    MODEL_REFUSED_REQUEST = "model_refused_request"
    MODEL_REFUSED_KEY = "model_refused_key"
    MODEL_UNPAID = "model_unpaid"
    MODEL_UNKNOWN = "model_unknown"
    MODEL_BUSY = "model_busy"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_DECLINED = "model_declined"
    MODEL_UNPRICED = "model_unpriced"
    DOCUMENT_FAILED = "document_failed"
    DOCUMENT_TOO_LONG = "document_too_long"
    ANSWER_TOO_LONG = "answer_too_long"
    CALL_UNREADABLE = "call_unreadable"
    MAX_TURNS = "max_turns"
    MAX_COST = "max_cost"
    OUT_OF_CREDIT = "out_of_credit"
    DEADLINE = "deadline"
    AGENT_STOPPED = "agent_stopped"
    AGENT_PROCESS = "agent_process"
    UNSEALED = "unsealed"
    SESSION = "session"
    DISK_FULL = "disk_full"
    ABANDONED = "abandoned"
    INVALID_INPUT = "invalid_input"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class ExtractionStatus(StrEnum):
    """The status of an extraction. `FAILED`: its run failed or was cancelled, and no user has set a value."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class ProposalStatus(StrEnum):
    """The status of a proposal. SUPERSEDED: a newer proposal or another value has replaced it."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"


class AutoCreationStatus(StrEnum):
    """The status of an automatically proposed schema and extraction."""

    RUNNING = "running"
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    FAILED = "failed"


class Actor(StrEnum):
    """Who changed a field."""

    AGENT = "agent"
    USER = "user"


class ApprovedBy(StrEnum):
    """Who approved a tool call."""

    POLICY = "policy"
    PERSON = "person"


class MembershipRole(StrEnum):
    """A user's role in an organisation: owners manage members, members work, viewers read."""

    OWNER = "owner"
    MEMBER = "member"
    VIEWER = "viewer"


class Approvers(StrEnum):
    """Who may decide tool calls of an organisation's runs: owners only, or members too."""

    OWNERS = "owners"
    MEMBERS = "members"


class Effort(StrEnum):
    """The model's reasoning effort."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"

    @property
    def thinks(self) -> bool:
        """Whether the model thinks before it answers, which costs time and output tokens."""
        return self not in (Effort.LOW, Effort.MEDIUM)


class ChangeType(StrEnum):
    """What a change reports, as checked by the table `changes` in SQL."""

    DOCUMENT_READY = "document.ready"
    DOCUMENT_FAILED = "document.failed"
    DOCUMENT_DELETED = "document.deleted"
    EXTRACTION_COMPLETED = "extraction.completed"
    EXTRACTION_REVIEWED = "extraction.reviewed"
    EXTRACTION_CHANGED = "extraction.changed"
    RUN_AWAITING_APPROVAL = "run.awaiting_approval"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    TABLE_COMPLETED = "table.completed"
    QUOTA_WARNING = "quota.warning"
    QUOTA_REACHED = "quota.reached"
    WEBHOOK_TEST = "webhook.test"
    WEBHOOK_DISABLED = "webhook.disabled"


class SourceKind(StrEnum):
    """Where a source's documents come from."""

    BUCKET = "bucket"
    MAILBOX = "mailbox"


class DeliveryStatus(StrEnum):
    """Whether a change has reached a webhook. FAILED: all attempts failed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"

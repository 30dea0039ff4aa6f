"""Statuses shared with SQL. tests/sql/test_statuses.py compares both."""

from __future__ import annotations

from enum import StrEnum


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
    """How a call stands.

    PENDING   a person is asked
    APPROVED  it may run, by policy or by a person's word
    WAITING   it has started child runs that have not all ended
    REFUSED   it never ran: its arguments were wrong, or a person said no
    DONE, FAILED   it ran, and its result is recorded
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


class DocumentStage(StrEnum):
    """What happens to a document now, or what it needs next: the one status that people see. Computed, never stored.

    PROCESSING         it is being read
    FAILED             it could not be read
    READY              it is read, and has no extraction
    EXTRACTING         a run works on its fields
    AWAITING_APPROVAL  a run about it waits for a person
    PROPOSED           an agent suggests a schema and an extraction, to be accepted or rejected
    NEEDS_REVIEW       its current extraction is not completed, or has unsure values or proposals
    EXTRACTED          its current extraction is completed by an agent, has neither, and nobody has reviewed it
    REVIEWED           its current extraction is completed, has neither, and a person has reviewed it
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


class ReadingError(StrEnum):
    """Why a document could not be read: the codes of `fieldmark.errors` that end a reading.

    PASSWORD     it is protected with a password
    DAMAGED      it is cut off, broken, or not what its name says
    NO_TEXT      it is empty, or no page has a word that a person can see
    OVER_LIMIT   it is too long, too large or too slow
    UNSUPPORTED  it is of a kind that is not read
    UNREADABLE   reading it failed, for a reason of the service's own
    NOT_FOUND, TOO_LARGE   the original could not be had
    """

    PASSWORD = "password"  # noqa: S105 - a code
    DAMAGED = "damaged"
    NO_TEXT = "no_text"
    OVER_LIMIT = "over_limit"
    UNSUPPORTED = "unsupported"
    UNREADABLE = "unreadable"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"


class RunError(StrEnum):
    """Why a run failed or was cancelled. docs/errors.md lists the meaning and fix of each code."""

    MODEL_REFUSED_REQUEST = "model_refused_request"
    MODEL_REFUSED_KEY = "model_refused_key"
    MODEL_UNKNOWN = "model_unknown"
    MODEL_BUSY = "model_busy"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_DECLINED = "model_declined"
    MODEL_UNPRICED = "model_unpriced"
    DOCUMENT_FAILED = "document_failed"
    DOCUMENT_TOO_LONG = "document_too_long"
    ANSWER_TOO_LONG = "answer_too_long"
    MAX_TURNS = "max_turns"
    MAX_COST = "max_cost"
    OUT_OF_CREDIT = "out_of_credit"
    DEADLINE = "deadline"
    AGENT_STOPPED = "agent_stopped"
    AGENT_PROCESS = "agent_process"
    UNSEALED = "unsealed"
    SESSION = "session"
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
    """Who let a tool call happen."""

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

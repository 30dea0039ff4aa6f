"""The parts of the API's responses that the client names. They are dictionaries: further keys may appear."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

RunStatus = Literal["queued", "running", "awaiting_approval", "awaiting_runs", "completed", "failed", "cancelled"]


class Document(TypedDict):
    """An uploaded file."""

    id: str
    filename: str
    media_type: str | None
    byte_size: int | None
    content_sha256: str | None
    external_id: str | None
    metadata: dict[str, Any]
    page_count: int | None
    status: str
    error: str | None
    error_code: str | None
    parent_document_id: str | None
    duplicate_of: str | None
    tags: list[dict[str, Any]]
    created_at: str
    created_by: str | None
    assignee_id: str | None
    auto_create: dict[str, Any] | None
    shown_extraction_id: str | None
    stage: str
    to_review: int


class UploadedDocument(Document):
    """A document, with the run that extracts its fields, if one was requested."""

    run_id: str | None


class Extraction(TypedDict):
    """The typed fields of one document."""

    id: str
    document_id: str
    document_type: str | None
    status: str
    valid: bool | None
    review_count: int
    schema_revid: str | None
    prompt_revid: str | None
    proposed: bool
    version: int
    created_at: str
    updated_at: str
    reviewed_by: str | None
    extracted_fields: dict[str, Any]
    confidence_scores: dict[str, float]
    evidence: dict[str, dict[str, Any]]
    locks: dict[str, dict[str, Any]]
    proposals: list[dict[str, Any]]
    statuses: dict[str, dict[str, Any]]


class ChangedExtraction(Extraction):
    """The extraction after a change."""

    problems: list[str]
    errors: list[dict[str, Any]]


class WaitingCall(TypedDict):
    """A call that waits for a decision."""

    call_id: str
    tool: str
    input: dict[str, Any]
    message: str
    changes: list[dict[str, Any]]


class RunAccepted(TypedDict):
    """A run that continues in the background."""

    run_id: str
    extraction_id: str | None
    document_id: str | None
    thread_id: str | None
    status: RunStatus
    waits_behind: str | None


class RunResult(TypedDict):
    """The result of a run, or the call that it waits for."""

    run_id: str
    external_id: str | None
    metadata: dict[str, Any]
    thread_id: str | None
    status: RunStatus
    extraction: Extraction | None
    answer: str | None
    result: dict[str, Any] | None
    second_reading: dict[str, Any] | None
    cost_usd: float | None
    usage: dict[str, Any]
    waits_for: WaitingCall | None
    error: str | None
    code: str | None


class Change(TypedDict):
    """Something that happened."""

    id: str
    number: int
    type: str
    created_at: str
    data: dict[str, Any]


class Event(TypedDict):
    """A change as a webhook gets it."""

    id: str
    type: str
    timestamp: str
    data: dict[str, Any]


class Callback(TypedDict):
    """Where the changes of one run are sent, and the secret that signs them."""

    url: str
    secret: str

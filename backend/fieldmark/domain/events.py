"""The events of a run: flat JSON objects, discriminated by `type`.

Fields with the default None are omitted when None. All other fields are always present, possibly null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue

from fieldmark.domain.statuses import RunError


def _fix_schema(schema: JsonSchemaValue) -> None:
    """Match the schema to what is sent: a field that may be omitted is never null, all others are always present."""
    properties = schema["properties"]
    schema["required"] = [name for name, field in properties.items() if field.get("default", "") is not None]
    for field in properties.values():
        if field.get("default", "") is None:
            del field["default"]
            (kind,) = [kind for kind in field.pop("anyOf", [{}]) if kind != {"type": "null"}]
            field.update(kind)
    # Generated clients must accept fields that a later version adds.
    del schema["additionalProperties"]


class EventModel(BaseModel):
    # Validators are built on first use: most processes use few kinds of events.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_fix_schema, defer_build=True)

    @model_serializer(mode="wrap")
    def _omit_none(self, dump: SerializerFunctionWrapHandler):  # noqa: ANN202  an annotation would change the schema
        fields = type(self).model_fields
        dumped: dict[str, Any] = dump(self)
        return {name: value for name, value in dumped.items() if value is not None or fields[name].is_required()}


class EventBase(EventModel):
    """Base class of all events."""

    def flat(self) -> dict[str, JsonValue]:
        """Return the event as the flat JSON object that is stored and streamed."""
        return self.model_dump(mode="json")


class RunStartedEvent(EventBase):
    """The run has started. Always the first event."""

    type: Literal["run"] = "run"
    run_id: UUID
    extraction_id: UUID | None = None
    thread_id: UUID | None = None
    parent_run_id: UUID | None = Field(default=None, description="The run that started this one.")
    parent_call_id: str | None = Field(default=None, description="The call of the parent run that waits for this run.")


class ReadingEvent(EventBase):
    """Progress of reading the document that the run waits for. It has no `id` and is not stored."""

    type: Literal["reading"] = "reading"
    document_id: UUID
    pages_read: int
    page_count: int


class WaitingEvent(EventBase):
    """The run waits for an earlier run on the same document or thread to end. It has no `id` and is not stored."""

    type: Literal["waiting"] = "waiting"
    run_id: UUID = Field(description="The earlier run.")


class TextEvent(EventBase):
    """A block of the agent's answer."""

    type: Literal["text"] = "text"
    text: str


class ThinkingEvent(EventBase):
    """A block of the model's reasoning, if the model provides it."""

    type: Literal["thinking"] = "thinking"
    thinking: str


class TextDeltaEvent(EventBase):
    """The next words of a text block that the model is writing. It has no `id` and is not stored. Sent only with
    `?deltas=true`."""

    type: Literal["text_delta"] = "text_delta"
    text_delta: str


class ThinkingDeltaEvent(EventBase):
    """The next words of a reasoning block that the model is writing. It has no `id` and is not stored. Sent only with
    `?deltas=true`."""

    type: Literal["thinking_delta"] = "thinking_delta"
    thinking_delta: str


ActionType = Literal["planning", "searching", "reading", "analysing", "writing", "opening", "summarising"]
"""The kind of step that a tool call is, for showing the steps of a run."""


class ToolEvent(EventBase):
    """A tool call has started. `tool_result` reports its end."""

    type: Literal["tool"] = "tool"
    tool: str = Field(examples=["update_field"])
    call_id: str
    input: dict[str, JsonValue] = Field(description="The arguments of the call.")
    status: Literal["running"] = "running"
    message: str = Field(description="What the call does, in words.", examples=["Reading pages 1–3"])
    action_type: ActionType
    timestamp: float = Field(description="Seconds since 1970.")


class ToolResultEvent(EventBase):
    """A tool call has ended: `complete` with `output`, or `error`."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: str = Field(description="The tool's name.", examples=["update_field"])
    call_id: str
    status: Literal["complete", "error"]
    output: str | None = Field(default=None, description="What the tool returned; long output is shortened.")
    error: str | None = Field(default=None, description="Why the call failed, for people.")
    code: str = Field(description="The result code, for programs.", examples=["stored", "schema_violation"])
    message: str = Field(description="What the call did, in words.", examples=["Found 2 documents"])
    details: dict[str, JsonValue] | None = Field(
        default=None,
        description="What was found, read or changed: `documents` with ids and names, or other items, counts, and "
        "`from_cache`.",
    )
    action_type: ActionType
    timestamp: float = Field(description="Seconds since 1970.")
    duration_ms: int = Field(description="Duration of the call in milliseconds.")


class ChangedField(EventModel):
    """A field after a change."""

    path: str = Field(examples=["items[0].total"])
    value: JsonValue
    confidence: float | None
    evidence: dict[str, JsonValue] | None = Field(description="The value's location in the document.")
    removed: Literal[True] | None = Field(default=None, description="true if the field was removed, else omitted.")


class ChangedEvent(EventBase):
    """Fields of the extraction changed."""

    type: Literal["changed"] = "changed"
    changed: Sequence[ChangedField]
    version: int = Field(description="The extraction's version after this change.")


class PreviewEvent(EventBase):
    """A field value from a call that the model is still writing. The field is not changed yet. It has no `id` and is
    not stored. Sent only with `?deltas=true`."""

    type: Literal["preview"] = "preview"
    call_id: str
    path: str = Field(examples=["items[0].total"])
    value: JsonValue


class PreviewWithdrawnEvent(EventBase):
    """Previewed values will not be written: their call was refused or not finished. The event is not stored."""

    type: Literal["preview_withdrawn"] = "preview_withdrawn"
    call_id: str | None = Field(default=None, description="The call. If omitted, the previews of all calls are void.")


class ShownChange(EventModel):
    """The change that a call would make to one field: old and new value."""

    path: str
    old: JsonValue
    new: JsonValue
    removed: Literal[True] | None = None
    added: Literal[True] | None = None
    shortened: Literal[True] | None = Field(
        default=None, description="true if `old` or `new` is truncated, else omitted."
    )


class ProposedCall(EventModel):
    """A tool call that waits for a person's decision."""

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    message: str = Field(description="What the call does, in words.", examples=["Updating total"])
    changes: Sequence[ShownChange] = Field(
        default=(), description="The changes that the call would make, computed when it was proposed."
    )


class ApprovalEvent(EventBase):
    """The run waits for a person's decision: `POST /api/agent/approve`. The stream ends here."""

    type: Literal["approval"] = "approval"
    approval: ProposedCall
    run_id: UUID
    text: str | None = Field(None, description="What the run waits for, for clients that know only `text` events.")


class Citation(EventModel):
    """The location of a quote in a document that supports an answer."""

    number: int
    document_id: UUID
    page: int
    boxes: Sequence[tuple[float, float, float, float]]
    quote: str


class CitationEvent(EventBase):
    """The agent cites a location in a document."""

    type: Literal["citation"] = "citation"
    citation: Citation


class OpenEvent(EventBase):
    """The user interface should open a document at a location."""

    type: Literal["open"] = "open"
    open: Citation
    reason: str = Field(description="Why, in the agent's words.")


RetryCode = Literal["busy", "no_response", "interrupted", "model_replaced"]


class RetryEvent(EventBase):
    """The model's API was overloaded, did not answer, or aborted an answer. The request is retried."""

    type: Literal["retry"] = "retry"
    retry: str = Field(description="What happened, for people.")
    code: RetryCode = Field(description="The same for programs.")
    params: dict[str, str] | None = Field(
        default=None, description="With `model_replaced`: the model `requested`, and its `fallback`."
    )
    wait_s: float = Field(description="Seconds until the retry.")


class TokensUsed(EventModel):
    """The model usage of a run."""

    turns: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class ChildEvent(EventBase):
    """An event of a child run, started by a call of this run. Its `id` is numbered with this run's events; it has none
    if `event` is not stored."""

    type: Literal["child"] = "child"
    parent_call_id: str = Field(description="The call of this run that waits for the child run.")
    run_id: UUID = Field(description="The child run.")
    event: dict[str, JsonValue] = Field(description="The event as in the child run's own stream.")


class ProgressEvent(EventBase):
    """A child run of a stack's run has ended. The events of those child runs are in their own streams only."""

    type: Literal["progress"] = "progress"
    call_id: str = Field(description="The call of this run that waits for its child runs.")
    done: int = Field(description="Child runs of the call that completed.")
    failed: int
    left: int
    cost: float | None = Field(description="Of the run so far, in US dollars. null if the model's price is unknown.")


class CompleteEvent(EventBase):
    """The run is completed. Always its last event."""

    type: Literal["complete"] = "complete"
    complete: Literal[True] = True
    extraction_id: UUID | None = None
    cost: float | None = Field(description="In US dollars. null if the model's price is unknown.")
    usage: TokensUsed


class ErrorEvent(EventBase):
    """The run failed or was cancelled. Always its last event."""

    type: Literal["error"] = "error"
    error: str = Field(description="Why, and what to do, for people.")
    code: RunError = Field(description="The stable error code, for programs.", examples=["model_busy"])
    run_id: UUID
    text: str | None = Field(None, description="The same as `error`, for clients that know only `text` events.")


Event = Annotated[
    Union[  # noqa: UP007  one member a line
        RunStartedEvent,
        ReadingEvent,
        WaitingEvent,
        TextEvent,
        ThinkingEvent,
        TextDeltaEvent,
        ThinkingDeltaEvent,
        ToolEvent,
        ToolResultEvent,
        ChangedEvent,
        PreviewEvent,
        PreviewWithdrawnEvent,
        ApprovalEvent,
        CitationEvent,
        OpenEvent,
        RetryEvent,
        ChildEvent,
        ProgressEvent,
        CompleteEvent,
        ErrorEvent,
    ],
    Field(discriminator="type"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
"""Parses an event: `EVENT.validate_json(text)`."""

"""What a run tells, event by event: flat objects, told apart by their `type`.

A field with a default is left out where there is nothing to say; any other stands there, as null if need be.
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
    """Make a schema say what readers meet: a field that may be left out is never null, all others are always there."""
    schema["required"] = [name for name, told in schema["properties"].items() if told.get("default", "") is not None]
    for told in schema["properties"].values():
        if told.get("default", "") is None:
            del told["default"]
            (kind,) = [kind for kind in told.pop("anyOf", [{}]) if kind != {"type": "null"}]
            told.update(kind)
    # A later version may say more: what is generated from this must not refuse it.
    del schema["additionalProperties"]


class EventModel(BaseModel):
    # Built when first used: most processes meet few kinds of events.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_fix_schema, defer_build=True)

    @model_serializer(mode="wrap")
    def _leave_out(self, dump: SerializerFunctionWrapHandler):  # noqa: ANN202  an annotation would stand in the schema
        fields = type(self).model_fields
        dumped: dict[str, Any] = dump(self)
        return {name: value for name, value in dumped.items() if value is not None or fields[name].is_required()}


class EventBase(EventModel):
    """What all events have in common."""

    def flat(self) -> dict[str, JsonValue]:
        """The event as the flat JSON object that is stored and streamed."""
        return self.model_dump(mode="json")


class RunStartedEvent(EventBase):
    """The run begins: always the first event."""

    type: Literal["run"] = "run"
    run_id: UUID
    extraction_id: UUID | None = None
    thread_id: UUID | None = None
    parent_run_id: UUID | None = Field(default=None, description="The run that started this one.")
    parent_call_id: str | None = Field(default=None, description="The call of that run which waits for this one.")


class ReadingEvent(EventBase):
    """How far the document is read that the run waits for. It has no `id` and is not kept."""

    type: Literal["reading"] = "reading"
    document_id: UUID
    pages_read: int
    page_count: int


class WaitingEvent(EventBase):
    """The run waits for another to end that works on the same: an earlier message of its thread, say. It has no `id`
    and is not kept."""

    type: Literal["waiting"] = "waiting"
    run_id: UUID = Field(description="The run that it comes right behind.")


class TextEvent(EventBase):
    """A block of the agent's answer."""

    type: Literal["text"] = "text"
    text: str


class ThinkingEvent(EventBase):
    """A block of the model's reasoning, where the model gives it."""

    type: Literal["thinking"] = "thinking"
    thinking: str


class TextDeltaEvent(EventBase):
    """The next words of a block that is being said. It has no `id` and is not kept: `?deltas=true` asks for it."""

    type: Literal["text_delta"] = "text_delta"
    text_delta: str


class ThinkingDeltaEvent(EventBase):
    """The next words of a reasoning that is being said. It has no `id` and is not kept: `?deltas=true` asks for it."""

    type: Literal["thinking_delta"] = "thinking_delta"
    thinking_delta: str


ActionType = Literal["planning", "searching", "reading", "analysing", "writing", "opening", "summarising"]
"""What kind of step a call is, for whoever shows the steps of a run."""


class ToolEvent(EventBase):
    """A call of a tool begins. `tool_result` reports its end."""

    type: Literal["tool"] = "tool"
    tool: str = Field(examples=["update_field"])
    call_id: str
    input: dict[str, JsonValue] = Field(description="What the tool is called with.")
    status: Literal["running"] = "running"
    message: str = Field(description="What the call does, in words.", examples=["Reading pages 1–3"])
    action_type: ActionType
    timestamp: float = Field(description="Seconds since 1970.")


class ToolResultEvent(EventBase):
    """A call has ended: `complete` with `output`, or `error`."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: str = Field(description="The tool's name.", examples=["update_field"])
    call_id: str
    status: Literal["complete", "error"]
    output: str | None = Field(default=None, description="What the tool returned; long output is shortened.")
    error: str | None = Field(default=None, description="Why it was not done, in a sentence for people.")
    code: str = Field(description="The same for programs.", examples=["stored", "schema_violation"])
    message: str = Field(description="What the call did, in words.", examples=["Found 2 documents"])
    details: dict[str, JsonValue] | None = Field(
        default=None,
        description="What was found, read or changed: `documents`, each with its id and name, or other items; counts; "
        "`from_cache`.",
    )
    action_type: ActionType
    timestamp: float = Field(description="Seconds since 1970.")
    duration_ms: int = Field(description="How long the call took.")


class ChangedField(EventModel):
    """A field as it stands now."""

    path: str = Field(examples=["items[0].total"])
    value: JsonValue
    confidence: float | None
    evidence: dict[str, JsonValue] | None = Field(description="Where the value stands in the document.")
    removed: Literal[True] | None = Field(default=None, description="Said where the field is there no more.")


class ChangedEvent(EventBase):
    """Fields of the extraction changed."""

    type: Literal["changed"] = "changed"
    changed: Sequence[ChangedField]
    version: int = Field(description="The extraction's, from this change on.")


class PreviewEvent(EventBase):
    """A field that a call will write, while the model is still writing the call: a guess, of which nothing is stored
    yet. It has no `id` and is not kept: `?deltas=true` asks for it."""

    type: Literal["preview"] = "preview"
    call_id: str
    path: str = Field(examples=["items[0].total"])
    value: JsonValue


class PreviewWithdrawnEvent(EventBase):
    """A call comes to nothing: it was refused, or never finished. It has no `id` and is not kept."""

    type: Literal["preview_withdrawn"] = "preview_withdrawn"
    call_id: str | None = Field(default=None, description="Whose previews are void. Left out: those of every call.")


class ShownChange(EventModel):
    """What a call would change at one place: old and new."""

    path: str
    old: JsonValue
    new: JsonValue
    removed: Literal[True] | None = None
    added: Literal[True] | None = None
    shortened: Literal[True] | None = Field(default=None, description="Said where `old` or `new` is not shown in full.")


class ProposedCall(EventModel):
    """A call that waits for a person."""

    call_id: str
    tool: str
    input: dict[str, JsonValue]
    message: str = Field(description="What the call does, in words.", examples=["Updating total"])
    changes: Sequence[ShownChange] = Field(default=(), description="What it would change, as it stood then.")


class ApprovalEvent(EventBase):
    """The run waits for a person: `POST /api/agent/approve` decides it. The stream ends here."""

    type: Literal["approval"] = "approval"
    approval: ProposedCall
    run_id: UUID


class Citation(EventModel):
    """Where in a document something stands that an answer says."""

    number: int
    document_id: UUID
    page: int
    boxes: Sequence[tuple[float, float, float, float]]
    quote: str


class CitationEvent(EventBase):
    """A place in a document that the answer rests on."""

    type: Literal["citation"] = "citation"
    citation: Citation


class OpenEvent(EventBase):
    """A page that shows the run should open a document at a place."""

    type: Literal["open"] = "open"
    open: Citation
    reason: str = Field(description="Why, in the agent's words.")


class RetryEvent(EventBase):
    """The model's service was busy, did not answer, or broke off in the middle of an answer: it is asked again."""

    type: Literal["retry"] = "retry"
    retry: str = Field(description="What happened, in a sentence.")
    wait_s: float = Field(description="In how many seconds.")


class TokensUsed(EventModel):
    """What a run used of the model."""

    turns: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class ChildEvent(EventBase):
    """What a run tells that a call of this one has started. Its number is this run's; without an `id` where `event`
    would have none."""

    type: Literal["child"] = "child"
    parent_call_id: str = Field(description="The call of this run that waits for it.")
    run_id: UUID = Field(description="The run whose event it is.")
    event: dict[str, JsonValue] = Field(description="As that run's own stream has it.")


class CompleteEvent(EventBase):
    """The run is done: its last event."""

    type: Literal["complete"] = "complete"
    complete: Literal[True] = True
    extraction_id: UUID | None = None
    cost: float | None = Field(description="In US dollars. null where the model's price is not known.")
    usage: TokensUsed


class ErrorEvent(EventBase):
    """The run failed or was cancelled: its last event."""

    type: Literal["error"] = "error"
    error: str = Field(description="Why, in a sentence that a person can act on.")
    code: RunError = Field(description="Stable: programs may compare it.", examples=["model_busy"])
    run_id: UUID


Event = Annotated[
    Union[  # noqa: UP007  the members one below the other
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
        CompleteEvent,
        ErrorEvent,
    ],
    Field(discriminator="type"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
"""Reads an event: `EVENT.validate_json(text)`."""

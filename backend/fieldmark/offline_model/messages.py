"""The Messages API's format: a response as server-sent events, and as one JSON object."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from fieldmark.domain.json_values import JsonObject

Body: TypeAlias = JsonObject
"""A request's JSON, as a client sent it."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    thinking: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments` is the JSON as it is streamed, so that tests can make it malformed."""

    name: str
    arguments: str
    id: str = field(default_factory=lambda: "toolu_" + secrets.token_hex(10))


Block = Text | Thinking | Call

OFFLINE: Final = "offline"
"""Name of the rule-based model, in usage and wherever a model is named."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The content of one response. Without `stop_reason` it is `tool_use` if there is a call, else `end_turn`. `usage`
    and `model` override the estimated usage and the requested model."""

    blocks: Sequence[Block]
    stop_reason: str | None = None
    usage: Mapping[str, JsonValue] = field(default_factory=JsonObject)
    model: str | None = None


def text(content: str) -> Text:
    return Text(content)


def thinking(content: str) -> Thinking:
    return Thinking(content)


def call(name: str, arguments: Mapping[str, object] | None = None) -> Call:
    """Return a tool call. `name` has no prefix (`update_field`): the request determines the prefix."""
    return Call(name, json.dumps(arguments or {}, ensure_ascii=False))


def raw_call(name: str, arguments: str) -> Call:
    """Return a call whose arguments are sent exactly as given, JSON or not."""
    return Call(name, arguments)


def objects_in(body: Body, key: str) -> list[JsonObject]:
    """Return the objects in a list of the request, such as `messages`; empty if the request has no such list."""
    listed = body.get(key)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def strip_prefix(name: str) -> str:
    """Return a tool's name without its prefix: `update_field` for `mcp__fieldmark__update_field`."""
    return name.rsplit("__", 1)[-1]


def offered_name(name: str, body: Body) -> str:
    """Return a tool's name as the request offers it. An unknown tool gets the prefix of the others.

    A name with a prefix, or with a capital initial like the CLI's own tools, is returned unchanged.
    """
    if "__" in name or name[:1].isupper():
        return name
    offered = [str(tool.get("name", "")) for tool in objects_in(body, "tools")]
    for known in offered:
        if strip_prefix(known) == name:
            return known
    return next((known.removesuffix(strip_prefix(known)) + name for known in offered if "__" in known), name)


def complete_message(body: Body, turn: Turn) -> JsonObject:
    """Return the response as one JSON object, for a request that does not stream."""
    return {
        **_message_base(body, turn),
        "content": [_as_json(block, body) for block in turn.blocks],
        "stop_reason": _stop_reason(turn),
        "usage": {**_usage(body), "output_tokens": _output_tokens(turn.blocks), **turn.usage},
    }


def start_events(body: Body, turn: Turn | None = None) -> Iterator[str]:
    """Yield the events before the first block."""
    yield _event("message_start", message=_message_base(body, turn or Turn(())))
    yield _event("ping")


def block_events(
    index: int, block: Block, body: Body, *, unfinished: bool = False, characters: int | None = None
) -> Iterator[str]:
    """Yield one block as several deltas, of `characters` each if given. If `unfinished`, stop after half of the deltas,
    without the block's stop event."""
    pieces = _split_text(block_text(block), characters)
    match block:
        case Text():
            start: JsonObject = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        case Thinking():
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": _signature(block)})
        case Call():
            start = {"type": "tool_use", "id": block.id, "name": offered_name(block.name, body), "input": {}}
            # The real service starts with an empty delta.
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]
    yield _event("content_block_start", index=index, content_block=start)
    for delta in deltas[: len(deltas) // 2] if unfinished else deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    if not unfinished:
        yield _event("content_block_stop", index=index)


def end_events(turn: Turn) -> Iterator[str]:
    """Yield the events after the last block."""
    yield _event(
        "message_delta",
        delta={"stop_reason": _stop_reason(turn), "stop_sequence": None},
        usage={"output_tokens": turn.usage.get("output_tokens", _output_tokens(turn.blocks))},
    )
    yield _event("message_stop")


def input_tokens(body: Body) -> int:
    """Estimate the request's tokens as a quarter of its characters."""
    parts = (body.get("system"), body.get("tools"), body.get("messages"))
    return max(1, sum(len(json.dumps(part, ensure_ascii=False)) for part in parts if part) // 4)


_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error(status: int, message: str) -> JsonObject:
    """Return the body of an error response."""
    return {"type": "error", "error": {"type": _ERROR_TYPES.get(status, "api_error"), "message": message}}


def _event(name: str, **data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n"


def _message_base(body: Body, turn: Turn) -> JsonObject:
    return {
        "id": "msg_" + secrets.token_hex(12),
        "type": "message",
        "role": "assistant",
        "model": turn.model or str(body.get("model", "offline")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(body), **turn.usage, "output_tokens": 1},
    }


def _usage(body: Body) -> dict[str, int]:
    return {
        "input_tokens": input_tokens(body),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }


def _as_json(block: Block, body: Body) -> JsonObject:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.thinking, "signature": _signature(block)}
        case Call():
            try:
                arguments = json.loads(block.arguments)
            except ValueError:
                arguments = block.arguments  # malformed on purpose: sent as text
            return {"type": "tool_use", "id": block.id, "name": offered_name(block.name, body), "input": arguments}


def _stop_reason(turn: Turn) -> str:
    return turn.stop_reason or ("tool_use" if any(isinstance(block, Call) for block in turn.blocks) else "end_turn")


def _output_tokens(blocks: Sequence[Block]) -> int:
    length = 0
    for block in blocks:
        length += len(block_text(block)) + (len(block.name) if isinstance(block, Call) else 0)
    return max(1, length // 4)


def _signature(block: Thinking) -> str:
    return base64.b64encode(f"offline:{len(block.thinking)}".encode()).decode()


def block_text(block: Block) -> str:
    """Return the text of a block, or the arguments of a call."""
    match block:
        case Text():
            return block.text
        case Thinking():
            return block.thinking
        case Call():
            return block.arguments


def _split_text(whole: str, characters: int | None) -> list[str]:
    # A few pieces for any length: realistic, without thousands of events for a large call.
    size = characters or max(8, -(-len(whole) // 4))
    return [whole[at : at + size] for at in range(0, len(whole), size)]

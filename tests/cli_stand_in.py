"""A stand-in for Claude's CLI that runs in the test's process and in commands it forks. Like the CLI, it speaks the
SDK's control protocol, requests answers from the model service at ANTHROPIC_BASE_URL, calls hooks and tools, and
mirrors its transcript.

Tests of the following need the real CLI:

- the CLI as a process: its user, folder, environment and limits; how it is killed, cleared or reused
- that the CLI calls the hook for each tool, has no tools or commands of its own, and reports what it has
- answers of the model service that are truncated, refused, paused, malformed, or broken off after a complete block
- prompt caching, and the id by which the model service distinguishes CLIs

Retries wait a tenth of the CLI's time. `tests/runs/engine/test_cli_conformance.py` compares the stand-in with the CLI.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import httpx
from claude_agent_sdk import ClaudeAgentOptions, ProcessError, Transport
from claude_agent_sdk._internal.transport import subprocess_cli

RETRY_SECONDS = 0.05
_INTERRUPTED_TEXT = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
_ERRORS = {
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    429: "rate_limit",
}
_UNPARSED_KEY = "__unparsedToolInput"
_NORMAL_STOP_REASONS = ("end_turn", "stop_sequence")
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

Json = dict[str, Any]


class StandInTransport(Transport):
    """Replaces the SDK's transport to the CLI. Takes the same arguments."""

    def __init__(self, prompt: str | AsyncIterable[Json], options: ClaudeAgentOptions) -> None:
        self._options = options
        self._service = options.env["ANTHROPIC_BASE_URL"]
        self._retries = int(options.env["FIELDMARK_RETRIES"])
        assert self._service.startswith("http://127.0.0.1:"), "the stand-in connects to model services on loopback only"
        self._session_id = options.resume or options.session_id or str(uuid4())
        project = Path(options.env["CLAUDE_CONFIG_DIR"]) / "projects" / "stand-in"
        self._transcript = project / f"{self._session_id}.jsonl"
        self._entries: list[Json] = []  # the transcript
        self._mirrored_count = 0
        self._outbox: asyncio.Queue[Json | Exception | None] = asyncio.Queue()
        self._open_requests: dict[str, asyncio.Future[Json]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hooks: dict[str, list[str]] = {}
        self._tools: list[Json] = []
        self._message_ids = count()
        self._http = httpx.AsyncClient(trust_env=False, verify=False, timeout=None)

    # The transport interface of the SDK

    async def connect(self) -> None:
        if self._options.resume:
            stored = [*self._transcript.parent.parent.glob(f"*/{self._session_id}.jsonl")]
            lines = stored[0].read_text().splitlines() if stored else []
            self._entries = [json.loads(line) for line in lines]
            self._mirrored_count = len(self._entries)

    async def write(self, data: str) -> None:
        message = json.loads(data)
        match message["type"]:
            case "control_request":
                assert message["request"]["subtype"] == "initialize"
                self._start_task(self._initialize(message))
            case "control_response":
                answer = message["response"]
                if not (future := self._open_requests.pop(answer["request_id"])).done():
                    future.set_result(answer)
            case "user":
                self._start_task(self._continue(message["message"]["content"]))
            case message_type:
                raise NotImplementedError(message_type)

    async def read_messages(self) -> AsyncIterator[Json]:
        while (message := await self._outbox.get()) is not None:
            if isinstance(message, Exception):
                raise message
            yield message

    async def end_input(self) -> None: ...

    async def close(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()
        self._outbox.put_nowait(None)

    def is_ready(self) -> bool:
        return True

    # The control protocol

    def _start_task(self, action: Coroutine[Any, Any, None]) -> None:
        async def report_errors() -> None:
            try:
                await action
            except Exception as error:  # noqa: BLE001 - read_messages raises it
                self._outbox.put_nowait(error)

        self._create_task(report_errors())

    def _create_task(self, action: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _send_to_sdk(self, message: Json) -> None:
        envelope = {"uuid": str(uuid4()), "session_id": self._session_id}
        # Serialised, as through a pipe: the SDK gets its own objects.
        self._outbox.put_nowait(json.loads(json.dumps(envelope | message)))

    async def _send_request(self, request: Json) -> Json:
        request_id = str(uuid4())
        self._open_requests[request_id] = asyncio.get_running_loop().create_future()
        self._send_to_sdk({"type": "control_request", "request_id": request_id, "request": request})
        answer = await self._open_requests[request_id]
        assert answer["subtype"] == "success", answer
        return answer["response"]

    async def _mcp_request(self, method: str, **params: Any) -> Json:
        (server,) = self._options.mcp_servers
        message = {"jsonrpc": "2.0", "method": method, "id": next(self._message_ids), "params": params}
        if method.startswith("notifications/"):
            del message["id"]
        request = {"subtype": "mcp_message", "server_name": server, "message": message}
        return (await self._send_request(request))["mcp_response"].get("result", {})

    async def _call_hook(self, event: str, block: Json, **fields: Any) -> Json:
        """Return the hook's answer to an event, or nothing without a hook."""
        answer: Json = {}
        for callback in self._hooks.get(event, []):
            hook_input = {
                "session_id": self._session_id,
                "transcript_path": str(self._transcript),
                "cwd": str(self._options.cwd),
                "permission_mode": "dontAsk",
                "hook_event_name": event,
                "tool_name": block["name"],
                "tool_input": block["input"],
                "tool_use_id": block["id"],
                **fields,
            }
            request = {
                "subtype": "hook_callback",
                "callback_id": callback,
                "input": hook_input,
                "tool_use_id": block["id"],
            }
            answer = await self._send_request(request)
        return answer

    async def _initialize(self, message: Json) -> None:
        if self._options.resume and not self._entries:
            raise ProcessError("No conversation found", exit_code=1)
        for event, matchers in (message["request"]["hooks"] or {}).items():
            self._hooks[event] = [callback for matcher in matchers for callback in matcher["hookCallbackIds"]]
        info = {"name": "claude-code", "version": "stand-in"}
        await self._mcp_request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        await self._mcp_request("notifications/initialized")
        (server,) = self._options.mcp_servers
        self._tools = [
            {
                "name": f"mcp__{server}__{tool['name']}",
                "description": tool["description"].replace("…", "..."),
                "input_schema": tool["inputSchema"],
            }
            for tool in sorted((await self._mcp_request("tools/list"))["tools"], key=lambda tool: tool["name"])
        ]
        answer = {
            "subtype": "success",
            "request_id": message["request_id"],
            "response": {"hook_on_failure_supported": True},
        }
        self._send_to_sdk({"type": "control_response", "response": answer})
        if (deferred := self._deferred_call()) is not None:
            self._start_task(self._continue(None, deferred))

    # The conversation

    async def _continue(self, prompt: Any, deferred: Json | None = None) -> None:
        """Continue with a user message, or with the deferred call, until the run's result."""
        if deferred is not None:
            outcome = await self._execute_call(deferred, None)
            if outcome is not None:
                return self._send_result(**outcome)
            prompt = "Continue from where you left off."
        else:
            self._answer_open_messages()
        is_first = not self._entries
        self._add_entry("user", message={"role": "user", "content": prompt})
        if is_first or self._options.resume:
            reminder = (
                f"<system-reminder>\n# Environment\n - Working directory: {self._options.cwd}\n</system-reminder>"
            )
            self._add_entry("attachment", attachment={"type": "environment"}, rendered=[{"content": reminder}])
        self._send_init()
        for turn in count(1):
            message = await self._request_message()
            if message is None:
                return None
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            outcomes = [await call for call in message["calls"]]
            self._send_transcript()
            if endings := [outcome for outcome in outcomes if outcome is not None]:
                return self._send_result(**endings[0])
            if not calls:
                texts = [block["text"] for block in message["content"] if block["type"] == "text"]
                assert message["stop_reason"] in _NORMAL_STOP_REASONS, f"{message['stop_reason']}: use the real CLI"
                return self._send_result(stop_reason=message["stop_reason"], result=texts[-1] if texts else "")
            if turn == self._options.max_turns:
                errors = [f"Reached maximum number of turns ({turn})"]
                ending = {"terminal_reason": "max_turns", "is_error": True, "errors": errors}
                return self._send_result(
                    subtype="error_max_turns", stop_reason="tool_use", num_turns=turn + 1, **ending
                )
        return None

    async def _request_message(self) -> Json | None:
        """Return the model's next message and the tasks of its calls. If the service fails, send an error result and
        return None."""
        for attempt in range(1, self._retries + 2):
            status, error_message, retry_after = None, "", None
            self._send_to_sdk({"type": "system", "subtype": "status", "status": "requesting"})
            try:
                async with self._http.stream(
                    "POST",
                    f"{self._service}/v1/messages?beta=true",
                    json=self._request_body(),
                    headers={"x-api-key": self._options.env["FIELDMARK_MODEL_KEY"]},
                ) as response:
                    if response.status_code == 200:
                        if (message := await self._receive_message(response)) is not None:
                            return message
                    else:
                        status, retry_after = response.status_code, response.headers.get("retry-after")
                        error_message = json.loads(await response.aread())["error"]["message"]
                error = "ECONNRESET"
            except httpx.ConnectError:
                error = "ECONNREFUSED"
            except httpx.TransportError:
                error = "ECONNRESET"
            is_retryable = status is None or status in (401, 408, 409, 429) or status >= 500
            if not is_retryable or attempt > self._retries:
                return self._report_failure(status, error_message, error)
            wait = float(retry_after) if retry_after is not None else RETRY_SECONDS * 2 ** (attempt - 1)
            details = {"attempt": attempt, "max_retries": self._retries, "retry_delay_ms": wait * 1000}
            kind = "unknown" if status is None else _ERRORS.get(status, "server_error")
            self._send_to_sdk(
                {"type": "system", "subtype": "api_retry", "error_status": status, "error": kind, **details}
            )
            self._add_entry(
                "system", subtype="api_error", level="error", error={"status": status, "message": error_message}
            )
            await asyncio.sleep(wait)
        raise AssertionError

    async def _receive_message(self, response: httpx.Response) -> Json | None:
        """Return the streamed message. Each call starts once its block is complete, after the previous call. Return
        None if the stream breaks off."""
        message: Json = {}
        entries: list[Json] = []
        block: Json = {}
        partial_json = ""
        calls: list[asyncio.Task[Any]] = []
        try:
            async for line in _stream_lines(response):
                if not line.startswith("data: ") or (event := _parse_json(line[6:]))["type"] == "ping":
                    continue
                match event["type"]:
                    case "message_start":
                        message = {**event["message"], "calls": calls}
                    case "content_block_start":
                        block, partial_json = dict(event["content_block"]), ""
                    case "content_block_delta":
                        delta = event["delta"]
                        if (key := _DELTAS.get(delta["type"])) is not None:
                            block[key] += delta[key]
                        else:
                            partial_json += delta["partial_json"]
                    case "content_block_stop":
                        if block["type"] == "tool_use":
                            block["input"] = _parse_arguments(partial_json)
                        message["content"] = [*message["content"], block]
                        shown_message = {key: value for key, value in message.items() if key != "calls"} | {
                            "content": [block]
                        }
                        entries.append(self._add_entry("assistant", is_shown=True, message=shown_message))
                        if block["type"] == "tool_use":
                            calls.append(self._create_task(self._execute_call(block, calls[-1] if calls else None)))
                            await asyncio.sleep(0)  # so that a refusal is sent before the next block
                        block = {}
                    case "message_delta":
                        message |= {"stop_reason": event["delta"]["stop_reason"]}
                        for entry in entries:
                            entry["message"] |= {"stop_reason": message["stop_reason"]}
                    case _:
                        pass
                self._send_to_sdk({"type": "stream_event", "event": event, "parent_tool_use_id": None})
                if event["type"] == "message_stop":
                    self._send_transcript()
                    return message
        except httpx.TransportError:
            pass
        assert not entries, "stream broke off after a complete block: use the real CLI"
        if block:
            self._send_to_sdk({"type": "stream_event", "event": {"type": "content_block_stop", "index": 0}})
        if message:
            self._send_to_sdk({"type": "stream_event", "event": {"type": "message_stop"}})
        return None

    async def _execute_call(self, block: Json, previous_call: asyncio.Task[Any] | None) -> Json | None:
        """Execute a call after the previous one. Return the result that ends the conversation, or None."""
        if previous_call is not None:
            await previous_call
        hook_stopped = {"stop_reason": "tool_use", "terminal_reason": "hook_stopped", "result": ""}
        if (refusal := self._refusal(block)) is not None:
            self._add_tool_result(block, f"<tool_use_error>{refusal}</tool_use_error>", is_error=True)
            return None
        answer = await self._call_hook("PreToolUse", block)
        verdict = answer.get("hookSpecificOutput", {})
        match verdict.get("permissionDecision"):
            case "defer":
                attachment = {
                    "type": "hook_deferred_tool",
                    "toolUseID": block["id"],
                    "toolName": block["name"],
                    "toolInput": block["input"],
                    "hookEvent": "PreToolUse",
                }
                self._add_entry("attachment", attachment=attachment)
                deferred = {key: block[key] for key in ("id", "name", "input")}
                deferral = {"stop_reason": "tool_deferred", "terminal_reason": "tool_deferred", "result": ""}
                return {**deferral, "deferred_tool_use": deferred}
            case "deny":
                self._add_tool_result(block, verdict.get("permissionDecisionReason", ""), is_error=True)
            case "allow":
                arguments = verdict.get("updatedInput", block["input"])
                name = block["name"].split("__", 2)[2]
                meta = {"claudecode/toolUseId": block["id"]}
                result = await self._mcp_request("tools/call", name=name, arguments=arguments, _meta=meta)
                if result.get("isError", True):
                    refusal = "\n".join(part["text"] for part in result.get("content", []))
                    self._add_tool_result(block, refusal, is_error=True)
                else:
                    content = [{"type": part["type"], "text": part["text"]} for part in result["content"]]
                    answer = await self._call_hook("PostToolUse", block | {"input": arguments}, tool_response=content)
                    self._add_tool_result(block, content)
            case verdict:
                raise NotImplementedError(verdict)
        return hook_stopped if answer.get("continue") is False else None

    def _refusal(self, block: Json) -> str | None:
        """Return why the CLI refuses a call before it calls any hook."""
        if block["name"] not in [tool["name"] for tool in self._tools]:
            return f"Error: No such tool available: {block['name']}"
        if (unparsed := block["input"].get(_UNPARSED_KEY)) is not None:
            error = f"InputValidationError: {block['name']} was called with input that could not be parsed as JSON."
            return f"{error}\nYou sent (first {unparsed['len']} of {unparsed['len']} bytes): {unparsed['raw']}"
        return None

    def _add_tool_result(self, block: Json, content: Any, *, is_error: bool = False) -> None:
        result = {"tool_use_id": block["id"], "type": "tool_result", "content": content}
        result |= {"is_error": True} if is_error else {}
        self._add_entry("user", is_shown=True, message={"role": "user", "content": [result]})

    def _report_failure(self, status: int | None, error_message: str, error: str) -> None:
        """Add the CLI's synthetic message about a failed request, and send an error result."""
        is_too_long = status == 400 and error_message.startswith("prompt is too long")
        is_unpaid = status == 400 and "credit balance is too low" in error_message
        kind = "invalid_request" if is_too_long else "unknown" if status == 400 else _ERRORS.get(status or 500)
        rejected = f"Request rejected (429) · {error_message}" if status == 429 else f"{status} {error_message}"
        text = f"API Error: Connection failed ({error})" if status is None else f"API Error: {rejected}"
        if is_unpaid:
            kind, text = "billing_error", "Credit balance is too low"
        message = {"id": str(uuid4()), "type": "message", "role": "assistant", "model": "<synthetic>"}
        message |= {"content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence", "usage": {}}
        self._add_entry("assistant", is_shown=True, message=message, error=kind or "server_error")
        reason = "prompt_too_long" if is_too_long else "api_error"
        ending = {"is_error": True, "api_error_status": status, "terminal_reason": reason}
        self._send_result(stop_reason="stop_sequence", result=text, **ending)

    def _send_result(self, **fields: Any) -> None:
        self._send_transcript()
        defaults = {"subtype": "success", "is_error": False, "terminal_reason": "completed", "num_turns": 1}
        usage = {"duration_ms": 1, "duration_api_ms": 1, "total_cost_usd": 0, "usage": {}, "permission_denials": []}
        self._send_to_sdk({"type": "result", **defaults, **usage, **fields})

    def _send_init(self) -> None:
        (server,) = self._options.mcp_servers
        self._send_to_sdk(
            {
                "type": "system",
                "subtype": "init",
                "cwd": str(self._options.cwd),
                "tools": [tool["name"] for tool in self._tools],
                "mcp_servers": [{"name": server, "status": "connected"}],
                "model": self._options.model,
                "permissionMode": self._options.permission_mode,
                "slash_commands": [],
                "agents": [],
                "skills": [],
                "plugins": [],
            }
        )

    # The transcript

    def _add_entry(self, kind: str, *, is_shown: bool = False, **content: Any) -> Json:
        """Add an entry to the transcript. With `is_shown`, send it to the SDK as a message too."""
        parent = self._entries[-1].get("uuid") if self._entries else None
        entry = {"type": kind, "uuid": str(uuid4()), "parentUuid": parent, "sessionId": self._session_id, **content}
        self._entries.append(entry)
        if is_shown:
            self._send_to_sdk({**{key: entry[key] for key in ("type", "uuid", *content)}, "parent_tool_use_id": None})
        return entry

    def _send_transcript(self) -> None:
        if new := self._entries[self._mirrored_count :]:
            self._mirrored_count = len(self._entries)
            self._send_to_sdk({"type": "transcript_mirror", "filePath": str(self._transcript), "entries": new})

    def _deferred_call(self) -> Json | None:
        """Return the call at which the conversation stopped for a decision."""
        last_entry = self._entries[-1] if self._entries else {}
        attachment = last_entry.get("attachment", {})
        if attachment.get("type") != "hook_deferred_tool":
            return None
        return {"id": attachment["toolUseID"], "name": attachment["toolName"], "input": attachment["toolInput"]}

    def _answer_open_messages(self) -> None:
        """Add a result to calls without one, and an answer to an unanswered message: the roles must alternate."""
        blocks = [block for entry in self._entries for block in _content_blocks(entry)]
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        for block in blocks:
            if block["type"] == "tool_use" and block["id"] not in answered:
                result = {
                    "tool_use_id": block["id"],
                    "type": "tool_result",
                    "content": _INTERRUPTED_TEXT,
                    "is_error": True,
                }
                self._add_entry("user", message={"role": "user", "content": [result]})
        messages = [entry for entry in self._entries if entry["type"] in ("user", "assistant")]
        if messages and messages[-1]["type"] == "user":
            placeholder = {"type": "text", "text": "No response requested."}
            message = {
                "id": str(uuid4()),
                "role": "assistant",
                "content": [placeholder],
                "stop_reason": "stop_sequence",
            }
            self._add_entry("assistant", message=message)

    def _request_body(self) -> Json:
        messages: list[Json] = []
        answers: dict[str, Json] = {}  # by message id
        for entry in self._entries:
            if rendered := entry.get("rendered"):
                messages.append({"role": "system", "content": "\n\n".join(part["content"] for part in rendered)})
            elif entry["type"] == "assistant" and entry["message"]["id"] in answers:
                answers[entry["message"]["id"]]["content"] += entry["message"]["content"]
            elif entry["type"] == "user" and messages and messages[-1]["role"] == "user":
                messages[-1] = {"role": "user", "content": _as_blocks(messages[-1]["content"]) + _content_blocks(entry)}
            elif entry["type"] in ("user", "assistant"):
                content = entry["message"]["content"]
                messages.append({"role": entry["type"], "content": content if isinstance(content, str) else [*content]})
                if entry["type"] == "assistant":
                    answers[entry["message"]["id"]] = messages[-1]
        last = _as_blocks(messages[-1]["content"])
        marked = [*last[:-1], last[-1] | {"cache_control": {"type": "ephemeral"}}]
        system = [
            "You are a Claude agent, built on Anthropic's Claude Agent SDK.",
            self._options.system_prompt["prompt"],
        ]
        return {
            "model": self._options.model,
            "messages": [*messages[:-1], {"role": messages[-1]["role"], "content": marked}],
            "system": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}} for text in system],
            "tools": self._tools,
            "tool_choice": {
                "type": "auto",
                "disable_parallel_tool_use": self._options.env["FIELDMARK_ONE_AT_A_TIME"] == "true",
            },
            "max_tokens": 64000,
            "thinking": {"type": "adaptive"},
            "stream": True,
        }


@contextlib.contextmanager
def stand_in_cli() -> Iterator[None]:
    """Make the SDK use the stand-in instead of starting a CLI."""
    with patch.object(subprocess_cli, "SubprocessCLITransport", StandInTransport):
        yield


def _content_blocks(entry: Json) -> list[Json]:
    """Return the content blocks of a message entry; nothing for other entries."""
    return _as_blocks(entry["message"]["content"]) if entry["type"] in ("user", "assistant") else []


def _as_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _parse_arguments(json_text: str) -> Json:
    """Return a call's arguments. Text that is not JSON is returned under a special key, as the CLI does."""
    try:
        return _parse_json(json_text or "{}")
    except ValueError:
        return {_UNPARSED_KEY: {"raw": json_text, "len": len(json_text.encode())}}


async def _stream_lines(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the lines of an event stream. httpx would also split at U+2028, which texts may contain."""
    rest = ""
    async for text in response.aiter_text():
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            yield line.removesuffix("\r")


def _parse_json(text: str) -> Any:
    """Parse JSON like JavaScript: 1.0 becomes 1, and integers have 53 bits."""
    return json.loads(text, parse_int=_parse_number, parse_float=_parse_number)


def _parse_number(digits: str) -> float | int | None:
    with contextlib.suppress(OverflowError):
        value = float(digits)
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return None

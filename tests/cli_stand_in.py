"""A stand-in for Claude's CLI in this process. It speaks the SDK's control protocol, asks the model of
ANTHROPIC_BASE_URL over HTTP, calls the hooks and the tools, and mirrors its transcript, as the CLI does.

What it does not show, and tests of which need the real CLI: that there is a process with a user, a folder, an
environment and limits of its own; that the CLI calls the hook for each tool, has no tool or command of its own, and
reports what it has (the stand-in reports what is expected); how it is killed, cleared or kept for another run; what it
does when an answer is cut off, refused, paused, malformed, silent or broken off behind a whole block; what it caches,
and by which id the model's service tells CLIs apart.
Waits between retries are a tenth of the CLI's. `tests/runs/engine/test_cli_conformance.py` compares the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ProcessError, Transport
from claude_agent_sdk._internal.transport import subprocess_cli

RETRY_SECONDS = 0.05
_INTERRUPTED = (
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
_UNPARSED = "__unparsedToolInput"
_ENDED_WELL = ("end_turn", "stop_sequence")
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

Json = dict[str, Any]


class StandIn(Transport):
    """Stands where the SDK has the transport to its CLI, with the same arguments."""

    def __init__(self, prompt: str | AsyncIterable[Json], options: ClaudeAgentOptions) -> None:
        self._options = options
        self._service = options.env["ANTHROPIC_BASE_URL"]
        self._retries = int(options.env["FIELDMARK_RETRIES"])
        assert self._service.startswith("http://127.0.0.1:"), "the stand-in asks models on loopback only"
        self._session_id = options.resume or options.session_id or str(uuid4())
        project = Path(options.env["CLAUDE_CONFIG_DIR"]) / "projects" / "stand-in"
        self._transcript = project / f"{self._session_id}.jsonl"
        self._entries: list[Json] = []  # of the conversation so far, in order
        self._mirrored = 0
        self._sent: asyncio.Queue[Json | Exception | None] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hooks: dict[str, list[str]] = {}
        self._tools: list[Json] = []
        self._numbers = count()
        self._http = httpx.AsyncClient(trust_env=False, verify=False, timeout=None)

    # What the SDK asks of a transport

    async def connect(self) -> None:
        if self._options.resume:
            stored = [*self._transcript.parent.parent.glob(f"*/{self._session_id}.jsonl")]
            lines = stored[0].read_text().splitlines() if stored else []
            self._entries = [json.loads(line) for line in lines]
            self._mirrored = len(self._entries)

    async def write(self, data: str) -> None:
        message = json.loads(data)
        match message["type"]:
            case "control_request":
                assert message["request"]["subtype"] == "initialize"
                self._start(self._initialize(message))
            case "control_response":
                answer = message["response"]
                if not (waiting := self._waiting.pop(answer["request_id"])).done():
                    waiting.set_result(answer)
            case "user":
                self._start(self._converse(message["message"]["content"]))
            case kind:
                raise NotImplementedError(kind)

    async def read_messages(self) -> AsyncIterator[Json]:
        while (message := await self._sent.get()) is not None:
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
        self._sent.put_nowait(None)

    def is_ready(self) -> bool:
        return True

    # The control protocol

    def _start(self, action: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await action
            except Exception as error:  # noqa: BLE001 - the SDK hands it to whoever reads
                self._sent.put_nowait(error)

        self._begin(guarded())

    def _begin(self, action: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that ends with this at the latest."""
        task = asyncio.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _send(self, message: Json) -> None:
        own = {"uuid": str(uuid4()), "session_id": self._session_id}
        # Through text and back, as through a pipe: nobody shares an object with the SDK.
        self._sent.put_nowait(json.loads(json.dumps(own | message)))

    async def _request(self, request: Json) -> Json:
        request_id = str(uuid4())
        self._waiting[request_id] = asyncio.get_running_loop().create_future()
        self._send({"type": "control_request", "request_id": request_id, "request": request})
        answer = await self._waiting[request_id]
        assert answer["subtype"] == "success", answer
        return answer["response"]

    async def _mcp(self, method: str, **params: Any) -> Json:
        (server,) = self._options.mcp_servers
        message = {"jsonrpc": "2.0", "method": method, "id": next(self._numbers), "params": params}
        if method.startswith("notifications/"):
            del message["id"]
        request = {"subtype": "mcp_message", "server_name": server, "message": message}
        return (await self._request(request))["mcp_response"].get("result", {})

    async def _hook(self, event: str, block: Json, **more: Any) -> Json:
        """What the hook says of an event; nothing where there is none."""
        answer: Json = {}
        for callback in self._hooks.get(event, []):
            given = {
                "session_id": self._session_id,
                "transcript_path": str(self._transcript),
                "cwd": str(self._options.cwd),
                "permission_mode": "dontAsk",
                "hook_event_name": event,
                "tool_name": block["name"],
                "tool_input": block["input"],
                "tool_use_id": block["id"],
                **more,
            }
            request = {"subtype": "hook_callback", "callback_id": callback, "input": given, "tool_use_id": block["id"]}
            answer = await self._request(request)
        return answer

    async def _initialize(self, message: Json) -> None:
        if self._options.resume and not self._entries:
            raise ProcessError("No conversation found", exit_code=1)
        for event, matchers in (message["request"]["hooks"] or {}).items():
            self._hooks[event] = [callback for matcher in matchers for callback in matcher["hookCallbackIds"]]
        info = {"name": "claude-code", "version": "stand-in"}
        await self._mcp("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        await self._mcp("notifications/initialized")
        (server,) = self._options.mcp_servers
        self._tools = [
            {
                "name": f"mcp__{server}__{tool['name']}",
                "description": tool["description"].replace("…", "..."),
                "input_schema": tool["inputSchema"],
            }
            for tool in sorted((await self._mcp("tools/list"))["tools"], key=lambda tool: tool["name"])
        ]
        answer = {
            "subtype": "success",
            "request_id": message["request_id"],
            "response": {"hook_on_failure_supported": True},
        }
        self._send({"type": "control_response", "response": answer})
        if (deferred := self._deferred()) is not None:
            self._start(self._converse(None, deferred))

    # The conversation

    async def _converse(self, prompt: Any, deferred: Json | None = None) -> None:
        """Go on with a message, or with the call that was deferred, until there is a result."""
        if deferred is not None:
            outcome = await self._call(deferred, None)
            if outcome is not None:
                return self._result(**outcome)
            prompt = "Continue from where you left off."
        else:
            self._close_what_is_open()
        is_first = not self._entries
        self._add("user", message={"role": "user", "content": prompt})
        if is_first or self._options.resume:
            here = f"<system-reminder>\n# Environment\n - Working directory: {self._options.cwd}\n</system-reminder>"
            self._add("attachment", attachment={"type": "environment"}, rendered=[{"content": here}])
        self._say_what_there_is()
        for turn in count(1):
            message = await self._ask()
            if message is None:
                return None
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            outcomes = [await call for call in message["calls"]]
            self._mirror()
            if ended := [outcome for outcome in outcomes if outcome is not None]:
                return self._result(**ended[0])
            if not calls:
                said = [block["text"] for block in message["content"] if block["type"] == "text"]
                assert message["stop_reason"] in _ENDED_WELL, f"{message['stop_reason']}: use the real CLI"
                return self._result(stop_reason=message["stop_reason"], result=said[-1] if said else "")
            if turn == self._options.max_turns:
                errors = [f"Reached maximum number of turns ({turn})"]
                ending = {"terminal_reason": "max_turns", "is_error": True, "errors": errors}
                return self._result(subtype="error_max_turns", stop_reason="tool_use", num_turns=turn + 1, **ending)
        return None

    async def _ask(self) -> Json | None:
        """The model's next message, with the outcomes of its calls to come; None when the service did not answer, and
        the result says so."""
        for attempt in range(1, self._retries + 2):
            status, words, after = None, "", None
            self._send({"type": "system", "subtype": "status", "status": "requesting"})
            try:
                async with self._http.stream(
                    "POST",
                    f"{self._service}/v1/messages?beta=true",
                    json=self._body(),
                    headers={"x-api-key": self._options.env["FIELDMARK_MODEL_KEY"]},
                ) as response:
                    if response.status_code == 200:
                        if (message := await self._stream(response)) is not None:
                            return message
                    else:
                        status, after = response.status_code, response.headers.get("retry-after")
                        words = json.loads(await response.aread())["error"]["message"]
                error = "ECONNRESET"
            except httpx.ConnectError:
                error = "ECONNREFUSED"
            except httpx.TransportError:
                error = "ECONNRESET"
            passes = status is None or status in (401, 408, 409, 429) or status >= 500
            if not passes or attempt > self._retries:
                return self._fail(status, words, error)
            wait = float(after) if after is not None else RETRY_SECONDS * 2 ** (attempt - 1)
            details = {"attempt": attempt, "max_retries": self._retries, "retry_delay_ms": wait * 1000}
            kind = "unknown" if status is None else _ERRORS.get(status, "server_error")
            self._send({"type": "system", "subtype": "api_retry", "error_status": status, "error": kind, **details})
            self._add("system", subtype="api_error", level="error", error={"status": status, "message": words})
            await asyncio.sleep(wait)
        raise AssertionError

    async def _stream(self, response: httpx.Response) -> Json | None:
        """The message that comes in pieces. A call begins as soon as its block is whole, behind the one before it.
        None where the stream broke off; that of a block that was whole is not shown."""
        message: Json = {}
        entries: list[Json] = []
        block: Json = {}
        written = ""
        calls: list[asyncio.Task[Any]] = []
        try:
            async for line in _lines(response):
                if not line.startswith("data: ") or (event := _parsed(line[6:]))["type"] == "ping":
                    continue
                match event["type"]:
                    case "message_start":
                        message = {**event["message"], "calls": calls}
                    case "content_block_start":
                        block, written = dict(event["content_block"]), ""
                    case "content_block_delta":
                        delta = event["delta"]
                        if (key := _DELTAS.get(delta["type"])) is not None:
                            block[key] += delta[key]
                        else:
                            written += delta["partial_json"]
                    case "content_block_stop":
                        if block["type"] == "tool_use":
                            block["input"] = _arguments(written)
                        message["content"] = [*message["content"], block]
                        details = {key: value for key, value in message.items() if key != "calls"} | {
                            "content": [block]
                        }
                        entries.append(self._add("assistant", is_shown=True, message=details))
                        if block["type"] == "tool_use":
                            calls.append(self._begin(self._call(block, calls[-1] if calls else None)))
                            await asyncio.sleep(0)  # one that is refused is answered before the next block
                        block = {}
                    case "message_delta":
                        message |= {"stop_reason": event["delta"]["stop_reason"]}
                        for entry in entries:
                            entry["message"] |= {"stop_reason": message["stop_reason"]}
                    case _:
                        pass
                self._send({"type": "stream_event", "event": event, "parent_tool_use_id": None})
                if event["type"] == "message_stop":
                    self._mirror()
                    return message
        except httpx.TransportError:
            pass
        assert not entries, "broken off behind a whole block: use the real CLI"
        if block:
            self._send({"type": "stream_event", "event": {"type": "content_block_stop", "index": 0}})
        if message:
            self._send({"type": "stream_event", "event": {"type": "message_stop"}})
        return None

    async def _call(self, block: Json, before: asyncio.Task[Any] | None) -> Json | None:
        """Carry out a call, behind the one before it; answers the result of the conversation if it ends here."""
        if before is not None:
            await before
        stops = {"stop_reason": "tool_use", "terminal_reason": "hook_stopped", "result": ""}
        if (words := self._why_not(block)) is not None:
            self._returned(block, f"<tool_use_error>{words}</tool_use_error>", is_error=True)
            return None
        answer = await self._hook("PreToolUse", block)
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
                self._add("attachment", attachment=attachment)
                deferred = {key: block[key] for key in ("id", "name", "input")}
                ending = {"stop_reason": "tool_deferred", "terminal_reason": "tool_deferred", "result": ""}
                return {**ending, "deferred_tool_use": deferred}
            case "deny":
                self._returned(block, verdict.get("permissionDecisionReason", ""), is_error=True)
            case "allow":
                given = verdict.get("updatedInput", block["input"])
                name = block["name"].split("__", 2)[2]
                meta = {"claudecode/toolUseId": block["id"]}
                result = await self._mcp("tools/call", name=name, arguments=given, _meta=meta)
                if result.get("isError", True):
                    words = "\n".join(part["text"] for part in result.get("content", []))
                    self._returned(block, words, is_error=True)
                else:
                    content = [{"type": part["type"], "text": part["text"]} for part in result["content"]]
                    answer = await self._hook("PostToolUse", block | {"input": given}, tool_response=content)
                    self._returned(block, content)
            case verdict:
                raise NotImplementedError(verdict)
        return stops if answer.get("continue") is False else None

    def _why_not(self, block: Json) -> str | None:
        """What is refused before any hook is asked."""
        if block["name"] not in [tool["name"] for tool in self._tools]:
            return f"Error: No such tool available: {block['name']}"
        if (sent := block["input"].get(_UNPARSED)) is not None:
            fault = f"InputValidationError: {block['name']} was called with input that could not be parsed as JSON."
            return f"{fault}\nYou sent (first {sent['len']} of {sent['len']} bytes): {sent['raw']}"
        return None

    def _returned(self, block: Json, content: Any, *, is_error: bool = False) -> None:
        result = {"tool_use_id": block["id"], "type": "tool_result", "content": content}
        result |= {"is_error": True} if is_error else {}
        self._add("user", is_shown=True, message={"role": "user", "content": [result]})

    def _fail(self, status: int | None, words: str, error: str) -> None:
        """The CLI's own words in the model's name, and a result that tells of the failure."""
        is_too_long = status == 400 and words.startswith("prompt is too long")
        kind = "invalid_request" if is_too_long else "unknown" if status == 400 else _ERRORS.get(status or 500)
        rejected = f"Request rejected (429) · {words}" if status == 429 else f"{status} {words}"
        text = f"API Error: Connection failed ({error})" if status is None else f"API Error: {rejected}"
        said = {"id": str(uuid4()), "type": "message", "role": "assistant", "model": "<synthetic>"}
        said |= {"content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence", "usage": {}}
        self._add("assistant", is_shown=True, message=said, error=kind or "server_error")
        reason = "prompt_too_long" if is_too_long else "api_error"
        ending = {"is_error": True, "api_error_status": status, "terminal_reason": reason}
        self._result(stop_reason="stop_sequence", result=text, **ending)

    def _result(self, **ending: Any) -> None:
        self._mirror()
        same = {"subtype": "success", "is_error": False, "terminal_reason": "completed", "num_turns": 1}
        figures = {"duration_ms": 1, "duration_api_ms": 1, "total_cost_usd": 0, "usage": {}, "permission_denials": []}
        self._send({"type": "result", **same, **figures, **ending})

    def _say_what_there_is(self) -> None:
        (server,) = self._options.mcp_servers
        self._send(
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

    def _add(self, kind: str, *, is_shown: bool = False, **content: Any) -> Json:
        """An entry of the transcript; with `is_shown` a message to the SDK too."""
        before = self._entries[-1].get("uuid") if self._entries else None
        entry = {"type": kind, "uuid": str(uuid4()), "parentUuid": before, "sessionId": self._session_id, **content}
        self._entries.append(entry)
        if is_shown:
            self._send({**{key: entry[key] for key in ("type", "uuid", *content)}, "parent_tool_use_id": None})
        return entry

    def _mirror(self) -> None:
        if new := self._entries[self._mirrored :]:
            self._mirrored = len(self._entries)
            self._send({"type": "transcript_mirror", "filePath": str(self._transcript), "entries": new})

    def _deferred(self) -> Json | None:
        """The call at which the conversation stopped for a decision."""
        last = self._entries[-1] if self._entries else {}
        attachment = last.get("attachment", {})
        if attachment.get("type") != "hook_deferred_tool":
            return None
        return {"id": attachment["toolUseID"], "name": attachment["toolName"], "input": attachment["toolInput"]}

    def _close_what_is_open(self) -> None:
        """Calls without a result get one, and a message that was not answered an answer: the roles must take turns."""
        blocks = [block for entry in self._entries for block in _blocks(entry)]
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        for block in blocks:
            if block["type"] == "tool_use" and block["id"] not in answered:
                result = {"tool_use_id": block["id"], "type": "tool_result", "content": _INTERRUPTED, "is_error": True}
                self._add("user", message={"role": "user", "content": [result]})
        said = [entry for entry in self._entries if entry["type"] in ("user", "assistant")]
        if said and said[-1]["type"] == "user":
            words = {"type": "text", "text": "No response requested."}
            message = {"id": str(uuid4()), "role": "assistant", "content": [words], "stop_reason": "stop_sequence"}
            self._add("assistant", message=message)

    def _body(self) -> Json:
        messages: list[Json] = []
        answers: dict[str, Json] = {}  # by the id that the service gave them
        for entry in self._entries:
            if rendered := entry.get("rendered"):
                messages.append({"role": "system", "content": "\n\n".join(part["content"] for part in rendered)})
            elif entry["type"] == "assistant" and entry["message"]["id"] in answers:
                answers[entry["message"]["id"]]["content"] += entry["message"]["content"]
            elif entry["type"] == "user" and messages and messages[-1]["role"] == "user":
                messages[-1] = {"role": "user", "content": _listed(messages[-1]["content"]) + _blocks(entry)}
            elif entry["type"] in ("user", "assistant"):
                content = entry["message"]["content"]
                messages.append({"role": entry["type"], "content": content if isinstance(content, str) else [*content]})
                if entry["type"] == "assistant":
                    answers[entry["message"]["id"]] = messages[-1]
        last = _listed(messages[-1]["content"])
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
def standing_in() -> Iterator[None]:
    """Meanwhile the SDK starts no CLI: it is given the stand-in where it would make the transport to one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess_cli, "SubprocessCLITransport", StandIn)
        yield


def _blocks(entry: Json) -> list[Json]:
    """What a message of the transcript is made of; nothing of other entries."""
    return _listed(entry["message"]["content"]) if entry["type"] in ("user", "assistant") else []


def _listed(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _arguments(written: str) -> Json:
    """A call's arguments; what is no JSON is kept as it is."""
    try:
        return _parsed(written or "{}")
    except ValueError:
        return {_UNPARSED: {"raw": written, "len": len(written.encode())}}


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """The lines of an event stream. httpx would also end one at U+2028, which a text may hold."""
    rest = ""
    async for text in response.aiter_text():
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            yield line.removesuffix("\r")


def _parsed(text: str) -> Any:
    """JSON as the CLI reads it: in JavaScript 1.0 is 1, and an integer has 53 bits."""
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(digits: str) -> float | int | None:
    with contextlib.suppress(OverflowError):
        value = float(digits)
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return None

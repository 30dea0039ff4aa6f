from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from extraction_case import until
from fieldmark.offline_model.messages import Turn, call, text, thinking
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script, repeat_forever, stall_connection
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

TOOLS = [{"name": "mcp__fieldmark__get_document_text"}, {"name": "mcp__fieldmark__update_field"}]


def request_body(*messages: dict[str, Any], stream: bool = True, session: str = "s") -> dict[str, Any]:
    first = {"role": "user", "content": "Extract"}
    return {
        "model": "claude-x",
        "stream": stream,
        "tools": TOOLS,
        "metadata": {"user_id": session},
        "messages": [first, *messages],
    }


def answered_messages(*texts: str) -> list[dict[str, Any]]:
    return [
        message
        for answer in texts
        for message in ({"role": "assistant", "content": answer}, {"role": "user", "content": "on"})
    ]


@pytest.fixture
async def client(anyio_backend: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        yield client


async def events(client: httpx.AsyncClient, model: OfflineModel, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await client.post(f"{model.base_url}/v1/messages", json=body)
    assert answer.status_code == 200
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


async def response_text(client: httpx.AsyncClient, model: OfflineModel, body: dict[str, Any]) -> str:
    answer = await client.post(f"{model.base_url}/v1/messages", json=body | {"stream": False})
    return answer.json()["content"][0]["text"]


async def test_response_is_streamed_block_by_block_in_several_deltas(client):
    arguments = {"path": "vendor.name", "value": "Ümläut & Söhne", "confidence": 0.9}
    script = Script(
        [[thinking("Let me look at the page."), text("I see the vendor."), call("update_field", arguments)]]
    )
    async with OfflineModel(script) as model:
        received = await events(client, model, request_body())

    assert [event["type"] for event in received[:2]] == ["message_start", "ping"]
    assert received[0]["message"]["usage"]["input_tokens"] > 10
    assert [event["type"] for event in received[-2:]] == ["message_delta", "message_stop"]
    assert received[-2]["delta"]["stop_reason"] == "tool_use"
    assert received[-2]["usage"]["output_tokens"] > 10
    starts = [event["content_block"] for event in received if event["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use"]
    assert starts[2]["name"] == "mcp__fieldmark__update_field"
    assert [event["index"] for event in received if event["type"] == "content_block_stop"] == [0, 1, 2]
    deltas: dict[str, list[str]] = {}
    for event in received:
        if event["type"] == "content_block_delta":
            kind, value = list(event["delta"].values())
            deltas.setdefault(kind, []).append(value)
    assert "".join(deltas["thinking_delta"]) == "Let me look at the page."
    assert deltas["signature_delta"][0]
    assert "".join(deltas["text_delta"]) == "I see the vendor."
    assert json.loads("".join(deltas["input_json_delta"])) == arguments
    assert all(len(deltas[kind]) > 1 for kind in ("thinking_delta", "text_delta", "input_json_delta"))


async def test_response_without_streaming_is_one_object(client):
    async with OfflineModel(lambda body: Turn([text("Stopped here.")], "max_tokens")) as model:
        answer = (await client.post(f"{model.base_url}/v1/messages", json=request_body(stream=False))).json()
    assert answer["content"] == [{"type": "text", "text": "Stopped here."}]
    assert (answer["stop_reason"], answer["role"], answer["model"]) == ("max_tokens", "assistant", "claude-x")


async def test_tool_names_match_those_in_the_request(client):
    calls = [call("update_field"), call("no_such_tool"), call("Read", {"file_path": "/x"}), call("mcp__other__it")]
    async with OfflineModel(Script([calls])) as model:
        answer = (await client.post(f"{model.base_url}/v1/messages", json=request_body(stream=False))).json()
    assert [block["name"] for block in answer["content"]] == [
        "mcp__fieldmark__update_field",
        "mcp__fieldmark__no_such_tool",
        "Read",
        "mcp__other__it",
    ]


async def test_tokens_are_counted_and_requests_are_kept(client):
    async with OfflineModel(Script([[text("ok")]])) as model:
        short = await client.post(f"{model.base_url}/v1/messages/count_tokens", json=request_body())
        long = await client.post(
            f"{model.base_url}/v1/messages/count_tokens", json=request_body({"role": "user", "content": "x" * 4000})
        )
        assert 990 < long.json()["input_tokens"] - short.json()["input_tokens"] < 1100
        await events(client, model, request_body())
        assert [body["messages"] for body in model.requests] == [request_body()["messages"]]


def endless_script() -> Script:
    return Script([repeat_forever([text("ok")])])


@pytest.mark.parametrize("path", ["/v1/messages", "/wrong/v1/messages", "/", "/docs", "/openapi.json"])
async def test_url_without_the_token_gets_404(client, path):
    async with OfflineModel(endless_script()) as model:
        root = model.base_url.rpartition("/")[0]
        assert (await client.post(root + path, json=request_body())).status_code == 404
        assert (await client.post(model.base_url + "/v1/messages", json=request_body())).status_code == 200


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a":', b"\xff"])
async def test_request_that_is_not_an_object_gets_400(client, content):
    async with OfflineModel(endless_script()) as model:
        answer = await client.post(model.base_url + "/v1/messages", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_exception_text_is_not_in_the_error_response(client):
    def fails(body: dict[str, Any]) -> Any:
        raise RuntimeError("postgres://user:secret@host")

    async with OfflineModel(fails) as model:
        answer = await client.post(model.base_url + "/v1/messages", json=request_body())
    assert answer.status_code == 400
    assert "secret" not in answer.text


async def test_stalled_stream_does_not_delay_shutdown(client):
    model = OfflineModel(Script([stall_connection(3600, text("a few words"))]))
    await model.__aenter__()
    received: list[str] = []

    async def listen() -> None:
        async with client.stream("POST", f"{model.base_url}/v1/messages", json=request_body()) as answer:
            async for piece in answer.aiter_text():
                received.append(piece)  # noqa: PERF401  read while it grows

    listening = asyncio.create_task(listen())
    await until(lambda: "text_delta" in "".join(received))
    assert not listening.done()
    async with asyncio.timeout(PATIENCE):
        await model.__aexit__(None, None, None)
    with pytest.raises(httpx.RemoteProtocolError):
        await listening
    assert "message_stop" not in "".join(received)

"""The Messages API on loopback: its shapes, its faults, its closed doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from desk import until
from fieldmark.offline_model.messages import Turn, call, raw_call, text, thinking
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script, drop, endless, http_error, stall
from standing import PATIENCE

pytestmark = pytest.mark.anyio

TOOLS = [{"name": "mcp__fieldmark__get_document_text"}, {"name": "mcp__fieldmark__update_field"}]


def asking(*messages: dict[str, Any], stream: bool = True, session: str = "s") -> dict[str, Any]:
    first = {"role": "user", "content": "Extract"}
    return {
        "model": "claude-x",
        "stream": stream,
        "tools": TOOLS,
        "metadata": {"user_id": session},
        "messages": [first, *messages],
    }


def said(*texts: str) -> list[dict[str, Any]]:
    """So many answers of the model, each followed by the user."""
    return [
        message
        for words in texts
        for message in ({"role": "assistant", "content": words}, {"role": "user", "content": "on"})
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


async def words_of(client: httpx.AsyncClient, model: OfflineModel, body: dict[str, Any]) -> str:
    answer = await client.post(f"{model.base_url}/v1/messages", json=body | {"stream": False})
    return answer.json()["content"][0]["text"]


async def test_a_turn_is_streamed_block_by_block_in_several_pieces(client):
    arguments = {"path": "vendor.name", "value": "Ümläut & Söhne", "confidence": 0.9}
    script = Script(
        [[thinking("Let me look at the page."), text("I see the vendor."), call("update_field", arguments)]]
    )
    async with OfflineModel(script) as model:
        got = await events(client, model, asking())

    assert [event["type"] for event in got[:2]] == ["message_start", "ping"]
    assert got[0]["message"]["usage"]["input_tokens"] > 10
    assert [event["type"] for event in got[-2:]] == ["message_delta", "message_stop"]
    assert got[-2]["delta"]["stop_reason"] == "tool_use"
    assert got[-2]["usage"]["output_tokens"] > 10
    starts = [event["content_block"] for event in got if event["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use"]
    assert starts[2]["name"] == "mcp__fieldmark__update_field"
    assert [event["index"] for event in got if event["type"] == "content_block_stop"] == [0, 1, 2]
    deltas: dict[str, list[str]] = {}
    for event in got:
        if event["type"] == "content_block_delta":
            kind, value = list(event["delta"].values())
            deltas.setdefault(kind, []).append(value)
    assert "".join(deltas["thinking_delta"]) == "Let me look at the page."
    assert deltas["signature_delta"][0]
    assert "".join(deltas["text_delta"]) == "I see the vendor."
    assert json.loads("".join(deltas["input_json_delta"])) == arguments
    assert all(len(deltas[kind]) > 1 for kind in ("thinking_delta", "text_delta", "input_json_delta"))


async def test_without_streaming_the_turn_is_one_object(client):
    async with OfflineModel(lambda body: Turn([text("Stopped here.")], "max_tokens")) as model:
        answer = (await client.post(f"{model.base_url}/v1/messages", json=asking(stream=False))).json()
    assert answer["content"] == [{"type": "text", "text": "Stopped here."}]
    assert (answer["stop_reason"], answer["role"], answer["model"]) == ("max_tokens", "assistant", "claude-x")


async def test_names_are_those_that_the_request_offers(client):
    calls = [call("update_field"), call("no_such_tool"), call("Read", {"file_path": "/x"}), call("mcp__other__it")]
    async with OfflineModel(Script([calls])) as model:
        answer = (await client.post(f"{model.base_url}/v1/messages", json=asking(stream=False))).json()
    assert [block["name"] for block in answer["content"]] == [
        "mcp__fieldmark__update_field",
        "mcp__fieldmark__no_such_tool",
        "Read",
        "mcp__other__it",
    ]


async def test_tokens_are_counted_and_requests_are_kept(client):
    async with OfflineModel(Script([[text("ok")]])) as model:
        short = await client.post(f"{model.base_url}/v1/messages/count_tokens", json=asking())
        long = await client.post(
            f"{model.base_url}/v1/messages/count_tokens", json=asking({"role": "user", "content": "x" * 4000})
        )
        assert 990 < long.json()["input_tokens"] - short.json()["input_tokens"] < 1100
        await events(client, model, asking())
        assert [body["messages"] for body in model.requests] == [asking()["messages"]]


async def test_requests_are_kept_up_to_a_bound(client):
    async with OfflineModel(endless_text()) as model:
        for letter in "abcde":
            await events(client, model, asking({"role": "user", "content": letter * (5 << 20)}))
        kept = [body["messages"][1]["content"][0] for body in model.requests]
    assert kept == ["c", "d", "e"]


def endless_text() -> Script:
    return Script([endless([text("ok")])])


@pytest.mark.parametrize("path", ["/v1/messages", "/wrong/v1/messages", "/", "/docs", "/openapi.json"])
async def test_outside_its_token_there_is_nothing(client, path):
    async with OfflineModel(endless_text()) as model:
        root = model.base_url.rpartition("/")[0]
        assert (await client.post(root + path, json=asking())).status_code == 404
        assert (await client.post(model.base_url + "/v1/messages", json=asking())).status_code == 200


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a":', b"\xff"])
async def test_what_is_no_object_is_refused(client, content):
    async with OfflineModel(endless_text()) as model:
        answer = await client.post(model.base_url + "/v1/messages", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_an_answer_that_fails_is_an_error_without_its_text(client):
    def fails(body: dict[str, Any]) -> Any:
        raise RuntimeError("postgres://user:secret@host")

    async with OfflineModel(fails) as model:
        answer = await client.post(model.base_url + "/v1/messages", json=asking())
    assert answer.status_code == 400
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (401, "authentication_error"), (500, "api_error"), (529, "overloaded_error")],
)
async def test_an_error_has_the_services_shape_and_is_served_once(client, status, kind):
    async with OfflineModel(Script([http_error(status), [text("fine")]])) as model:
        answer = await client.post(f"{model.base_url}/v1/messages", json=asking())
        assert (answer.status_code, answer.json()["type"]) == (status, "error")
        assert answer.json()["error"]["type"] == kind
        assert await words_of(client, model, asking()) == "fine"


async def test_too_many_requests_says_when_to_come_back(client):
    async with OfflineModel(Script([http_error(429, retry_after=1), [text("fine")]])) as model:
        answer = await client.post(f"{model.base_url}/v1/messages", json=asking())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_a_drop_breaks_off_in_the_middle_of_its_last_block(client):
    async with OfflineModel(Script([drop(text("whole"), text("broken in the middle of it")), [text("fine")]])) as model:
        got = ""
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("POST", f"{model.base_url}/v1/messages", json=asking()) as answer:
                async for piece in answer.aiter_text():
                    got += piece
        assert "whole" in got
        assert "broken" in got
        assert '"text": "it"' not in got, "its last piece"
        assert got.count("content_block_start\ndata") == 2
        assert got.count("content_block_stop\ndata") == 1
        assert await words_of(client, model, asking()) == "fine"


async def test_a_stall_is_silent_and_does_not_hold_up_the_end(client):
    model = OfflineModel(Script([stall(3600, text("a few words"))]))
    await model.__aenter__()
    got: list[str] = []

    async def listen() -> None:
        async with client.stream("POST", f"{model.base_url}/v1/messages", json=asking()) as answer:
            async for piece in answer.aiter_text():
                got.append(piece)  # noqa: PERF401  read while it grows

    listening = asyncio.create_task(listen())
    await until(lambda: "text_delta" in "".join(got))
    assert not listening.done()
    async with asyncio.timeout(PATIENCE):
        await model.__aexit__(None, None, None)
    with pytest.raises(httpx.RemoteProtocolError):
        await listening
    assert "message_stop" not in "".join(got)


async def test_conversations_beside_each_other_each_have_their_own_place(client):
    script = Script([http_error(500), [text("one")], [text("two")], [text("three")]])
    async with OfflineModel(script) as model:
        for session in ("a", "b"):
            answer = await client.post(f"{model.base_url}/v1/messages", json=asking(session=session))
            assert answer.status_code == 500, "each conversation gets the fault once"
        got = await asyncio.gather(
            *(
                words_of(client, model, asking(*said(*["x"] * place), session=session))
                for place in (2, 0, 1)
                for session in ("a", "b")
            )
        )
    assert got == ["three", "three", "one", "one", "two", "two"]


async def test_the_place_is_read_from_the_conversation(client):
    """A repeated request gets its turn again; a turn with two calls, and the client's own reminders, count once."""
    results = [{"type": "tool_result", "tool_use_id": name, "content": "ok"} for name in "ab"]
    later = [
        {"role": "system", "content": "<system-reminder>a</system-reminder>"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]},
        {"role": "system", "content": "<system-reminder>between</system-reminder>"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "x", "input": {}}]},
        {"role": "user", "content": results},
        {"role": "system", "content": "<system-reminder>b</system-reminder>"},
    ]
    async with OfflineModel(Script([[text("one")], [text("two")]])) as model:
        assert [await words_of(client, model, asking(*later)) for _ in range(2)] == ["two", "two"]


async def test_the_end_of_a_script_says_so_and_an_endless_turn_has_none(client):
    async with OfflineModel(Script([[text("one")]])) as model:
        answer = await client.post(f"{model.base_url}/v1/messages", json=asking(*said("one")))
        assert answer.status_code == 400
        assert "1 turns and was asked for number 2" in answer.json()["error"]["message"]
    async with OfflineModel(Script([[text("one")], endless(http_error(401))])) as model:
        for count in (1, 1, 5):
            answer = await client.post(f"{model.base_url}/v1/messages", json=asking(*said(*["x"] * count)))
            assert answer.status_code == 401


async def test_a_computed_turn_can_be_held_back(client):
    go = asyncio.Event()

    async def held(body: dict[str, Any]) -> list[Any]:
        await go.wait()
        return [text(f"{len(body['messages'])} message")]

    async with OfflineModel(Script([held, lambda body: [raw_call("update_field", '{"a": ')]])) as model:
        asked = asyncio.create_task(words_of(client, model, asking()))
        await asyncio.sleep(0.05)
        assert not asked.done()
        go.set()
        assert await asked == "1 message"
        got = await events(client, model, asking(*said("x")))
        sent = "".join(event["delta"]["partial_json"] for event in got if event["type"] == "content_block_delta")
        assert sent == '{"a": '

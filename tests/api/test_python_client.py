"""clients/python: both clients against the real service, and their types against the OpenAPI description."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import httpx
import pytest
from standardwebhooks import Webhook

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python"))

from fieldmark_client import (
    AsyncFieldmark,
    Fieldmark,
    FieldmarkError,
    InvalidSignature,
    Upload,
    types,
    verify_webhook,
)
from fieldmark_client.rows import Rows

pytestmark = pytest.mark.anyio

SCHEMA = {"name": "Invoices", "schema": {"type": "object", "properties": {"total": {"type": "number"}}}}
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
NOT_IN_OPENAPI = {"Event", "Callback"}  # what webhooks get; a part of requests
SECRET = "whsec_" + "QUJD" * 8


def test_types_have_the_keys_that_the_api_describes(openapi):
    described = openapi["components"]["schemas"]
    named = {name: kind for name, kind in vars(types).items() if is_typeddict(kind) and name not in NOT_IN_OPENAPI}
    assert len(named) == 8
    for name, kind in named.items():
        hints = get_type_hints(kind)
        assert hints.keys() == described[name]["properties"].keys(), name
        for key, hint in hints.items():
            shape = described[name]["properties"][key]
            options = shape.get("anyOf", [shape])
            assert ({"type": "null"} in options) == (type(None) in getattr(hint, "__args__", ())), (name, key)
            if hint in JSON_TYPES and "type" in shape:
                assert shape["type"] == JSON_TYPES[hint], (name, key)
    assert set(types.RunStatus.__args__) == set(described["RunStatus"]["enum"])
    assert types.Callback.__annotations__.keys() == described["NewCallback"]["properties"].keys()


def test_both_clients_have_the_same_verbs():
    verbs = {name for name in dir(Fieldmark) if not name.startswith("_")}
    assert verbs == {name for name in dir(AsyncFieldmark) if not name.startswith("_")} and len(verbs) == 16


def story(client: Fieldmark, folder: Path) -> dict[str, Any]:
    """Use every verb. Return what a caller sees."""
    (folder / "b.txt").write_text("Invoice number: 2\nTotal: 20.00 EUR\n")
    client.request("POST", "/api/schemas", body=SCHEMA)
    files = [Upload(("a.txt", b"Invoice number: 1\nTotal: 10.00 EUR\n"), "order-1", {"team": "north"})]
    sent = list(client.upload_many([*files, folder / "b.txt"], extract="invoices"))
    again = list(client.upload_many(files, extract="invoices"))
    assert [one.error and one.error.code for one in (*sent, *again)] == [None, None, "external_id_taken"]
    runs = [one.document["run_id"] for one in sent if one.document]
    for run in runs:
        assert client.wait(run, timeout=100)["status"] == "completed"
    events = list(client.follow(runs[0]))
    assert events[0]["type"] == "run" and events[-1]["type"] == "complete"
    extraction = client.wait(runs[0])["extraction"]
    assert extraction is not None and client.extraction(extraction["id"]) == extraction
    changed = client.set_fields(extraction["id"], {"total": 11}, version=extraction["version"])
    assert changed["extracted_fields"]["total"] == 11
    with pytest.raises(FieldmarkError) as raised:
        client.set_fields(extraction["id"], {"total": 12}, version=extraction["version"])
    assert (raised.value.status, raised.value.code) == (409, "conflict")
    asking = client.correct(extraction["id"], "set note to paid", approval="ask")["run_id"]
    while (waiting := client.wait(asking)["waits_for"]) is not None:
        assert [event["type"] for event in client.follow(asking)][-1] == "approval"
        client.decide(asking, waiting["call_id"], approved=True)
    assert client.wait(asking)["status"] == "completed"
    assert {one["id"] for one in client.documents()} >= {one.document["id"] for one in sent if one.document}
    assert client.document(extraction["document_id"])["external_id"] == "order-1"
    types_seen = [change["type"] for change in client.changes(types=["extraction.completed"])]
    rows = client.rows("Invoices", sort="total")
    given, other = ("c.txt", b"Total: 30.00 EUR"), ("d.txt", b"Total: 40.00 EUR")
    sent = [*client.upload_many([given], table="Invoices"), *client.upload_many([other], table="Unknown")]
    assert [one.error and one.error.code for one in sent] == [None, "not_found"]
    return {"changes": types_seen, "rows": [row["total"] for row in rows]}


async def test_every_verb_works_and_is_described(serve, openapi, tmp_path):
    sent: list[httpx.Request] = []
    async with serve() as server:
        key = server.http.headers["authorization"].removeprefix("Bearer ")
        hooks = {"request": [sent.append]}
        with Fieldmark(server.base_url, key, event_hooks=hooks) as client:
            seen = await asyncio.to_thread(story, client, tmp_path)
    assert seen["rows"] == [11, 20] and seen["changes"].count("extraction.completed") >= 2
    templates = {re.sub(r"\{\w+\}", "[^/]+", path): item for path, item in openapi["paths"].items()}
    for request in sent:
        item = next(item for path, item in templates.items() if re.fullmatch(path, request.url.path))
        parameters = {(one["in"], one["name"].lower()) for one in item[request.method.lower()].get("parameters", [])}
        assert {("query", name) for name in request.url.params} <= parameters, request.url


def test_rows_become_a_data_frame():
    pytest.importorskip("pandas")
    row = {"document_id": "d", "filename": "a.pdf", "cells": {"total": {"value": 1.5}}}
    frame = Rows(["total", "vendor.name"], [row]).to_pandas()
    assert list(frame.columns) == ["document_id", "filename", "total", "vendor.name"] and frame["total"][0] == 1.5


async def test_the_async_client_does_the_same(serve, tmp_path):
    async with serve() as server:
        key = server.http.headers["authorization"].removeprefix("Bearer ")
        async with AsyncFieldmark(server.base_url, key) as client:
            sent = await client.upload_many([("a.txt", b"Total: 10.00 EUR"), ("b.txt", b"Total: 20.00")], extract="")
            run = sent[0].document["run_id"]
            assert (await client.wait(run))["extraction"]["extracted_fields"]["total"] == 10
            events = [event["type"] async for event in client.follow(run)]
            assert events[-1] == "complete"
            assert [event["type"] async for event in client.follow(run, after=len(events) - 1)] == ["complete"]
            assert [event async for event in client.follow(run, after=len(events))] == []
            assert len([one async for one in client.documents()]) == 2
            await client.wait(sent[1].document["run_id"])
            assert "run.completed" in [one["type"] async for one in client.changes()]


async def test_temporary_failures_are_repeated_if_that_is_harmless():
    answers = [httpx.Response(503), httpx.ConnectError("lost"), httpx.Response(200, json={"id": "1"})]
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.get("idempotency-key", ""))
        one = answers[min(len(keys), len(answers)) - 1]
        if isinstance(one, Exception):
            raise one
        return one

    def client() -> AsyncFieldmark:
        return AsyncFieldmark("http://service", "k", transport=httpx.MockTransport(answer))

    assert (await client().upload(("a.txt", b"a")))["id"] == "1"
    assert len(keys) == 3 and len(set(keys)) == 1 and keys[0]
    answers[:], keys[:] = [httpx.Response(503, json={"code": "unavailable", "detail": "Later."})], []
    with pytest.raises(FieldmarkError) as raised:
        await client().decide("r", "c", approved=True)
    assert (raised.value.code, len(keys)) == ("unavailable", 1)


def test_a_webhook_is_verified_as_the_library_does():
    body, now = json.dumps({"id": "1", "type": "run.completed", "timestamp": "x", "data": {}}), datetime.now(UTC)

    def headers(at: datetime, secret: str = SECRET) -> dict[str, str]:
        signature = Webhook(secret).sign("m1", at, body)
        return {
            "Webhook-Id": "m1",
            "Webhook-Timestamp": str(int(at.timestamp())),
            "webhook-signature": f"v1,AAAA {signature}",
        }

    assert verify_webhook(SECRET, body.encode(), headers(now))["type"] == "run.completed"
    for wrong in (
        headers(now - timedelta(minutes=6)),
        headers(now + timedelta(minutes=6)),
        headers(now, "whsec_" + "REVG" * 8),
        {**headers(now), "Webhook-Id": "m2"},
        {**headers(now), "webhook-signature": "v1,ä"},
        {},
    ):
        with pytest.raises(InvalidSignature):
            verify_webhook(SECRET, body, wrong)
    with pytest.raises(InvalidSignature):
        verify_webhook(SECRET, body + " ", headers(now))

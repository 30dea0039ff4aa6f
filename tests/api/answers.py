"""Checks of HTTP answers that all API tests share."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from extraction_case import sql
from running_server import Clone

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
INVOICE = SAMPLES / "i2d_AzureInterior.pdf"

TITLES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "events_forgotten",
    413: "too_large",
    416: "range_not_satisfiable",
    422: "invalid",
    500: "internal",
    503: "unavailable",
}


def assert_problem(answer: httpx.Response, status: int, code: str | None = None) -> str:
    """Assert that an answer is an RFC 9457 problem with this status and code. Return its `detail`."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body.keys() - {"errors"} == {"type", "title", "status", "detail", "code"}
    for error in body.get("errors", []):
        assert error.keys() == {"path", "code", "message"} and error["code"] and error["message"]
    assert body["status"] == status
    assert body["code"] == (code or TITLES[status])
    assert body["type"] == f"urn:fieldmark:problem:{body['code']}"
    assert body["title"]
    assert body["detail"]
    return body["detail"]


async def execute_as_owner(clone: Clone, query: str, *parameters: Any) -> None:
    """Run a statement as the database owner, without row policies. Uses a thread, so that a transaction of the
    service in this event loop can release a lock that the statement waits for."""
    await asyncio.to_thread(sql, clone.owner_url, query, *parameters)


def multipart_body(filename: bytes, content: bytes, name: bytes = b"file") -> tuple[bytes, dict[str, str]]:
    """Return a multipart body with these exact bytes as the file name, and its headers."""
    body = (
        b'--limit\r\ncontent-disposition: form-data; name="' + name + b'"; filename="' + filename + b'"\r\n'
        b"content-type: text/plain\r\n\r\n" + content + b"\r\n--limit--\r\n"
    )
    return body, {"content-type": "multipart/form-data; boundary=limit"}


def parse_events(stream: str) -> list[tuple[int, dict[str, Any]]]:
    """Return (id, body) of each stored event in a stream. Progress events are skipped: they have no id."""
    parsed: list[tuple[int, dict[str, Any]]] = []
    for block in stream.split("\n\n"):
        fields = [line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")]
        if fields:
            values = dict(fields)
            if json.loads(values["data"])["type"] == "reading":
                continue
            assert sorted(name for name, _ in fields) == ["data", "id"], block
            parsed.append((int(values["id"]), json.loads(values["data"])))
    return parsed

"""What an answer must look like, said once for all routes."""

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


def problem(answer: httpx.Response, status: int, code: str | None = None) -> str:
    """Checks that it is this problem, whole and in the shape of RFC 9457; answers its sentence."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body.keys() - {"errors", "suggestion"} == {"type", "title", "status", "detail", "code"}
    for error in body.get("errors", []):
        assert error.keys() == {"path", "code", "message"} and error["code"] and error["message"]
    assert body["status"] == status
    assert body["code"] == (code or TITLES[status])
    assert body["type"] == f"urn:fieldmark:problem:{body['code']}"
    assert body["title"]
    assert body["detail"]
    return body["detail"]


async def as_owner(clone: Clone, query: str, *parameters: Any) -> None:
    """A statement past all policies. In a thread: what it waits for may be a transaction of a service in this loop."""
    await asyncio.to_thread(sql, clone.owner_url, query, *parameters)


def form(filename: bytes, content: bytes, name: bytes = b"file") -> tuple[bytes, dict[str, str]]:
    """A multipart body with exactly these bytes as the file's name, and its headers."""
    body = (
        b'--limit\r\ncontent-disposition: form-data; name="' + name + b'"; filename="' + filename + b'"\r\n'
        b"content-type: text/plain\r\n\r\n" + content + b"\r\n--limit--\r\n"
    )
    return body, {"content-type": "multipart/form-data; boundary=limit"}


def events(stream: str) -> list[tuple[int, dict[str, Any]]]:
    """(id, object) of each event in a stream, whose every line is one of ours."""
    found: list[tuple[int, dict[str, Any]]] = []
    for part in stream.split("\n\n"):
        fields = [line.split(": ", 1) for line in part.splitlines() if not line.startswith(":")]
        if fields:
            said = dict(fields)
            if json.loads(said["data"])["type"] == "reading":  # told now and then, and not kept
                continue
            assert sorted(name for name, _ in fields) == ["data", "id"], part
            found.append((int(said["id"]), json.loads(said["data"])))
    return found

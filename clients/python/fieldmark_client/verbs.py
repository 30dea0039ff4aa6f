"""The verbs of both clients. A verb is a generator: it yields requests and pauses, gets responses, and returns its
result, so that each is written once."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import httpx

from fieldmark_client.errors import FieldmarkError
from fieldmark_client.types import Callback, RunAccepted, RunResult, UploadedDocument

RETRIES: Final = 4
_TEMPORARY: Final = (429, 502, 503, 504)
_MAX_PAUSE: Final = 30.0
_ENDED: Final = ("completed", "failed", "cancelled", "awaiting_approval")

Result = TypeVar("Result")
File: TypeAlias = str | Path | tuple[str, bytes]
"""A path, or a name and the content."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send. `may_repeat`: sending it twice has the effect of sending it once."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Mapping[str, Any] | list[Any] | None = None
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    file: File | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    may_repeat: bool = True

    def options(self) -> dict[str, Any]:
        """Return the arguments of httpx, which read the file."""
        given: dict[str, Any] = {"params": without_none(self.query), "headers": dict(self.headers)}
        if self.file is not None:
            name, content = self.file if isinstance(self.file, tuple) else (Path(self.file).name, None)
            source = content if content is not None else Path(str(self.file)).read_bytes()
            return given | {"files": {"file": (name, source)}, "data": dict(self.form)}
        return given if self.body is None else given | {"json": self.body}


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to wait."""

    seconds: float


Outcome: TypeAlias = httpx.Response | httpx.TransportError | None
Verb: TypeAlias = Generator[Request | Pause, Outcome, Result]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of `upload_many`, with its own key and data."""

    file: File
    external_id: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of a file of `upload_many`: a document or an error."""

    upload: Upload
    document: UploadedDocument | None = None
    error: FieldmarkError | None = None


def send(request: Request) -> Verb[Any]:
    """Send a request, again if the failure is temporary and it may be repeated. Return the JSON of the response; None
    for an empty one. Raise FieldmarkError."""
    for attempt in range(RETRIES + 1):
        outcome = yield request
        assert outcome is not None
        is_lost = isinstance(outcome, httpx.TransportError)
        if not is_lost and outcome.is_success:
            return json.loads(outcome.content) if outcome.content else None
        is_temporary = is_lost or outcome.status_code in _TEMPORARY
        if attempt == RETRIES or not (is_temporary and request.may_repeat):
            raise error_of(outcome)
        wanted = "" if is_lost else outcome.headers.get("retry-after", "")
        pause = float(wanted) if wanted.isdigit() else 0.2 * 2**attempt
        yield Pause(min(pause, _MAX_PAUSE) * (1 + random.random() / 4))  # noqa: S311
    raise AssertionError


def error_of(outcome: httpx.Response | httpx.TransportError) -> FieldmarkError:
    """Return the error of a failed request."""
    if isinstance(outcome, httpx.TransportError):
        return FieldmarkError(0, "unreachable", f"The service cannot be reached ({type(outcome).__name__}).")
    try:
        problem: dict[str, Any] = json.loads(outcome.content)
        return FieldmarkError(outcome.status_code, str(problem["code"]), str(problem["detail"]), problem)
    except (ValueError, LookupError, TypeError):
        return FieldmarkError(outcome.status_code, "unavailable", f"The service answered {outcome.status_code}.")


def upload(
    file: File,
    *,
    extract: str | None,
    external_id: str | None,
    metadata: Mapping[str, Any] | None,
    password: str | None,
    callback: Callback | None,
    idempotency_key: str | None,
) -> Verb[UploadedDocument]:
    texts = {"metadata": metadata, "callback": callback}
    form = {name: json.dumps(value, ensure_ascii=False) for name, value in texts.items() if value is not None}
    form |= without_none({"external_id": external_id, "password": password})
    headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
    query = {"extract": extract}
    return (yield from send(Request("POST", "/api/documents", query, form=form, file=file, headers=headers)))


def start(task: str, body: Mapping[str, Any], idempotency_key: str | None) -> Verb[RunAccepted]:
    headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
    request = Request("POST", f"/api/agent/{task}", body={**without_none(body), "wait": False}, headers=headers)
    return (yield from send(request))


def wait(run_id: str, timeout: float | None) -> Verb[RunResult]:
    """Wait until a run ends or waits for a decision. Raise FieldmarkError `timeout`."""
    ends = None if timeout is None else time.monotonic() + timeout
    while True:
        seconds = 50 if ends is None else max(0, min(50, int(ends - time.monotonic())))
        headers = {"Prefer": f"wait={seconds}"}
        result: RunResult = yield from send(Request("GET", f"/api/runs/{run_id}/result", headers=headers))
        if result["status"] in _ENDED:
            return result
        if ends is not None and time.monotonic() >= ends:
            raise FieldmarkError(0, "timeout", f"The run {run_id} is still {result['status']}.")
        if seconds == 0:
            yield Pause(0.2)


def decide(
    run_id: str, call_id: str, *, approved: bool, arguments: Mapping[str, Any] | None, reason: str | None
) -> Verb[RunAccepted]:
    decision = without_none({"call_id": call_id, "approved": approved, "input": arguments, "reason": reason})
    body = {"run_id": run_id, "approvals": [decision], "wait": False}
    return (yield from send(Request("POST", "/api/agent/approve", body=body, may_repeat=False)))


def set_fields(extraction_id: str, values: Mapping[str, Any], version: int | None) -> Verb[Any]:
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    body = [{"path": path, "value": value} for path, value in values.items()]
    return (yield from send(Request("PATCH", f"/api/extractions/{extraction_id}/fields", body=body, headers=headers)))


def find_table(name: str) -> Verb[str]:
    """Return the id of the table of a schema or stack, by its name or id. Raise FieldmarkError `not_found`."""
    for kind in ("schemas", "stacks"):
        found = yield from send(Request("GET", f"/api/{kind}", {"name": name}))
        if found["items"]:
            return found["items"][0]["id"]
    return name


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

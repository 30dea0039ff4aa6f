"""Sends random requests generated from the OpenAPI description to the real service and checks the responses.

The application uses a real Postgres. Instead of workers, a task cancels each queued run. Schemathesis generates valid
and invalid requests for every operation; ids, cursors and paths are mostly replaced by existing ones. These faults are
counted:

    broken        a status of 500 or higher, or no response within ten seconds
    rejected      a valid request refused for its form
    undocumented  a status that the operation does not list, neither itself nor its range (4XX)
    undescribed   a body or content type that does not match the description
    accepted      an invalid request answered with success

    pip install '.[test]' && python tests/http_fuzz.py --requests 20000 --seed 1

Exits with 1 if any of these is not 0. REFUSED_FOR_CAUSE lists why a valid request may be refused: for example, a path
without a value, or an invalid schema.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import functools
import logging
import random
import sys
import tempfile
import time
import unittest
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import hypothesis
import requests
import schemathesis
import structlog
from fastapi import FastAPI
from hypothesis.errors import Unsatisfiable
from pydantic import ValidationError
from schemathesis.core import NOT_SET
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation.feedback import NO_FEEDBACK
from schemathesis.generation.modes import GenerationMode

from extraction_case import case_for_document
from fieldmark.api.app import create_app, listen, serve_app
from fieldmark.domain.events import EVENT
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.runs.lifecycle import decisions
from fieldmark.runtime import Runtime
from fieldmark.services.organisations import scope_of_user
from fieldmark.settings import Settings
from fieldmark.stores import runs
from fieldmark.stores.library import PromptText, prompts, schemas, tags

EXAMPLES_PER_ROUND = 10
REQUESTS_PER_SAMPLE = 100
PATIENCE = 10

TEXT = "Invoice number: 1\nVendor: Acme GmbH\nA 2 x 3.50 7.00\nB 1 x 3.00 3.00\nTotal: 10.00 EUR\n"

# Statuses about the form of a request, unlike 402, 404, 409 and 410.
FORM_STATUSES = {400, 405, 406, 411, 413, 414, 415, 422, 428, 431}

# Parts of the messages with which a valid request may be refused, by operation.
PATH_MESSAGES = (
    "Two changes overlap",
    "Path ",
    "There is no value at",
    "There is no lock at",
    "The path of a field may",
    "A path may have at most",
)
LIMIT_MESSAGES = (
    "number may have at most",
    "nested at most",
    "may not exceed",
    "hold at most",
    "are allowed",
    "NUL",
    "surrogate",
    "contains the invisible character",
)
IDEMPOTENCY_MESSAGE = "This Idempotency-Key was used for a run with a different request"
REFUSED_FOR_CAUSE: dict[str, tuple[str, ...]] = {
    # The arguments of a call depend on its tool.
    "decide_call": (
        "takes no `input`",
        "no such argument",
        "Field required",
        "Input should be",
        *PATH_MESSAGES,
        *LIMIT_MESSAGES,
    ),
    "set_fields": (*PATH_MESSAGES, *LIMIT_MESSAGES),
    "set_document_type": LIMIT_MESSAGES,
    "remove_field": PATH_MESSAGES,
    "unlock_field": PATH_MESSAGES,
    "restore_version": ("This extraction has versions",),
    # A condition that does not fit its value, and an invalid path.
    "query_fields": ("needs", "takes", "compares", "path", "Path", *LIMIT_MESSAGES),
    **dict.fromkeys(
        ("get_usage", "get_overview", "get_quality", "list_corrections"), ("`since` must not be after", *PATH_MESSAGES)
    ),
    "start_extract": ("The schema ", "keeps its schema and prompt", IDEMPOTENCY_MESSAGE, *LIMIT_MESSAGES),
    "start_chat": ("give it, or the thread_id", IDEMPOTENCY_MESSAGE, *LIMIT_MESSAGES),
    "start_correct": (IDEMPOTENCY_MESSAGE, *LIMIT_MESSAGES),
    "create_organisation": LIMIT_MESSAGES,
    "update_organisation": LIMIT_MESSAGES,
    "create_invitation": LIMIT_MESSAGES,
    "accept_invitation": LIMIT_MESSAGES,
    **dict.fromkeys(("create_schema", "update_schema"), ("The schema ", *LIMIT_MESSAGES)),
    **dict.fromkeys(("create_prompt", "update_prompt", "create_tag", "update_tag", "update_document"), LIMIT_MESSAGES),
    "create_key": ("must be in the future", *LIMIT_MESSAGES),
    "export_extraction": ("has no list", "as CSV"),
}


@dataclass
class Report:
    """The requests sent, and the faults found: a count and an example each."""

    sent: int = 0
    statuses: collections.Counter[tuple[str, int]] = field(default_factory=collections.Counter)
    faults: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)
    operations: int = 0

    def add_fault(self, what: str, operation: str, why: str, example: str) -> None:
        entry = self.faults.setdefault((what, operation, why[:160]), [0, example])
        entry[0] += 1

    def lines(self) -> Iterator[str]:
        for operation in sorted({name for name, _ in self.statuses}):
            counts = {status: n for (name, status), n in sorted(self.statuses.items()) if name == operation}
            yield f"{operation:26} {' '.join(f'{status}:{n}' for status, n in counts.items())}"
        for (what, operation, why), (number, example) in sorted(self.faults.items()):
            yield f"{what} {number} × {operation}: {why}\n    {example}"
        total: collections.Counter[str] = collections.Counter()
        for (what, _, _), (number, _) in self.faults.items():
            total[what] += number
        yield f"sent {self.sent} to {self.operations} operations; " + (
            " ".join(f"{what} {n}" for what, n in sorted(total.items())) or "no faults"
        )


@dataclass
class ExistingItems:
    """Ids of existing items, to be used in requests."""

    org_id: UUID
    documents: list[str] = field(default_factory=list)
    extractions: list[str] = field(default_factory=list)
    ended_runs: list[str] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)
    proposals: list[tuple[str, str]] = field(default_factory=list)
    items_by_kind: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))


class FuzzedService:
    """The application in this event loop. Another thread sends requests to it over HTTP."""

    def __init__(self, app: FastAPI, scope: Scope, base_url: str, token: str) -> None:
        self.openapi = app.openapi()
        self.base_url = base_url
        self.token = token
        self.existing = ExistingItems(scope.org_id)
        self._runtime: Runtime = app.state.runtime
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._sample_lock = asyncio.Lock()

    async def cancel_queued_runs(self) -> None:
        """Cancel all queued runs, in place of workers."""
        while True:
            async with self._sample_lock:
                async with self._runtime.database.as_user(self._scope) as conn:
                    queued = await runs.list_runs(conn, self._scope, status=RunStatus.QUEUED, limit=50)
                for run in queued.items:
                    with contextlib.suppress(NotFound):  # its document was just deleted
                        await decisions.cancel(self._runtime.database, self._scope, run.id)
            await asyncio.sleep(0.01)

    def create_sample(self) -> None:
        """Create new items, since requests may have deleted the earlier ones. Called from the thread that sends
        requests."""
        asyncio.run_coroutine_threadsafe(self._create_sample_locked(), self._loop).result()

    async def _create_sample_locked(self) -> None:
        async with self._sample_lock:
            await self._create_sample()

    async def _create_sample(self) -> None:
        database, existing = self._runtime.database, self.existing
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_text(TEXT)
            row = await self._runtime.documents.upload(self._scope, Path(file.name), "invoice.txt")
        case = await case_for_document(database, "", self._scope, row.id, [TEXT])
        case = await case.another_extraction({"type": "object", "properties": {"total": {"type": "number"}}})
        context = await case.context()
        fields = {"vendor": {"name": "Acme GmbH"}, "items": [{"n": "A", "p": 7}, {"n": "B", "p": 3}], "total": 10}
        await case.call(context, "extract_fields", fields=fields, confidences={"total": 0.9})
        async with database.as_user(self._scope) as conn:
            await conn.execute(
                "select public.update_extraction_field(%s, %s, %s)", (case.extraction_id, ["vendor", "name"], '"Acme"')
            )
        for value in ("Acne", "Akme"):
            await case.call(context, "update_field", path="vendor.name", value=value, confidence=0.5)
        async with database.as_user(self._scope) as conn:
            query = "select id from public.extraction_proposals where extraction_id = %s"
            cursor = await conn.execute(query, (case.extraction_id,))
            existing.proposals += [(str(case.extraction_id), str(found["id"])) for found in await cursor.fetchall()]
        await decisions.cancel(database, self._scope, context.run_id)
        for number in range(3):
            waits = await case.another_extraction()
            asking = await waits.context(await waits.queue_run(approval="ask"))
            await waits.record_call(
                asking, "update_field", {"path": "total", "value": number, "confidence": 0.5}, "asked", ask=True
            )
            existing.waiting.append((str(asking.run_id), "asked"))
            existing.extractions += [str(case.extraction_id), str(waits.extraction_id)]
        existing.documents.append(str(case.document_id))
        existing.ended_runs.append(str(context.run_id))
        number = uuid4().hex
        async with database.as_user(self._scope) as conn:
            schema = await schemas.create(conn, self._scope.org_id, f"Schema {number}", {"type": "object"})
            prompt = await prompts.create(conn, self._scope.org_id, PromptText(f"Prompt {number}", "Read.", schema.id))
            tag = await tags.create(conn, self._scope.org_id, f"Tag {number}")
        for name, one in (
            ("schema_id", schema.id),
            ("schema_revid", schema.schema_revid),
            ("prompt_id", prompt.id),
            ("prompt_revid", prompt.prompt_revid),
            ("tag_id", tag.id),
        ):
            existing.items_by_kind[name].append(str(one))
        for pool in (
            *existing.items_by_kind.values(),
            existing.documents,
            existing.extractions,
            existing.ended_runs,
            existing.waiting,
            existing.proposals,
        ):
            del pool[:-12]


class Fuzzer:
    def __init__(self, service: FuzzedService, seed: int) -> None:
        self._service = service
        self._random = random.Random(seed)
        self._session = requests.Session()
        self.report = Report()

    def send(self, operation: Any, case: Any, *, allowed: bool) -> None:
        if not allowed and [] in (case.query or {}).values():
            return  # the invalid part is not sent
        if self.report.sent % REQUESTS_PER_SAMPLE == 0:
            self._service.create_sample()
        name = operation.definition.raw["operationId"]
        if "headers" not in (() if allowed else _invalid_parts(case)):
            case.headers["Authorization"] = f"Bearer {self._service.token}"
        if allowed or self._random.random() < 0.7:
            self._use_existing(name, case, allowed=allowed)
        self.report.sent += 1
        began = time.monotonic()
        try:
            answer = case.call(
                base_url=self._service.base_url, session=self._session, timeout=PATIENCE, allow_redirects=False
            )
        except (requests.Timeout, requests.ConnectionError) as error:
            self.report.add_fault(
                "broken", name, type(error).__name__, f"{time.monotonic() - began:.1f} s {_format_request(case)}"
            )
            return
        except (requests.RequestException, UnicodeError, ValueError):
            return  # cannot be sent by a client
        self.report.statuses[name, answer.status_code] += 1
        self._check_response(name, operation, case, answer, allowed=allowed)

    def _check_response(self, name: str, operation: Any, case: Any, answer: Any, *, allowed: bool) -> None:
        status, found = answer.status_code, self.report.add_fault
        detail = _detail(answer)
        if status >= 500:
            found("broken", name, f"{status} {detail}", _format_request(case))
        elif allowed and status in FORM_STATUSES and not _is_refused_for_cause(name, detail):
            found("rejected", name, f"{status} {detail}", _format_request(case))
        elif not allowed and status < 300 and not _is_valid_as_form(case):
            found("accepted", name, f"{status} {_invalid_parts_text(case)}", _format_request(case))
        documented = operation.definition.raw["responses"].keys()
        if not {str(status), f"{status // 100}XX"} & documented and status != 405:
            found("undocumented", name, str(status), f"{detail} {_format_request(case)}")
        if answer.headers.get("content-type", [""])[0].startswith("text/event-stream"):
            return self._check_stream(name, answer, case)
        try:
            operation.validate_response(answer)
        except (FailureGroup, Failure) as group:
            faults = group.exceptions if isinstance(group, FailureGroup) else [group]
            for fault in faults:
                found("undescribed", name, f"{status} {fault.title}: {str(fault)[:300]}", _format_request(case))

    def _check_stream(self, name: str, answer: Any, case: Any) -> None:
        for line in answer.text.splitlines():
            if line.startswith("data: "):
                try:
                    EVENT.validate_json(line.removeprefix("data: "))
                except ValidationError as error:
                    self.report.add_fault("undescribed", name, f"event: {str(error)[:200]}", _format_request(case))

    def _use_existing(self, name: str, case: Any, *, allowed: bool) -> None:
        """Replace ids, paths and cursors in a request by existing ones."""
        existing, pick = self._service.existing, self._random.choice
        often = self._random.random() < 0.85
        invalid_parts = () if allowed else _invalid_parts(case)
        given = case.path_parameters or {}
        if often and "path_parameters" not in invalid_parts:
            pools: dict[str, Callable[[], str]] = {
                "document_id": lambda: pick(existing.documents),
                "extraction_id": lambda: pick(existing.extractions),
                "run_id": lambda: pick(existing.ended_runs),
                **{name: functools.partial(pick, ids) for name, ids in existing.items_by_kind.items()},
            }
            for key in given.keys() & pools.keys():
                given[key] = pools[key]()
            if "number" in given:
                given["number"] = pick([1, 1, 1, 2])
        headers = case.headers
        if "headers" not in invalid_parts and headers:
            if "X-Org-Id" in headers or "x-org-id" in headers:
                headers["x-org-id"] = str(existing.org_id if often else uuid4())
            if "last-event-id" in headers:
                headers["last-event-id"] = pick(["0", "1", ""])
        if "query" not in invalid_parts and case.query:
            if "before" in case.query and name != "get_history":
                del case.query["before"]
            if often and "path" in case.query:
                case.query["path"] = pick(["vendor.name", "vendor", "items[0]", "items[0].p", "total", "gone"])
            if often and "document_id" in case.query:
                case.query["document_id"] = pick(existing.documents)
        body = case.body
        if often and isinstance(body, dict) and "body" not in invalid_parts:
            self._use_existing_in_body(name, given, body)

    def _use_existing_in_body(self, name: str, given: dict[str, Any], body: dict[str, Any]) -> None:
        existing, pick = self._service.existing, self._random.choice
        if name in ("start_extract", "start_correct"):
            if "document_id" in body:
                body["document_id"] = pick(existing.documents)
            if body.get("extraction_id") is not None:
                body["extraction_id"] = pick(existing.extractions)
        elif name in ("create_prompt", "update_prompt"):
            if body.get("schema_id") is not None:
                body["schema_id"] = pick(existing.items_by_kind["schema_id"])
            if body.get("tag_ids"):
                body["tag_ids"] = [pick(existing.items_by_kind["tag_id"])]
        elif name == "update_document" and body.get("tags"):
            body["tags"] = [pick(existing.items_by_kind["tag_id"])]
        elif name == "decide_call" and existing.waiting and body.get("approvals"):
            body["run_id"], body["approvals"][0]["call_id"] = pick(existing.waiting)
        elif name == "decide_proposals" and existing.proposals:
            given["extraction_id"], body["decisions"][0]["id"] = pick(existing.proposals)
        elif name == "set_fields" and "path" in body:
            body["path"] = pick(["vendor.name", "items[0].p", "items[2]", "total", "a.b", '["a.b"]', body["path"]])
        elif name == "restore_version":
            body["version"] = pick([0, 1, body["version"]])


@asynccontextmanager
async def serve(settings: Settings) -> AsyncIterator[FuzzedService]:
    app = create_app(settings, with_worker=False)
    with listen("127.0.0.1", 0) as listener:
        async with app.router.lifespan_context(app):
            user_id = uuid4()
            scope = await scope_of_user(app.state.runtime.database, user_id)
            base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            service = FuzzedService(app, scope, base_url, LocalTokens(settings.home).sign(user_id))
            tasks = {asyncio.create_task(serve_app(app, listener)), asyncio.create_task(service.cancel_queued_runs())}
            try:
                yield service
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


def fuzz(settings: Settings, *, count: int, seed: int = 0, deadline: float = 3600) -> Report:
    """Send `count` requests, evenly distributed over the operations, and return the faults found."""

    async def run() -> Report:
        async with serve(settings) as service:
            return await asyncio.to_thread(_fuzz, service, count, seed, deadline)

    return asyncio.run(run())


def _fuzz(service: FuzzedService, count: int, seed: int, deadline: float) -> Report:
    until = time.monotonic() + deadline
    fuzzer = Fuzzer(service, seed)
    schema = schemathesis.openapi.from_dict(service.openapi)
    operations = [found.ok() for found in schema.get_all_operations()]
    fuzzer.report.operations = len(operations)

    @functools.cache  # slower than a request
    def strategy(number: int, mode: GenerationMode) -> Any:
        return operations[number].as_strategy(generation_mode=mode, feedback=NO_FEEDBACK)

    send_example = max(1, min(EXAMPLES_PER_ROUND, count // (3 * len(operations))))
    for round_ in range(count):
        for number, operation in enumerate(operations):
            for mode in (GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if fuzzer.report.sent >= count or time.monotonic() > until:
                    return fuzzer.report
                example_seed = random.Random(f"{seed} {round_} {operation.label} {mode}").getrandbits(32)
                _send_examples(fuzzer, operation, strategy(number, mode), mode, send_example, example_seed)
    return fuzzer.report


def _send_examples(fuzzer: Fuzzer, operation: Any, strategy: Any, mode: GenerationMode, number: int, seed: int) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=strategy)
    def send_example(case: Any) -> None:
        fuzzer.send(operation, case, allowed=mode is GenerationMode.POSITIVE)

    with contextlib.suppress(Unsatisfiable, unittest.SkipTest):  # some operations have no invalid requests
        send_example()


def _is_refused_for_cause(name: str, detail: str) -> bool:
    return any(cause in detail for cause in REFUSED_FOR_CAUSE.get(name, ()))


def _detail(answer: Any) -> str:
    try:
        return str(answer.json().get("detail", ""))
    except (ValueError, AttributeError):
        return ""


def _format_request(case: Any) -> str:
    body = "" if case.body is NOT_SET else repr(case.body)[:300]
    return f"{case.method} {case.formatted_path} {dict(case.query or {})} {dict(case.headers or {})} {body}"[:700]


def _invalid_parts_text(case: Any) -> str:
    return ", ".join(f"{where} {_reason(case)}" for where in _invalid_parts(case))


def _is_valid_as_form(case: Any) -> bool:
    """Return whether only the types of form fields are invalid: a form sends each value as text."""
    of_a_form = isinstance(case.body, dict) and case.media_type == "multipart/form-data" and "file" in case.body
    return of_a_form and _invalid_parts(case) == ("body",)


def _reason(case: Any) -> str:
    data = case.meta.phase.data if case.meta is not None else None
    return str(getattr(data, "description", "") or "")


def _invalid_parts(case: Any) -> tuple[str, ...]:
    if case.meta is None:
        return ()
    return tuple(where.container_name for where, counts in case.meta.components.items() if counts.mode.is_negative)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600, help="end after this time")
    detail = parser.parse_args()
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="fieldmark-fuzz-", ignore_cleanup_errors=True) as home:
        settings = Settings(_env_file=None, home=Path(home), log_level="error", warm_spares=0)
        began = time.monotonic()
        report = fuzz(settings, count=detail.requests, seed=detail.seed, deadline=detail.seconds)
    print(*report.lines(), sep="\n")
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()

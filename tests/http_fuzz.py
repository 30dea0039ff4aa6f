"""Requests drawn from the API's own description, sent to the real service: what does it answer?

The application runs over a real Postgres. In the place of the workers somebody cancels each run that comes.
Schemathesis draws requests for every operation, those that the description allows and those that it does not; ids,
cursors and paths are exchanged for ones that exist, most of the time. Found and counted are:

    broken        an answer of 500 or more, or none within ten seconds
    rejected      a request that the description allows, refused for its form
    undocumented  a status that the operation names neither itself nor by its range (4XX)
    undescribed   a body or content type that is not as the description has it
    taken         a request that the description forbids, answered with success

    pip install '.[test]' && python tests/http_fuzz.py --requests 20000 --seed 1

Ends with 1 if any of these is not 0. What a request is refused for that was well-formed (a path at which nothing
stands, a schema that is none) stands in REFUSED_FOR_CAUSE.
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

AT_ONCE = 10
FRESH_EVERY = 100
PATIENCE = 10

TEXT = "Invoice number: 1\nVendor: Acme GmbH\nA 2 x 3.50 7.00\nB 1 x 3.00 3.00\nTotal: 10.00 EUR\n"

# Statuses that tell of the request's form. 404, 409, 410 and 402 tell of what there is.
OF_FORM = {400, 405, 406, 411, 413, 414, 415, 422, 428, 431}

# What a well-formed request may be refused for, by operation: how the problem's sentence begins or what stands in it.
AT_A_PATH = (
    "Two changes overlap",
    "Path ",
    "Nothing stands at",
    "There is no value at",
    "There is no lock at",
    "The path of a field may",
    "A path may have at most",
)
TOO_MUCH = (
    "number may have at most",
    "nested at most",
    "may not exceed",
    "hold at most",
    "are allowed",
    "NUL",
    "surrogate",
    "contains the invisible character",
)
ASKED_BEFORE = "This Idempotency-Key was used for a run with a different request"
REFUSED_FOR_CAUSE: dict[str, tuple[str, ...]] = {
    # What a call may be given, its tool knows.
    "decide_call": ("takes no `input`", "no such argument", "Field required", "Input should be", *AT_A_PATH, *TOO_MUCH),
    "set_fields": (*AT_A_PATH, *TOO_MUCH),
    "set_document_type": TOO_MUCH,
    "remove_field": AT_A_PATH,
    "unlock_field": AT_A_PATH,
    "restore_version": ("This extraction has versions",),
    # A condition that does not fit its value, and a path that is none.
    "query_fields": ("needs", "takes", "compares", "path", "Path", *TOO_MUCH),
    "get_usage": ("`since` must not be after",),
    "start_extract": ("The schema ", "keeps the schema that it was begun with", ASKED_BEFORE, *TOO_MUCH),
    "start_chat": ("give it, or the thread_id", ASKED_BEFORE, *TOO_MUCH),
    "start_correct": (ASKED_BEFORE, *TOO_MUCH),
    "create_organisation": TOO_MUCH,
    "update_organisation": TOO_MUCH,
    "create_invitation": TOO_MUCH,
    "accept_invitation": TOO_MUCH,
    **dict.fromkeys(("create_schema", "update_schema"), ("The schema ", *TOO_MUCH)),
    **dict.fromkeys(("create_prompt", "update_prompt", "create_tag", "update_tag", "update_document"), TOO_MUCH),
    "create_key": ("must be in the future", *TOO_MUCH),
    "export_extraction": ("Nothing stands at", "is no list", "has no list", "There is no list", "as CSV"),
}


@dataclass
class Report:
    """What was sent, and what was wrong with the answers: an example and a number each."""

    sent: int = 0
    statuses: collections.Counter[tuple[str, int]] = field(default_factory=collections.Counter)
    faults: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)
    operations: int = 0

    def found(self, what: str, operation: str, why: str, example: str) -> None:
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
            " ".join(f"{what} {n}" for what, n in sorted(total.items())) or "nothing found"
        )


@dataclass
class Known:
    """Ids that exist, to be put into requests."""

    org_id: UUID
    documents: list[str] = field(default_factory=list)
    extractions: list[str] = field(default_factory=list)
    ended_runs: list[str] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)
    proposals: list[tuple[str, str]] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))


class House:
    """The application in this event loop: reached over HTTP from a thread, furnished past it."""

    def __init__(self, app: FastAPI, scope: Scope, base_url: str, token: str) -> None:
        self.openapi = app.openapi()
        self.base_url = base_url
        self.token = token
        self.known = Known(scope.org_id)
        self._runtime: Runtime = app.state.runtime
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._furnishing = asyncio.Lock()

    async def cancel_what_comes(self) -> None:
        """Instead of workers: nothing is read, nothing is run, and nobody waits for long."""
        while True:
            async with self._furnishing:
                async with self._runtime.database.as_user(self._scope) as conn:
                    queued = await runs.list_runs(conn, self._scope, status=RunStatus.QUEUED, limit=50)
                for run in queued.items:
                    with contextlib.suppress(NotFound):  # its document was deleted just now
                        await decisions.cancel(self._runtime.database, self._scope, run.id)
            await asyncio.sleep(0.01)

    def furnish(self) -> None:
        """Fresh things to ask for: others may be deleted by now. Called from the thread that sends requests."""
        asyncio.run_coroutine_threadsafe(self._furnish_alone(), self._loop).result()

    async def _furnish_alone(self) -> None:
        async with self._furnishing:
            await self._furnish()

    async def _furnish(self) -> None:
        database, known = self._runtime.database, self.known
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
            known.proposals += [(str(case.extraction_id), str(found["id"])) for found in await cursor.fetchall()]
        await decisions.cancel(database, self._scope, context.run_id)
        for number in range(3):
            waits = await case.another_extraction()
            asking = await waits.context(await waits.queue_run(approval="ask"))
            await waits.record_call(
                asking, "update_field", {"path": "total", "value": number, "confidence": 0.5}, "asked", ask=True
            )
            known.waiting.append((str(asking.run_id), "asked"))
            known.extractions += [str(case.extraction_id), str(waits.extraction_id)]
        known.documents.append(str(case.document_id))
        known.ended_runs.append(str(context.run_id))
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
            known.kept[name].append(str(one))
        for pool in (
            *known.kept.values(),
            known.documents,
            known.extractions,
            known.ended_runs,
            known.waiting,
            known.proposals,
        ):
            del pool[:-12]


class Draw:
    """Draws requests, sends them, and judges the answers."""

    def __init__(self, house: House, seed: int) -> None:
        self._house = house
        self._random = random.Random(seed)
        self._session = requests.Session()
        self.report = Report()

    def send(self, operation: Any, case: Any, *, allowed: bool) -> None:
        if not allowed and [] in (case.query or {}).values():
            return  # what is wrong about it is in nothing that is sent
        if self.report.sent % FRESH_EVERY == 0:
            self._house.furnish()
        name = operation.definition.raw["operationId"]
        if "headers" not in (() if allowed else _broken_places(case)):
            case.headers["Authorization"] = f"Bearer {self._house.token}"
        if allowed or self._random.random() < 0.7:
            self._settle(name, case, allowed=allowed)
        self.report.sent += 1
        began = time.monotonic()
        try:
            answer = case.call(
                base_url=self._house.base_url, session=self._session, timeout=PATIENCE, allow_redirects=False
            )
        except (requests.Timeout, requests.ConnectionError) as error:
            self.report.found("broken", name, type(error).__name__, f"{time.monotonic() - began:.1f} s {_shown(case)}")
            return
        except (requests.RequestException, UnicodeError, ValueError):
            return  # no client can send this
        self.report.statuses[name, answer.status_code] += 1
        self._judge(name, operation, case, answer, allowed=allowed)

    def _judge(self, name: str, operation: Any, case: Any, answer: Any, *, allowed: bool) -> None:
        status, found = answer.status_code, self.report.found
        said = _sentence(answer)
        if status >= 500:
            found("broken", name, f"{status} {said}", _shown(case))
        elif allowed and status in OF_FORM and not _for_cause(name, said):
            found("rejected", name, f"{status} {said}", _shown(case))
        elif not allowed and status < 300 and not _is_text_all_the_same(case):
            found("taken", name, f"{status} {_negated(case)}", _shown(case))
        documented = operation.definition.raw["responses"].keys()
        if not {str(status), f"{status // 100}XX"} & documented and status != 405:
            found("undocumented", name, str(status), f"{said} {_shown(case)}")
        if answer.headers.get("content-type", [""])[0].startswith("text/event-stream"):
            return self._judge_stream(name, answer, case)
        try:
            operation.validate_response(answer)
        except (FailureGroup, Failure) as group:
            faults = group.exceptions if isinstance(group, FailureGroup) else [group]
            for fault in faults:
                found("undescribed", name, f"{status} {fault.title}: {str(fault)[:300]}", _shown(case))

    def _judge_stream(self, name: str, answer: Any, case: Any) -> None:
        for line in answer.text.splitlines():
            if line.startswith("data: "):
                try:
                    EVENT.validate_json(line.removeprefix("data: "))
                except ValidationError as error:
                    self.report.found("undescribed", name, f"event: {str(error)[:200]}", _shown(case))

    def _settle(self, name: str, case: Any, *, allowed: bool) -> None:
        """Put what exists into a request, and what no description can tell: cursors, whose run an event is of."""
        known, pick = self._house.known, self._random.choice
        often = self._random.random() < 0.85
        broken_at = () if allowed else _broken_places(case)
        given = case.path_parameters or {}
        if often and "path_parameters" not in broken_at:
            pools: dict[str, Callable[[], str]] = {
                "document_id": lambda: pick(known.documents),
                "extraction_id": lambda: pick(known.extractions),
                "run_id": lambda: pick(known.ended_runs),
                **{name: functools.partial(pick, ids) for name, ids in known.kept.items()},
            }
            for key in given.keys() & pools.keys():
                given[key] = pools[key]()
            if "number" in given:
                given["number"] = pick([1, 1, 1, 2])
        headers = case.headers
        if "headers" not in broken_at and headers:
            if "X-Org-Id" in headers or "x-org-id" in headers:
                headers["x-org-id"] = str(known.org_id if often else uuid4())
            if "last-event-id" in headers:
                headers["last-event-id"] = pick(["0", "1", ""])
        if "query" not in broken_at and case.query:
            if "before" in case.query and name != "get_history":
                del case.query["before"]
            if often and "path" in case.query:
                case.query["path"] = pick(["vendor.name", "vendor", "items[0]", "items[0].p", "total", "gone"])
            if often and "document_id" in case.query:
                case.query["document_id"] = pick(known.documents)
        body = case.body
        if often and isinstance(body, dict) and "body" not in broken_at:
            self._settle_body(name, given, body)

    def _settle_body(self, name: str, given: dict[str, Any], body: dict[str, Any]) -> None:
        known, pick = self._house.known, self._random.choice
        if name in ("start_extract", "start_correct"):
            if "document_id" in body:
                body["document_id"] = pick(known.documents)
            if body.get("extraction_id") is not None:
                body["extraction_id"] = pick(known.extractions)
        elif name in ("create_prompt", "update_prompt"):
            if body.get("schema_id") is not None:
                body["schema_id"] = pick(known.kept["schema_id"])
            if body.get("tag_ids"):
                body["tag_ids"] = [pick(known.kept["tag_id"])]
        elif name == "update_document" and body.get("tags"):
            body["tags"] = [pick(known.kept["tag_id"])]
        elif name == "decide_call" and known.waiting and body.get("approvals"):
            body["run_id"], body["approvals"][0]["call_id"] = pick(known.waiting)
        elif name == "decide_proposals" and known.proposals:
            given["extraction_id"], body["decisions"][0]["id"] = pick(known.proposals)
        elif name == "set_fields" and "path" in body:
            body["path"] = pick(["vendor.name", "items[0].p", "items[2]", "total", "a.b", '["a.b"]', body["path"]])
        elif name == "restore_version":
            body["version"] = pick([0, 1, body["version"]])


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[House]:
    """Serve the application on a free port."""
    app = create_app(settings, with_worker=False)
    with listen("127.0.0.1", 0) as listener:
        async with app.router.lifespan_context(app):
            user_id = uuid4()
            scope = await scope_of_user(app.state.runtime.database, user_id)
            base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            house = House(app, scope, base_url, LocalTokens(settings.home).sign(user_id))
            tasks = {asyncio.create_task(serve_app(app, listener)), asyncio.create_task(house.cancel_what_comes())}
            try:
                yield house
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


def fuzz(settings: Settings, *, wanted: int, seed: int = 0, deadline: float = 3600) -> Report:
    """Send that many requests, evenly over the operations, and answer what was found."""

    async def run() -> Report:
        async with opened(settings) as house:
            return await asyncio.to_thread(_fuzz, house, wanted, seed, deadline)

    return asyncio.run(run())


def _fuzz(house: House, wanted: int, seed: int, deadline: float) -> Report:
    until = time.monotonic() + deadline
    draw = Draw(house, seed)
    schema = schemathesis.openapi.from_dict(house.openapi)
    operations = [found.ok() for found in schema.get_all_operations()]
    draw.report.operations = len(operations)

    @functools.cache  # making one takes longer than a request
    def drawn(number: int, mode: GenerationMode) -> Any:
        return operations[number].as_strategy(generation_mode=mode, feedback=NO_FEEDBACK)

    each = max(1, min(AT_ONCE, wanted // (3 * len(operations))))
    for round_ in range(wanted):
        for number, operation in enumerate(operations):
            for mode in (GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if draw.report.sent >= wanted or time.monotonic() > until:
                    return draw.report
                this = random.Random(f"{seed} {round_} {operation.label} {mode}").getrandbits(32)
                _some(draw, operation, drawn(number, mode), mode, each, this)
    return draw.report


def _some(draw: Draw, operation: Any, drawn: Any, mode: GenerationMode, number: int, seed: int) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=drawn)
    def each(case: Any) -> None:
        draw.send(operation, case, allowed=mode is GenerationMode.POSITIVE)

    with contextlib.suppress(Unsatisfiable, unittest.SkipTest):  # some operations have nothing to be wrong about
        each()


def _for_cause(name: str, said: str) -> bool:
    return any(cause in said for cause in REFUSED_FOR_CAUSE.get(name, ()))


def _sentence(answer: Any) -> str:
    try:
        return str(answer.json().get("detail", ""))
    except (ValueError, AttributeError):
        return ""


def _shown(case: Any) -> str:
    body = "" if case.body is NOT_SET else repr(case.body)[:300]
    return f"{case.method} {case.formatted_path} {dict(case.query or {})} {dict(case.headers or {})} {body}"[:700]


def _negated(case: Any) -> str:
    return ", ".join(f"{where} {_why(case)}" for where in _broken_places(case))


def _is_text_all_the_same(case: Any) -> bool:
    """Whether all that is wrong is the type of a form's fields: there each value is sent as text."""
    of_a_form = isinstance(case.body, dict) and case.media_type == "multipart/form-data" and "file" in case.body
    return of_a_form and _broken_places(case) == ("body",)


def _why(case: Any) -> str:
    data = case.meta.phase.data if case.meta is not None else None
    return str(getattr(data, "description", "") or "")


def _broken_places(case: Any) -> tuple[str, ...]:
    """Which parts of a request are not as the description has them."""
    if case.meta is None:
        return ()
    return tuple(where.container_name for where, counts in case.meta.components.items() if counts.mode.is_negative)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600, help="it ends then, however many were sent")
    said = parser.parse_args()
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="fieldmark-fuzz-", ignore_cleanup_errors=True) as home:
        settings = Settings(_env_file=None, home=Path(home), log_level="error", warm_spares=0)
        began = time.monotonic()
        report = fuzz(settings, wanted=said.requests, seed=said.seed, deadline=said.seconds)
    print(*report.lines(), sep="\n")
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()

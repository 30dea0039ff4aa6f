"""The operations that bench/growth.py measures: every route, and every store function that reads or writes rows."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import io
import pkgutil
import time
import zipfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from fieldmark import stores
from fieldmark.api.app import create_app
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.changes import Preview
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.events import TextEvent
from fieldmark.domain.statuses import CallStatus, ExtractionStatus, RunStatus
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.settings import Settings
from fieldmark.stores import (
    document_filters,
    documents,
    examples,
    extractions,
    jobs,
    library,
    organisations,
    retention,
    runs,
    schema_changes,
    search,
    sessions,
    stacks,
    threads,
    usage,
)
from fieldmark.stores import tool_calls as calls
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import Position
from fieldmark.worker.maintenance import clear_up

CONNECTIONS = 32
METRICS_TOKEN = "0123456789abcdef"


@dataclass(frozen=True)
class Side:
    """One of the two databases with its service, used by the owner of the largest organisation."""

    owner_url: str
    database: Database
    http: httpx.AsyncClient
    scope: Scope
    count: int
    settings: Settings
    routes: dict[str, dict[str, Any]]

    def run(self, n: int) -> UUID:
        return UUID(f"a0000000-0000-7000-8000-{n:012x}")

    def extraction(self, n: int) -> UUID:
        return UUID(f"e0000000-0000-7000-8000-{n:012x}")

    def document(self, n: int) -> UUID:
        return UUID(f"d0000000-0000-7000-8000-{n:012x}")

    def thread(self, n: int) -> UUID:
        return UUID(f"c0000000-0000-7000-8000-{n:012x}")

    def newest(self, count: int) -> list[int]:
        """Return the numbers of the organisation's newest documents."""
        return [(self.count // 10 - 1 - k) * 10 + 1 for k in range(count)]

    def document_number(self, round_number: int) -> int:
        """Return the number of a document of the organisation, a different one for each round."""
        tens = max(self.count // 10 - 1, 1)
        return (round_number * 7919 % tens) * 10 + 11 if (round_number * 7919 % tens) * 10 + 11 <= self.count else 11


@asynccontextmanager
async def open_side(owner_url: str, app_url: str, count: int, home: Path) -> AsyncGenerator[Side]:
    chosen: dict[str, Any] = {
        "home": home,
        "database_url": app_url,
        "metrics_token": METRICS_TOKEN,
        "warm_spares": 0,
        "max_live_agents": 1,
    }
    settings = Settings(**chosen)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(app_url, size=CONNECTIONS))
        app = create_app(settings)
        await stack.enter_async_context(app.router.lifespan_context(app))
        user = UUID("00000000-0000-7000-8000-000000000001")
        token = LocalTokens(home).sign(user)
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://growth",
                headers={"Authorization": f"Bearer {token}", "X-Org-Id": str(user), "Accept": "application/json"},
                timeout=120,
            )
        )
        yield Side(owner_url, database, http, Scope(user, user), count, settings, app.openapi()["paths"])


Steps = Callable[[Side, int], AsyncGenerator[str]]
"""One round: yields the name of each operation when it has ended. Routes are named as in the OpenAPI, with
details after the path."""


async def ask(side: Side, method: str, path: str, **options: Any) -> Any:
    answer = await side.http.request(method, path, **options)
    assert answer.is_success, (method, path, answer.status_code, answer.text[:500])
    is_json = answer.content and answer.headers["content-type"] == "application/json"
    return answer.json() if is_json else answer.content


async def read_everything(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Everything a user opens."""
    n = side.document_number(round_number)
    document, extraction, run = side.document(n), side.extraction(n), side.run(n)
    year = {"since": f"{datetime.now(UTC).date() - timedelta(days=360)}", "until": f"{datetime.now(UTC).date()}"}
    own: dict[str, str] = {"document_id": str(document)}
    for name, path, parameters in (
        ("GET /api/documents", "/api/documents", {}),
        ("GET /api/documents that need review, as half of them do", "/api/documents", {"stage": "needs_review"}),
        ("GET /api/documents/{document_id}", f"/api/documents/{document}", {}),
        ("GET /api/documents/{document_id}/text", f"/api/documents/{document}/text", {}),
        ("GET /api/documents/{document_id}/pages/{number}", f"/api/documents/{document}/pages/1", {}),
        ("GET /api/extractions", "/api/extractions", {}),
        ("GET /api/extractions that need review", "/api/extractions", {"to_check": "true"}),
        ("GET /api/extractions of a document", "/api/extractions", own),
        ("GET /api/extractions/{extraction_id}", f"/api/extractions/{extraction}", {}),
        ("GET /api/extractions/{extraction_id} at a version", f"/api/extractions/{extraction}", {"version": "5"}),
        ("GET /api/extractions/{extraction_id}/problems", f"/api/extractions/{extraction}/problems", {}),
        ("GET /api/extractions/{extraction_id}/history", f"/api/extractions/{extraction}/history", {}),
        (
            "GET /api/extractions/{extraction_id}/history of a path",
            f"/api/extractions/{extraction}/history",
            {"path": "field_1"},
        ),
        *(
            (
                f"GET /api/extractions/{{extraction_id}}/export as {kind}",
                f"/api/extractions/{extraction}/export",
                {"format": kind},
            )
            for kind in ("json", "csv", "xlsx", "html")
        ),
        ("GET /api/runs", "/api/runs", {}),
        ("GET /api/runs that wait", "/api/runs", {"status": "awaiting_approval"}),
        ("GET /api/runs that failed, of which there are none", "/api/runs", {"status": "failed"}),
        ("GET /api/runs/{run_id}", f"/api/runs/{run}", {}),
        ("GET /api/runs/{run_id}/events", f"/api/runs/{run}/events", {}),
        ("GET /api/usage", "/api/usage", {}),
        (f"GET /api/usage of a year{LARGER}", "/api/usage", year),
        ("GET /api/inbox", "/api/inbox", {}),
        ("GET /api/inbox by value", "/api/inbox", {"kind": "value", "order": "value"}),
        (f"GET /api/overview{LARGER}", "/api/overview", {}),
        (f"GET /api/overview/work{LARGER}", "/api/overview/work", {}),
        ("GET /api/changes", "/api/changes", {}),
        ("GET /api/documents/{document_id}/discussion", f"/api/documents/{document}/discussion", {}),
        ("GET /api/extractions/{extraction_id}/answers", f"/api/extractions/{extraction}/answers", {"path": "field_1"}),
        ("GET /api/extractions/{extraction_id}/missing_rows", f"/api/extractions/{extraction}/missing_rows", {}),
        ("GET /api/sources", "/api/sources", {}),
        ("GET /api/webhooks", "/api/webhooks", {}),
        ("GET /api/agent/tools", "/api/agent/tools", {}),
        ("GET /readyz", "/readyz", {}),
        ("GET /healthz", "/healthz", {}),
    ):
        await ask(side, "GET", path, params=parameters)
        yield name
    await ask(side, "GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    yield f"GET /metrics{LARGER}"


LARGER = ", a larger answer"
"""Ends the names of what reads more the more there is: a year of a small organisation has fewer days in it, and a count
of all documents looks at each."""
LARGER_FUNCTIONS = frozenset(
    {"document_filters.count", "documents.count_documents", "field_queries.run", "inbox.count_questions"}
)


async def deep_pages(side: Side, round_number: int) -> AsyncGenerator[str]:
    """A page from the middle of each list."""
    place = Position(datetime.now(UTC) - timedelta(days=180), side.run(1))
    org = side.scope.org_id
    async with side.database.as_user(side.scope) as conn:
        await runs.list_runs(conn, side.scope, status=None, limit=50, before=str(Cursor("runs", place)))
    yield "a page of runs from their middle"
    async with side.database.as_user(side.scope) as conn:
        await documents.list_documents(conn, org, limit=50, before=str(Cursor("documents", place)))
    yield "a page of documents from their middle"
    async with side.database.as_user(side.scope) as conn:
        await extractions.list_extractions(conn, org, limit=50, before=str(Cursor("extractions", place)))
    yield "a page of extractions from their middle"


PROPOSE = """
insert into extraction_proposals (org_id, extraction_id, path, name, old, new, confidence_scores, evidence, created_by)
select org_id, id, '{field_8}', 'field_8', extracted_fields -> 'field_8', '"another"', '{}', '{}', created_by
from extractions where id = %s
"""


async def edit_fields(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Changes of an extraction by a user."""
    n = side.document_number(round_number)
    at = f"/api/extractions/{side.extraction(n)}"
    name = "/api/extractions/{extraction_id}"
    async with await psycopg.AsyncConnection.connect(side.owner_url) as owner:
        await owner.execute(PROPOSE, [side.extraction(n)])
    proposal = (await ask(side, "GET", at))["proposals"][-1]["id"]
    yield ""
    await ask(
        side, "POST", f"{at}/proposals", json={"decisions": [{"id": proposal, "accepted": round_number % 2 == 0}]}
    )
    yield f"POST {name}/proposals"
    await ask(side, "PATCH", at, json={"document_type": f"invoice {round_number} {uuid4()}"})
    yield f"PATCH {name}"
    await ask(side, "PATCH", f"{at}/fields", json={"path": "field_1", "value": f"turn {round_number} {uuid4()}"})
    yield f"PATCH {name}/fields"
    await ask(side, "DELETE", f"{at}/locks", params={"path": "field_1"})
    yield f"DELETE {name}/locks"
    await ask(side, "PATCH", f"{at}/fields", json={"path": "more", "value": f"turn {round_number} {uuid4()}"})
    yield ""
    await ask(side, "DELETE", f"{at}/fields", params={"path": "more"})
    yield f"DELETE {name}/fields"
    await ask(side, "POST", f"{at}/restore", json={"version": 10})
    yield f"POST {name}/restore"
    await ask(side, "POST", f"{at}/complete")
    yield f"POST {name}/complete"


async def delete_documents(side: Side, round_number: int) -> AsyncGenerator[str]:
    n = side.count - (round_number + 1) * 10 + 2  # from the end, which no other operation uses
    async with side.database.as_user(side.scope) as conn:
        there = await documents.find(conn, side.document(n)) is not None
    yield ""
    if there:  # not deleted in an earlier run
        await ask(side, "DELETE", f"/api/documents/{side.document(n)}")
        yield "DELETE /api/documents/{document_id}"


async def complete_runs(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Runs from upload to completion, with the real CLI and the offline model."""
    text = f"Invoice {uuid4()}\nVendor: Acme GmbH\nDate: 2026-11-01\nTotal: {round_number}.00 EUR\n".encode()
    document = (await ask(side, "POST", "/api/documents", files={"file": (f"{round_number}.txt", text, "text/plain")}))[
        "id"
    ]
    yield "POST /api/documents"
    while (await ask(side, "GET", f"/api/documents/{document}"))["status"] == "reading":
        await asyncio.sleep(0.005)
    yield "— until it is read"
    await ask(side, "GET", f"/api/documents/{document}/pages/1.png")
    yield "GET /api/documents/{document_id}/pages/{number}.png"
    # With an idempotency key, as a retrying client sends it.
    keys = {"Idempotency-Key": str(uuid4())}
    done = await ask(side, "POST", "/api/agent/extract", json={"document_id": document}, headers=keys)
    assert done["status"] == "completed", done
    yield "POST /api/agent/extract until it has ended"
    again = await ask(side, "POST", "/api/agent/extract", json={"document_id": document}, headers=keys)
    assert again["run_id"] == done["run_id"]
    yield "POST /api/agent/extract, the same again"
    body = {"extraction_id": done["extraction"]["id"], "message": "vendor is Beta Ltd"}
    done = await ask(side, "POST", "/api/agent/correct", json=body)
    assert done["status"] == "completed", done
    yield "POST /api/agent/correct until it has ended"
    done = await ask(side, "POST", "/api/agent/extract", json={"document_id": document, "approval": "ask"})
    waits = done["waits_for"]
    yield "POST /api/agent/extract until it waits for a person"
    decided = {"run_id": done["run_id"], "approvals": [{"call_id": waits["call_id"], "approved": True}]}
    await ask(side, "GET", f"/api/runs/{done['run_id']}/proposed")
    yield "GET /api/runs/{run_id}/proposed"
    await ask(side, "POST", "/api/agent/approve", json=decided)
    yield "POST /api/agent/approve until the next waits"
    await ask(side, "POST", f"/api/runs/{done['run_id']}/cancel")
    yield "POST /api/runs/{run_id}/cancel"
    await ask(side, "DELETE", f"/api/documents/{document}")
    yield "DELETE /api/documents/{document_id} with three runs"


async def named_items(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Create, read, change and delete schemas, prompts, tags and threads."""
    schema = {"type": "object", "properties": {"field_1": {"type": "string"}}}
    other = {"type": "object", "properties": {"field_2": {"type": "string"}}}
    for kind, one, made, changed in (
        ("schemas", "schema", {"schema": schema}, {"schema": other}),
        ("prompts", "prompt", {"content": "Read it."}, {"content": "Read it well."}),
        ("tags", "tag", {"color": "#aabbcc"}, {"color": "#bbccdd"}),
        (
            "threads",
            "thread",
            {"document_id": str(side.document(side.document_number(round_number)))},
            {"shared": True},
        ),
    ):
        title = "title" if kind == "threads" else "name"
        item = await ask(side, "POST", f"/api/{kind}", json={title: f"{kind} {uuid4()}", **made})
        yield f"POST /api/{kind}"
        at, name = f"/api/{kind}/{item['id']}", f"/api/{kind}/{{{one}_id}}"
        await ask(side, "GET", f"/api/{kind}")
        yield f"GET /api/{kind}"
        await ask(side, "GET", at)
        yield f"GET {name}"
        await ask(side, "PATCH", at, json=changed)
        yield f"PATCH {name}"
        if kind in ("schemas", "prompts"):
            (version, *_) = (await ask(side, "GET", f"{at}/versions"))["items"]
            yield f"GET {name}/versions"
            await ask(side, "GET", f"/api/{one}_versions/{version[f'{one}_revid']}")
            yield f"GET /api/{one}_versions/{{{one}_revid}}"
        if kind == "schemas":
            for path in ("rows", "export", "view"):
                table = at.replace("/schemas/", "/tables/")
                params = {"totals": True, "marks": True} if path == "rows" else {}
                await ask(side, "GET", f"{table}/{path}", params=params)
                yield f"GET /api/tables/{{table_id}}/{path}"
            await ask(side, "POST", f"{at}/changes", json={"schema": schema})
            yield f"POST {name}/changes"
            await ask(side, "POST", f"{at}/apply", json={"schema_revid": version["schema_revid"]})
            yield f"POST {name}/apply"
        if kind == "tags":
            document = f"/api/documents/{side.document(side.document_number(round_number))}"
            await ask(side, "PATCH", document, json={"tags": [item["id"]], "filename": f"{round_number}.pdf"})
            yield "PATCH /api/documents/{document_id}"
        await ask(side, "DELETE", at)
        yield f"DELETE {name}"


async def stacks_of_documents(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Create a stack of 50 documents, read, change and delete it, and start its agent's runs."""
    newest = [str(side.document(n)) for n in side.newest(50)]
    body = {"name": f"stack {uuid4()}", "columns": [{"name": "field_1"}], "document_ids": newest}
    stack = await ask(side, "POST", "/api/stacks", json=body)
    yield "POST /api/stacks"
    at, name = f"/api/stacks/{stack['id']}", "/api/stacks/{stack_id}"
    await ask(side, "GET", "/api/stacks")
    yield "GET /api/stacks"
    for path in ("", "/changes"):
        await ask(side, "GET", f"{at}{path}")
        yield f"GET {name}{path}"
    for path in ("rows", "export"):
        await ask(side, "GET", f"/api/tables/{stack['id']}/{path}")
        yield f"GET /api/tables/{{stack_id}}/{path}"
    await ask(side, "PATCH", at, json={"name": f"other {uuid4()}"})
    yield f"PATCH {name}"
    await ask(side, "PUT", f"{at}/columns", json={"columns": [{"name": "field_1"}, {"name": "field_2"}]})
    yield f"PUT {name}/columns"
    await ask(side, "DELETE", f"{at}/documents/{newest[0]}")
    yield f"DELETE {name}/documents/{{document_id}}"
    await ask(side, "POST", f"{at}/documents", json={"document_ids": newest})
    yield f"POST {name}/documents"
    for task, words in (("stack", {}), ("stack_correct", {"message": "drop field_1"})):
        body = {"stack_id": stack["id"], "approval": "auto", "wait": False, **words}
        await ask(side, "POST", f"/api/agent/{task}", json=body)
        yield f"POST /api/agent/{task}"
    async with side.database.as_user(side.scope) as conn:
        await stacks.has_document(conn, UUID(stack["id"]), UUID(newest[0]))
        await stacks.rows(conn, UUID(stack["id"]), limit=50)
        await stacks.rows_to_read(conn, UUID(stack["id"]), uuid4(), 50)
        await stacks.replaced_values(conn, UUID(stack["id"]), side.run(1), limit=50)
    await ask(side, "DELETE", at)
    yield f"DELETE {name}"


async def query_fields(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Field queries, and what a reviewer opens besides the extraction."""
    n = side.document_number(round_number)
    at, name = f"/api/extractions/{side.extraction(n)}", "/api/extractions/{extraction_id}"
    for path in ("locations", "rule_fixes", "unmapped", "schema"):
        await ask(side, "GET", f"{at}/{path}", params={"path": "field_1"} if path == "locations" else {})
        yield f"GET {name}/{path}"
    await ask(side, "POST", f"{at}/locks", params={"path": "field_3"})
    yield f"POST {name}/locks"
    for path in ("fields", "tables"):
        await ask(side, "GET", f"/api/{path}")
        yield f"GET /api/{path}"
    await ask(side, "GET", "/api/documents/count", params={"stage": "needs_review"})
    yield f"GET /api/documents/count{LARGER}"
    count = {"where": {}, "aggregates": [{"op": "count"}], "include_unverified": True}
    some = [str(side.document(k)) for k in side.newest(50)]
    await ask(side, "POST", "/api/fields/query", json={**count, "where": {"document_ids": some}})
    yield "POST /api/fields/query of fifty documents"
    await ask(side, "POST", "/api/fields/query", json=count)
    yield f"POST /api/fields/query of all documents{LARGER}"
    await ask(side, "GET", "/api/search", params={"q": f"value {n}"})
    yield "GET /api/search"
    await ask(side, "GET", "/api/config")
    yield "GET /api/config"


async def conversations(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Other tasks, with the real CLI and the offline model, and deletion of their document."""
    text = f"Invoice {uuid4()}\nVendor: Acme GmbH\nTotal: {round_number}.00 EUR\n".encode()
    document = (await ask(side, "POST", "/api/documents", files={"file": (f"{round_number}.txt", text, "text/plain")}))[
        "id"
    ]
    while (await ask(side, "GET", f"/api/documents/{document}"))["status"] == "reading":
        await asyncio.sleep(0.005)
    yield ""
    await ask(side, "GET", f"/api/documents/{document}/file")
    yield "GET /api/documents/{document_id}/file"
    done = await ask(side, "POST", "/api/agent/extract", json={"document_id": document})
    await ask(side, "DELETE", f"/api/extractions/{done['extraction']['id']}")
    yield "DELETE /api/extractions/{extraction_id}"
    for decision in ("reject", "accept"):
        done = await ask(side, "POST", "/api/agent/auto_create", json={"document_id": document})
        assert done["status"] == "completed", done
        yield "POST /api/agent/auto_create until it has ended"
        await ask(side, "POST", f"/api/documents/{document}/auto_create/{decision}")
        yield f"POST /api/documents/{{document_id}}/auto_create/{decision}"
    await ask(side, "POST", "/api/agent/chat", json={"document_id": document, "message": "What is the total?"})
    yield "POST /api/agent/chat until it has ended"
    asked = await ask(side, "POST", "/api/agent/ask", json={"message": "What is the total of Acme?"})
    yield f"POST /api/agent/ask about all documents, until it has ended{LARGER}"
    await ask(side, "DELETE", f"/api/runs/{asked['run_id']}")
    yield "DELETE /api/runs/{run_id}"
    await ask(side, "DELETE", f"/api/documents/{document}")
    yield ""


async def enclosed_files(side: Side, round_number: int) -> AsyncGenerator[str]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for number in range(3):
            zipped.writestr(f"{number}.txt", f"Invoice {uuid4()}")
    file = {"file": (f"{round_number}.zip", archive.getvalue())}
    document = (await ask(side, "POST", "/api/documents", files=file))["id"]
    children: list[dict[str, Any]] = []
    while len(children) < 3:
        await asyncio.sleep(0.005)
        children = (await ask(side, "GET", f"/api/documents/{document}"))["children"]
    yield "— a ZIP until it is read"
    while any([(await ask(side, "GET", f"/api/documents/{c['id']}"))["status"] == "reading" for c in children]):
        await asyncio.sleep(0.005)
    yield "— and its files"
    await ask(side, "DELETE", f"/api/documents/{document}")
    yield "DELETE /api/documents/{document_id} with three files in it"


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"field_1": {"type": "string"}}}

MESSAGE: dict[str, Any] = {
    "agent": "extraction",
    "model": "claude-sonnet-5",
    "input_tokens": 1000,
    "output_tokens": 100,
    "cache_write_5m_tokens": 0,
    "cache_write_1h_tokens": 0,
    "cache_read_tokens": 0,
    "cost_usd": Decimal("0.02"),
}


async def writes_of_a_run(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Everything a run writes, in one transaction that is rolled back, so that no worker claims the run."""
    scope, n = side.scope, side.document_number(round_number)
    run_id, said = uuid4(), TextEvent(text="A word.")
    subject = runs.Subject(side.document(n), side.extraction(n))
    part = sessions.Transcript(scope.org_id, str(run_id))
    hash_, other = "0" * 64, str(uuid4())

    async def operations_in_order() -> AsyncGenerator[tuple[str, Callable[[Connection], Any]]]:
        yield (
            "a run is inserted",
            lambda c: runs.add(c, scope, id=run_id, agent="extraction", task="extract", task_input={}, subject=subject),
        )
        yield "a run gets its credit", lambda c: usage.check_capacity(c, run_id, priced=True)
        yield "a run is claimed", lambda c: runs.claim(c, run_id)
        yield "a conversation is added to", lambda c: sessions.append(c, part, [{"type": "user", "uuid": str(uuid4())}])
        yield "a conversation is loaded", lambda c: sessions.load(c, part)
        yield (
            "a message is charged",
            lambda c: usage.charge(
                c, usage.ChargedMessage(run_id=run_id, org_id=scope.org_id, message_id="1.1 m", **MESSAGE)
            ),
        )
        yield "an event is added", lambda c: runs.append_event(c, run_id, said)
        yield "a look at a run", lambda c: runs.status_if_held(c, run_id, 1)
        yield (
            "a call is entered",
            lambda c: calls.record(
                c,
                run_id=run_id,
                fencing_token=1,
                org_id=scope.org_id,
                call_id="call",
                tool="update_field",
                arguments={"path": "field_1"},
                arguments_hash=hash_,
                status=CallStatus.APPROVED,
            ),
        )

        async def execute_call(conn: Connection) -> None:
            await calls.claim(
                conn, run_id=run_id, fencing_token=1, call_id="call", tool="update_field", arguments_hash=hash_
            )
            await extractions.update_field(conn, side.extraction(n), ["field_2"], other, {}, {})
            await calls.finish(
                conn, run_id=run_id, call_id="call", result="Stored.", failed=False, code="ok", events=[said]
            )

        yield "a call is carried out", execute_call
        yield "a run's conversation is recorded", lambda c: runs.record_conversation(c, run_id, run_id)
        yield "the channel of deltas is looked up", runs.delta_channel
        yield "deltas are sent", lambda c: runs.notify_deltas(c, run_id, 1, ["{}"])
        preview = Preview(version=1)
        yield (
            "a call is entered that a person decides",
            lambda c: calls.record(
                c,
                run_id=run_id,
                fencing_token=1,
                org_id=scope.org_id,
                call_id="asked",
                tool="update_field",
                arguments={},
                arguments_hash=hash_,
                status=CallStatus.PENDING,
                preview=preview,
            ),
        )
        yield "a run waits", lambda c: runs.await_approval(c, run_id, 1, "asked", attached=True, event=said)
        yield "a call is shown again", lambda c: calls.show_updated_call(c, run_id, "asked", preview, said)
        yield "a run is disowned", lambda c: runs.record_dead_worker(c, run_id)
        yield (
            "a call is decided",
            lambda c: calls.start_decision(
                c, run_id, "asked", seen_hash=hash_, approved=True, reason=None, arguments=None, arguments_hash=None
            ),
        )
        yield "a run is resumed", lambda c: runs.resume(c, run_id)
        yield "a run is claimed again", lambda c: runs.claim(c, run_id)
        yield "a run is released", lambda c: runs.release(c, run_id)
        yield "a run is claimed once more", lambda c: runs.claim(c, run_id)
        yield "a call waits for runs", lambda c: runs.await_runs(c, run_id, "asked")
        yield "a run ends", lambda c: runs.finish(c, run_id, RunStatus.COMPLETED, answer="Done.")

    async with side.database.as_user(scope) as conn:
        yield ""
        async for name, work in operations_in_order():
            await work(conn)
            yield f"in a transaction: {name}"
        await conn.rollback()


async def other_store_functions(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Store functions that the other operations do not call, or not in each round."""
    scope, n = side.scope, side.document_number(round_number)
    run, document, org = side.run(n), side.document(n), side.scope.org_id
    part = sessions.Transcript(org, str(run))
    # On a waiting and a queued run; everything is rolled back.
    waiting = side.run((round_number % 50 + 1) * (10 if side.count < 10_000 else 1000))
    async with side.database.as_user(scope) as conn:
        await extractions.list_corrected(conn, org, 20)
        await extractions.find_schema_and_prompt(conn, side.extraction(n))
        await extractions.find_shown(conn, document)
        await extractions.lock(conn, side.extraction(n))
        made = await extractions.add(conn, org_id=org, document_id=document, schema=None)
        await extractions.save_fields(conn, made, {"a": 1}, {}, {})
        await extractions.allow_locked_paths(conn, ["a"])
        await extractions.update_fields(conn, side.extraction(n), [(["field_1"], "one"), (["field_2"], "two")], {}, {})
        await extractions.get_many(conn, [side.extraction(k) for k in side.newest(25)])
        await documents.filenames_of_identical_documents(conn, [side.document(k) for k in side.newest(25)])
        await extractions.current_of(conn, document)
        await extractions.withdraw_review(conn, side.extraction(n), ExtractionStatus.COMPLETED)
        await runs.get_if_creator_may_write(conn, run)
        await extractions.current_of(conn, document)
        await examples.corrections(conn, org, SCHEMA, document)
        await schema_changes.has_active_run(conn, side.extraction(n))
        schema = await library.schemas.create(conn, org, f"schema {uuid4()}", SCHEMA)
        await schema_changes.follow(conn, made, schema.schema_revid)
        await extractions.remove(conn, made)
        await documents.is_inside(conn, document, side.document(side.document_number(round_number + 1)))
        await document_filters.count(conn, DocumentFilters(filename=f"invoice {n}.pdf"), org)
        await documents.unread_pages(conn, run)
        await documents.words(conn, document)
        await runs.children(conn, run, "call_1")
        await runs.waiting_events(conn, run)
        await runs.record_examples(conn, run, [])
        await runs.approve_later_calls(conn, waiting, ["update_field"])
        await runs.last_event(conn, run)
        await sessions.subpaths(conn, part)
        await sessions.deferred_call(conn, part)
        await sessions.has_messages(conn, part)
        await calls.waiting_calls(conn, [side.run(k * 10) for k in range(1, 51)])
        await calls.list_ended_decided_calls(conn, run)
        await calls.has_code(conn, run, "update_field", "ok")
        await calls.last_done(conn, run, ["update_field"])
        await runs.cancel_waiting(conn, runs.Subject(document, side.extraction(n)), "Superseded.")
        thread = await threads.add(conn, scope, agent="extraction", document_id=document)
        await threads.find(conn, side.thread(n))
        await threads.was_mentioned(conn, side.thread(n), "document", document)
        await threads.save_state(conn, thread.id, {"a": 1})
        await runs.cancel(conn, waiting, "Cancelled.")
        await documents.record_reading(conn, document, 1, 1)
        await documents.fail_reading(conn, document, "It is not being read.", "damaged")
        await conn.rollback()
    async with side.database.as_service() as conn:
        for _ in range(5):
            await runs.are_runs_queued(conn)
            await runs.count_waiting(conn)
            await jobs.depth(conn)
            await documents.files_to_delete(conn, 100)
            await documents.unregister_deleted_files(conn, [])
            await documents.scope_of(conn, document)
            await search.abandon_indexing(conn, document)
            await documents.abandon(conn, document, "It is not being read.")
            await runs.scope_of(conn, run)
            await runs.fail(conn, run, "It has ended.", "failed")
        await retention.delete_old_run_records(conn, timedelta(days=3650))
        await conn.rollback()
    async with side.database.as_user_without_org(scope.user_id) as conn:
        await organisations.resolve(conn, org)
    yield ""


async def organisation_life(side: Side, round_number: int) -> AsyncGenerator[str]:
    """The life of an organisation: members, invitations, keys, and its deletion."""
    new_member = UUID(int=uuid4().int)
    new_member_headers = {"Authorization": f"Bearer {LocalTokens(side.settings.home).sign(new_member)}"}
    at = "/api/organisations"
    name = f"{at}/{{organisation_id}}"
    await ask(side, "GET", "/api/me")
    yield "GET /api/me"
    await ask(side, "GET", at)
    yield f"GET {at}"
    org = (await ask(side, "POST", at, json={"name": f"Acme {round_number}"}))["id"]
    yield f"POST {at}"
    await ask(side, "GET", f"{at}/{org}")
    yield f"GET {name}"
    await ask(side, "PATCH", f"{at}/{org}", json={"name": "Acme GmbH"})
    yield f"PATCH {name}"
    await ask(side, "GET", f"{at}/{org}/settings_journal")
    yield f"GET {name}/settings_journal"
    unwanted = (await ask(side, "POST", f"{at}/{org}/invitations", json={"role": "viewer"}))["id"]
    wanted = await ask(side, "POST", f"{at}/{org}/invitations", json={"role": "owner"})
    yield f"POST {name}/invitations"
    await ask(side, "GET", f"{at}/{org}/invitations")
    yield f"GET {name}/invitations"
    await ask(side, "DELETE", f"{at}/{org}/invitations/{unwanted}")
    yield f"DELETE {name}/invitations/{{invitation_id}}"
    await ask(side, "POST", "/api/invitations/accept", json={"token": wanted["token"]}, headers=new_member_headers)
    yield "POST /api/invitations/accept"
    await ask(side, "GET", f"{at}/{org}/members")
    yield f"GET {name}/members"
    await ask(side, "PATCH", f"{at}/{org}/members/{new_member}", json={"role": "member"})
    yield f"PATCH {name}/members/{{user_id}}"
    await ask(side, "POST", f"{at}/{org}/leave", headers=new_member_headers)
    yield f"POST {name}/leave"
    again = await ask(side, "POST", f"{at}/{org}/invitations", json={"role": "member"})
    await ask(side, "POST", "/api/invitations/accept", json={"token": again["token"]}, headers=new_member_headers)
    yield ""
    await ask(side, "DELETE", f"{at}/{org}/members/{new_member}")
    yield f"DELETE {name}/members/{{user_id}}"
    key = await ask(side, "POST", "/api/keys", json={"name": "robot", "scopes": ["documents:read"]})
    yield "POST /api/keys"
    await ask(side, "GET", "/api/documents", headers={"Authorization": f"Bearer {key['key']}"})
    yield "GET /api/documents with a key"
    await ask(side, "GET", "/api/keys")
    yield "GET /api/keys"
    await ask(side, "DELETE", f"/api/keys/{key['id']}")
    yield "DELETE /api/keys/{key_id}"
    await ask(side, "DELETE", f"{at}/{org}")
    yield f"DELETE {name}"
    async with side.database.as_service() as conn:  # the number of deleted organisations per user is limited
        await conn.execute("select private.clear_organisations(100)")
    yield ""


async def maintenance(side: Side, round_number: int) -> AsyncGenerator[str]:
    await clear_up(side.database, side.settings)
    yield "maintenance, nothing due, all tasks"


async def maintenance_in_the_database(side: Side, round_number: int) -> AsyncGenerator[str]:
    """Run each task a hundred times in one statement, to measure the time in the database."""
    for task in ("delete_old_run_records",):
        async with side.database.as_service() as conn:
            query = f"select count(private.{task}('3650 days')) from generate_series(1, 100)"
            await conn.execute(query.encode())
        yield f"— {task}, a hundred times"
    async with side.database.as_service() as conn:
        await conn.execute("select count(private.clear_organisations(100)) from generate_series(1, 100)")
    yield "— clear_organisations, a hundred times"


ALL: dict[Steps, float] = {
    read_everything: 1,
    deep_pages: 1,
    edit_fields: 1,
    delete_documents: 1,
    writes_of_a_run: 1,
    other_store_functions: 1,
    organisation_life: 1,
    named_items: 1,
    stacks_of_documents: 1,
    query_fields: 1,
    maintenance: 1,
    maintenance_in_the_database: 1,
    enclosed_files: 0.4,
    complete_runs: 0.1,
    conversations: 0.1,
}
"""The share of the rounds in which each runs."""

NOT_MEASURED = {
    "runs.detach": "what runs.record_dead_worker does, with a fencing token",
    "documents.queue_unlocked_copy": "what documents.start_reading does, once a password was given",
    "POST /api/documents/{document_id}/read": "reads a file again, as POST /api/documents does",
    "POST /api/documents/adopt": "enters what POST /api/documents enters, of a file in a bucket of Supabase",
    **{
        f"search_vectors.{name}": "needs pgvector, which the embedded Postgres lacks"
        for name in [
            "are_available",
            "chunks_to_embed",
            "count_unembedded",
            "lease",
            "nearest",
            "set_embedder",
            "write",
        ]
    },
}
"""Routes and store functions that are not measured, and why."""


class StoreTimes:
    """Durations of each store function, by database."""

    def __init__(self) -> None:
        self.counts = False
        self.taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.functions: set[str] = set()
        for found in pkgutil.iter_modules(stores.__path__):
            if found.name == "rows":  # helpers of the other modules
                continue
            module = importlib.import_module(f"{stores.__name__}.{found.name}")
            for name, function in list(vars(module).items()):
                is_own = getattr(function, "__module__", None) == module.__name__
                if inspect.iscoroutinefunction(function) and is_own and not name.startswith("_"):
                    self.functions.add(f"{found.name}.{name}")
                    setattr(module, name, self._timed(f"{found.name}.{name}", function))

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def timed(conn: psycopg.AsyncConnection[Any], *given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return await function(conn, *given, **named)
            finally:
                if self.counts:
                    self.taken[name][conn.info.dbname].append((time.perf_counter() - began) * 1000)

        return timed

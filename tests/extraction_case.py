"""A processed document with an extraction, for tests of runs and tools that need no HTTP server."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import psycopg
import pytest
from claude_agent_sdk import ClaudeAgentOptions, Message
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from child_processes import cli_processes
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.changes import Preview
from fieldmark.domain.statuses import CallStatus
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import Body, Call, call
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.binding import RunBinding, RunHandlers
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options
from fieldmark.runs.engine.permission_hook import PermissionHook
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.engine.process import CliProcess
from fieldmark.runs.engine.session_store import ConversationStore
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.runs.events.approvals import approval_event
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.runs.run import Runner
from fieldmark.stores import documents, extractions, runs, tool_calls
from fieldmark.stores.runs import RunOptions, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import StartedBy, ToolCall, ToolOutcome, execute
from fieldmark.tools.toolset import RunTools, hash_arguments
from page_words import text_page
from pagewords.reading_warnings import ReadingWarning

INVOICE = "Invoice number: 1\nVendor: Acme GmbH\nTotal: 10.00 EUR\n"


@dataclass(frozen=True)
class ExtractionCase:
    """One user's document and extraction. `owner_url` bypasses row policies."""

    database: Database
    owner_url: str
    scope: Scope
    document_id: UUID
    extraction_id: UUID

    async def another_extraction(self, schema: dict[str, Any] | None = None) -> ExtractionCase:
        """Add an extraction of the same document. Runs on different extractions do not wait for each other."""
        async with self.database.as_user(self.scope) as conn:
            added = await extractions.add(conn, org_id=self.scope.org_id, document_id=self.document_id, schema=schema)
        return replace(self, extraction_id=added)

    async def queue_run(
        self,
        task: str = "extract",
        instructions: str | None = None,
        *,
        fields: list[str] | None = None,
        second_reading: str | None = None,
        parent: tuple[UUID, str] | None = None,
        **options: Any,
    ) -> UUID:
        """Add a queued run. `instructions` is the message of a correction; `fields` limits the run to these paths."""
        task_input: dict[str, Any] = {} if fields is None else {"fields": fields}
        if second_reading is not None:
            task_input["second_reading"] = second_reading
        if instructions:
            task_input["message" if task == "correct" else "instructions"] = instructions
        if task == "correct":
            task_input.setdefault("message", "Correct it.")
        async with self.database.as_user(self.scope) as conn:
            return await runs.add(
                conn,
                self.scope,
                id=uuid4(),
                agent=EXTRACTION.name,
                task=task,
                task_input=task_input,
                subject=Subject(self.document_id, self.extraction_id),
                options=RunOptions(**options),
                parent=parent,
            )

    async def context(self, run_id: UUID | None = None) -> RunContext:
        """Claim a run as a worker does and return its context."""
        run_id = run_id or await self.queue_run()
        async with self.database.as_user(self.scope) as conn:
            claimed = await runs.claim(conn, run_id)
        assert claimed is not None
        return run_context(self.database, self.scope, claimed)

    async def record_call(
        self, context: RunContext, name: str, arguments: dict[str, Any], call_id: str, *, ask: bool = False
    ) -> None:
        """Record a tool call as the permission hook does: approved, or pending a decision if `ask`."""
        async with self.database.as_user(self.scope) as conn:
            preview = await _preview(conn, context, name, arguments) if ask else None
            await tool_calls.record(
                conn,
                run_id=context.run_id,
                fencing_token=context.fencing_token,
                org_id=self.scope.org_id,
                call_id=call_id,
                tool=name,
                arguments=arguments,
                arguments_hash=hash_arguments(arguments),
                status=CallStatus.APPROVED if preview is None else CallStatus.PENDING,
                preview=preview,
            )
            if preview is not None:
                changes = [one.as_json() for one in preview.changes]
                event = approval_event(context.run_id, call_id, name, arguments, "Needs approval.", changes)
                await runs.await_approval(
                    conn, context.run_id, context.fencing_token, call_id, attached=False, event=event
                )

    async def call(self, context: RunContext, name: str, **arguments: Any) -> ToolOutcome:
        """Execute an approved tool call."""
        call_id = f"call-{uuid4()}"
        await self.record_call(context, name, arguments, call_id)
        return await execute(
            EXTRACTION.create_tools(context), context, ToolCall(name, call_id, arguments), started_by=StartedBy.POLICY
        )

    async def set_fields(self, fields: dict[str, Any]) -> None:
        """Write fields without an author, so that they are not locked as a user's are."""
        self.sql("select public.save_extraction_fields(%s, %s)", self.extraction_id, Jsonb(fields))

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Run a statement as the database owner and return its rows."""
        return sql(self.owner_url, query, *parameters)

    def add_member(self, role: str) -> UUID:
        return add_member(self.owner_url, self.scope.org_id, role)

    def extraction(self) -> dict[str, Any]:
        return self.sql("select * from public.extractions where id = %s", self.extraction_id)[0]

    def journal(self) -> list[dict[str, Any]]:
        return self.sql(
            "select * from public.extraction_journal where extraction_id = %s order by id", self.extraction_id
        )

    def ledger(self, run_id: UUID) -> list[dict[str, Any]]:
        return self.sql("select * from public.tool_calls where run_id = %s order by created_at", run_id)

    def state(self, run_id: UUID) -> dict[str, Any]:
        return self.sql("select * from public.runs where id = %s", run_id)[0]

    def events(self, run_id: UUID) -> list[dict[str, Any]]:
        return events(self.owner_url, run_id)

    async def execute_run(
        self,
        answer: Any,
        run_id: UUID | None = None,
        *,
        seconds: int = 300,
        max_turns: int = 50,
        **columns: Any,
    ) -> FinishedRun:
        """Execute a run to its end; `answer` plays the model."""
        run_id = run_id or await self.queue_run(**columns)
        async with OfflineModel(answer) as model:
            await self.runner(model, seconds=seconds, max_turns=max_turns).execute(run_id)
        return FinishedRun(self, run_id, model.requests)

    def runner(
        self,
        model: OfflineModel,
        *,
        seconds: int = 300,
        max_turns: int = 50,
    ) -> Runner:
        service = ModelService(model.base_url, "test-key", None, retries=3)
        # Processor time is another limit: a CLI needs a second of it to start, and more on a slow machine.
        pool = CliPool(service, seconds=max(seconds, 60))
        return Runner(self.database, pool, model="claude-sonnet-5", max_turns=max_turns, seconds=seconds)


_connections: dict[str, psycopg.Connection[dict[str, Any]]] = {}


def sql(url: str, query: str, *parameters: Any) -> list[dict[str, Any]]:
    """Run one statement in its own transaction and return its rows. All statements of a test share a connection."""
    conn = _connections.get(url)
    if conn is None or conn.closed:
        close_connection()
        # Nothing is prepared: a test may change a table between two equal statements.
        conn = psycopg.connect(url, row_factory=dict_row, autocommit=True, prepare_threshold=None)
        _connections[url] = conn
    cursor = conn.execute(query, parameters or None)
    return cursor.fetchall() if cursor.description else []


def add_member(url: str, org_id: UUID, role: str = "member") -> UUID:
    """Add a new user to an organisation. Return the user's id."""
    user = uuid4()
    sql(url, "insert into auth.users (id) values (%s)", user)
    sql(url, "insert into public.memberships (org_id, user_id, role) values (%s, %s, %s)", org_id, user, role)
    return user


def close_connection() -> None:
    """Close the connection of `sql`."""
    while _connections:
        _connections.popitem()[1].close()


def events(url: str, run_id: UUID | str) -> list[dict[str, Any]]:
    """Return the bodies of a run's events, after checking that they are numbered 1, 2, 3 …"""
    rows = sql(url, "select number, body from public.run_events where run_id = %s order by number", run_id)
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["body"] for row in rows]


def update_call(path: str) -> Call:
    """Return a model's tool call that sets a field."""
    return call("update_field", {"path": path, "value": 1, "confidence": 1.0})


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended, with the requests sent to the model."""

    case: ExtractionCase
    run_id: UUID
    requests: list[Body]

    @property
    def state(self) -> dict[str, Any]:
        return self.case.state(self.run_id)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.case.events(self.run_id)

    @property
    def ledger(self) -> list[dict[str, Any]]:
        return self.case.ledger(self.run_id)

    @property
    def sent(self) -> str:
        """All requests to the model, as one text."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.requests)

    @property
    def results(self) -> list[tuple[str, bool]]:
        """(text, is an error) of each tool result sent to the model."""
        return tool_results(self.requests[-1])


def tool_results(body: Body) -> list[tuple[str, bool]]:
    """Return (text, is an error) of each tool result in a request."""
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    return [(_text(block["content"]), bool(block.get("is_error"))) for block in blocks]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


async def _preview(conn: Connection, context: RunContext, name: str, arguments: dict[str, Any]) -> Preview:
    show = EXTRACTION.create_tools(context).actions[name].preview
    return Preview() if show is None else await show(conn, EXTRACTION.toolset.check(name, arguments))


@asynccontextmanager
async def document_with_pages(
    database: Database,
    owner_url: str,
    scope: Scope,
    pages: Sequence[str],
    warnings: Sequence[ReadingWarning] = (),
    *,
    einvoice_pages: Collection[int] = (),
) -> AsyncIterator[ExtractionCase]:
    """Create a case whose document has these pages and warnings. Pages in `einvoice_pages` come from an embedded
    e-invoice."""
    document_id = uuid4()
    async with database.as_user(scope) as conn:
        await documents.add(
            conn,
            document_id=document_id,
            org_id=scope.org_id,
            filename="invoice.txt",
            storage_path=f"{scope.org_id}/{document_id}/invoice.txt",
            byte_size=1,
        )
    yield await case_for_document(
        database, owner_url, scope, document_id, pages, warnings, einvoice_pages=einvoice_pages
    )


async def case_for_document(
    database: Database,
    owner_url: str,
    scope: Scope,
    document_id: UUID,
    pages: Sequence[str],
    warnings: Sequence[ReadingWarning] = (),
    *,
    einvoice_pages: Collection[int] = (),
) -> ExtractionCase:
    """Create a case for an uploaded document by storing these pages as its content."""
    rows = [text_page(n, text, engine="xml" if n in einvoice_pages else "text") for n, text in enumerate(pages, 1)]
    async with database.as_user(scope) as conn:
        await documents.add_pages(conn, document_id, scope.org_id, rows)
        await documents.finish_reading(
            conn, document_id, media_type="text/plain", page_count=len(pages), warnings=warnings
        )
        extraction_id = await extractions.add(conn, org_id=scope.org_id, document_id=document_id, schema=None)
    return ExtractionCase(database, owner_url, scope, document_id, extraction_id)


@pytest.fixture
async def case(
    database: Database, clone: Any, make_user: Callable[[], Awaitable[Scope]]
) -> AsyncIterator[ExtractionCase]:
    async with document_with_pages(database, clone.owner_url, await make_user(), [INVOICE]) as case:
        yield case


def home_folder(cli: psutil.Process) -> Path:
    """Return the home folder of a CLI process."""
    return Path(cli.environ()["HOME"])


@asynccontextmanager
async def run_in_progress(
    case: ExtractionCase, **columns: Any
) -> AsyncIterator[tuple[asyncio.Task[FinishedRun], psutil.Process]]:
    """Start a run whose model never answers. Yields (its task, its CLI process); cancels the task at the end."""
    asked = asyncio.Event()

    async def silent(body: Body) -> list[Any]:
        asked.set()
        await asyncio.sleep(600)
        return []

    task = asyncio.create_task(case.execute_run(silent, **columns))
    try:
        await until(lambda: asked.is_set() or task.done())
        (cli,) = cli_processes()
        yield task, cli
    finally:
        task.cancel()
        await asyncio.wait({task})


def run_handlers(case: ExtractionCase, tools: RunTools, context: RunContext) -> tuple[ToolExecutor, RunHandlers]:
    """Return what serves the CLI in a run: the executor of its tool calls, and all handlers."""
    hook = PermissionHook(tools, context)
    calls = ToolExecutor(hook)
    return calls, RunHandlers(hook, calls, ConversationStore(case.database, case.scope))


@asynccontextmanager
async def cli_conversation(
    case: ExtractionCase,
    answer: Any,
    prompt: str = "Go on.",
    change: Callable[[ClaudeAgentOptions], ClaudeAgentOptions] = lambda options: options,
) -> AsyncIterator[CliConversation]:
    """Start a CLI with a run's options, altered by `change`, but without a run."""
    context = await case.context()
    calls, handlers = run_handlers(case, EXTRACTION.create_tools(context), context)
    binding = RunBinding(uuid4())
    binding.attach(handlers)
    kind = CliKind.of(EXTRACTION, "claude-sonnet-5", max_turns=10, one_at_a_time=True)
    async with OfflineModel(answer) as model:
        service = ModelService(model.base_url, "test-key", None)

        def options_in(folder: Path) -> ClaudeAgentOptions:
            return change(agent_options(kind, binding, folder, service=service, cpu_seconds=60))

        cli = CliProcess(options_in, kind, binding)
        clean = False
        try:
            await cli.connect()
            yield CliConversation(cli.converse(prompt), calls, model)
            clean = True
        finally:
            await cli.end(clean)


@dataclass(frozen=True)
class CliConversation:
    messages: AsyncIterator[Message]
    calls: ToolExecutor
    model: OfflineModel

    async def all(self) -> list[Message]:
        return [message async for message in self.messages]

    @property
    def sent(self) -> str:
        """All requests to the model, as one text."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.model.requests)


async def until(
    condition: Callable[[], Any], seconds: float = 60, describe: Callable[[], str] = str, *, every: float | None = None
) -> Any:
    """Poll `condition` until it returns something true, and return that: every 20 ms; every 50 ms if it is async, since
    it asks a service, which slows down what it waits for.

    Fails after `seconds` with the text of `describe`. The timeout is generous; it measures nothing.
    """
    end = time.monotonic() + seconds
    while True:
        found = condition()
        is_async = inspect.isawaitable(found)
        if is_async:
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"it did not become true within {seconds} s\n{describe()}"
        await asyncio.sleep(every or (0.05 if is_async else 0.02))

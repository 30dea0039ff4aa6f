"""A document that is read, with an extraction and runs over it, and no service around: for tests of runs and tools."""

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

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.changes import Preview
from fieldmark.domain.reading_warnings import ReadingWarning
from fieldmark.domain.statuses import CallStatus
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import Body, Call, call
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.binding import RunBinding, RunHandlers
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options
from fieldmark.runs.engine.permission_hook import PermissionHook
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.engine.process import Process
from fieldmark.runs.engine.session_store import Sessions
from fieldmark.runs.engine.tool_executor import ToolExecutor
from fieldmark.runs.events.approvals import approval_event
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.runs.run import Runner
from fieldmark.stores import documents, extractions, runs, tool_calls
from fieldmark.stores.rows import PageRow
from fieldmark.stores.runs import RunOptions, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import By, ToolCall, ToolOutcome, execute
from fieldmark.tools.toolset import RunTools, hash_of
from living import clis
from printed import words_of

INVOICE = "Invoice number: 1\nVendor: Acme GmbH\nTotal: 10.00 EUR\n"


@dataclass(frozen=True)
class Desk:
    """One user's document and extraction. `owner_url` sees past all policies."""

    database: Database
    owner_url: str
    scope: Scope
    document_id: UUID
    extraction_id: UUID

    async def beside(self, schema: dict[str, Any] | None = None) -> Desk:
        """The same with an extraction of its own: runs on one extraction go one after the other."""
        async with self.database.as_user(self.scope) as conn:
            added = await extractions.add(conn, org_id=self.scope.org_id, document_id=self.document_id, schema=schema)
        return replace(self, extraction_id=added)

    async def run(
        self,
        task: str = "extract",
        instructions: str | None = None,
        *,
        fields: list[str] | None = None,
        parent: tuple[UUID, str] | None = None,
        **options: Any,
    ) -> UUID:
        """A run that waits for a worker. `instructions` are the message of a correction. `fields` limit the run."""
        given: dict[str, Any] = {} if fields is None else {"fields": fields}
        if instructions:
            given["message" if task == "correct" else "instructions"] = instructions
        if task == "correct":
            given.setdefault("message", "Put it right.")
        async with self.database.as_user(self.scope) as conn:
            return await runs.add(
                conn,
                self.scope,
                id=uuid4(),
                agent=EXTRACTION.name,
                task=task,
                task_input=given,
                subject=Subject(self.document_id, self.extraction_id),
                options=RunOptions(**options),
                parent=parent,
            )

    async def context(self, run_id: UUID | None = None) -> RunContext:
        """The context of a run that a worker has just claimed."""
        run_id = run_id or await self.run()
        async with self.database.as_user(self.scope) as conn:
            claimed = await runs.claim(conn, run_id)
        assert claimed is not None
        return run_context(self.database, self.scope, claimed)

    async def approve(
        self, context: RunContext, name: str, arguments: dict[str, Any], call_id: str, *, ask: bool = False
    ) -> None:
        """Enter a call in the ledger as the permission hook does: approved, or with `ask` waiting for a person."""
        async with self.database.as_user(self.scope) as conn:
            preview = await _preview(conn, context, name, arguments) if ask else None
            await tool_calls.enter(
                conn,
                run_id=context.run_id,
                fencing_token=context.fencing_token,
                org_id=self.scope.org_id,
                call_id=call_id,
                tool=name,
                arguments=arguments,
                arguments_hash=hash_of(arguments),
                status=CallStatus.APPROVED if preview is None else CallStatus.PENDING,
                preview=preview,
            )
            if preview is not None:
                changes = [one.as_json() for one in preview.changes]
                event = approval_event(context.run_id, call_id, name, arguments, "It asks.", changes)
                await runs.await_approval(
                    conn, context.run_id, context.fencing_token, call_id, attached=False, event=event
                )

    async def call(self, context: RunContext, name: str, **arguments: Any) -> ToolOutcome:
        """A call that was approved."""
        call_id = f"call-{uuid4()}"
        await self.approve(context, name, arguments, call_id)
        return await execute(
            EXTRACTION.create_tools(context), context, ToolCall(name, call_id, arguments), by=By.POLICY
        )

    async def put(self, fields: dict[str, Any]) -> None:
        """Fill the extraction as nobody, so that no lock of a person's keeps an agent from changing it."""
        self.sql("select public.save_extraction_fields(%s, %s)", self.extraction_id, Jsonb(fields))

    def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Rows as the owner sees them."""
        return sql(self.owner_url, query, *parameters)

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

    async def work(
        self,
        answer: Any,
        run_id: UUID | None = None,
        *,
        seconds: int = 300,
        max_turns: int = 50,
        **columns: Any,
    ) -> Worked:
        """A run from its queueing to its end, with the real CLI; `answer` speaks for the model."""
        run_id = run_id or await self.run(**columns)
        async with OfflineModel(answer) as model:
            await self.runner(model, seconds=seconds, max_turns=max_turns).execute(run_id)
        return Worked(self, run_id, model.requests)

    def runner(
        self,
        model: OfflineModel,
        *,
        seconds: int = 300,
        max_turns: int = 50,
    ) -> Runner:
        service = ModelService(model.base_url, "test-key", None, retries=3)
        # Processor time is another limit: a CLI needs a second of it to start, and more on a slow machine.
        of_the_cli = CliPool(service, seconds=max(seconds, 60))
        return Runner(self.database, of_the_cli, model="claude-sonnet-5", max_turns=max_turns, seconds=seconds)


def sql(url: str, query: str, *parameters: Any) -> list[dict[str, Any]]:
    """Rows of one statement, in a transaction of its own."""
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as conn:
        cursor = conn.execute(query, parameters or None)
        return cursor.fetchall() if cursor.description else []


def events(url: str, run_id: UUID | str) -> list[dict[str, Any]]:
    """The bodies of a run's events; their numbers are known to be 1, 2, 3 …"""
    rows = sql(url, "select number, body from public.run_events where run_id = %s order by number", run_id)
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["body"] for row in rows]


def update(path: str) -> Call:
    """A call of the model's that sets a field."""
    return call("update_field", {"path": path, "value": 1, "confidence": 1.0})


@dataclass(frozen=True)
class Worked:
    """A run that has ended, and what the model was sent on the way."""

    desk: Desk
    run_id: UUID
    requests: list[Body]

    @property
    def state(self) -> dict[str, Any]:
        return self.desk.state(self.run_id)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.desk.events(self.run_id)

    @property
    def ledger(self) -> list[dict[str, Any]]:
        return self.desk.ledger(self.run_id)

    @property
    def sent(self) -> str:
        """All that the model was sent."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.requests)

    @property
    def results(self) -> list[tuple[str, bool]]:
        """What the tools answered the model in this run, and whether as an error."""
        return tool_results(self.requests[-1])


def tool_results(body: Body) -> list[tuple[str, bool]]:
    """(text, is an error) of every tool result in a request."""
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
async def laid_out(
    database: Database,
    owner_url: str,
    scope: Scope,
    pages: Sequence[str],
    warnings: Sequence[ReadingWarning] = (),
    *,
    for_machines: Collection[int] = (),
) -> AsyncIterator[Desk]:
    """A desk with a document of these pages, read with these warnings. The pages `for_machines` hold an invoice."""
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
    yield await desk_of(database, owner_url, scope, document_id, pages, warnings, for_machines=for_machines)


async def desk_of(
    database: Database,
    owner_url: str,
    scope: Scope,
    document_id: UUID,
    pages: Sequence[str],
    warnings: Sequence[ReadingWarning] = (),
    *,
    for_machines: Collection[int] = (),
) -> Desk:
    """A desk with a document that was uploaded, as if it had been read."""
    rows = [
        PageRow(
            number=n,
            width=600,
            height=800,
            text=text,
            words=words_of(text),
            engine="xml" if n in for_machines else "text",
        )
        for n, text in enumerate(pages, 1)
    ]
    async with database.as_user(scope) as conn:
        await documents.add_pages(conn, document_id, scope.org_id, rows)
        await documents.finish_reading(
            conn, document_id, media_type="text/plain", page_count=len(pages), warnings=warnings
        )
        extraction_id = await extractions.add(conn, org_id=scope.org_id, document_id=document_id, schema=None)
    return Desk(database, owner_url, scope, document_id, extraction_id)


@pytest.fixture
async def desk(database: Database, clone: Any, make_user: Callable[[], Awaitable[Scope]]) -> AsyncIterator[Desk]:
    async with laid_out(database, clone.owner_url, await make_user(), [INVOICE]) as desk:
        yield desk


def home_of(cli: psutil.Process) -> Path:
    """The folder that a CLI lives in."""
    return Path(cli.environ()["HOME"])


@asynccontextmanager
async def at_work(desk: Desk, **columns: Any) -> AsyncIterator[tuple[asyncio.Task[Worked], psutil.Process]]:
    """A run whose model has fallen silent: (its task, its CLI). Broken off at the end if it still goes on."""
    asked = asyncio.Event()

    async def silent(body: Body) -> list[Any]:
        asked.set()
        await asyncio.sleep(600)
        return []

    task = asyncio.create_task(desk.work(silent, **columns))
    try:
        await until(lambda: asked.is_set() or task.done())
        (cli,) = clis()
        yield task, cli
    finally:
        task.cancel()
        await asyncio.wait({task})


def handlers_of(desk: Desk, tools: RunTools, context: RunContext) -> tuple[ToolExecutor, RunHandlers]:
    """What answers a CLI in a run: the executor of its calls, and all handlers."""
    hook = PermissionHook(tools, context)
    calls = ToolExecutor(hook)
    return calls, RunHandlers(hook, calls, Sessions(desk.database, desk.scope))


@asynccontextmanager
async def conversation(
    desk: Desk,
    answer: Any,
    prompt: str = "Go on.",
    change: Callable[[ClaudeAgentOptions], ClaudeAgentOptions] = lambda options: options,
) -> AsyncIterator[Conversation]:
    """The CLI with the options that a run gives it, `change`d on purpose, in front of a model; without the run."""
    context = await desk.context()
    calls, handlers = handlers_of(desk, EXTRACTION.create_tools(context), context)
    binding = RunBinding(uuid4())
    binding.take(handlers)
    kind = CliKind.of(EXTRACTION, "claude-sonnet-5", max_turns=10, one_at_a_time=True)
    async with OfflineModel(answer) as model:
        service = ModelService(model.base_url, "test-key", None)

        def options_in(folder: Path) -> ClaudeAgentOptions:
            return change(agent_options(kind, binding, folder, service=service, cpu_seconds=60))

        cli = Process(options_in, kind, binding)
        in_order = False
        try:
            await cli.connect()
            yield Conversation(cli.converse(prompt), calls, model)
            in_order = True
        finally:
            await cli.end(in_order)


@dataclass(frozen=True)
class Conversation:
    messages: AsyncIterator[Message]
    calls: ToolExecutor
    model: OfflineModel

    async def all(self) -> list[Message]:
        return [message async for message in self.messages]

    @property
    def sent(self) -> str:
        """All that the model was sent."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.model.requests)


async def until(holds: Callable[[], Any], seconds: float = 60, otherwise: Callable[[], str] = str) -> Any:
    """What `holds` answers (it may be async) as soon as it is true. The seconds are those after which nobody would
    still wait, and no measure of anything; `otherwise` says then what there is instead."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"it did not become true within {seconds} s\n{otherwise()}"
        await asyncio.sleep(0.02)

"""What a tool is, and the one way to run it: one call, one transaction, as one user, on one document."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.changes import Preview
from fieldmark.domain.values import canonical, problem_with
from fieldmark.errors import FieldmarkError, Invalid
from fieldmark.identity.scope import Scope
from fieldmark.services.evidence import DocumentIndexes
from fieldmark.stores import runs, tool_calls
from fieldmark.tools.errors import ModelRetry, ToolFailed

log = structlog.get_logger()

MAX_RESULT_BYTES = 40_000
"""The CLI spills a larger result into a file, which the agent has no tool to open."""

Confidence = Annotated[
    float,
    Field(strict=True, ge=0, le=1, allow_inf_nan=False, description="0.0 to 1.0: how sure you are of what you read."),
]


class ToolInput(BaseModel):
    """Base of every tool's arguments: what is not declared is refused."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Whom and what the tools of one run are locked to. The model never sees or names any of it."""

    database: Database
    scope: Scope
    run_id: UUID
    attempt: int
    document_id: UUID
    extraction_id: UUID
    message: str | None = None
    indexes: DocumentIndexes = field(default_factory=DocumentIndexes, compare=False)

    @property
    def deps(self) -> ToolContext:
        return self


class ToolEffect(StrEnum):
    """What a call does to the world, and so how it is run (see tools/ledger.py).

    READ      nothing: one transaction, not in the ledger, never asks a person
    WRITE     a change in the database: one transaction with its ledger entry
    EXTERNAL  something outside, or something long: entered and committed, done without a connection, then recorded
    """

    READ = "read"
    WRITE = "write"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers. `code` and `data` are for programs, `text` for the model. `events` are told to whoever
    watches the run, in the transaction of the call: flat objects of domain/events.py."""

    text: str
    code: str = "ok"
    data: JsonValue = None
    events: Sequence[Mapping[str, JsonValue]] = ()


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to."""

    sentence: str
    code: str = "ok"
    data: JsonValue = None
    is_error: bool = False

    @property
    def text(self) -> str:
        return self.sentence


Answer = ToolOutcome
Input = TypeVar("Input", bound=ToolInput)
RunContext = ToolContext


@dataclass(frozen=True, slots=True)
class Tool(Generic[Input]):
    """One thing an agent may do. The description is the docstring of its input."""

    name: str
    input: type[Input]
    run: Callable[[Connection, ToolContext, Any], Awaitable[ToolResult]]
    summary: Callable[[Input], str]
    effect: ToolEffect = ToolEffect.READ
    prepare: Callable[[ToolContext, Input], Awaitable[Any]] | None = None
    preview: Callable[[Connection, ToolContext, Input], Awaitable[Preview]] | None = None

    @property
    def writes(self) -> bool:
        return self.effect is not ToolEffect.READ

    @property
    def says(self) -> Callable[[Input], str]:
        return self.summary

    @property
    def description(self) -> str:
        return " ".join((self.input.__doc__ or "").split())


class Toolset:
    """The tools of one agent."""

    def __init__(self, *tools: Tool[Any]) -> None:
        self.tools: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}

    def check(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolInput:
        """The arguments as the tool's input. Raises ModelRetry with every fault, for the model to mend."""
        tool = self.tools.get(name)
        if tool is None:
            raise ModelRetry(f"There is no tool {name[:80]!r}. There are: {', '.join(self.tools)}.")
        problem = problem_with(dict(arguments))
        if problem:
            raise ModelRetry(problem)
        try:
            return tool.input.model_validate(dict(arguments))
        except ValidationError as error:
            raise ModelRetry(" ".join(_in_words(fault) for fault in error.errors()[:10])) from None

    def says(self, name: str, arguments: Mapping[str, JsonValue]) -> str:
        """What a call does, for people who watch."""
        try:
            return self.tools[name].says(self.check(name, arguments))
        except (ModelRetry, KeyError):
            return f"Calling {name[:80]}"

    async def call(
        self, context: ToolContext, name: str, call_id: str | None, arguments: Mapping[str, JsonValue]
    ) -> Answer:
        """Run one call. Every expected failure is an Answer; raises Fenced if this worker lost the run, and
        whatever the database raises if it does not answer."""
        try:
            return await self._transact(context, name, call_id, arguments)
        except ModelRetry as refusal:
            return await self._failed(context, name, call_id, arguments, refusal.text, refusal.code, refusal.data)
        except ToolFailed as failure:
            said = f"{failure.text} This cannot be mended by calling again."
            return await self._failed(context, name, call_id, arguments, said, failure.code, failure.data)
        except Invalid as refusal:
            return await self._failed(context, name, call_id, arguments, str(refusal))
        except FieldmarkError:
            raise
        except Exception:
            # An exception's text may hold a DSN or another tenant's value: it goes into the log, never to the model.
            log.exception("tool failed", tool=name)
            return await self._failed(
                context, name, call_id, arguments, "Internal error. This cannot be mended by calling again."
            )

    async def _transact(
        self, context: ToolContext, name: str, call_id: str | None, arguments: Mapping[str, JsonValue]
    ) -> Answer:
        checked: Any = self.check(name, arguments)
        tool = self.tools[name]
        if tool.prepare is not None:
            checked = await tool.prepare(context, checked)
        async with context.database.as_user(context.scope) as conn:
            if not tool.writes:
                await runs.fence(conn, context.run_id, context.attempt)
                result = await tool.run(conn, context, checked)
                return Answer(result.text, result.code, result.data)
            if call_id is None:
                raise ToolFailed("The call came without its id, so nobody can have admitted it.")
            entry = await self._claim(conn, context, name, call_id, arguments)
            if entry is None:
                raise ToolFailed("This call was not admitted.")
            if entry["status"] in ("done", "failed"):
                return Answer(entry["result"], is_error=entry["status"] == "failed")
            if entry["status"] != "admitted":
                raise ToolFailed("This call was refused.")
            result = await tool.run(conn, context, checked)
            event = dict(result.events[0]) if result.events else None
            await tool_calls.finish(
                conn, run_id=context.run_id, call_id=call_id, result=result.text, failed=False, event=event
            )
            return Answer(result.text, result.code, result.data)

    async def _failed(
        self,
        context: ToolContext,
        name: str,
        call_id: str | None,
        arguments: Mapping[str, JsonValue],
        sentence: str,
        code: str = "invalid",
        data: JsonValue = None,
    ) -> Answer:
        tool = self.tools.get(name)
        if tool is not None and tool.writes and call_id is not None:
            async with context.database.as_user(context.scope) as conn:
                entry = await self._claim(conn, context, name, call_id, arguments)
                if entry is not None and entry["status"] == "admitted":
                    await tool_calls.finish(conn, run_id=context.run_id, call_id=call_id, result=sentence, failed=True)
        return Answer(sentence, code, data, is_error=True)

    async def _claim(
        self,
        conn: Connection,
        context: ToolContext,
        name: str,
        call_id: str,
        arguments: Mapping[str, JsonValue],
    ) -> dict[str, Any] | None:
        return await tool_calls.claim(
            conn,
            run_id=context.run_id,
            attempt=context.attempt,
            call_id=call_id,
            tool=name,
            arguments_hash=hash_of(arguments),
        )


def hash_of(arguments: Mapping[str, JsonValue]) -> str:
    """SHA-256 over the arguments in one spelling: binds what was admitted to what runs."""
    return hashlib.sha256(canonical(dict(arguments))).hexdigest()


def _in_words(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(step) for step in fault["loc"]) or "arguments"
    if fault["type"] == "extra_forbidden":
        return f"{where}: there is no such argument."
    got = "" if fault["type"] == "missing" else f", got {str(fault['input'])[:80]}"
    return f"{where}: {fault['msg']}{got}."

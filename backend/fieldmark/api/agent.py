"""/api/agent: start an agent, and watch it or wait for it."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from fieldmark.agents.registry import AGENTS
from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.extractions import Extraction
from fieldmark.api.problems import responses
from fieldmark.api.runs import WaitingCall, waiting_call
from fieldmark.api.streams import STREAM, Deltas, event_stream
from fieldmark.errors import DocumentFailed, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.follow import end_of
from fieldmark.runs.lifecycle import decisions, launch
from fieldmark.runs.lifecycle.absent import absent
from fieldmark.runtime import Runtime
from fieldmark.stores import extractions

router = APIRouter(prefix="/api/agent", tags=["agent"])


class RunRequest(BaseModel):
    """What every run may be asked for."""

    model_config = ConfigDict(extra="forbid")

    approval: Literal["auto", "ask"] | None = Field(
        None,
        description="Who admits the agent's writes. auto: the policy does, each is recorded. ask: you do, one by one. "
        "Left out: as the agent has it, auto for extract and correct.",
    )
    auto_approved_tools: list[Annotated[str, Field(max_length=100)]] = Field(default=[], max_length=100)
    model: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]*$")] | None
    ) = Field(None, description="Another model than the service's.")
    background: bool = Field(False, description="Part of a batch: it waits for others of its kind, not for people.")
    max_cost_usd: Annotated[Decimal, Field(gt=0, le=100_000, max_digits=12, decimal_places=6)] | None = Field(
        None, description="The run ends as soon as it has cost that much. Refused for a model whose price is not known."
    )
    max_turns: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="How often the model may be asked, where that is less than the service allows."
    )


class ExtractRequest(RunRequest):
    """Extract the fields of a document."""

    document_id: UUID
    json_schema: dict[str, Any] | None = Field(
        None, alias="schema", description="A JSON Schema (Draft 2020-12) that the fields shall follow."
    )
    instructions: Annotated[str, Field(max_length=20_000)] | None = None
    extraction_id: UUID | None = Field(
        None,
        description="Extract again into this extraction of the document. What a person set there stays, and other "
        "values for it become proposals. Left out: a new extraction.",
    )


class CorrectRequest(RunRequest):
    """Correct an extraction in words."""

    extraction_id: UUID
    message: Annotated[str, Field(min_length=1, max_length=20_000)] = Field(
        examples=["the vendor is Acme Ltd, and remove the discount"]
    )


class RunResult(BaseModel):
    """How a run ended."""

    run_id: UUID
    status: str
    extraction: Extraction
    answer: str | None
    cost_usd: float | None = Field(description="null where the model's price is not known.")
    usage: dict[str, Any] | None
    waits_for: WaitingCall | None = Field(None, description="The call to decide, where it is `awaiting_approval`.")
    error: str | None = None
    code: str | None = None


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": RunResult, "description": "How the run ended, or its events", "content": STREAM},
    **responses(401, 402, 404, 409, 410, 422),
}
_IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=200, description="The same key again answers with the same run.")
]


@router.post("/extract", responses=_ANSWERS, response_model=None)
async def extract(
    body: ExtractRequest,
    request: Request,
    scope: TheScope,
    service: TheRuntime,
    idempotency_key: _IdempotencyKey = None,
    deltas: Deltas = False,
) -> Response | RunResult:
    """Read the document and write its fields. With `Accept: text/event-stream` the run's events as they come, else the
    result when it has ended. The run goes on if you go away; `/api/runs/{id}/events` shows it again from any event."""
    run_id = await launch.extract(
        service.database,
        scope,
        body.document_id,
        prices=service.prices,
        schema=body.json_schema,
        instructions=body.instructions,
        extraction_id=body.extraction_id,
        options=_run_options(body, idempotency_key),
    )
    return await _answer(request, service, scope, run_id, deltas=deltas)


@router.post("/correct", responses=_ANSWERS, response_model=None)
async def correct(
    body: CorrectRequest,
    request: Request,
    scope: TheScope,
    service: TheRuntime,
    idempotency_key: _IdempotencyKey = None,
    deltas: Deltas = False,
) -> Response | RunResult:
    """Change exactly the fields that the message names. Answers like `extract`."""
    run_id = await launch.correct(
        service.database,
        scope,
        body.extraction_id,
        body.message,
        prices=service.prices,
        options=_run_options(body, idempotency_key),
    )
    return await _answer(request, service, scope, run_id, deltas=deltas)


class Approval(BaseModel):
    """What you say of one call."""

    model_config = ConfigDict(extra="forbid")

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    approved: bool
    input: dict[str, Any] | None = Field(None, description="Other arguments than the agent's own.")
    reason: Annotated[str, Field(max_length=2000)] | None = Field(None, description="What the agent is told.")


class ApproveRequest(BaseModel):
    """Decide what a run waits for."""

    model_config = ConfigDict(extra="forbid")

    run_id: UUID
    approvals: Annotated[list[Approval], Field(min_length=1, max_length=1)] = Field(
        description="One: a run waits for one call at a time."
    )


class ToolNames(BaseModel):
    """What an agent may call."""

    read_only: list[str]
    read_write: list[str]


@router.post("/approve", responses=_ANSWERS, response_model=None)
async def approve(
    body: ApproveRequest, request: Request, scope: TheScope, service: TheRuntime, deltas: Deltas = False
) -> Response | RunResult:
    """Approve, reject or change the call that a run waits for. Answers like `extract` with what follows; a decision is
    taken once, by the run's own user: 409 for a call that waits no more, 410 for a run of yours that went with its
    document."""
    said = body.approvals[0]
    last = await decisions.decide(
        service.database,
        scope,
        body.run_id,
        decisions.Decision(said.call_id, said.approved, said.input, said.reason),
    )
    return await _answer(request, service, scope, body.run_id, after=last, deltas=deltas)


@router.get("/tools", responses=responses(401, 404))
async def list_tools(
    scope: TheScope, agent: Annotated[str, Query(description="The agent's name.")] = "extraction"
) -> ToolNames:
    """The names of an agent's tools: those that only read, and those that write and may be approved in advance."""
    spec = AGENTS.get(agent)
    if spec is None:
        raise NotFound("There is no such agent.")
    tools = spec.toolset.tools.values()
    return ToolNames(
        read_only=[tool.name for tool in tools if not tool.writes],
        read_write=[tool.name for tool in tools if tool.writes],
    )


def _run_options(body: RunRequest, idempotency_key: str | None) -> launch.RunOptions:
    return launch.RunOptions(
        approval=body.approval,
        background=body.background,
        model=body.model,
        max_cost_usd=body.max_cost_usd,
        max_turns=body.max_turns,
        auto_approved_tools=tuple(body.auto_approved_tools),
        idempotency_key=idempotency_key,
    )


async def _answer(
    request: Request, service: Runtime, scope: Scope, run_id: UUID, after: int = 0, *, deltas: bool
) -> Response | RunResult:
    if "text/event-stream" in request.headers.get("accept", ""):
        return event_stream(service, scope, run_id, after, deltas=deltas)
    run = await end_of(service.database, scope, run_id)
    if run["error_code"] == "document_failed":
        raise DocumentFailed(run["error"])
    async with service.database.as_user(scope) as conn:
        extraction = await extractions.get(conn, run["extraction_id"])
        if extraction is None:  # deleted between two looks, and the run with it
            raise await absent(conn, scope, run_id)
        proposals = await decisions.proposals(conn, [run])
    return RunResult(
        run_id=run_id,
        status=run["status"],
        extraction=Extraction.of(extraction),
        answer=run["answer"],
        cost_usd=run["cost_usd"],
        usage=run["usage"],
        waits_for=waiting_call(proposals.get(run_id)),
        error=run["error"],
        code=run["error_code"],
    )

"""/api/agent: start a run, approve its calls, and stream its events or wait for its result.

Each task of each agent has its own route, generated from the agent's spec: `POST /api/agent/<task>`.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from decimal import ROUND_CEILING, Decimal
from functools import cache
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from fastapi import Header, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema, create_model

from fieldmark.agents.registry import AGENTS
from fieldmark.agents.spec import AgentSpec, Task
from fieldmark.api.auth import Conn, TheCaller, TheRuntime, TheScope
from fieldmark.api.extractions import Extraction
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import RequestBody, json_response
from fieldmark.api.streams import STREAM, Deltas, event_stream
from fieldmark.api.webhooks import NewCallback
from fieldmark.domain.answers import AnyAnswer, SecondReading, parse_answer, parse_second_reading
from fieldmark.domain.events import TokensUsed
from fieldmark.domain.permissions import Permission
from fieldmark.domain.second_reading import is_same_vendor
from fieldmark.domain.statuses import Approval as ApprovalPolicy
from fieldmark.domain.statuses import RunError, RunStatus
from fieldmark.errors import DocumentFailed, Invalid, NotFound, TooManyAtOnce
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.prices import Price
from fieldmark.runs.events.follow import wait_until_ended_or_waiting
from fieldmark.runs.lifecycle import decisions, launch
from fieldmark.runs.lifecycle.decisions import WaitingCall
from fieldmark.runtime import Runtime
from fieldmark.services.api_keys import require_scope
from fieldmark.services.extractions import read_checked
from fieldmark.stores import documents, extractions, organisations, runs
from fieldmark.stores.documents import OwnData
from fieldmark.stores.rows import ExtractionRow
from fieldmark.stores.runs import RunOptions, RunRow

MAX_WAIT_SECONDS: Final = 50
"""How long a request waits for a run: less than the 60 s after which proxies give up."""
MAX_WAITS_OF_USER: Final = 50
MAX_WAITS_OF_ORGANISATION: Final = 100
_PREFERRED_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?![\w.])")  # RFC 7240


def _round_up_to_micros(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.000001"), ROUND_CEILING)


Dollars = Annotated[
    Decimal,
    Field(gt=0, le=100_000),
    AfterValidator(_round_up_to_micros),  # the precision of the column; rounded up so that it is never zero
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 100_000}),
]


ModelName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]*$")]

_WAIT = "false: return 202 with the run's id at once, as JSON. Follow the run with `GET /api/runs/{id}/events`."


class RunRequest(RequestBody):
    """Options of every run."""

    approval: Literal["auto", "ask"] | None = Field(
        None,
        description="Who approves the agent's writes. `auto`: all are approved and recorded. `ask`: you approve each. "
        "Default: the agent's own setting, which is auto for extract and correct.",
    )
    auto_approve: bool | None = Field(None, description="true: `approval: auto`. false: `approval: ask`.")
    auto_approved_tools: list[Annotated[str, Field(max_length=100)]] = Field(default=[], max_length=100)
    model: ModelName | None = Field(None, description="The model to use instead of the service's.")
    background: bool = Field(False, description="Part of a batch: interactive runs go first.")
    max_cost_usd: Dollars | None = Field(
        None,
        description="The run ends as soon as it and its child runs have cost this much. Refused for a model without a "
        "known price.",
    )
    max_turns: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The most calls of the model. The service's own limit still applies."
    )
    callback: NewCallback | None = Field(
        None, description="Also send the changes of this run to an address, as to a webhook, until the run is deleted."
    )
    wait: bool = Field(True, description=_WAIT)


class RunResult(BaseModel):
    """The result of a run, or the call that it waits for."""

    run_id: UUID
    external_id: str | None = Field(None, description="The caller's own key of the document.")
    metadata: dict[str, JsonValue] = Field({}, description="The caller's own data about the document.")
    thread_id: UUID | None = Field(description="The conversation that the run is a turn of, if any.")
    status: RunStatus
    extraction: Extraction | None = Field(description="The extraction that the run worked on, if any.")
    answer: str | None
    result: AnyAnswer | None = Field(None, description="The answer as typed data, if the task has typed answers.")
    second_reading: SecondReading | None = Field(None, description="null: the run had none.")
    cost_usd: float | None = Field(description="null: the model's price is not known.")
    usage: TokensUsed
    waits_for: WaitingCall | None = Field(None, description="The call to decide if the status is `awaiting_approval`.")
    error: str | None = None
    code: RunError | None = None


class RunAccepted(BaseModel):
    """A run that continues in the background."""

    run_id: UUID
    extraction_id: UUID | None = Field(description="The extraction that the run works on, if any.")
    document_id: UUID | None
    thread_id: UUID | None = Field(description="The conversation that the run is a turn of, if any.")
    status: RunStatus
    waits_behind: UUID | None = Field(
        description="The run that must end first: it works on the same extraction, or answers an earlier message of "
        "the thread."
    )


class CallDecision(RequestBody):
    """Your decision on one call."""

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    approved: bool
    input: dict[str, Any] | None = Field(None, description="Arguments that replace the agent's own.")
    reason: Annotated[str, Field(max_length=2000)] | None = Field(None, description="Sent to the agent.")
    approve_rest: Literal["tool", "all"] | None = Field(
        None,
        description="With an approval: also approve the run's later calls. tool: calls of the same tool. all: every "
        "call. 403 (`second_person_needed`) if the organisation requires a second approver.",
    )


_APPROVE: dict[str, JsonValue] = {
    "run_id": "01936f2e-9a17-7cc2-b1f4-5e8d0a7b2c34",
    "approvals": [
        {
            "call_id": "toolu_01A09q90qw90lq917835lq9",
            "approved": True,
            "input": {"path": "total", "value": 12.5, "confidence": 0.9},
        }
    ],
}


class ApproveRequest(BaseModel):
    """A decision on the call that a run waits for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_APPROVE]})

    run_id: UUID
    approvals: Annotated[list[CallDecision], Field(min_length=1, max_length=1)] = Field(
        description="Exactly one: a run waits for one call at a time."
    )
    wait: bool = Field(True, description=_WAIT)


class ToolNames(BaseModel):
    """The names of an agent's tools."""

    read_only: list[str] = Field(description="Tools that never need approval.")
    read_write: list[str] = Field(
        description="Tools that need approval if a run's `approval` is `ask` and neither its `auto_approved_tools` nor "
        "those of your organisation name them."
    )
    always_ask: bool = Field(
        description="Whether `read_write` tools need approval in every run of yours, because your organisation "
        "requires a second approver or an owner."
    )


class Model(BaseModel):
    """A model with its prices, in US dollars per million tokens. null: not known."""

    name: str
    input_usd: float | None
    output_usd: float | None

    @classmethod
    def of(cls, name: str, price: Price | None, **more: Any) -> Self:
        input_usd, output_usd = (None, None) if price is None else (float(price.input), float(price.output))
        return cls(name=name, input_usd=input_usd, output_usd=output_usd, **more)


class SecondModel(Model):
    """The model of second readings."""

    is_same_vendor: bool | None = Field(
        description="Whether it is of the default model's vendor: then agreement shows less. null: not known."
    )


class Models(BaseModel):
    """The models to choose from. A run's `model` may also be another one that the model provider offers."""

    default: str = Field(description="The service's own, which answers if a run names none.")
    second: SecondModel | None = Field(description="The model of second readings. null: the service has none.")
    items: list[Model]


RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": RunResult, "description": "The result, or the events", "content": STREAM},
    202: {"model": RunAccepted, "description": "The run continues in the background"},
}

IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=200, description="A repeated key returns the same run.")
]


ByAgent = Annotated[
    bool,
    Header(
        alias="X-By-Agent",
        description="true: an agent sends the request for the caller, as the MCP server does. No agent of the same "
        "person can then decide the calls of the run.",
    ),
]


def make_routers() -> list[Routes]:
    """Return the routes of all registered agents, and those that they share."""
    return [*(_make_router(agent) for agent in AGENTS.values()), _shared_router(), _result_router()]


@cache
def _make_router(agent: AgentSpec) -> Routes:
    router = Routes(prefix="/api/agent", tags=["agent"])
    for task in agent.tasks.values():
        if not task.is_internal:
            _add_task(router, agent, task)
    return router


@cache
def _shared_router() -> Routes:
    router = Routes(prefix="/api/agent", tags=["agent"])
    router.add_api_route("/approve", decide_call, methods=["POST"], responses=RESPONSES, response_model=None)
    router.add_api_route("/tools", list_tools, methods=["GET"])
    router.add_api_route("/models", list_models, methods=["GET"])
    return router


@cache
def _result_router() -> Routes:
    router = Routes(prefix="/api/runs", tags=["runs"])
    router.add_api_route(
        "/{run_id}/result",
        get_result,
        methods=["GET"],
        responses={200: {"model": RunResult}, 202: RESPONSES[202]},
        response_model=None,
    )
    return router


def _add_task(router: Routes, agent: AgentSpec, task: Task[Any, Any]) -> None:
    # One flat object: the task's own fields and the options of every run.
    tool_name = Field(max_length=100, json_schema_extra={"enum": list(agent.toolset.tools)})
    body_type = create_model(
        task.request.__name__,
        __base__=(RunRequest, task.request),
        __doc__=task.request.__doc__,
        auto_approved_tools=(list[Annotated[str, tool_name]], Field([], max_length=100)),
    )

    async def start(
        body: RunRequest,
        request: Request,
        caller: TheCaller,
        scope: TheScope,
        runtime: TheRuntime,
        idempotency_key: IdempotencyKey = None,
        by_agent: ByAgent = False,
        deltas: Deltas = False,
    ) -> Response:
        asks = (task.approval or agent.approval) is ApprovalPolicy.ASK
        approval = body.approval
        if body.auto_approve is not None:
            approval = "auto" if body.auto_approve else "ask"
            if body.approval not in (None, approval):
                raise Invalid("`approval` and `auto_approve` contradict each other. Send only one of them.")
        if asks and (approval == "auto" or body.auto_approved_tools):
            option = "`approval: auto` and `auto_approved_tools` of an agent that asks before it writes"
            require_scope(caller, Permission.RUNS_APPROVE, option)
        if task.scopes is not None:
            for needed, part in task.scopes(body).items():
                require_scope(caller, needed, part)
        options = RunOptions(
            approval=approval,
            background=body.background,
            model=body.model,
            max_cost_usd=body.max_cost_usd,
            max_turns=body.max_turns,
            auto_approved_tools=tuple(body.auto_approved_tools),
            idempotency_key=idempotency_key,
            by_agent=by_agent,
        )
        with WAITS.slot(scope) if body.wait and not _wants_events(request) else nullcontext():
            run_id = await launch.start(
                runtime.database,
                scope,
                task.name,
                body,
                prices=runtime.prices,
                options=options,
                callback=body.callback and body.callback.check(runtime.settings.private_networks),
            )
            if not body.wait:
                return await _accepted_response(request, runtime, scope, run_id)
            return await _result_response(request, runtime, scope, run_id, deltas=deltas)

    start.__annotations__["body"] = body_type
    router.add_api_route(
        f"/{task.name}",
        start,
        methods=["POST"],
        name=f"start_{task.name}",
        description=f"{task.description} Streams the run's events. With `Accept: application/json` it waits up to "
        f"{MAX_WAIT_SECONDS} s, or as long as `Prefer: wait=10` says, and returns the result, or else 202 with the "
        "run: `/api/runs/{id}/result` waits again. With `wait: false` it returns the run at once. The run continues if "
        "you disconnect; `/api/runs/{id}/events` streams its events again from any event.",
        responses=RESPONSES,
        response_model=None,
    )


async def decide_call(
    body: ApproveRequest,
    request: Request,
    scope: TheScope,
    runtime: TheRuntime,
    by_agent: ByAgent = False,
    deltas: Deltas = False,
) -> Response:
    """Approve, reject or change the call that a run waits for. The decision is carried out before the response starts.
    Streams the events that follow; with `Accept: application/json` it waits and returns the result. The run's own user
    decides, or the approvers that the organisation requires. 409 if the call is not pending any more, or
    (`target_changed`) if its target changed since it was shown."""
    decision = body.approvals[0]
    with WAITS.slot(scope) if body.wait and not _wants_events(request) else nullcontext():
        last = await decisions.decide(
            runtime.database,
            scope,
            body.run_id,
            decisions.ApprovalDecision(
                decision.call_id, decision.approved, decision.input, decision.reason, decision.approve_rest
            ),
            by_agent=by_agent,
        )
        if not body.wait:
            return await _accepted_response(request, runtime, scope, body.run_id)
        return await _result_response(request, runtime, scope, body.run_id, after=last, deltas=deltas)


async def get_result(run_id: UUID, request: Request, scope: TheScope, runtime: TheRuntime) -> Response:
    """Return the result of a run that has ended or waits for a person. Otherwise wait for it, up to 50 s or as long as
    `Prefer: wait=10` says, and then return 202 with the run: repeat the request."""
    async with runtime.database.as_user(scope) as conn:
        await runs.get(conn, run_id)
    with WAITS.slot(scope):
        return await _wait_for_result(request, runtime, scope, run_id)


async def list_tools(
    scope: TheScope,
    conn: Conn,
    agent: Annotated[str | None, Query(description="The agent's name. Default: the first agent.")] = None,
) -> ToolNames:
    """List an agent's tools, those that only read and those that write, and say whether your organisation always
    requires approval."""
    spec = AGENTS.get(agent) if agent is not None else next(iter(AGENTS.values()))
    if spec is None:
        raise NotFound(f"There is no agent {(agent or '')[:100]!r}. The agents are: {', '.join(AGENTS)}.")
    tools = spec.toolset.tools.values()
    org = await organisations.get(conn, scope.org_id)
    return ToolNames(
        read_only=[tool.name for tool in tools if not tool.asks],
        read_write=[tool.name for tool in tools if tool.asks],
        always_ask=org.always_asks,
    )


async def list_models(scope: TheScope, runtime: TheRuntime) -> Models:
    """List the models of the price list, and the service's own."""
    prices, settings = runtime.prices, runtime.settings
    items = [Model.of(name, price) for name, price in prices.listed().items()]
    name, second = settings.second_model, None
    if name is not None and settings.has_second_service:
        is_same = is_same_vendor(settings.model, name, settings.anthropic_base_url, settings.second_url)
        second = SecondModel.of(name, prices.of(name), is_same_vendor=is_same)
    return Models(default=prices.model, second=second, items=items)


def _wants_events(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "text/event-stream" in accepted or "application/json" not in accepted


class WaitLimits:
    """Limits the requests of a user and of an organisation that wait for runs at the same time."""

    def __init__(self) -> None:
        self._waiting = Counter[tuple[str, UUID]]()

    @contextmanager
    def slot(self, scope: Scope) -> Generator[None]:
        """Raise TooManyAtOnce if as many requests wait already. Enter it before the run is started, so that a refused
        request starts nothing."""
        limits = {("user", scope.user_id): MAX_WAITS_OF_USER, ("organisation", scope.org_id): MAX_WAITS_OF_ORGANISATION}
        for (kind, key), limit in limits.items():
            if self._waiting[kind, key] >= limit:
                raise TooManyAtOnce(
                    f"{limit} requests of this {kind} wait for runs already. Send `wait: false`, and follow "
                    "the runs with GET /api/runs/{id}/events."
                )
        self._waiting.update(limits.keys())
        try:
            yield
        finally:
            self._waiting.subtract(limits.keys())
            self._waiting += Counter()  # drops zeros


WAITS: Final = WaitLimits()


async def _wait_for_run(request: Request, runtime: Runtime, scope: Scope, run_id: UUID) -> RunRow | None:
    """Wait until a run has ended or awaits approval, and return it. Return None if the client disconnects, its time is
    over, or the server stops."""
    preferred = _PREFERRED_WAIT.search(request.headers.get("prefer", ""))
    seconds = min(int(preferred[1]), MAX_WAIT_SECONDS) if preferred else MAX_WAIT_SECONDS
    ended = asyncio.ensure_future(wait_until_ended_or_waiting(runtime.database, scope, run_id))
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    stopping = asyncio.ensure_future(request.app.state.stopping.wait())
    try:
        await asyncio.wait({ended, gone, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return ended.result() if ended.done() else None
    finally:
        for task in (ended, gone, stopping):
            task.cancel()
        await asyncio.wait({ended, gone, stopping})


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _accepted_response(request: Request, runtime: Runtime, scope: Scope, run_id: UUID) -> Response:
    prefix = request.scope.get("root_path", "").rstrip("/")
    async with runtime.database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        behind = await runs.waits_behind(conn, [run])
    accepted = RunAccepted(
        run_id=run_id,
        extraction_id=run.extraction_id,
        document_id=run.document_id,
        thread_id=run.thread_id,
        status=run.status,
        waits_behind=behind.get(run_id),
    )
    headers = {"Location": f"{prefix}/api/runs/{run_id}"}
    return Response(accepted.model_dump_json(), 202, headers, "application/json")


async def _result_response(
    request: Request, runtime: Runtime, scope: Scope, run_id: UUID, after: int = 0, *, deltas: bool
) -> Response:
    if _wants_events(request):
        return event_stream(runtime, scope, run_id, after, deltas=deltas)
    return await _wait_for_result(request, runtime, scope, run_id)


async def _wait_for_result(request: Request, runtime: Runtime, scope: Scope, run_id: UUID) -> Response:
    run = await _wait_for_run(request, runtime, scope, run_id)
    if run is None:
        return await _accepted_response(request, runtime, scope, run_id)
    if run.error_code == RunError.DOCUMENT_FAILED:
        raise DocumentFailed(run.error or "The document could not be read.")
    async with runtime.database.as_user(scope) as conn:
        extraction = None
        if run.extraction_id is not None:
            extraction = await extractions.find(conn, run.extraction_id)
            if extraction is None:  # deleted since the run was read, and the run with it
                raise NotFound("There is no such run.")
        waiting = (await decisions.pending_calls(conn, {run_id: run.agent})).get(run_id)
        own = (await documents.own_data(conn, [run.document_id])).get(run.document_id, OwnData())
    result = RunResult(
        run_id=run_id,
        external_id=own.external_id,
        metadata=own.metadata,
        thread_id=run.thread_id,
        status=run.status,
        extraction=None,
        answer=run.answer,
        result=parse_answer(run.result),
        second_reading=parse_second_reading(run.result),
        cost_usd=None if run.cost_usd is None else float(run.cost_usd),
        usage=TokensUsed.model_validate(run.usage),
        waits_for=waiting,
        error=run.error,
        code=None if run.error_code is None else RunError(run.error_code),
    )
    if extraction is None:
        return await json_response(result.model_copy)
    row, statuses = await read_checked(runtime.database, scope, extraction)
    return await json_response(_with_extraction, result, row, statuses)


def _with_extraction(result: RunResult, row: ExtractionRow, statuses: Mapping[str, Any]) -> RunResult:
    return result.model_copy(update={"extraction": Extraction.of(row, statuses)})

"""Starts a run by inserting its row. Database triggers queue its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, JsonValue, ValidationError

from fieldmark.agents.registry import find_task
from fieldmark.agents.spec import validation_errors_text
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.events import RunStartedEvent
from fieldmark.domain.ids import new_id
from fieldmark.domain.statuses import RunStatus
from fieldmark.domain.values import canonical
from fieldmark.errors import Conflict, Invalid, OutOfCredit
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import LIMIT_MESSAGES
from fieldmark.runs.billing.prices import Prices
from fieldmark.stores import runs, usage, webhooks
from fieldmark.stores.runs import RunOptions
from fieldmark.stores.webhooks import Callback
from fieldmark.tools.context import RunContext
from fieldmark.tools.toolset import ChildRun


async def start(
    database: Database,
    scope: Scope,
    task_name: str,
    request: BaseModel,
    *,
    prices: Prices,
    options: RunOptions | None = None,
    callback: Callback | None = None,
) -> UUID:
    """Start a run of a task and return its id. A run on the same subject that awaits approval is cancelled. The new run
    waits for a run that is being executed on the same subject, and for its document to be read. `callback`: where the
    changes of the run are sent; that of an earlier run with the same idempotency key stays.

    Raise the exceptions of the task's `check` and `begin`, Invalid, OutOfCredit, or IdempotencyKeyReused if the
    idempotency key was used for another request.
    """
    options = options or RunOptions()
    agent, task = find_task(task_name)
    unknown = set(options.auto_approved_tools) - agent.toolset.tools.keys()
    if unknown:
        raise Invalid(f"auto_approved_tools names {sorted(unknown)[0]!r}, which is not a tool of the agent. Remove it.")
    if task.check is not None:
        await task.check(request)
    try:
        async with database.as_user(scope) as conn:
            return await start_in_transaction(
                conn, scope, task_name, request, prices=prices, options=options, callback=callback
            )
    except _AlreadyStarted as duplicate:
        return duplicate.run_id


async def start_in_transaction(
    conn: Connection,
    scope: Scope,
    task_name: str,
    request: BaseModel,
    *,
    prices: Prices,
    options: RunOptions | None = None,
    callback: Callback | None = None,
) -> UUID:
    """Start a run in the caller's transaction and return its id. The task's `check` must have accepted the request.
    Raise the same exceptions as `start`; the caller must then roll back."""
    options = options or RunOptions()
    agent, task = find_task(task_name)
    request_hash = None if options.idempotency_key is None else _request_hash(task.name, task.request, request, options)
    if options.idempotency_key is not None:
        # Checked first: a repeated request must succeed even if a new run could not be started any more.
        earlier_id = await runs.find_by_idempotency_key(conn, scope, options.idempotency_key, request_hash)
        if earlier_id is not None:
            return earlier_id
    subject_and_input = await task.begin(conn, scope, request)
    subject = subject_and_input.subject
    if subject.extraction_id or subject.thread_id or subject.stack_id:
        await runs.cancel_waiting(conn, subject, "A newer run replaced this run.")
    approval = options.approval or task.approval or agent.approval
    options = replace(options, approval=approval, model=options.model or subject_and_input.model)
    new_run_id = new_id()
    run_id = await runs.add(
        conn,
        scope,
        id=new_run_id,
        agent=agent.name,
        task=task.name,
        task_input=subject_and_input.input.model_dump(mode="json", exclude_none=True),
        subject=subject,
        options=options,
        request_hash=request_hash,
    )
    if run_id != new_run_id:
        raise _AlreadyStarted(run_id)
    if callback is not None:
        await webhooks.add_callback(conn, scope.org_id, run_id, callback)
    await _check_credit(conn, scope, prices, options)
    started = RunStartedEvent(run_id=run_id, extraction_id=subject.extraction_id, thread_id=subject.thread_id)
    await runs.append_event(conn, run_id, started)
    return run_id


def parse_request(task_name: str, values: Mapping[str, Any]) -> BaseModel:
    """Parse a request of a task. Raise Invalid if it is not valid."""
    _, task = find_task(task_name)
    try:
        return task.request.model_validate(dict(values))
    except ValidationError as error:
        raise Invalid(f"The request is not valid: {validation_errors_text(error)}.") from None


async def retry(database: Database, scope: Scope, run_id: UUID, *, prices: Prices) -> UUID:
    """Start a run that failed or was cancelled once more, with the same input, and return the new run's id. Raise
    NotFound, Conflict if it did not fail or is a child run, and the exceptions of `start`."""
    async with database.as_user(scope) as conn:
        row = await runs.get(conn, run_id)
        if row.status not in (RunStatus.FAILED, RunStatus.CANCELLED) or row.parent_run_id is not None:
            raise Conflict(
                "This run cannot be repeated: it did not fail, or another run started it. Repeat a run that failed and "
                "that no other run started."
            )
        options = RunOptions(
            approval=row.approval,
            model=row.model,
            max_cost_usd=row.max_cost_usd,
            max_turns=row.max_turns,
            auto_approved_tools=tuple(row.auto_approved_tools),
            background=row.background,
        )
        subject = row.subject
        if subject.extraction_id or subject.thread_id or subject.stack_id:
            await runs.cancel_waiting(conn, subject, "A newer run replaced this run.")
        new_run_id = await runs.add(
            conn,
            scope,
            id=new_id(),
            agent=row.agent,
            task=row.task,
            task_input=row.input,
            subject=subject,
            options=options,
        )
        await _check_credit(conn, scope, prices, options)
        started = RunStartedEvent(run_id=new_run_id, extraction_id=subject.extraction_id, thread_id=subject.thread_id)
        await runs.append_event(conn, new_run_id, started)
        return new_run_id


async def start_child(
    conn: Connection,
    context: RunContext,
    child: ChildRun,
) -> UUID:
    """Start a child run for a call, in the call's transaction, and return its id. It shares the budget of the root run
    and is cancelled with its parent. Raise Invalid if there is no such task or its input is not valid."""
    try:
        agent, found = find_task(child.task)
        values = found.input.model_validate(dict(child.input))
    except (KeyError, ValidationError):
        raise Invalid(f"There is no task {child.task!r}, or its input is not valid.") from None
    assert context.call_id is not None
    return await runs.add(
        conn,
        context.scope,
        id=new_id(),
        agent=agent.name,
        task=child.task,
        task_input=values.model_dump(mode="json", exclude_none=True),
        subject=child.subject,
        options=RunOptions(
            approval=child.approval or context.run.approval,
            model=child.model or context.run.model,
            background=child.background or context.run.background,
        ),
        parent=(context.run_id, context.call_id),
    )


def _request_hash(task: str, kind: type[BaseModel], request: BaseModel, options: RunOptions) -> str:
    """Return the hash that a repeated request with the same idempotency key must have."""
    request_json: JsonValue = request.model_dump(mode="json", include=set(kind.model_fields))
    options_json: JsonValue = {name: str(value) for name, value in asdict(options).items() if name not in _NOT_HASHED}
    return sha256(canonical([task, request_json, options_json])).hexdigest()


_NOT_HASHED: Final = ("idempotency_key", "by_agent")  # not parts of the request's body


class _AlreadyStarted(Exception):
    """A concurrent request with the same idempotency key started the run: roll back and return that run."""

    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id


async def _check_credit(conn: Connection, scope: Scope, prices: Prices, options: RunOptions) -> None:
    """Raise Invalid if a required cost limit can't be applied, OutOfCredit if the organisation's credit is used up."""
    credit = await usage.credit(conn, scope.org_id)
    limit, spent = (credit["max_usd"], credit["spent_usd"]) if credit is not None else (None, None)
    is_priced = prices.are_known(options.model or prices.model)
    if not is_priced and (limit is not None or options.max_cost_usd is not None):
        raise Invalid(LIMIT_MESSAGES["model_unpriced"])
    if is_priced and limit is not None and spent >= limit:
        raise OutOfCredit(f"The organisation has spent {spent:.2f} of its {limit:.2f} US dollars for this month.")

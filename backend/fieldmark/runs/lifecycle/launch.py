"""Starting a run: its row is inserted, and that is all. Triggers put it into the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from pydantic import BaseModel, JsonValue, ValidationError

from fieldmark.agents.registry import find_task
from fieldmark.agents.spec import faults_of
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.events import RunStartedEvent
from fieldmark.domain.ids import new_id
from fieldmark.domain.values import canonical
from fieldmark.errors import Invalid, OutOfCredit
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import REFUSALS
from fieldmark.runs.billing.prices import Prices
from fieldmark.stores import runs, usage
from fieldmark.stores.runs import RunOptions
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
) -> UUID:
    """Start a run of a task; answers its id. What waits for a person on the same subject waits no longer. The run
    itself waits for a run that is at work there, and for its document while that is read.

    Raises what the task's `check` and `begin` raise, Invalid, OutOfCredit, or IdempotencyKeyReused if the idempotency
    key started something else.
    """
    options = options or RunOptions()
    agent, task = find_task(task_name)
    unknown = set(options.auto_approved_tools) - agent.toolset.tools.keys()
    if unknown:
        raise Invalid(f"There is no tool {sorted(unknown)[0]!r} to approve in advance.")
    if task.check is not None:
        await task.check(request)
    try:
        async with database.as_user(scope) as conn:
            return await start_within(conn, scope, task_name, request, prices=prices, options=options)
    except _StartedBefore as earlier:
        return earlier.run_id


async def start_within(
    conn: Connection,
    scope: Scope,
    task_name: str,
    request: BaseModel,
    *,
    prices: Prices,
    options: RunOptions | None = None,
) -> UUID:
    """Start a run, of a request that the task's `check` has nothing against, in a transaction of the caller's; answers
    its id. Raises as `start`; then the transaction is to be undone."""
    options = options or RunOptions()
    agent, task = find_task(task_name)
    request_hash = None if options.idempotency_key is None else _hash_of(task.name, task.request, request, options)
    if options.idempotency_key is not None:
        # First of all: what was started may be asked for again when it could not be begun any more.
        earlier_id = await runs.started_before(conn, scope, options.idempotency_key, request_hash)
        if earlier_id is not None:
            return earlier_id
    begun = await task.begin(conn, scope, request)
    subject = begun.subject
    if subject.extraction_id is not None or subject.thread_id is not None:
        await runs.supersede(conn, subject, "A newer run took its place.")
    approval = options.approval or task.approval or agent.approval
    options = replace(options, approval=approval, model=options.model or begun.model)
    wanted = new_id()
    run_id = await runs.add(
        conn,
        scope,
        id=wanted,
        agent=agent.name,
        task=task.name,
        task_input=begun.input.model_dump(mode="json", exclude_none=True),
        subject=subject,
        options=options,
        request_hash=request_hash,
    )
    if run_id != wanted:
        raise _StartedBefore(run_id)
    await _check_credit(conn, scope, prices, options)
    started = RunStartedEvent(run_id=run_id, extraction_id=subject.extraction_id, thread_id=subject.thread_id)
    await runs.append_event(conn, run_id, started)
    return run_id


def request_of(task_name: str, given: Mapping[str, Any]) -> BaseModel:
    """A request of a task. Raises Invalid where it cannot be one."""
    _, task = find_task(task_name)
    try:
        return task.request.model_validate(dict(given))
    except ValidationError as error:
        raise Invalid(f"The task cannot be begun: {faults_of(error)}.") from None


async def start_child(
    conn: Connection,
    context: RunContext,
    child: ChildRun,
) -> UUID:
    """Start a run for a call of another run, in the call's transaction, and return its id. It spends from the budget of
    the run at the root, and ends with its parent. Raises Invalid if there is no such task."""
    try:
        agent, found = find_task(child.task)
        given = found.input.model_validate(dict(child.input))
    except (KeyError, ValidationError):
        raise Invalid(f"There is no task {child.task!r}, or its input is none.") from None
    assert context.call_id is not None
    return await runs.add(
        conn,
        context.scope,
        id=new_id(),
        agent=agent.name,
        task=child.task,
        task_input=given.model_dump(mode="json", exclude_none=True),
        subject=child.subject,
        options=RunOptions(
            approval=child.approval or context.run.approval,
            model=child.model or context.run.model,
            background=context.run.background,
            with_examples=context.run.with_examples,
        ),
        parent=(context.run_id, context.call_id),
    )


def _hash_of(task: str, kind: type[BaseModel], request: BaseModel, options: RunOptions) -> str:
    """The hash of all that is asked for: what a repetition must have in common with the first request."""
    asked: JsonValue = request.model_dump(mode="json", include=set(kind.model_fields))
    wanted: JsonValue = {name: str(value) for name, value in asdict(options).items() if name != "idempotency_key"}
    return sha256(canonical([task, asked, wanted])).hexdigest()


class _StartedBefore(Exception):
    """The idempotency key was used meanwhile: what this transaction has inserted goes, and that run is the answer."""

    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id


async def _check_credit(conn: Connection, scope: Scope, prices: Prices, options: RunOptions) -> None:
    """Refuse a run when its cost could not be limited, or the organisation's credit is used up."""
    credit = await usage.credit(conn, scope.org_id)
    most, spent = (credit["max_usd"], credit["spent_usd"]) if credit is not None else (None, None)
    is_priced = prices.are_known(options.model or prices.model)
    if not is_priced and (most is not None or options.max_cost_usd is not None):
        raise Invalid(REFUSALS["model_unpriced"])
    if is_priced and most is not None and spent >= most:
        raise OutOfCredit(
            f"The organisation may spend {most:.2f} US dollars a month, and has spent {spent:.2f} in this one."
        )

"""Starting a run: the row is inserted, and that is all; triggers put it into the queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from fieldmark.agents.registry import AGENTS
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.schema import check_schema
from fieldmark.domain.values import problem_with
from fieldmark.errors import DocumentFailed, Invalid, NotFound, OutOfCredit
from fieldmark.identity.scope import Scope
from fieldmark.runs.billing.meter import REFUSALS
from fieldmark.runs.billing.prices import Prices
from fieldmark.stores import documents, extractions, runs, usage


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person may ask of a run besides its task."""

    approval: str | None = None
    model: str | None = None
    max_cost_usd: Decimal | None = None
    max_turns: int | None = None
    auto_approved_tools: tuple[str, ...] = ()
    background: bool = False
    idempotency_key: str | None = None


async def extract(
    database: Database,
    scope: Scope,
    document_id: UUID,
    *,
    prices: Prices,
    schema: dict[str, Any] | None = None,
    instructions: str | None = None,
    extraction_id: UUID | None = None,
    options: RunOptions | None = None,
) -> UUID:
    """Start the extraction of a document, anew or into an extraction of it that there is; answers the run's id. The run
    waits if the document is still being read.

    Raises NotFound, DocumentFailed with the reason, OutOfCredit, or Invalid.
    """
    options = options or RunOptions()
    _check(options)
    if schema is not None:
        if problem := problem_with(schema):
            raise Invalid(f"The schema cannot be used. {problem}")
        await asyncio.to_thread(check_schema, schema)  # a hostile one takes a while
    _check_text("instructions", instructions)
    try:
        async with database.as_user(scope) as conn:
            document = await documents.get(conn, document_id)
            if document is None:
                raise NotFound("There is no such document.")
            if document.status == "failed":
                raise DocumentFailed(document.error)
            if extraction_id is None:
                extraction_id = await extractions.add(conn, org_id=scope.org_id, document_id=document_id, schema=schema)
            else:
                await _check_extraction(conn, extraction_id, document_id, schema)
            return await _add(conn, scope, prices, "extract", document_id, extraction_id, instructions, options)
    except _StartedBefore as earlier:
        return earlier.run_id


async def correct(
    database: Database,
    scope: Scope,
    extraction_id: UUID,
    message: str,
    *,
    prices: Prices,
    options: RunOptions | None = None,
) -> UUID:
    """Start a correction in words; answers the run's id. It waits for a run that is at work on the same extraction."""
    options = options or RunOptions()
    _check(options)
    _check_text("message", message)
    try:
        async with database.as_user(scope) as conn:
            extraction = await extractions.get(conn, extraction_id)
            if extraction is None:
                raise NotFound("There is no such extraction.")
            await runs.supersede(conn, extraction_id, "A newer message took its place.")
            document_id = extraction.document_id
            return await _add(conn, scope, prices, "correct", document_id, extraction_id, message, options)
    except _StartedBefore as earlier:
        return earlier.run_id


async def _check_extraction(
    conn: Connection, extraction_id: UUID, document_id: UUID, schema: dict[str, Any] | None
) -> None:
    """Refuse to extract into what is no extraction of the document; what waits there for a person waits no longer."""
    extraction = await extractions.get(conn, extraction_id)
    if extraction is None or extraction.document_id != document_id:
        raise NotFound("There is no such extraction of this document.")
    if schema is not None:
        raise Invalid("The extraction keeps the schema that it was begun with: leave the schema out.")
    await runs.supersede(conn, extraction_id, "A newer run took its place.")


class _StartedBefore(Exception):
    """The idempotency key was used before: what this transaction has inserted goes, the earlier run is the answer."""

    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id


async def _add(
    conn: Connection,
    scope: Scope,
    prices: Prices,
    task: str,
    document_id: UUID,
    extraction_id: UUID,
    instructions: str | None,
    options: RunOptions,
) -> UUID:
    wished_id = uuid4()
    run_id = await runs.add(
        conn,
        scope,
        id=wished_id,
        agent="extraction",
        task=task,
        document_id=document_id,
        extraction_id=extraction_id,
        instructions=instructions,
        approval=options.approval or AGENTS["extraction"].approval,
        model=options.model,
        max_cost_usd=options.max_cost_usd,
        max_turns=options.max_turns,
        auto_approved_tools=list(options.auto_approved_tools),
        background=options.background,
        idempotency_key=options.idempotency_key,
    )
    if run_id != wished_id:
        raise _StartedBefore(run_id)
    await _check_credit(conn, scope, prices, options)
    return run_id


async def _check_credit(conn: Connection, scope: Scope, prices: Prices, options: RunOptions) -> None:
    """Refuse what could not begin now, or whose cost nobody could limit. What is set aside for runs at work counts as
    there: it may be by the time this one is taken up, and until then it waits."""
    credit = await usage.credit(conn, scope.org_id)
    most, spent = (credit["max_usd"], credit["spent_usd"]) if credit is not None else (None, None)
    price = prices.of(options.model or prices.model)
    if price is None and (most is not None or options.max_cost_usd is not None):
        raise Invalid(REFUSALS["model_unpriced"])
    if price is not None and most is not None and most - spent < price.of_next():
        raise OutOfCredit(
            f"The organisation may spend {most:.2f} US dollars a month, and has spent {spent:.2f} in this one."
        )


def _check(options: RunOptions) -> None:
    unknown = set(options.auto_approved_tools) - AGENTS["extraction"].toolset.tools.keys()
    if unknown:
        raise Invalid(f"There is no tool {sorted(unknown)[0]!r} to approve in advance.")


def _check_text(what: str, text: str | None) -> None:
    if text is not None and (problem := problem_with(text)):
        raise Invalid(f"The {what} cannot be used. {problem}")
